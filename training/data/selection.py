"""Which rows of shards are read, by their columns: what `mixture.json` of a corpus says of each of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EQUAL, WITHIN = "=", "in"


@dataclass(frozen=True)
class Condition:
    """One column, and what it must hold: a value, or a number within one of several ranges."""

    column: str
    operator: str
    value: Any
    """`EQUAL`: the value; `WITHIN`: pairs of the least number and the one before which the range ends, None for no end."""

    def mask(self, values: pa.ChunkedArray) -> np.ndarray:
        """(rows,), whether each meets it."""
        if self.operator == EQUAL:
            return np.asarray(pc.fill_null(pc.equal(values, self.value), False))
        numbers = np.asarray(values)
        met = np.zeros(len(numbers), bool)
        for least, end in self.value:
            met |= (numbers >= least) & (True if end is None else numbers < end)
        return met


@dataclass(frozen=True)
class Selection:
    """Conditions that all must hold; none selects every row."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def parse(cls, given: Sequence[Sequence[Any]]) -> Selection:
        """
        Raises:
            ValueError: not a list of [column, operator, value].
        """
        conditions = []
        for one in given:
            if len(one) != 3 or not isinstance(one[0], str) or one[1] not in (EQUAL, WITHIN):
                raise ValueError(f"{one!r} is no condition: write [column, {EQUAL!r} or {WITHIN!r}, value]")
            conditions.append(Condition(*one))
        return cls(tuple(conditions))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.column for one in self.conditions))

    def mask(self, table: pa.Table) -> np.ndarray:
        """(rows,), whether each is selected."""
        chosen = np.ones(table.num_rows, bool)
        for one in self.conditions:
            chosen &= one.mask(table.column(one.column))
        return chosen

    def described(self) -> list[list[Any]]:
        return [[one.column, one.operator, one.value] for one in self.conditions]


ALL = Selection()
"""Every row."""
