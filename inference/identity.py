"""Which Tokenmill this is: workers on other machines must run the very code, prompts and checks that the driver describes."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from pathlib import Path

ROOMS = ("gym", "inference", "judges", "pipelines", "prompts", "schemas", "tools_repo")
"""What shapes rows; the rest of the package does not run in workers."""
SUFFIXES = (".py", ".md", ".yaml", ".json")
PACKAGES = ("apache-beam", "openai", "pyarrow", "py3langid", "sentencex", "sentence-transformers")


@cache
def installed() -> str:
    """A short digest of the installed code, prompts and data, and of the libraries that shape rows."""
    import tokenmill

    sha = hashlib.sha256()
    for name in PACKAGES:
        try:
            sha.update(f"{name} {metadata.version(name)}\n".encode())
        except metadata.PackageNotFoundError:
            sha.update(f"{name} -\n".encode())
    for room in ROOMS:
        folder = next(path for root in tokenmill.__path__ if (path := Path(root, room)).is_dir())
        for file in sorted(folder.rglob("*")):
            if file.suffix in SUFFIXES and file.name != "README.md" and file.is_file():
                sha.update(f"{room}/{file.relative_to(folder).as_posix()}\n".encode())
                sha.update(file.read_bytes())
    return sha.hexdigest()[:16]
