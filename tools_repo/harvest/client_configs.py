"""Servers from the configurations of MCP clients: `mcpServers` (Claude, Cursor, Cline, Windsurf, …), `servers` (VS Code),
`context_servers` (Zed).

    {"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"TOKEN": "${GIT_TOKEN}"}},
                    "far": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${FAR_TOKEN}"}}}}

Nothing of it is run as it stands. What `npx` or `uvx` would fetch is installed and started as any harvested package is; a
program of this machine is started in the sandbox, which sees the folder of its script and no other.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tokenmill.tools_repo.harvest.servers import LATEST, Server, ServerInvalid, parse_server

_KEYS = ("mcpServers", "mcp_servers", "context_servers", "servers")
_NPX = ("npx", "bunx", "pnpx")
_UVX = ("uvx", "pipx")
_CONTAINERS = ("docker", "podman")
_INTERPRETERS = ("python", "python3", "node", "bun", "deno")
_VALUED = frozenset(("--python", "-p", "--with", "--index", "--index-url", "--default-index", "--cache-dir"))
"""Options of `uvx` that a value follows."""
_SCRIPT = re.compile(r".+\.(py|js|mjs|cjs|ts|sh)")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/etc", "/proc", "/dev", "/sys", "/srv", "/opt/uv")


def entries(document: Any) -> dict[str, Any] | None:
    """The entries of a configuration by name; None where it is none."""
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("mcp"), dict):  # the settings of an editor
        document = document["mcp"]
    for key in _KEYS:
        found = document.get(key)
        if isinstance(found, dict) and found and all(isinstance(entry, dict) for entry in found.values()):
            return found
    if document and all(isinstance(e, dict) and ("command" in e or "url" in e) for e in document.values()):
        return document
    return None


def read_entry(name: str, entry: dict[str, Any]) -> Server:
    """One entry as a server.

    Raises:
        ServerInvalid: it cannot be run in a sandbox, or is not built like an entry; one line says why.
    """
    common: dict[str, Any] = {"name": name, "env": _texts(name, entry, "env")}
    url = entry.get("url") or entry.get("serverUrl") or entry.get("httpUrl")
    if url:
        if entry.get("type") == "sse" or entry.get("transport") == "sse":
            raise ServerInvalid(
                f"server {name!r}: the SSE transport was withdrawn from MCP; give its streamable address"
            )
        return parse_server({"name": name, "url": str(url), "headers": _texts(name, entry, "headers")})
    command = entry.get("command")
    if isinstance(command, dict):  # Zed
        entry, command = command, command.get("path")
        common["env"] = _texts(name, entry, "env")
    args = entry.get("args") or []
    if not isinstance(command, str) or not command:
        raise ServerInvalid(f"server {name!r}: it has neither a command nor a url")
    if not (isinstance(args, list) and all(isinstance(arg, str | int | float) for arg in args)):
        raise ServerInvalid(f"server {name!r}: args must be a list of texts")
    words = [*(command.split() if not Path(command).exists() else [command]), *map(str, args)]
    return parse_server({**common, **_way(name, words)})


def _texts(name: str, entry: dict[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key) or {}
    if not isinstance(value, dict):
        raise ServerInvalid(f"server {name!r}: {key} must be an object of texts")
    return {str(k): str(v) if not isinstance(v, bool) else str(v).lower() for k, v in value.items() if v is not None}


def _way(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Package or command, and what it is started with."""
    program = re.sub(r"\.(exe|cmd)$", "", re.split(r"[/\\]", words[0])[-1]).lower()
    rest = list(words[1:])
    if program == "cmd" and rest and rest[0].lower() == "/c":
        return _way(name, rest[1:])
    if program in _NPX or (program in ("npm", "pnpm", "yarn") and rest[:1] in (["exec"], ["dlx"], ["x"])):
        return _npm(name, rest if program in _NPX else rest[1:])
    if program in _UVX or (program == "uv" and rest[:1] in (["tool"], ["x"])):
        while rest[:1] in (["tool"], ["run"], ["x"]):
            rest = rest[1:]
        return _pypi(name, rest)
    if program in _CONTAINERS:
        raise ServerInvalid(f"server {name!r}: container images are not run; name its package on PyPI or npm")
    if program == "uv":
        raise ServerInvalid(f"server {name!r}: uv runs a project of its own; name its package, as uvx does")
    return _local(name, words, program)


