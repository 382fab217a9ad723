"""The real TypeScript compiler for tests: installed once by npm into the user's cache, pinned by a lock file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent / "tsc"


class Compiler:
    """One running compiler process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def errors(self, text: str) -> list[dict]:
        """`{"line": 0-based, "code": ..., "text": ...}` for everything wrong with a source file."""
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def start(package: Path) -> Iterator[Compiler]:
    process = subprocess.Popen(
        ["node", "--stack-size=4000", str(HERE / "check.mjs"), str(package)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        yield Compiler(process)
    finally:
        process.stdin.close()
        process.wait(10)


def find_package() -> Path | None:
    """The folder of the `typescript` package; None where there is no node or no way to install it."""
    if not shutil.which("node"):
        return None
    version = json.loads((HERE / "package.json").read_text())["dependencies"]["typescript"]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenmill"
    installed = cache / f"typescript-{version}"
    if not (installed / "node_modules/typescript/package.json").exists() and not _install(cache, installed):
        return None
    return installed / "node_modules" / "typescript"


def _install(cache: Path, installed: Path) -> bool:
    if not shutil.which("npm"):
        return False
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, folder)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=90)
            Path(folder, "node_modules").rename(_made(installed) / "node_modules")
    except (OSError, subprocess.SubprocessError):
        # Somebody else may have installed it meanwhile.
        return (installed / "node_modules/typescript/package.json").exists()
    return True


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder
