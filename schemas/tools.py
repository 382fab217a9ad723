"""Tool specifications: real ones from MCP servers and synthetic ones from domain evolution, as one row type.

Kimi K2 report, section 3.1.1 ("Domain evolution and tool synthesis") and figure 8a.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from tokenmill.schemas.columns import column

MCP, OPENAPI, FUNCTION, SYNTHETIC = "mcp", "openapi", "function", "synthetic"
ORIGINS = (MCP, OPENAPI, FUNCTION, SYNTHETIC)
"""Where a specification came from: all but the last are real, somebody has such a tool."""

_SORTED = orjson.OPT_SORT_KEYS


@dataclass(frozen=True)
class Semantics:
    """What a tool does to the world it runs in, as far as it is known."""

    reads: list[str] = column("kinds of entity it reads", default_factory=list)
    writes: list[str] = column("kinds of entity it creates, changes or deletes", default_factory=list)
    preconditions: list[str] = column("what must hold before a call, one statement each", default_factory=list)
    effects: list[str] = column("what holds after a successful call, one statement each", default_factory=list)
    errors: list[str] = column("cases in which a call fails, one statement each", default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TriedCall:
    """A call that was really made while the tool was harvested."""

    arguments: str = column("arguments, as JSON")
    result: str = column("what the server answered, as text, cut where it is long")
    error: str = column(
        "`tool_error` as the tool says itself, `refused` by the server, `timeout`, `invalid_result`; empty for success"
    )


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """One tool. JSON columns hold compact JSON text; `parameters` and `returns` parse it."""

    id: str = column("`origin/toolset/original_name`, unique in a run")
    name: str = column("name to call it by, `^[a-zA-Z0-9_-]{1,64}$`, unique in its tool-set")
    original_name: str = column("name as its source has it, before any renaming", default="")
    title: str = column("human-readable name, possibly empty", default="")
    description: str = column("what the tool does, as a model reads it")
    input_schema: str = column("JSON Schema of the arguments object, as JSON")
    output_schema: str = column("JSON Schema of a structured result, as JSON; empty when unknown", default="")
    annotations: str = column("MCP annotations (`readOnlyHint`, `destructiveHint`, ...), as JSON", default="{}")
    origin: str = column("`mcp`, `openapi`, `function` (written by somebody for a model to call) or `synthetic`")
    category: str = column("source category of a real tool, category that a synthetic one was evolved from", default="")
    server: str = column("name of the server that offers it, empty for synthetic tools", default="")
    domain: list[str] = column("path of application domains, widest first; empty for real tools", default_factory=list)
    package: str = column(
        "where it was taken from: `pypi:NAME`, `npm:NAME`, a command, a URL or a file; empty for synthetic tools",
        default="",
    )
    version: str = column("version of that package, possibly empty", default="")
    license: str = column("licence of that package as it states it, possibly empty", default="")
    semantics: Semantics = column("what it reads, writes, requires and causes", default_factory=Semantics)
    tried: list[TriedCall] = column(
        "calls that `tools harvest --try` made, and their real answers", default_factory=list
    )

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:
            raise ValueError(f"ToolSpec.origin is one of {', '.join(ORIGINS)}, not {self.origin!r}")
        if not self.original_name:
            object.__setattr__(self, "original_name", self.name)

    @property
    def toolset(self) -> str:
        """What the tool stands in: its server, or the path of its domain."""
        return self.server or "/".join(self.domain)

    @property
    def parameters(self) -> dict[str, Any]:
        """The input schema, parsed.

        Raises:
            ValueError: it is no JSON.
        """
        return orjson.loads(self.input_schema)

    @property
    def returns(self) -> dict[str, Any] | None:
        """The output schema, parsed; None when unknown.

        Raises:
            ValueError: it is no JSON.
        """
        return orjson.loads(self.output_schema) if self.output_schema else None


@dataclass(frozen=True, kw_only=True)
class RefusedTool(ToolSpec):
    """A specification that validation, a judge or de-duplication refused: one row of `rejected/`, with the evidence."""

    reason: str = column("machine-readable reason: `schema_invalid`, `near_duplicate`, `vague`, ...")
    detail: str = column("what is wrong, one line")
    duplicate_of: str = column("`id` of the kept tool that this one repeats, empty otherwise", default="")
    score: float = column("score of the check that refused it; for duplicates the similarity", default=0.0)


def refuse(spec: ToolSpec, reason: str, detail: str, *, duplicate_of: str = "", score: float = 0.0) -> RefusedTool:
    """`spec` as a row of `rejected/`."""
    return RefusedTool(**_values(spec), reason=reason, detail=detail, duplicate_of=duplicate_of, score=score)


def tool_id(origin: str, toolset: str, name: str) -> str:
    """The identifier of a tool, from its name before any renaming."""
    return f"{origin}/{toolset}/{name}"


def dump(value: Any) -> str:
    """Compact JSON, in the order given, as the JSON columns hold it. Lone surrogates become U+FFFD.

    Raises:
        ValueError: something in it is no JSON.
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        try:
            return orjson.dumps(_scrub(value)).decode()
        except (TypeError, RecursionError) as error:
            raise ValueError(f"not JSON: {error}") from error


