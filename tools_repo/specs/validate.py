"""Is this a tool that can be offered, called and checked? Schemas are untrusted: no recursion into them, no long wait.

    verdict = validate(spec)

Kimi K2 report, section 3.1.1. A valid input schema meets JSON Schema's own meta-schema, describes an object, refers
only to itself, and can be run on any text in bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from tokenmill.prompts.fence import CONTROL_TOKEN
from tokenmill.schemas.json_schema import broken, unbounded
from tokenmill.schemas.tools import ToolSpec
from tokenmill.schemas.typescript.render import resolve
from tokenmill.schemas.verdicts import Finding, Verdict
from tokenmill.tools_repo.specs.names import VALID, is_valid

CHECK = "valid"

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLE = (
    "items", "additionalItems", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
    "propertyNames", "not", "if", "then", "else", "contentSchema",
)  # fmt: skip
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Keywords whose schemas look at the same value as the one they stand in."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True)
class Limits:
    """What a specification may cost a reader. The defaults pass all but absurd ones."""

    schema_bytes: int = 100_000
    """Characters of a schema."""
    depth: int = 32
    """Nesting of JSON, not of schemas."""
    enum_values: int = 2_000
    """Values of one enum."""
    description: int = 20_000
    """Characters."""
    checks_per_value: int = 1_000
    """Schemas that look at one and the same value, references followed."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"Limits.{name} must be at least 1, not {value}")


class _Refused(Exception):
    def __init__(self, reason: str, detail: str, quote: str = "") -> None:
        super().__init__(detail)
        self.reason, self.detail, self.quote = reason, detail, quote[:200]


def validate(spec: ToolSpec, limits: Limits = Limits()) -> Verdict:
    """The first thing wrong with a specification, as a verdict of the check `valid`; never raises on account of it.

    Reasons: `name_invalid`, `description_missing`, `description_too_long`, `control_token`, `annotations_invalid`,
    and of either schema `schema_unreadable`, `schema_too_large`, `schema_too_deep`, `enum_too_large`,
    `not_an_object`, `schema_invalid`, `reference_unresolvable`, `reference_circular`, `schema_explodes`,
    `pattern_invalid`.
    """
    try:
        _text(spec, limits)
        _schema(spec.input_schema, limits, "input schema", arguments=True)
        if spec.output_schema:
            _schema(spec.output_schema, limits, "output schema", arguments=False)
    except _Refused as refusal:
        finding = Finding(refusal.reason, refusal.detail, refusal.quote)
        return Verdict(CHECK, False, 0.0, refusal.reason, (finding,))
    return Verdict(CHECK, True, 1.0)


def _text(spec: ToolSpec, limits: Limits) -> None:
    if not is_valid(spec.name):
        raise _Refused("name_invalid", f"The name must match ^{VALID.pattern}$.", spec.name)
    if not spec.description.strip():
        raise _Refused("description_missing", "Say what the tool does.")
    if len(spec.description) > limits.description:
        raise _Refused("description_too_long", f"It has more than {limits.description:,} characters.")
    for text in (spec.title, spec.description, spec.input_schema, spec.output_schema):
        if token := CONTROL_TOKEN.search(text):
            raise _Refused("control_token", "A chat template would read this as its own token.", token[0])
    try:
        if not isinstance(orjson.loads(spec.annotations), dict):
            raise ValueError("no JSON object")
    except ValueError as error:
        raise _Refused("annotations_invalid", f"The annotations are unreadable: {error}.") from None


def _schema(text: str, limits: Limits, which: str, *, arguments: bool) -> None:
    if len(text) > limits.schema_bytes:
        raise _Refused("schema_too_large", f"The {which} has more than {limits.schema_bytes:,} characters.")
    try:
        schema = orjson.loads(text)
    except ValueError as error:
        raise _Refused("schema_unreadable", f"The {which} is no JSON: {error}.") from None
    if _depth(schema, limits.depth) > limits.depth:
        raise _Refused("schema_too_deep", f"The {which} nests more than {limits.depth} levels.")
    if not isinstance(schema, dict) or (arguments and schema.get("type") != "object"):
        raise _Refused("not_an_object", f'The {which} must be an object with "type": "object".')
    _meta(schema, which)
    subschemas = list(_walk(schema))
    for sub in subschemas:
        _keywords(sub, limits, which)
    if unbounded(subschemas):
        detail = f"The {which} names properties by pattern beside unevaluatedProperties."
        raise _Refused("pattern_invalid", f"{detail} No validator here can hold values to that in bounded time.")
    _references(schema, subschemas, limits, which)


