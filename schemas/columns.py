"""Typed records and their Arrow schemas.

A row type is a frozen dataclass whose fields are made with `column(doc)`; `arrow_schema` derives the Parquet schema
from the annotations, and the documentation travels with it as field metadata (cards print it).
"""

from __future__ import annotations

import dataclasses
import types
import typing
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


def column(doc: str, **kwargs: Any) -> Any:
    """A dataclass field with its documentation."""
    return dataclasses.field(metadata={"doc": doc}, **kwargs)


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
    if dataclasses.is_dataclass(annotation):
        return pa.struct(_fields(annotation)), False
    raise TypeError(f"no Arrow type for {annotation!r}")


def _fields(row_type: type) -> list[pa.Field]:
    hints = typing.get_type_hints(row_type)
    fields = []
    for f in dataclasses.fields(row_type):
        arrow, nullable = _arrow_type(hints[f.name])
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


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if dataclasses.is_dataclass(value):
        return {name: _plain(getattr(value, name)) for name, _ in columns(type(value))}
    return value


def to_table(rows: list[Any], row_type: type) -> pa.Table:
    """Rows of one type as an Arrow table, columns in declared order."""
    schema = arrow_schema(row_type)
    arrays = [
        pa.array([_plain(getattr(row, field.name)) for row in rows], type=field.type) for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