def _npm(name: str, rest: list[str]) -> dict[str, Any]:
    package = entry = ""
    while rest and rest[0].startswith("-"):
        option, _, value = rest.pop(0).partition("=")
        if option in ("-p", "--package"):
            package = value or (rest.pop(0) if rest else "")
        elif option == "--":
            break
    if not package:
        if not rest:
            raise ServerInvalid(f"server {name!r}: npx is given no package")
        package = rest.pop(0)
    elif rest:
        entry = rest.pop(0)
    if re.match(r"(https?|git|github|file|git\+\w+):|[./]", package):
        raise ServerInvalid(f"server {name!r}: {package!r} is no package of the npm registry")
    bare, at, version = package.rpartition("@")
    if not at or not bare:
        bare, version = package, ""
    return {"npm": bare, "version": version or LATEST, "entry": entry, **_arguments(rest)}


def _pypi(name: str, rest: list[str]) -> dict[str, Any]:
    source = ""
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if option in ("--from", "--spec"):
            source = value if equals else rest.pop(0) if rest else ""
        elif option in _VALUED and not equals and rest:
            rest.pop(0)
    if not rest:
        raise ServerInvalid(f"server {name!r}: uvx is given no package")
    entry = rest.pop(0)
    wanted = source or entry
    match = re.fullmatch(r"([A-Za-z0-9._-]+(?:\[[A-Za-z0-9,._-]+\])?)(?:(?:==|@)([A-Za-z0-9.+!_-]+))?", wanted)
    if match is None:
        raise ServerInvalid(f"server {name!r}: {wanted!r} is no package of PyPI in one version")
    return {"pypi": match[1], "version": match[2] or LATEST, "entry": entry if source else "", **_arguments(rest)}


def _local(name: str, words: Sequence[str], program: str) -> dict[str, Any]:
    """A program of this machine: its script's folder is all that it sees."""
    path = words[0] if Path(words[0]).is_absolute() else shutil.which(words[0])
    if path is None or not Path(path).exists():
        raise ServerInvalid(f"server {name!r}: there is no program {words[0]!r} here; name its package on PyPI or npm")
    scripts = [word for word in words[1:] if _SCRIPT.fullmatch(word)]
    if program.startswith(_INTERPRETERS) and not scripts:
        raise ServerInvalid(
            f"server {name!r}: {' '.join(words[:3])!r} names no script; name its package on PyPI or npm"
        )
    for script in scripts:
        if not (Path(script).is_absolute() and Path(script).is_file()):
            raise ServerInvalid(f"server {name!r}: there is no file {script!r} here; give its whole path")
    seen = [str(Path(script).parent) for script in scripts]
    for place in (path, str(Path(path).resolve())):  # an interpreter's libraries lie beside its bin/
        if not _covered(place):
            folder = Path(place).parent
            prefix = program.startswith(_INTERPRETERS) and folder.name == "bin" and (folder.parent / "lib").is_dir()
            seen.append(str(folder.parent if prefix else folder))
    return {"command": [path, *words[1:]], "mounts": list(dict.fromkeys(seen))}


def _covered(path: str) -> bool:
    return any(path.startswith(f"{folder}/") for folder in ("/usr", "/bin", "/sbin", "/lib"))


def _arguments(args: Sequence[str]) -> dict[str, Any]:
    """Arguments, and the folders that they name, which the sandbox gets empty: nothing of this machine is behind them."""
    return {"args": list(args), "folders": list(dict.fromkeys(folder for arg in args for folder in _folders(arg)))}


def _folders(argument: str) -> Iterator[str]:
    text = argument.partition("=")[2] if argument.startswith("--") else argument
    path = PurePosixPath(text)
    if not text.startswith("/") or ".." in path.parts or len(path.parts) < 2 or "$" in text or "," in text:
        return
    folder = path.parent if path.suffix else path
    if len(folder.parts) > 1 and not str(folder).startswith((*_SYSTEM, "/tmp")):
        yield str(folder)
