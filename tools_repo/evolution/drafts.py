"""One tool as a model drafts it: its schema, the specification that it makes, and what is wrong with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record
from tokenmill.schemas.tools import SYNTHETIC, Semantics, ToolSpec, dump, tool_id
from tokenmill.tools_repo.evolution.categories import MARK, flat
from tokenmill.tools_repo.evolution.fields import compile_fields, field_schema, properties
from tokenmill.tools_repo.evolution.outline import choices_of
from tokenmill.tools_repo.specs.validate import validate
from tokenmill.tools_repo.world.entities import EntityModel

SEARCH, CREATE, READ, UPDATE, ANALYSE, DELETE = "search", "create", "read", "update", "analyse", "delete"
ACTIONS = (SEARCH, CREATE, READ, UPDATE, ANALYSE, DELETE)
WRITING = (CREATE, UPDATE, DELETE)

INVALID_ANSWER, INVALID_FIELDS, INVALID_SEMANTICS = "invalid_answer", "invalid_fields", "invalid_semantics"
"""Reasons of a refusal, beside those of `tools_repo.specs.validate`."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_SHORTEST = 20
"""Characters of a description."""
_MAX_STATEMENTS, _STATEMENT = 12, 400


def draft_schema() -> dict[str, Any]:
    """JSON Schema of one draft, every property required, as strict decoders want it."""
    return record(
        action=choice(ACTIONS),
        name=TEXT,
        description=TEXT,
        parameters=array(field_schema()),
        returns=array(field_schema(results=True)),
        **dict.fromkeys(("reads", "writes", "preconditions", "effects", "errors"), array(TEXT)),
        destructive=BOOLEAN,
        idempotent=BOOLEAN,
    )


@cache
def batch_schema() -> dict[str, Any]:
    """JSON Schema of an answer: several drafts."""
    return record(tools=array(draft_schema()))


@cache
def _lenient() -> Draft202012Validator:
    """What a draft must have to be read at all; fields are looked at one by one."""
    made = draft_schema()["properties"]
    made |= {name: {"type": "array", "items": {"type": "object"}} for name in ("parameters", "returns")}
    needed = ["action", "name", "description", "parameters", "returns", "reads", "writes", "effects", "errors"]
    return Draft202012Validator({"type": "object", "properties": made, "required": needed})


@dataclass(frozen=True)
class Draft:
    """A drafted tool: the specification, as far as one can be made of it, and what is wrong."""

    spec: ToolSpec
    action: str
    reason: str = ""
    """Machine-readable, empty for a good draft."""
    detail: str = ""


def read_draft(value: Any, domain: Domain, model: EntityModel) -> Draft:
    """A tool of a domain from an element of the answer's `tools`. Never raises on account of what stands there."""
    value = value if isinstance(value, dict) else {}
    fault = best_match(_lenient().iter_errors(value))
    faults: list[str] = []
    spec = _spec(value, domain, model, faults)
    action = value.get("action") if isinstance(value.get("action"), str) else ""
    if fault is not None:
        where = "/".join(map(str, fault.absolute_path)) or "the tool"
        return Draft(spec, action, INVALID_ANSWER, f"{where}: {' '.join(fault.message.split())[:200]}")
    if faults:
        return Draft(spec, action, INVALID_FIELDS, "; ".join(faults[:6]))
    if wrong := _semantics_faults(spec, action, value, model):
        return Draft(spec, action, INVALID_SEMANTICS, "; ".join(wrong[:6]))
    if not _NAME.fullmatch(spec.name) or len(spec.name) > 64:
        return Draft(spec, action, "name_invalid", "the name must be in snake_case and begin with a verb: update_order")
    if mark := MARK.search(spec.description):
        detail = f'"{mark[0]}" only marks where a text begins and ends; leave it out'
        return Draft(spec, action, "description_unfit", detail)
    if len(spec.description) < _SHORTEST:
        return Draft(spec, action, "description_missing", "say in a sentence or more what the tool does")
    verdict = validate(spec)
    if not verdict.passed:
        return Draft(spec, action, verdict.reason, "; ".join(finding.detail for finding in verdict.findings))
    return Draft(spec, action)


def _spec(value: dict[str, Any], domain: Domain, model: EntityModel, faults: list[str]) -> ToolSpec:
    name = _text(value.get("name"))[:200] or "unnamed"
    semantics = Semantics(
        *(_texts(value.get(key)) for key in ("reads", "writes", "preconditions", "effects", "errors"))
    )
    parameters = compile_fields(value.get("parameters"), model.kinds, "parameters", faults)
    returns = compile_fields(value.get("returns"), model.kinds, "returns", faults)
    reading = not semantics.writes
    annotations = {
        "readOnlyHint": reading,
        "destructiveHint": not reading and (value.get("destructive") is True or value.get("action") == DELETE),
        "idempotentHint": reading or value.get("idempotent") is True,
        "openWorldHint": False,
    }
    return ToolSpec(
        id=tool_id(SYNTHETIC, "/".join(domain.path), name),
        name=name,
        description=_text(value.get("description")),
        input_schema=dump(parameters),
        output_schema=dump(returns) if returns["properties"] else "",
        annotations=dump(annotations),
        origin=SYNTHETIC,
        category=domain.category,
        domain=list(domain.path),
        semantics=semantics,
    )


def _semantics_faults(spec: ToolSpec, action: str, value: dict[str, Any], model: EntityModel) -> list[str]:
    told, faults = spec.semantics, []
    for which, kinds in (("reads", told.reads), ("writes", told.writes)):
        for kind in kinds:
            if kind not in model.kinds:
                faults.append(f"{which}: there is no kind {kind[:60]!r}; kinds are {', '.join(model.kinds)}")
    if action in WRITING and not told.writes:
        faults.append(f'a tool that does "{action}" names what it changes in "writes"')
    if action not in WRITING and told.writes:
        faults.append(f'a tool that does "{action}" writes nothing; its "writes" must be empty')
    if not told.reads and not told.writes:
        faults.append('it reads and writes nothing; name the kinds in "reads" and "writes"')
    if told.writes and not told.effects:
        faults.append('say what holds after a call in "effects"')
    if told.effects and not told.writes:
        faults.append('it writes nothing, so its "effects" must be empty')
    if not told.errors:
        faults.append('name at least one case in which a call fails in "errors"')
    if not spec.output_schema:
        faults.append('say what comes back in "returns"')
    schema = spec.parameters
    if action in (UPDATE, DELETE) and not schema.get("required"):
        faults.append("no required parameter says which record it changes")
    known = choices_of(model, [*told.reads, *told.writes])
    for name, inner in properties(schema):
        options = inner.get("enum") or (inner.get("items") or {}).get("enum") or ()
        if options and name in known and not known[name].intersection(map(str, options)):
            faults.append(f"{name}: none of its choices is one of the entity's: {', '.join(sorted(known[name])[:12])}")
    return faults


def _text(value: Any) -> str:
    return flat(value) if isinstance(value, str) else ""


def _texts(value: Any) -> list[str]:
    given = value if isinstance(value, list) else []
    texts = [_text(item)[:_STATEMENT] for item in given[:_MAX_STATEMENTS]]
    return list(dict.fromkeys(text for text in texts if text))
