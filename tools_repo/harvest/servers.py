"""What can be harvested: MCP servers by package, command or address, and specifications that lie in files.

One server, as a line of a JSONL file (`tools_repo/harvest/servers.jsonl` is the shipped list):

    {"name": "git", "pypi": "mcp-server-git", "version": "2026.10.19", "category": "version control"}
    {"name": "memory", "npm": "@modelcontextprotocol/server-memory", "version": "2026.8.31", "args": []}
    {"name": "mine", "command": ["python3", "/srv/mine/server.py"], "mounts": ["/srv/mine"], "env": {"MODE": "demo"}}
    {"name": "remote", "url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${REMOTE_TOKEN}"}}

`${VAR}` and `${VAR:-default}` in `env`, `headers`, `args` and `url` stand for variables of the environment. They are filled in
where a server is started and nowhere else: neither rows nor manifests see the values.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from tokenmill.inference import redaction

SHIPPED = Path(__file__).with_name("servers.jsonl")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PYPI = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._-]+\])?")
_NPM = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][a-z0-9._~-]*")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]{0,60}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_SHA256 = re.compile(r"[0-9a-f]{64}( [0-9a-f]{64}){0,499}")
_INTEGRITY = re.compile(r"sha512-[A-Za-z0-9+/]{86}==")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}")
_INPUT = re.compile(r"\$\{input:[^}]*\}")
LATEST = "latest"
"""In place of a version: the newest that the registry has on the day; rows tell which it was."""
_WAYS = ("pypi", "npm", "command", "url")


class ServerInvalid(ValueError):
    """A line or file that names no server we could try."""


@dataclass(frozen=True)
class Server:
    """An MCP server, and how to reach it: exactly one of `pypi`, `npm`, `command` and `url` is given."""

    name: str
    pypi: str = ""
    npm: str = ""
    command: tuple[str, ...] = ()
    url: str = ""
    version: str = ""
    """Of the package; pinned, so that a harvest can be repeated."""
    entry: str = ""
    """Console script or npm `bin` to start; by default the one named like the package, or the only one."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request to a `url`."""
    mounts: tuple[str, ...] = ()
    """Folders of this machine that a `command` sees, read-only."""
    folders: tuple[str, ...] = ()
    """Folders that it gets empty and may write, nothing of this machine behind them."""
    before: str = ""
    """Date (YYYY-MM-DD): dependencies are resolved as the registry stood then."""
    sha256: str = ""
    """Of the package's wheel, for `pypi`, or of all its files, with blanks between: another file under this version is not
    installed."""
    integrity: str = ""
    """Of the package's archive as npm writes it (`sha512-…`), for `npm`; another one is not kept."""
    category: str = ""
    license: str = ""

    def __post_init__(self) -> None:
        ways = [way for way in _WAYS if getattr(self, way)]
        if len(ways) != 1:
            raise ServerInvalid(f"server {self.name!r}: give exactly one of {', '.join(_WAYS)}")
        checks = (
            ("name", _NAME),
            ("pypi", _PYPI),
            ("npm", _NPM),
            ("version", _VERSION),
            ("before", _DATE),
            ("sha256", _SHA256),
            ("integrity", _INTEGRITY),
        )
        for name, pattern in checks:
            value = getattr(self, name)
            if (value or name == "name") and not pattern.fullmatch(value):
                raise ServerInvalid(f"server {self.name!r}: {name} {value!r} is not of the form {pattern.pattern}")
        if (self.pypi or self.npm) and not self.version:
            raise ServerInvalid(f"server {self.name!r}: a package needs its version")
        if (self.sha256 and not self.pypi) or (self.integrity and not self.npm):
            raise ServerInvalid(f"server {self.name!r}: sha256 goes with pypi, integrity with npm")
        if self.headers and not self.url:
            raise ServerInvalid(f"server {self.name!r}: headers go with url")
        for folder in self.folders:
            if not folder.startswith("/") or ".." in folder.split("/"):
                raise ServerInvalid(f"server {self.name!r}: folders are absolute paths, not {folder!r}")
        if self.url and not _VARIABLE.match(self.url) and not self.url.startswith(("http://", "https://")):
            raise ServerInvalid(f"server {self.name!r}: url must begin with http:// or https://")

    @property
    def package(self) -> str:
        """Where its tools come from, as rows carry it."""
        if self.pypi or self.npm:
            return f"pypi:{self.pypi}" if self.pypi else f"npm:{self.npm}"
        return self.url or " ".join(self.command)

    @property
    def missing(self) -> list[str]:
        """Variables of the environment that it names, that are not set and have no default."""
        named = (match for text in self._texts() for match in _VARIABLE.finditer(text))
        wanted = dict.fromkeys(match[1] for match in named if match[2] is None)
        asked = [match[0] for text in self._texts() for match in _INPUT.finditer(text)]
        return [name for name in wanted if name not in os.environ] + asked

    def _texts(self) -> Iterator[str]:
        yield from (*self.env.values(), *self.headers.values(), *self.args, *self.command, self.url)

    def filled(self) -> Server:
        """The server with the values of the environment in place of their names; from now on they are kept out of
        whatever this process writes.

        Raises:
            ServerInvalid: a variable is not set.
        """
        if missing := self.missing:
            raise ServerInvalid(f"server {self.name!r}: set {', '.join(missing)} in the environment")
        used = {match[1] for text in self._texts() for match in _VARIABLE.finditer(text)}
        redaction.learn(*(os.environ[name] for name in used if name in os.environ))
        # A credential that somebody wrote into the file itself is none of the log's business, either.
        redaction.learn(*(word for value in self.headers.values() for word in _fill(value).split()))
        return replace(
            self,
            env={name: _fill(value) for name, value in self.env.items()},
            headers={name: _fill(value) for name, value in self.headers.items()},
            args=tuple(map(_fill, self.args)),
            command=tuple(map(_fill, self.command)),
            url=_fill(self.url),
        )