def _depth(value: Any, limit: int) -> int:
    level, depth = [value], 0
    while level and depth <= limit:
        inner: list[Any] = []
        for item in level:
            inner += item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        level, depth = inner, depth + 1
    return depth


def _meta(schema: dict[str, Any], which: str) -> None:
    dialect = schema.get("$schema", "")
    if not isinstance(dialect, str):
        raise _Refused("schema_invalid", f"The {which} has a $schema that is no text.")
    judge = _meta_validator(validator_for(schema, default=Draft202012Validator))
    if not judge.is_valid(schema):
        fault = best_match(judge.iter_errors(schema))
        where = "/".join(map(str, fault.absolute_path)) or "its top"
        raise _Refused("schema_invalid", f"The {which} is no JSON Schema at {where}: {fault.message}"[:300])


@cache
def _meta_validator(kind: type[Validator]) -> Validator:
    return kind(kind.META_SCHEMA)


def _children(schema: dict[str, Any], words: tuple[str, ...] | None = None) -> Iterator[dict[str, Any]]:
    """Schemas directly inside a schema, under the given keywords only; data such as `default` holds none."""
    for word, value in schema.items():
        if words is not None and word not in words:
            continue
        if word in _MAPS and isinstance(value, dict):
            yield from (sub for sub in value.values() if isinstance(sub, dict))
        elif word in _LISTS and isinstance(value, list):
            yield from (sub for sub in value if isinstance(sub, dict))
        elif word in _SINGLE and isinstance(value, dict):
            yield value


def _walk(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    stack = [schema]
    while stack:
        at = stack.pop()
        yield at
        stack += _children(at)


def _keywords(schema: dict[str, Any], limits: Limits, which: str) -> None:
    values = schema.get("enum")
    if isinstance(values, list) and len(values) > limits.enum_values:
        raise _Refused("enum_too_large", f"An enum of the {which} has {len(values):,} values.")
    patterns = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    if isinstance(schema.get("patternProperties"), dict):
        patterns += schema["patternProperties"]
    for pattern in patterns:
        if fault := broken(pattern):
            raise _Refused("pattern_invalid", f"A pattern of the {which} is unreadable: {fault}.", pattern)


def _references(root: dict[str, Any], subschemas: list[dict[str, Any]], limits: Limits, which: str) -> None:
    """Every reference leads to a schema of this document, and looking at one value takes bounded time."""
    targets: dict[int, list[dict[str, Any]]] = {}
    for sub in subschemas:
        for word in _REFERENCES:
            if word in sub:
                targets.setdefault(id(sub), []).append(_target(root, sub[word], which))
    if not targets:
        return
    if any(isinstance(sub.get("$id"), str) and not sub["$id"].startswith("#") for sub in subschemas[1:]):
        raise _Refused("reference_unresolvable", f"The {which} refers to itself across an inner $id.")
    known = {id(sub) for sub in subschemas}
    subschemas = subschemas + [t for found in targets.values() for t in found if id(t) not in known]
    cost: dict[int, int] = {}
    open_now: set[int] = set()
    for start in subschemas:
        stack = [(start, False)]
        while stack:
            at, done = stack.pop()
            here = id(at)
            nexts = [*_children(at, _IN_PLACE), *targets.get(here, ())]
            if done:
                open_now.discard(here)
                cost[here] = min(1 + sum(cost[id(sub)] for sub in nexts), limits.checks_per_value + 1)
                if cost[here] > limits.checks_per_value:
                    detail = f"More than {limits.checks_per_value:,} schemas of the {which} look at one value."
                    raise _Refused("schema_explodes", detail)
            elif here not in cost and here not in open_now:
                open_now.add(here)
                stack.append((at, True))
                for sub in nexts:
                    if id(sub) in open_now:
                        raise _Refused("reference_circular", f"A reference of the {which} leads back to itself.")
                    stack.append((sub, False))


def _target(root: dict[str, Any], reference: Any, which: str) -> dict[str, Any]:
    target = resolve(root, reference) if isinstance(reference, str) else None
    if target is None:
        # A reference to elsewhere would make a validator fetch it from the network.
        raise _Refused("reference_unresolvable", f"The {which} refers to what it does not hold.", str(reference))
    return target if isinstance(target, dict) else {}
