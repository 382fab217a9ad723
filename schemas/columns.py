"""Typed records and their Arrow schemas.

A row type is a frozen dataclass whose fields are made with `column(doc)`; `arrow_schema` derives the Parquet schema
from the annotations, and the documentation travels with it as field metadata (cards print it).
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

_SCALARS: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
}


def column(doc: str, *, json: bool = False, **kwargs: Any) -> Any:
    """A dataclass field with its documentation.

    Args:
        json: a text that always holds JSON, and is declared so: `datasets` gives what it stands for, other readers the text.
    """
    return dataclasses.field(metadata={"doc": doc, "json": json}, **kwargs)


def stored(kind: pa.DataType) -> pa.DataType:
    """An Arrow type with JSON as the plain text that it is stored as."""
    if isinstance(kind, pa.JsonType):
        return kind.storage_type
    if pa.types.is_list(kind):
        return pa.list_(stored(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, stored(f.type), f.nullable, f.metadata) for f in kind])
    return kind


def _arrow_type(annotation: Any) -> tuple[pa.DataType, bool]:
    """Arrow type and nullability of a Python annotation."""
    if annotation in _SCALARS:
        return _SCALARS[annotation], False
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType) and type(None) in args:
        (inner,) = (a for a in args if a is not type(None))
        return _arrow_type(inner)[0], True
    if origin in (list, tuple, typing.Sequence):
        return pa.list_(_arrow_type(args[0])[0]), False
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return pa.struct(_fields(annotation)), False
    raise TypeError(f"no Arrow type for {annotation!r}")


def _fields(row_type: type) -> list[pa.Field]:
    hints = typing.get_type_hints(row_type)
    fields = []
    for f in dataclasses.fields(row_type):
        arrow, nullable = _arrow_type(hints[f.name])
        if f.metadata.get("json"):
            arrow = pa.json_()
        doc = f.metadata.get("doc")
        fields.append(pa.field(f.name, arrow, nullable, {"doc": doc} if doc else None))
    return fields


@cache
def arrow_schema(row_type: type) -> pa.Schema:
    """The Arrow schema of a row type, in field order.

    Raises:
        TypeError: a field's annotation has no Arrow counterpart here.
    """
    return pa.schema(_fields(row_type))


@cache
def columns(row_type: type) -> tuple[tuple[str, str], ...]:
    """(name, documentation) of every column of a row type."""
    return tuple((f.name, f.metadata.get("doc", "")) for f in dataclasses.fields(row_type))


def _array(values: list[Any], annotation: Any, declared: pa.DataType) -> pa.Array:
    """A column, built from flat lists of scalars: nested rows become structs of columns, lists become offsets."""
    arrow, nullable = _arrow_type(annotation)
    if isinstance(declared, pa.JsonType):
        return pa.array(values, declared.storage_type).cast(declared)
    if nullable:
        (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
    if pa.types.is_list(arrow):
        (item,) = typing.get_args(annotation)[:1]
        offsets, flat = [0], []
        for value in values:
            if value is not None:
                flat.extend(value)
            offsets.append(len(flat))
        mask = pa.array([v is None for v in values], pa.bool_()) if nullable else None
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), _array(flat, item, arrow.value_type), type=arrow, mask=mask
        )
    if pa.types.is_struct(arrow):
        hints = typing.get_type_hints(annotation)
        mask = pa.array([v is None for v in values], pa.bool_()) if nullable else None
        children = [
            _array([_absent(hints[f.name]) if v is None else getattr(v, f.name) for v in values], hints[f.name], f.type)
            for f in arrow
        ]
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=mask)
    return pa.array(values, arrow)


def _absent(annotation: Any) -> Any:
    """What stands in the columns of a struct that is null: anything its type allows."""
    arrow, nullable = _arrow_type(annotation)
    if nullable:
        return None
    if pa.types.is_list(arrow):
        return []
    return {pa.string(): "", pa.bool_(): False, pa.binary(): b""}.get(arrow, 0)


def to_table(rows: Sequence[Any], row_type: type) -> pa.Table:
    """Rows of one type as an Arrow table, columns in declared order."""
    schema = arrow_schema(row_type)
    if not rows:
        return pa.Table.from_batches([], schema)  # making arrays imports pandas first, which takes a fifth of a second
    hints = typing.get_type_hints(row_type)
    arrays = [_array([getattr(row, field.name) for row in rows], hints[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def from_values(row_type: type, values: dict[str, Any]) -> Any:
    """A typed row from what Parquet or JSON holds, nested rows included; fields that are absent take their defaults.

    Raises:
        ValueError: a field without default is absent, or a value is of another type; the message names the field.
    """
    hints, given = typing.get_type_hints(row_type), {}
    for field in dataclasses.fields(row_type):
        value = values.get(field.name)
        if value is not None:
            given[field.name] = _value(value, hints[field.name], field.name)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            if not _arrow_type(hints[field.name])[1]:
                raise ValueError(f"no {field.name!r}")
            given[field.name] = None
    return row_type(**given)


def _value(value: Any, annotation: Any, name: str) -> Any:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        (annotation,) = (a for a in args if a is not type(None))
        return _value(value, annotation, name)
    if origin in (list, tuple, typing.Sequence):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{name!r} is no list")
        made = [_value(item, args[0], name) for item in value]
        return tuple(made) if origin is tuple else made
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        if not isinstance(value, dict):
            raise ValueError(f"{name!r} is no record")
        return from_values(annotation, value)
    if annotation is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, annotation) or (annotation is int and isinstance(value, bool)):
        raise ValueError(f"{name!r} is no {annotation.__name__}")
    return value
