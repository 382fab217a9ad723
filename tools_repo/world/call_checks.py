"""What is wrong with a call before anything runs: unknown tool, arguments that are no JSON or break the schema, unknown
identifiers. The errors read as a real service's would, and name the field.

Identifiers are checked where it is certain what they identify: an argument's schema says `x-ref`, its name is a kind's
(`order_id`, a kind's own `identifier`), or it is the only `id` of a tool that touches one kind. Tools that search, and
those that create what they name, may be given identifiers that nobody has.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from jsonschema import ValidationError
from jsonschema.protocols import Validator
from tokenmill.schemas.json_schema import validator_for
from tokenmill.schemas.tools import ToolSpec
from tokenmill.schemas.typescript.render import resolve
from tokenmill.tools_repo.specs.validate import validate
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.entities import FORMATS, EntityModel, State
from tokenmill.tools_repo.world.outcomes import error

UNKNOWN_TOOL, INVALID_ARGUMENTS, NOT_FOUND = "unknown_tool", "invalid_arguments", "not_found"
ENGINE = "checks"

MAX_ARGUMENTS = 64 * 1024
"""Characters of a call's arguments."""
_MAX_NESTING = 32
_MAX_FAULTS = 3
_MAX_NODES = 2_000
_SEARCHES = frozenset(("search", "list", "find", "filter", "query", "lookup", "browse", "count", "suggest"))
_CREATES = frozenset(("create", "add", "register", "new", "insert", "open", "import", "upsert", "ensure", "set", "put"))


@dataclass(frozen=True)
class _Tool:
    spec: ToolSpec
    schema: dict[str, Any]
    validator: Validator
    words: tuple[str, ...]

    @property
    def kinds(self) -> set[str]:
        return {*self.spec.semantics.reads, *self.spec.semantics.writes}


class Checks:
    """Checks calls of some tools over the states of an entity model."""

    def __init__(self, tools: Sequence[ToolSpec], entities: EntityModel | None = None) -> None:
        """
        Raises:
            ValueError: a specification that cannot be offered safely, or two of one name.
        """
        self.entities = entities
        self.tools: dict[str, _Tool] = {}
        for spec in tools:
            if spec.name in self.tools:
                raise ValueError(f"two tools are named {spec.name}")
            self.tools[spec.name] = _tool(spec)

    def __call__(self, name: str, arguments: str, state: State) -> dict[str, Any] | ToolResult:
        """The parsed arguments of a valid call; otherwise the error that the agent is shown. Never raises."""
        tool = self.tools.get(name)
        if tool is None:
            near = difflib.get_close_matches(name, self.tools, n=3)
            hint = f" Did you mean {' or '.join(near)}?" if near else f" Available: {', '.join(self.tools)[:500]}."
            return _refused(UNKNOWN_TOOL, f"There is no tool named {_cut(name)!r}.{hint}")
        parsed = _parse(arguments)
        if isinstance(parsed, ToolResult):
            return parsed
        faults = []
        for fault in tool.validator.iter_errors(parsed):
            faults.append(fault)
            if len(faults) == _MAX_FAULTS:
                break
        if faults:
            details = [_told(fault) for fault in faults]
            message = f"Invalid arguments for {name}: {'; '.join(told['message'] for told in details)}"
            return _refused(INVALID_ARGUMENTS, message, fields=[told["field"] for told in details])
        for kind, identifier, field in self._identifiers(tool, parsed, state):
            if identifier not in state[kind]:
                message = f"{_words(kind)} {_cut(identifier)!r} does not exist."
                return _refused(NOT_FOUND, message, field=field)
        return parsed

    def kinds_named(self, name: str, arguments: Mapping[str, Any], state: State) -> dict[str, list[str]]:
        """Which records of the state a call's arguments name: identifiers by kind."""
        found: dict[str, list[str]] = {}
        for kind, identifier, _ in self._named(self.tools[name], arguments, state):
            if identifier in state.get(kind, {}) and identifier not in found.setdefault(kind, []):
                found[kind].append(identifier)
        return {kind: identifiers for kind, identifiers in found.items() if identifiers}

    def _identifiers(self, tool: _Tool, arguments: Any, state: State) -> Iterator[tuple[str, str, str]]:
        """(kind, identifier, field) of the arguments whose record must exist for the call to make sense."""
        creates = _CREATES & set(tool.words[:1])
        for kind, identifier, field in self._named(tool, arguments, state):
            if kind in state and not (creates and kind in (tool.spec.semantics.writes or (kind,))):
                yield kind, identifier, field

    def _named(self, tool: _Tool, arguments: Any, state: State) -> Iterator[tuple[str, str, str]]:
        if self.entities is None:
            return
        searches = bool(_SEARCHES & set(tool.words))
        stack: list[tuple[Any, Any, str]] = [(tool.schema, arguments, "")]
        for _ in range(_MAX_NODES):
            if not stack:
                return
            schema, value, where = stack.pop()
            schema = _resolved(tool.schema, schema)
            if isinstance(value, list):
                inner = schema.get("items")
                stack += [(inner, item, f"{where}[{at}]") for at, item in reversed(list(enumerate(value)))]
                continue
            if not isinstance(value, dict):
                continue
            properties = schema.get("properties")
            properties = properties if isinstance(properties, dict) else {}
            for name, item in value.items():
                field = f"{where}.{name}" if where else name
                sub = _resolved(tool.schema, properties.get(name))
                kind = self._kind(tool, name, sub, searches)
                if kind is None:
                    stack.append((sub, item, field))
                    continue
                for at, identifier in enumerate(item if isinstance(item, list) else [item]):
                    if isinstance(identifier, str):
                        yield kind, identifier, f"{field}[{at}]" if isinstance(item, list) else field

    def _kind(self, tool: _Tool, name: str, schema: Mapping[str, Any], searches: bool) -> str | None:
        assert self.entities is not None
        items = schema.get("items")
        said = schema.get("x-ref") or (items.get("x-ref") if isinstance(items, dict) else None)
        if isinstance(said, str):
            return said if said in self.entities.kinds else None
        if searches:
            return None
        kind = self.entities.kind_of(name)
        if kind is None and name.lower() == "id" and len(tool.kinds) == 1:
            kind = next(iter(tool.kinds))
        known = tool.kinds
        return kind if kind in self.entities.kinds and (not known or kind in known) else None