def slug(text: str) -> str:
    """A name for a server from a title: `io.github.acme/weather API` as `io.github.acme-weather-API`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:100]


def _fill(text: str) -> str:
    """Raises nothing: what is missing was looked for before."""
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], match[2] or ""), text)


_FIELDS = frozenset(field.name for field in dataclasses.fields(Server))


def parse_server(values: Any) -> Server:
    """A server from a JSON object.

    Raises:
        ServerInvalid: a field is unknown, missing or of the wrong kind.
    """
    if not isinstance(values, dict):
        raise ServerInvalid("not a JSON object")
    unknown = sorted(values.keys() - _FIELDS)
    if unknown:
        raise ServerInvalid(f"unknown field {unknown[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    if not isinstance(values.get("name"), str):
        raise ServerInvalid("the field 'name' is missing")
    typed: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("command", "args", "mounts", "folders"):
            if not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
                raise ServerInvalid(f"{name} must be a list of texts")
            typed[name] = tuple(value)
        elif name in ("env", "headers"):
            if not (isinstance(value, dict) and all(isinstance(v, str) for v in value.values())):
                raise ServerInvalid(f"{name} must be an object of texts")
            typed[name] = value
        elif isinstance(value, str):
            typed[name] = value
        else:
            raise ServerInvalid(f"{name} must be a text")
    return Server(**typed)


def read_servers(path: Path) -> Iterator[tuple[int, Server | ServerInvalid]]:
    """(0-based line, server or what is wrong with it) for every line of a JSONL file; blank lines and `#` lines aside.

    Raises:
        OSError: the file cannot be read.
    """
    for number, value in read_lines(path):
        try:
            yield number, value if isinstance(value, ServerInvalid) else parse_server(value)
        except ServerInvalid as error:
            yield number, error


def read_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """(0-based line, JSON value or `ServerInvalid`) of a JSONL file; blank lines and `#` lines aside.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if not line.strip() or line.lstrip().startswith(b"#"):
                continue
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                yield number, ServerInvalid(f"not JSON: {error}")
