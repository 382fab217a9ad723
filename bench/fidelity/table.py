"""Count verdicts per fault and half, and print them as a Markdown table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt

HONEST = "honest, refused"
FACTS = ("number changed", "date shifted", "name swapped")
ALL_FACTS = "number, date or name"
"""Row that adds the three up."""


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
    """Cells by row (half, fault) and column (a combination of checks)."""

    columns: Sequence[str]
    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)

    def count(self, half: str, row: str, refused: dict[str, bool]) -> None:
        """Enter one text: for each column whether it was refused; a column left out (undecided) is not counted."""
        for column, was in refused.items():
            cell = self.cells.setdefault((half, row, column), Cell())
            cell.total += 1
            cell.refused += was
        if row in FACTS:
            self.count(half, ALL_FACTS, refused)

    def cell(self, half: str, row: str, column: str) -> Cell:
        return self.cells.get((half, row, column), Cell())

    def markdown(self, halves: Iterable[str]) -> str:
        rows = list(dict.fromkeys(row for _, row, _ in self.cells if row != ALL_FACTS))
        if set(FACTS) <= set(rows):
            rows.insert(rows.index(FACTS[-1]) + 1, ALL_FACTS)
        lines = [f"| half | text | {' | '.join(self.columns)} |", f"|---|---|{'---|' * len(self.columns)}"]
        for half in halves:
            lines += [
                f"| {half} | {row} | {' | '.join(str(self.cell(half, row, column)) for column in self.columns)} |"
                for row in rows
            ]
        return "\n".join(lines)
