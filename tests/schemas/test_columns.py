from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.columns import arrow_schema, column, columns, to_table


@dataclass(frozen=True)
class Inner:
    name: str = column("a name")
    weights: list[float] = column("weights")


@dataclass(frozen=True)
class Outer:
    id: str = column("identifier")
    count: int = column("a count")
    flag: bool = column("yes or no")
    note: str | None = column("maybe a note")
    one: Inner = column("one inner row")
    maybe: Inner | None = column("perhaps an inner row")
    many: list[Inner] = column("inner rows")
    words: list[str] = column("words")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
INNER = st.builds(Inner, TEXT, st.lists(st.floats(allow_nan=False), max_size=3))
OUTER = st.builds(
    Outer, TEXT, st.integers(-(2**40), 2**40), st.booleans(), st.none() | TEXT, INNER, st.none() | INNER,
    st.lists(INNER, max_size=3), st.lists(TEXT, max_size=3),
)  # fmt: skip


def plain(value):
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, (Inner, Outer)):
        return {name: plain(getattr(value, name)) for name, _ in columns(type(value))}
    return value


@given(st.lists(OUTER, max_size=6))
def test_a_table_holds_what_the_rows_hold(rows):
    table = to_table(rows, Outer)
    table.validate(full=True)
    assert table.schema.equals(arrow_schema(Outer))
    assert table.to_pylist() == [plain(row) for row in rows]


def test_documentation_travels_with_the_schema():
    assert arrow_schema(Outer).field("count").metadata == {b"doc": b"a count"}
    assert columns(Inner) == (("name", "a name"), ("weights", "weights"))


def test_a_type_without_arrow_counterpart_is_an_error():
    @dataclass(frozen=True)
    class Odd:
        value: complex = column("no such thing")

    with pytest.raises(TypeError, match="no Arrow type"):
        arrow_schema(Odd)


def test_only_optional_columns_are_nullable():
    schema = arrow_schema(Outer)
    assert [f.name for f in schema if f.nullable] == ["note", "maybe"]
    assert schema.field("many").type == pa.list_(schema.field("one").type)
