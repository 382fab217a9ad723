"""Installing servers from PyPI and npm into folders of their own, where sandboxed programs see nothing else of ours.

Installing runs no code of the packages: wheels only, no npm scripts. It is the only step that has a network, and it is
sandboxed all the same. Packages land in a store that later harvests reuse:

    STORE/pypi/NAME/VERSION/    a virtual environment          STORE/cache/    downloads, shared by all
    STORE/npm/NAME/VERSION/     a node_modules folder

The store appears in the sandbox as /srv/tools, the same while installing and while running, since both ecosystems bake
absolute paths into what they install.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tokenmill.tools_repo.harvest.servers import LATEST, Server
from tokenmill.tools_repo.sandbox.base import MIB, Command, Limits, Mount, Sandbox, run
from tokenmill.tools_repo.sandbox.bubblewrap import interpreter
from tokenmill.tools_repo.sandbox.usage import disk_usage

_INSIDE = "/srv/tools"
_DONE = ".installed.json"
INSTALLER = 1_610_612_735
"""User id that owns the store where we are root; the servers run under others and cannot write to it."""
_PASSED_ON = re.compile(
    r"UV_(DEFAULT_INDEX|INDEX|INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|HTTP_TIMEOUT|NATIVE_TLS|SYSTEM_CERTS)"
    r"|npm_config_(registry|https?_proxy|proxy|noproxy|cafile)|(https?|all|no)_proxy"
    r"|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS",
    re.IGNORECASE,
)


class InstallFailed(Exception):
    """A package cannot be had, or brings nothing to start."""


@dataclass(frozen=True)
class Installed:
    """A package in place."""

    argv: tuple[str, ...]
    """What starts the server, as the sandbox sees it."""
    mounts: tuple[Mount, ...]
    license: str
    version: str


@dataclass(frozen=True)
class Installer:
    """Installs packages into a store."""

    sandbox: Sandbox
    store: Path
    limits: Limits = field(
        default_factory=lambda: Limits(
            memory=4096 * MIB, processes=512, cpu_seconds=600, wall_seconds=420, disk=1024 * MIB, open_files=8192
        )
    )
    max_bytes: int = 2048 * MIB
    """Of one installed package with all its dependencies."""

    async def install(self, server: Server) -> Installed:
        """Install a server's package, unless it is there already.

        Raises:
            InstallFailed: it cannot be had, or brings nothing to start.
            SandboxUnavailable: see `Sandbox.check`.
        """
        kind, name = ("pypi", server.pypi) if server.pypi else ("npm", server.npm)
        before = server.before or (datetime.now(UTC).date().isoformat() if server.version == LATEST else "")
        version = server.version + (f"-{before}" if before else "")
        parts = (kind, re.sub(r"[^A-Za-z0-9._-]+", "_", name), version)
        folder = self.store.absolute().joinpath(*parts)
        inside = "/".join((_INSIDE, *parts))
        self._prepare(folder)
        with _locked(folder.with_name(folder.name + ".lock")):
            if not (folder / _DONE).exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                self._hand_over(folder)
                await (self._pypi if server.pypi else self._npm)(server, inside)
                size = disk_usage(str(folder))
                if size > self.max_bytes:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise InstallFailed(
                        f"installed it takes {size // MIB} MiB, over the limit of {self.max_bytes // MIB}"
                    )
                describe = _describe_pypi if server.pypi else _describe_npm
                told = describe(folder, name)
                _check_integrity(folder, server)
                (folder / _DONE).write_text(json.dumps({**told, "tree": _tree_hash(folder)}))
        told = json.loads((folder / _DONE).read_text())
        if told.get("tree") != _tree_hash(folder):
            raise InstallFailed(f"{folder} was changed after the installation; remove it, and it is installed anew")
        entry = _entry(server, name, told["entries"])
        mounts = (Mount(str(folder), inside),)
        if server.pypi:
            return Installed((f"{inside}/bin/{entry}",), mounts + interpreter()[1], told["license"], told["version"])
        argv = (f"{inside}/node_modules/.bin/{entry}",)
        return Installed(argv, mounts + _node()[1], told["license"], told["version"])

    def _prepare(self, folder: Path) -> None:
        try:
            for path in (self.store, folder.parent.parent, folder.parent, self.store / "cache"):
                path.mkdir(parents=True, exist_ok=True)
                if os.geteuid() == 0:
                    path.chmod(0o755)  # whatever our umask: the store's owner must get through
        except OSError as error:
            raise InstallFailed(f"{error.filename}: {error.strerror}") from None
        self._hand_over(self.store / "cache")

    def _hand_over(self, folder: Path) -> None:
        if os.geteuid() == 0:
            os.chown(folder, INSTALLER, INSTALLER)

    async def _pypi(self, server: Server, inside: str) -> None:
        uv, (python, mounts) = _uv(), interpreter()
        before = ["--exclude-newer", f"{server.before}T00:00:00Z"] if server.before else []
        quiet = ["--no-config", "--quiet", "--no-progress"]
        install = ["/opt/uv", "pip", "install", *quiet, "--python", f"{inside}/bin/python", "--only-binary", ":all:"]
        await self._run(
            ["/opt/uv", "venv", *quiet, "--python", python, "--allow-existing", inside], server, (uv, *mounts)
        )
        wanted = [server.pypi if server.version == LATEST else f"{server.pypi}=={server.version}"]
        if server.sha256:  # which uv compares, as it does with every hash that it is given
            hashes = " ".join(f"--hash=sha256:{value}" for value in server.sha256.split())
            pinned = self.store.absolute() / "cache" / f"{server.sha256[:64]}.txt"
            pinned.write_text(f"{wanted[0]} {hashes}\n")
            pinned.chmod(0o644)
            wanted = ["--requirements", f"{_INSIDE}/cache/{pinned.name}"]
        await self._run([*install, *before, *wanted], server, (uv, *mounts))

    async def _npm(self, server: Server, inside: str) -> None:
        before = [f"--before={server.before}"] if server.before else []
        quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        await self._run(
            ["npm", "install", *quiet, f"--prefix={inside}", *before, f"{server.npm}@{server.version}"],
            server,
            _node()[1],
        )

    async def _run(self, argv: list[str], server: Server, mounts: tuple[Mount, ...]) -> None:
        cache = f"{_INSIDE}/cache"
        env = {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}
        env |= {"UV_CACHE_DIR": f"{cache}/uv", "UV_PYTHON_DOWNLOADS": "never", "npm_config_cache": f"{cache}/npm"}
        env |= {"PATH": f"{_node()[0]}:/usr/local/bin:/usr/bin:/bin"} if server.npm else {}
        # One mount for all, so that packages are linked from the cache and not copied.
        store = Mount(str(self.store.absolute()), _INSIDE, writable=True, metered=False)
        done = await run(
            self.sandbox,
            Command(tuple(argv), env, (store, *mounts), network=True, limits=self.limits, owner=INSTALLER),
        )
        if done.exceeded or done.returncode:
            why = f"over the limit of {done.exceeded}" if done.exceeded else _complaint(done.stderr)
            raise InstallFailed(why or f"{Path(argv[0]).name} ended with code {done.returncode}")


def _check_integrity(folder: Path, server: Server) -> None:
    """
    Raises:
        InstallFailed: npm installed another archive than the one that is pinned. None of its code has run.
    """
    if not server.integrity:
        return
    try:
        lock = json.loads((folder / "node_modules" / ".package-lock.json").read_text(encoding="utf-8"))
        found = str(lock["packages"][f"node_modules/{server.npm}"].get("integrity"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        found = "none"
    if found != server.integrity:
        shutil.rmtree(folder, ignore_errors=True)
        raise InstallFailed(
            f"its archive is not the pinned one: integrity {found[:100]} in place of {server.integrity}"
        )


def _tree_hash(folder: Path) -> str:
    """SHA-256 over the names and contents of all that is installed. Links count by where they lead."""
    sha = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.name == _DONE and path.parent == folder:
            continue
        name = path.relative_to(folder).as_posix().encode("utf-8", "surrogateescape")
        if path.is_symlink():
            sha.update(b"link %s\0%s\0" % (name, os.fsencode(path.readlink())))
        elif path.is_file():
            with path.open("rb") as file:
                sha.update(b"file %s\0%s\0" % (name, hashlib.file_digest(file, "sha256").digest()))
    return sha.hexdigest()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time install a package."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _uv() -> Mount:
    found: str | None
    try:
        from uv import find_uv_bin

        found = find_uv_bin()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if not found:
        raise InstallFailed("uv is not installed: pip install uv")
    return Mount(str(Path(found).resolve()), "/opt/uv")


def _node() -> tuple[str, tuple[Mount, ...]]:
    """The folder of node and npm, and the mounts they need."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        raise InstallFailed("node and npm are not installed: apt install nodejs npm")
    folder = Path(node).resolve().parent
    if str(folder).startswith("/usr/"):
        return str(folder), ()
    return str(folder), (Mount(str(folder.parent), str(folder.parent)),)


