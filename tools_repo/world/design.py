"""A model designs the world of an application: its kinds of entity, then a sample state.

    designed = await design_entities(ask, title="Parcel returns", description="...", tools=toolset)

The kinds are asked for as lists of typed fields, which every model manages, and compiled to JSON Schema here; the state
is then asked for under exactly that schema, so that a constrained decoder can only write valid records.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from tokenmill.inference.call import Ask
from tokenmill.prompts.fence import fence
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record
from tokenmill.schemas.tools import ToolSpec, dump, to_openai
from tokenmill.schemas.typescript.render import render_namespace
from tokenmill.tools_repo.world.ask_checked import REPAIR, CheckFailed, ask_checked
from tokenmill.tools_repo.world.entities import EntityModel

from tokenmill import prompts

ENTITIES, STATE = "world/entities", "world/state"
PROMPTS = (ENTITIES, STATE, REPAIR)
"""Every prompt that a design may use."""

MIN_RECORDS = 2
_MAX_TOOLS_TEXT = 16_000
_MAX_DESCRIPTION = 4_000
_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "numbers": {"type": "array", "items": {"type": "number"}},
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_GROUPS = ("group", "groups")


_FIELD = {
    "name": TEXT,
    "description": TEXT,
    "type": choice(_TYPES),
    "optional": BOOLEAN,
    "values": array(TEXT),
    "refers_to": TEXT,
}
_OUTER = record(**{**_FIELD, "type": choice([*_TYPES, *_GROUPS]), "fields": array(record(**_FIELD))})
_KIND = record(
    name=TEXT,
    description=TEXT,
    identifier=TEXT,
    fields={"type": "array", "minItems": 1, "maxItems": 24, "items": _OUTER},
)
SCHEMA = record(kinds={"type": "array", "minItems": 1, "maxItems": 12, "items": _KIND})
"""What a model answers to the first question."""


@dataclass(frozen=True)
class Designed:
    """A world's data: both JSON texts are valid, and the state meets the entity model."""

    entities: str
    state: str


class DesignFailed(CheckFailed):
    """No valid design came."""


async def design_entities(
    ask: Ask,
    *,
    title: str,
    description: str,
    tools: Sequence[ToolSpec] = (),
    tries: int = 3,
    **params: Any,
) -> Designed:
    """Design the entity model and a sample state of an application.

    Args:
        tools: what must be able to run over the state, when that is known beforehand.
        tries: answers to each of the two questions.
        params: sampling parameters for `ask`.

    Raises:
        DesignFailed: no valid answer in `tries` tries.
        tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
    """
    title, description = fence(title, "title"), fence(description[:_MAX_DESCRIPTION], "description")
    shown = f"\nIts tools:\n{fence(declared(tools), 'tools')}\n" if tools else ""
    try:
        messages = prompts.load(ENTITIES).render(title=title, description=description, tools=shown)
        model = await ask_checked(ask, messages, SCHEMA, compile_kinds, to="writer", tries=tries, **params)
        messages = prompts.load(STATE).render(title=title, description=description, model=fence(model.text, "model"))
        state = await ask_checked(
            ask, messages, state_schema(model), lambda answer: _state(model, answer), to="writer", tries=tries, **params
        )
    except CheckFailed as failed:
        raise DesignFailed(str(failed)) from None
    return Designed(model.text, dump(state))


def declared(tools: Sequence[ToolSpec], room: int = _MAX_TOOLS_TEXT) -> str:
    """The tools as TypeScript declarations, as many as fit into `room` characters; of the others the names."""
    shown, left = [], room
    for tool in tools:
        text = render_namespace([to_openai(tool)])
        if len(text) > left:
            break
        shown.append(text)
        left -= len(text)
    rest = ", ".join(tool.name for tool in tools[len(shown) :])[:2_000]
    return "\n\n".join([*shown, f"Further tools: {rest}"] if rest else shown)


def compile_kinds(answer: dict[str, Any]) -> EntityModel:
    """The entity model of an answer to `SCHEMA`.

    Raises:
        ValueError: it makes no sense; the text tells all that is wrong with it.
    """
    kinds: dict[str, Any] = {}
    faults: list[str] = []
    names = {kind["name"] for kind in answer["kinds"]}
    for kind in answer["kinds"]:
        name, fields, identifier = kind["name"], kind["fields"], kind["identifier"]
        if name in kinds:
            faults.append(f"kind {name} is given twice")
        schema = _record(name, fields, names, faults)
        if schema["properties"].get(identifier, {}).get("type") != "string" or identifier not in schema["required"]:
            faults.append(f'kind {name}: its identifier "{identifier}" must be one of its fields, of type "text"')
        kinds[name] = {"description": kind["description"], "schema": schema, "identifier": identifier}
    if faults:
        raise ValueError("; ".join(faults))
    return EntityModel.parse(dump(kinds))


def _record(where: str, fields: Sequence[dict[str, Any]], kinds: set[str], faults: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in fields:
        name = field["name"]
        if not _NAME.fullmatch(name):
            faults.append(f'{where}: "{name[:80]}" is no name of a field; write it in snake_case')
        if name in properties:
            faults.append(f"{where}: field {name} is given twice")
        properties[name] = _field(f"{where}.{name}", field, kinds, faults)
    required = [field["name"] for field in fields if not field["optional"]]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _field(where: str, field: dict[str, Any], kinds: set[str], faults: list[str]) -> dict[str, Any]:
    kind, target, values = field["type"], field["refers_to"].strip(), [v for v in field["values"] if v]
    inner = field.get("fields") or []
    if kind in _GROUPS:
        if not inner:
            faults.append(f'{where}: a {kind} lists its own fields under "fields"')
        schema = _record(where, inner, kinds, faults)
        schema = {"type": "array", "items": schema} if kind == "groups" else schema
    else:
        schema = dict(_TYPES[kind])
    if target:
        if kind not in ("text", "texts"):
            faults.append(f'{where}: a reference is of type "text" or "texts"')
        elif target not in kinds:
            faults.append(f'{where}: it refers to "{target}", which is no kind')
        else:
            schema["x-ref"] = target
    if values and not target and kind in ("text", "texts"):
        values = list(dict.fromkeys(values))
        choice = {"type": "string", "enum": values}
        schema = choice if kind == "text" else {"type": "array", "items": choice}
    if field["optional"]:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return {"description": field["description"], **schema} if field["description"] else schema


def state_schema(model: EntityModel) -> dict[str, Any]:
    """JSON Schema of `{kind: [record, ...]}`, with every property required, as strict decoders want it."""
    kinds = {
        name: {"type": "array", "minItems": MIN_RECORDS, "items": _strict(kind.schema)}
        for name, kind in model.kinds.items()
    }
    return record(**kinds)


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items() if key != "x-ref"}
    if isinstance(strict.get("properties"), dict):
        strict["required"] = list(strict["properties"])
    return strict


def _state(model: EntityModel, answer: dict[str, Any]) -> dict[str, Any]:
    """The state of an answer to `state_schema`.

    Raises:
        ValueError: it does not meet the model.
    """
    state: dict[str, Any] = {}
    for name, kind in model.kinds.items():
        records = {record[kind.identifier]: record for record in answer[name]}
        if len(records) < len(answer[name]):
            raise ValueError(f"{name}: an identifier is given twice")
        state[name] = records
    if faults := model.check(orjson.loads(dump(state))):
        raise ValueError("; ".join(faults))
    return state
