"""What a world's state may be: kinds of entity, the JSON Schema of each kind's records, references between them.

    model = EntityModel.parse('{"Order": {"description": "...", "schema": {...}, "identifier": "order_id"}}')
    faults = model.check({"Order": {"ORD-1": {"order_id": "ORD-1", "status": "open"}}})

A state is `{kind: {identifier: record}}`. A property whose schema says `"x-ref": "Kind"` holds the identifier of a
record of that kind, or a list of such; `"identifier"` of a kind, where given, names the property that repeats the
record's own identifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

import orjson
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from tokenmill.schemas.json_schema import linear
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec, dump
from tokenmill.tools_repo.specs.validate import Limits, validate

State = dict[str, dict[str, dict[str, Any]]]

MAX_KINDS = 24
MAX_RECORDS = 200_000
"""Records of one kind."""
MAX_STATE = 64_000_000
"""Bytes of a state as JSON, at the start of a world. Only what a call needs of it goes into a prompt."""
GROWTH = 256 * 1024
"""Bytes by which a state may be larger than the one before."""
MAX_FAULTS = 20
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_SCHEMA_LIMITS = Limits(schema_bytes=20_000, depth=16, enum_values=200)
_KEYS = {"description", "schema", "identifier"}
_COMMON = frozenset(
    ("id", "name", "key", "code", "number", "email", "title", "username", "phone", "url", "date", "label")
)
"""Names of identifiers that other arguments have too."""
FORMATS = FormatChecker()
"""Formats that values are held to: those that `jsonschema` knows by itself, and `date-time`."""
_current: ContextVar[Mapping[str, Any]] = ContextVar("state")


@FORMATS.checks("date-time", raises=ValueError)
def _is_datetime(value: object) -> bool:
    if isinstance(value, str):
        datetime.fromisoformat(value)
        return len(value) > len("2025-03-01T")
    return True


@dataclass(frozen=True)
class Kind:
    """One kind of entity."""

    name: str
    description: str
    schema: dict[str, Any]
    identifier: str
    """The property that repeats a record's identifier; empty for none."""

    @cached_property
    def refers_to(self) -> frozenset[str]:
        """Kinds that its records refer to."""
        return frozenset(_references(self.schema))

    @cached_property
    def validator(self) -> Validator:
        return _Validator(self.schema, format_checker=FORMATS)


class EntityModel:
    """The kinds of entity of a world. Made by `parse`; immutable, and shared between the trajectories of a worker."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        """The model as JSON, as rows hold it."""
        self.kinds = kinds

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return EntityModel.parse, (self.text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EntityModel) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def parse(cls, text: str) -> EntityModel:
        """Read an entity model.

        Raises:
            ValueError: it is none; one line says what is wrong.
        """
        return _parse(text)

    def check(self, state: Any, before: Any = None) -> list[str]:
        """What is wrong with a state, one line each, at most 20; empty when it meets the model.

        `before` is a state known to meet it: records that are the same there are not looked at again.
        """
        if not isinstance(state, dict):
            return ["the state is no JSON object"]
        try:
            most = MAX_STATE if before is None else len(orjson.dumps(before)) + GROWTH
            if len(orjson.dumps(state)) > most:
                return [f"the state is larger than {most} bytes"]
        except TypeError as error:
            return [f"the state is no JSON: {error}"]
        token = _current.set(state)
        try:
            faults = []
            for fault in self._faults(state, before if isinstance(before, dict) else {}):
                faults.append(fault)
                if len(faults) == MAX_FAULTS:
                    break
            return faults
        finally:
            _current.reset(token)

    def _faults(self, state: dict[str, Any], before: dict[str, Any]) -> Iterator[str]:
        lost = {kind for kind, records in before.items() if not records.keys() <= _keys(state.get(kind))}
        for kind, records in state.items():
            known = self.kinds.get(kind)
            if known is None:
                yield f"/{_cut(kind)}: there is no such kind; kinds are {', '.join(self.kinds)}"
                continue
            if not isinstance(records, dict):
                yield f"/{kind}: must be an object of records by identifier"
                continue
            if len(records) > MAX_RECORDS:
                yield f"/{kind}: more than {MAX_RECORDS} records"
                continue
            old = before.get(kind, {})
            if records is old and not known.refers_to & lost:
                continue
            for identifier, record in records.items():
                if identifier in old and not known.refers_to & lost and old[identifier] == record:
                    continue
                yield from _record_faults(known, identifier, record)

    def identifiers(self, kind: str, state: Mapping[str, Any]) -> list[str]:
        """Identifiers of all records of a kind, in the state's order."""
        return list(state.get(kind) or {})

    def kind_of(self, name: str) -> str | None:
        """The kind whose identifier a property of this name holds: `order_id`, `orderId`, a kind's `identifier`."""
        return self._by_property.get(_plain(name))

    @cached_property
    def _by_property(self) -> dict[str, str]:
        found: dict[str, str | None] = {}
        for kind in self.kinds.values():
            names = {f"{_plain(kind.name)}id", f"{_plain(kind.name)}ids"}
            if kind.identifier and _plain(kind.identifier) not in _COMMON:
                names |= {_plain(kind.identifier), f"{_plain(kind.identifier)}s"}
            for name in names:
                found[name] = kind.name if found.get(name, kind.name) == kind.name else None
        return {name: kind for name, kind in found.items() if kind}


