"""Reading back the rows that another run wrote."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from apache_beam.coders import registry
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.columns import from_values

MAX_ROW_BYTES = 20_000_000
"""Of a row that a stage wrote for the next: one of an agent with its tools and its world is long."""


@dataclass(frozen=True)
class RecordParser:
    """Makes a row of `row_type` of one that an earlier stage wrote, whatever further columns it has."""

    row_type: type

    def __post_init__(self) -> None:
        # Beam's row coder makes rows by position; keyword-only ones are pickled, as Beam does with types that it does not know.
        if not any(field.kw_only for field in dataclasses.fields(self.row_type)):
            registry.register_row(self.row_type)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(field.name for field in dataclasses.fields(self.row_type))

    @property
    def required(self) -> tuple[str, ...]:
        """Columns without which no row can be read."""
        return tuple(
            field.name
            for field in dataclasses.fields(self.row_type)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )

    def key(self, values: dict[str, Any], file: str, row: int) -> str | None:
        """The row's id, by which repetitions are found."""
        id = values.get("id")
        return id if isinstance(id, str) and id else None

    def __call__(self, values: dict[str, Any], file: str, row: int) -> Any:
        """Raises: RowUnreadable."""
        try:
            return from_values(self.row_type, values)
        except ValueError as error:
            id = self.key(values, file, row) or ""
            message = f"not a row of {self.row_type.__name__}: {error}"
            raise RowUnreadable("invalid_row", message, str(values)[:500], id) from None