def canonical(schema: str) -> str:
    """JSON text with sorted keys and no spaces, for comparing.

    Raises:
        ValueError: it is no JSON.
    """
    return orjson.dumps(orjson.loads(schema), option=_SORTED).decode()


def to_openai(spec: ToolSpec) -> dict[str, Any]:
    """The tool as an element of an OpenAI request's `tools`.

    Raises:
        ValueError: its input schema is no JSON.
    """
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def from_openai(tool: dict[str, Any], *, origin: str, **provenance: Any) -> ToolSpec:
    """A specification from an element of OpenAI `tools`, wrapped in `function` or bare.

    `provenance` gives further columns (`server`, `domain`, `category`, `package`, ...); `id` is derived unless given.

    Raises:
        ValueError: no name, or a part that is of the wrong type.
    """
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        raise ValueError("a tool is a JSON object with the key `function`")
    schema = function.get("parameters")
    schema = {"type": "object", "properties": {}} if schema is None else schema
    return _build(function, schema, None, {}, origin, provenance)


def from_mcp(tool: dict[str, Any], *, server: str, origin: str = MCP, **provenance: Any) -> ToolSpec:
    """A specification from an element of an MCP `tools/list` result (its JSON, camelCase keys).

    Raises:
        ValueError: no name, or a part that is of the wrong type.
    """
    if not isinstance(tool, dict):
        raise ValueError("a tool of `tools/list` is a JSON object")
    annotations = tool.get("annotations") or {}
    if not isinstance(annotations, dict):
        raise ValueError("`annotations` is a JSON object")
    return _build(
        tool, tool.get("inputSchema"), tool.get("outputSchema"), annotations, origin, {"server": server, **provenance}
    )


def _build(
    tool: dict[str, Any], schema: Any, output: Any, annotations: dict[str, Any], origin: str, provenance: dict[str, Any]
) -> ToolSpec:
    name, title = tool.get("name"), tool.get("title") or annotations.get("title") or ""
    description = tool.get("description") or ""
    if not isinstance(name, str) or not name:
        raise ValueError("the tool has no name")
    if not isinstance(schema, dict):
        raise ValueError(f"tool {name[:64]!r}: its input schema is no JSON object")
    if not (isinstance(description, str) and isinstance(title, str) and isinstance(output, dict | None)):
        raise ValueError(f"tool {name[:64]!r}: description and title are text, an output schema is a JSON object")
    name = _scrub(name)
    toolset = provenance.get("server") or "/".join(provenance.get("domain") or ())
    known = {"id": tool_id(origin, toolset, name), **provenance}
    return ToolSpec(
        name=name,
        title=_scrub(title),
        description=_scrub(description),
        input_schema=dump(schema),
        output_schema=dump(output) if output is not None else "",
        annotations=dump(annotations),
        origin=origin,
        **known,
    )


def _scrub(value: Any) -> Any:
    """The same JSON value without lone surrogates, which neither UTF-8 nor Parquet can hold."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_scrub(key): _scrub(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    return value


def _values(spec: ToolSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ToolSpec.__dataclass_fields__}