def _record_faults(kind: Kind, identifier: str, record: Any) -> Iterator[str]:
    where = f"/{kind.name}/{_cut(identifier)}"
    if not identifier.strip() or len(identifier) > 200:
        yield f"{where}: an identifier has 1 to 200 characters"
        return
    fault = best_match(kind.validator.iter_errors(record))
    if fault is not None:
        inner = "".join(f"/{step}" for step in fault.absolute_path)
        yield f"{where}{inner}: {_cut(fault.message, 200)}"
    elif kind.identifier and record.get(kind.identifier) != identifier:
        yield f"{where}/{kind.identifier}: must repeat the identifier {_cut(identifier)!r}"


@lru_cache(maxsize=512)
def _parse(text: str) -> EntityModel:
    try:
        model = orjson.loads(text)
    except ValueError as error:
        raise ValueError(f"the entity model is no JSON: {error}") from None
    if not isinstance(model, dict) or not model:
        raise ValueError("an entity model is a JSON object with at least one kind")
    if len(model) > MAX_KINDS:
        raise ValueError(f"an entity model has at most {MAX_KINDS} kinds, not {len(model)}")
    kinds = {name: _kind(name, value) for name, value in model.items()}
    for kind in kinds.values():
        for target in sorted(kind.refers_to - kinds.keys()):
            raise ValueError(f"kind {kind.name}: it refers to {_cut(target)!r}, which is no kind")
    return EntityModel(dump(model), kinds)


def _kind(name: str, value: Any) -> Kind:
    if not _KIND.fullmatch(name):
        raise ValueError(f"kind {_cut(name)!r}: a name is letters, digits and _, and begins with a letter")
    if not isinstance(value, dict) or not isinstance(value.get("schema"), dict) or value.keys() - _KEYS:
        raise ValueError(f'kind {name}: write {{"description": ..., "schema": ..., "identifier": property or absent}}')
    schema, description = value["schema"], value.get("description", "")
    if not isinstance(description, str):
        raise ValueError(f"kind {name}: its description must be text")
    spec = ToolSpec(id=name, name="kind", description="A kind.", input_schema=dump(schema), origin=SYNTHETIC)
    verdict = validate(spec, _SCHEMA_LIMITS)
    if not verdict.passed:
        detail = verdict.findings[0].detail if verdict.findings else verdict.reason
        raise ValueError(f"kind {name}: {detail}".replace("input schema", "schema"))
    identifier = value.get("identifier") or ""
    if identifier and not (isinstance(identifier, str) and identifier in schema.get("properties", {})):
        raise ValueError(f"kind {name}: its identifier {_cut(str(identifier))!r} is no property of its schema")
    if any(not isinstance(target, str) for target in _references(schema)):
        raise ValueError(f"kind {name}: x-ref must name a kind")
    return Kind(name, description, schema, identifier)


def _references(schema: Any) -> Iterator[Any]:
    stack = [schema]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            if "x-ref" in at and not isinstance(at["x-ref"], dict):
                yield at["x-ref"]
            stack += at.values()
        elif isinstance(at, list):
            stack += at


def _x_ref(validator: Validator, target: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword `x-ref`: every identifier in `value` is that of a record of the kind `target`."""
    records = _current.get({}).get(target)
    known = records if isinstance(records, dict) else {}
    for identifier in value if isinstance(value, list) else [value]:
        if isinstance(identifier, str) and identifier not in known:
            yield ValidationError(f"there is no {target} {_cut(identifier)!r}")


_Validator = validators.extend(linear(Draft202012Validator), {"x-ref": _x_ref})


def _keys(records: Any) -> Any:
    return records.keys() if isinstance(records, dict) else set()


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _cut(text: str, length: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 1]}…"
