"""Count what was refused or asked about, and print the counts as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt


@dataclass
class Cell:
    """Of `total` texts, how many some checks refused."""

    refused: int = 0
    total: int = 0

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the share refused."""
        if not self.total:
            return 0.0, 1.0
        z, n, p = 1.959964, self.total, self.refused / self.total
        middle, spread = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (middle - spread) / (1 + z * z / n)), min(1.0, (middle + spread) / (1 + z * z / n))

    def __str__(self) -> str:
        if not self.total:
            return "-"
        low, high = self.interval()
        return f"{self.refused}/{self.total} = {self.refused / self.total:.1%} ({low:.1%} to {high:.1%})"


@dataclass
class Table:
    """Cells by row and column. `first` heads the column of the rows' names."""

    first: str
    columns: Sequence[str]
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)

    def count(self, row: str, refused: Mapping[str, bool]) -> None:
        """Enter one text: for each column whether it was refused; a column left out (undecided) is not counted."""
        for column, was in refused.items():
            cell = self.cells.setdefault((row, column), Cell())
            cell.total += 1
            cell.refused += was

    def cell(self, row: str, column: str) -> Cell:
        return self.cells.get((row, column), Cell())

    def markdown(self) -> str:
        rows = dict.fromkeys(row for row, _ in self.cells)
        lines = [f"| {self.first} | {' | '.join(self.columns)} |", f"|---|{'---|' * len(self.columns)}"]
        lines += [f"| {row} | {' | '.join(str(self.cell(row, column)) for column in self.columns)} |" for row in rows]
        return "\n".join(lines)