@lru_cache(maxsize=4096)
def _compiled(schema: str) -> tuple[dict[str, Any], Validator]:
    parsed = orjson.loads(schema)
    kind = validator_for(parsed)
    return parsed, kind(parsed, format_checker=FORMATS)


@lru_cache(maxsize=4096)
def _faulty(name: str, description: str, input_schema: str, output_schema: str, origin: str) -> str:
    spec = ToolSpec(
        id="", name=name, description=description, input_schema=input_schema, output_schema=output_schema, origin=origin
    )
    verdict = validate(spec)
    return "" if verdict.passed else f"{verdict.reason}: {verdict.findings[0].detail}"


def _tool(spec: ToolSpec) -> _Tool:
    fault = _faulty(spec.name, spec.description, spec.input_schema, spec.output_schema, spec.origin)
    if fault:
        raise ValueError(f"tool {spec.name[:64]!r} cannot be offered: {fault}")
    schema, validator = _compiled(spec.input_schema)
    return _Tool(spec, schema, validator, tuple(_words(spec.name).lower().split()))


def _parse(arguments: str) -> dict[str, Any] | ToolResult:
    if len(arguments) > MAX_ARGUMENTS:
        return _refused(INVALID_ARGUMENTS, f"The arguments are longer than {MAX_ARGUMENTS} characters.")
    try:
        parsed = orjson.loads(arguments.strip() or "{}")
    except (ValueError, UnicodeEncodeError) as fault:
        return _refused(INVALID_ARGUMENTS, f"The arguments are not valid JSON: {str(fault)[:200]}.")
    if not isinstance(parsed, dict):
        return _refused(INVALID_ARGUMENTS, "The arguments must be a JSON object.")
    level: list[Any] = [parsed]
    for _ in range(_MAX_NESTING):
        level = [x for v in level for x in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())]
    if level:
        return _refused(INVALID_ARGUMENTS, f"The arguments nest more than {_MAX_NESTING} levels.")
    return parsed


def _refused(kind: str, message: str, **details: Any) -> ToolResult:
    return ToolResult(error(kind, message, **details), error=kind, engine=ENGINE)


def _told(fault: ValidationError) -> dict[str, str]:
    steps = list(fault.absolute_path)
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).lstrip(".")
    if fault.validator == "required":
        required, given = fault.validator_value, fault.instance
        missing = (
            [name for name in required if name not in given]
            if isinstance(required, list) and isinstance(given, dict)
            else []
        )
        # One error per missing property: this one's is named first in its message.
        name = next((m for m in missing if fault.message.startswith(repr(m))), missing[0] if missing else "")
        field = f"{field}.{name}" if field else name
        return {"field": field, "message": f"{field}: this field is required"}
    if fault.validator == "additionalProperties" and not field:
        return {"field": "", "message": _cut(fault.message, 200)}
    return {"field": field, "message": f"{field or 'arguments'}: {_cut(fault.message, 200)}"}


def _resolved(root: dict[str, Any], schema: Any) -> dict[str, Any]:
    """A schema with its own reference followed; of a choice the option that has an `x-ref`."""
    for _ in range(8):
        if not isinstance(schema, dict):
            return {}
        if isinstance(schema.get("$ref"), str):
            schema = resolve(root, schema["$ref"])
            continue
        options = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(options, list) and "properties" not in schema and "x-ref" not in schema:
            structured = [o for o in options if isinstance(o, dict) and o.get("type") != "null"]
            if len(structured) == 1:
                schema = structured[0]
                continue
        return schema
    return {}


def _words(name: str) -> str:
    """`MaintenanceVisit`, `maintenance_visit` and `maintenance-visit` as `Maintenance visit`."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.\s]+", " ", name).strip()
    return text[:1].upper() + text[1:].lower()


def _cut(text: str, length: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
