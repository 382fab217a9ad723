"""What `--servers` may name: lists of servers, `mcpServers` configurations, saved `tools/list` answers, `server.json` files,
OpenAPI documents, function specifications as models are sent them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from tokenmill.schemas.tools import FUNCTION, MCP, OPENAPI
from tokenmill.tools_repo.harvest import client_configs
from tokenmill.tools_repo.harvest.functions import functions_of, is_function
from tokenmill.tools_repo.harvest.harvester import Harvested
from tokenmill.tools_repo.harvest.openapi import OpenApiInvalid, is_openapi, read_openapi
from tokenmill.tools_repo.harvest.servers import Server, ServerInvalid, parse_server, read_lines, slug

MAX_BYTES = 64_000_000
"""Of one specification file."""
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])')
_LISTS, _FILES = (".jsonl", ".ndjson"), (".json", ".yaml", ".yml")


@dataclass(frozen=True)
class Source:
    """One thing to get tools from: a server to be asked, tools that a file lists already, or neither and why."""

    name: str
    file: str
    row: int = 0
    server: Server | None = None
    listed: Harvested | None = None
    origin: str = MCP
    error: str = ""
    """Machine-readable kind of what is wrong with it, empty when nothing is."""
    message: str = ""


def read_sources(paths: list[Path]) -> Iterator[Source]:
    """Everything that the files, and the files of the folders, name; in order, names made unique.

    Raises:
        OSError: a path cannot be read.
    """
    names: set[str] = set()
    for path in paths:
        inside = sorted(p for p in path.rglob("*") if p.suffix in _FILES + _LISTS) if path.is_dir() else [path]
        for file in inside:
            label = str(file.relative_to(path.parent)) if path.is_dir() else file.name
            for source in _read(file, label):
                if source.name in names and not source.error:
                    yield Source(
                        source.name,
                        source.file,
                        source.row,
                        error="duplicate_name",
                        message=f"an earlier source is named {source.name!r} too",
                    )
                    continue
                names.add(source.name)
                yield source


def _read(path: Path, label: str) -> Iterator[Source]:
    if path.suffix in _LISTS:
        yield from _lines(read_lines(path), path, label)
        return
    if path.stat().st_size > MAX_BYTES:
        yield Source(label, label, error="too_long", message=f"over the limit of {MAX_BYTES} bytes")
        return
    try:
        document = _parse(path)
    except (ValueError, RecursionError) as error:
        lines = _json_lines(path)
        if lines is not None:
            yield from _lines(lines, path, label)
            return
        yield Source(label, label, error="invalid_json", message=" ".join(str(error).split())[:500])
        return
    yield from _recognised(document, path, label)


def _kept(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else ""


def _json_lines(path: Path) -> list[tuple[int, Any]] | None:
    """The lines of a `.json` file that is JSON Lines in truth; None when it is not."""
    if path.suffix != ".json":
        return None
    lines = list(read_lines(path))
    return lines if len(lines) > 1 and not any(isinstance(value, ServerInvalid) for _, value in lines) else None


def _lines(lines: Iterable[tuple[int, Any]], path: Path, label: str) -> Iterator[Source]:
    """One source a line: a server, or the functions of a row; lines that are one function each are a source together."""
    name = slug(path.stem) or "file"
    alone: list[dict[str, Any]] = []
    for number, value in lines:
        if is_function(value):
            alone += functions_of(value) or []
        elif (functions := functions_of(value)) is not None:
            yield Source(f"{name}-{number}", label, number, listed=Harvested(tuple(functions)), origin=FUNCTION)
        else:
            yield _server(value, label, number)
    if alone:
        yield Source(name, label, listed=Harvested(tuple(alone)), origin=FUNCTION)


def _server(value: Any, label: str, number: int) -> Source:
    """The server that a line of a list names."""
    try:
        server = parse_server(value) if not isinstance(value, ServerInvalid) else value
    except ServerInvalid as error:
        server = error
    if isinstance(server, ServerInvalid):
        return Source(f"{label}:{number}", label, number, error="invalid_server", message=str(server))
    return started(server, label, number)


def started(server: Server, label: str, number: int) -> Source:
    """The source of a server, or what the environment lacks for it."""
    if missing := server.missing:
        message = f"set {', '.join(missing)} in the environment: the server's entry names it"
        return Source(server.name, label, number, error="missing_variable", message=message)
    return Source(server.name, label, number, server)


def _parse(path: Path) -> Any:
    if path.suffix == ".json":
        try:
            return orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            # Editors let people comment their settings, and leave commas behind.
            plain = _TRAILING.sub(_kept, _COMMENT.sub(_kept, path.read_text(encoding="utf-8")))
            try:
                return orjson.loads(plain)
            except orjson.JSONDecodeError:
                raise error from None
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = yaml.load(path.read_bytes(), Loader=loader)
        return orjson.loads(orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS))  # plain JSON, aliases unrolled
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(str(error)) from None


def _recognised(document: Any, path: Path, label: str) -> Iterator[Source]:
    name = slug(path.stem) or "file"
    if is_openapi(document):
        try:
            listed = read_openapi(document)
        except OpenApiInvalid as error:
            yield Source(name, label, error="invalid_openapi", message=str(error))
        else:
            yield Source(slug(listed.title) or name, label, listed=listed, origin=OPENAPI)
        return
    tools = saved_tools(document)
    if tools is not None:
        info = document.get("serverInfo") if isinstance(document, dict) else None
        info = info if isinstance(info, dict) else {}
        listed = Harvested(tuple(tools), version=str(info.get("version", "")), title=str(info.get("name", "")))
        yield Source(name, label, listed=listed)
        return
    if (functions := functions_of(document)) is not None:
        yield Source(name, label, listed=Harvested(tuple(functions)), origin=FUNCTION)
        return
    if (configured := client_configs.entries(document)) is not None:
        for number, (key, entry) in enumerate(configured.items()):
            try:
                yield started(client_configs.read_entry(slug(key) or f"{name}-{number}", entry), label, number)
            except ServerInvalid as error:
                yield Source(slug(key) or f"{label}:{number}", label, number, error="not_runnable", message=str(error))
        return
    entries = document.get("servers") if isinstance(document, dict) else None
    entries = entries if isinstance(entries, list) else [document]
    for number, entry in enumerate(entries):
        try:
            server = from_server_json(entry)
        except ServerInvalid as error:
            where = f"{label}:{number}" if len(entries) > 1 else label
            yield Source(where, label, number, error="invalid_server", message=str(error))
        else:
            yield Source(server.name, label, number, server)


def saved_tools(document: Any) -> list[dict[str, Any]] | None:
    """The tools of a saved `tools/list` answer: the bare list, the result, or the whole JSON-RPC message."""
    if isinstance(document, dict) and isinstance(document.get("result"), dict):
        document = document["result"]
    if isinstance(document, dict):
        document = document.get("tools")
    if isinstance(document, list) and document and all(isinstance(t, dict) and "name" in t for t in document):
        return document if any("inputSchema" in t for t in document) else None
    return None


def from_server_json(document: Any) -> Server:
    """A server from an entry of the MCP registry (`server.json`).

    The first package from PyPI or npm that speaks stdio, else the first remote by streamable HTTP.

    Raises:
        ServerInvalid: it names neither, or is not built like such an entry.
    """
    if isinstance(document, dict) and isinstance(document.get("server"), dict):
        document = document["server"]
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ServerInvalid("none of: tools/list, function specifications, mcpServers, OpenAPI, server.json")
    common: dict[str, Any] = {"name": slug(document["name"])}
    for package in _objects(document.get("packages")):
        kind = package.get("registryType") or package.get("registry_type") or package.get("registry_name")
        transport = package.get("transport")
        stdio = not isinstance(transport, dict) or transport.get("type", "stdio") == "stdio"
        if kind in ("pypi", "npm") and stdio:
            values = {
                kind: str(package.get("identifier") or package.get("name") or ""),
                "version": str(package.get("version") or document.get("version") or ""),
                "args": _arguments(package.get("packageArguments") or package.get("package_arguments")),
                "env": {
                    str(v.get("name")): str(v["value"] if "value" in v else v["default"])
                    for v in _objects(package.get("environmentVariables"))
                    if "value" in v or "default" in v
                },
            }
            return parse_server({**common, **values})
    for remote in _objects(document.get("remotes")):
        if (remote.get("type") or remote.get("transport_type")) in ("streamable-http", "streamable_http"):
            return parse_server(
                {**common, "url": str(remote.get("url", "")), "version": str(document.get("version", ""))}
            )
    raise ServerInvalid("it offers no PyPI or npm package over stdio, and no streamable HTTP address")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _arguments(value: Any) -> list[str]:
    arguments: list[str] = []
    for argument in _objects(value):
        given = argument.get("value", argument.get("default"))
        if argument.get("type") == "named":
            arguments.append(str(argument.get("name")))
        if given is not None:
            arguments.append(str(given))
    return arguments
