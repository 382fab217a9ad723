"""Packages of the wheel: the folders at the top level of the repository, as subpackages of `tokenmill`."""

from setuptools import find_namespace_packages, setup

ROOMS = ("bench", "gym", "inference", "judges", "pipelines", "prompts", "schemas", "tools_repo", "training")
rooms = find_namespace_packages(include=[*ROOMS, *(f"{room}.*" for room in ROOMS)], exclude=["*.__pycache__"])
setup(
    packages=["tokenmill", *(f"tokenmill.{name}" for name in rooms)],
    package_dir={"tokenmill": "tokenmill", **{f"tokenmill.{name}": name.replace(".", "/") for name in rooms}},
)