def _complaint(stderr: bytes) -> str:
    """The installer's words on one line."""
    return " ".join(stderr.decode("utf-8", "replace").replace("npm error", " ").split())[:600]


def _entry(server: Server, package: str, entries: list[str]) -> str:
    """The script that starts the server."""
    if server.entry:
        if server.entry not in entries:
            raise InstallFailed(f"it brings no script {server.entry!r}, only {', '.join(entries) or 'none'}")
        return server.entry
    short = re.sub(r"\[.*", "", package).rsplit("/", 1)[-1]
    same = [e for e in entries if re.sub(r"[-_.]+", "-", e).lower() == re.sub(r"[-_.]+", "-", short).lower()]
    choice = same or entries if len(entries) == 1 or same else [e for e in entries if "mcp" in e.lower()]
    if len(choice) != 1:
        raise InstallFailed(f"which script starts it? Give 'entry': one of {', '.join(entries) or '(it brings none)'}")
    return choice[0]


def _describe_pypi(folder: Path, package: str) -> dict[str, Any]:
    name = re.sub(r"\[.*", "", package)
    site = [str(path) for path in folder.glob("lib/python*/site-packages")]
    found = next(iter(importlib.metadata.distributions(name=name, path=site)), None)
    if found is None:
        raise InstallFailed("the installed package has no metadata")
    scripts = [e.name for e in found.entry_points if e.group == "console_scripts"]
    told = found.metadata
    stated = [text for field in ("License-Expression", "License") for text in told.get_all(field) or () if text]
    license = stated[0] if stated else ""
    if not license or "\n" in license.strip() or len(license) > 60:
        named = [c.rsplit(" :: ", 1)[-1] for c in told.get_all("Classifier") or [] if c.startswith("License ::")]
        license = named[0] if named else license.strip().split("\n")[0]
    entries = sorted(e for e in scripts if re.fullmatch(r"[\w.-]+", e))
    return {"version": found.version, "license": license[:100], "entries": entries}


def _describe_npm(folder: Path, package: str) -> dict[str, Any]:
    try:
        told = json.loads((folder / "node_modules" / package / "package.json").read_text(encoding="utf-8"))
        bins = told.get("bin") or {}
        entries = [package.rsplit("/", 1)[-1]] if isinstance(bins, str) else sorted(bins)
        license = told.get("license") or ""
        license = license.get("type", "") if isinstance(license, dict) else str(license)
        return {"version": str(told["version"]), "license": str(license)[:100], "entries": entries}
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        raise InstallFailed("the installed package has no readable package.json") from None
