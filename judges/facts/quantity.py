"""A number, date or measure with every value that it may be read as, and when two of them are the same.

"half an hour" is 0.5 and 1,800 seconds, "30 minutes" is 30 and 1,800 seconds: two texts say the same where any reading is
shared, so there is one comparison instead of a rule for each way of putting it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tokenmill.judges.facts.units import same_dimension

Reading = tuple[str, float, float]
"""What is measured (`length`, `money USD`, `rank`, `date`, ...; empty for a bare number), how much, and in units of what size."""
_CALENDAR = frozenset(("date", "month", "century", "decade"))
_LOOSE = frozenset(("", "rank"))
"""A rank is also told as a number: the third week, week three."""
_UNMEASURED = _CALENDAR | _LOOSE | {"time"}
_ABOUT_SLACK = 0.08
"""Of a number that is told as about so much, against the exact one."""
_ROUNDED = 0.02
"""Of a measure told in another unit."""


@dataclass(frozen=True)
class Quantity:
    """A number, date or measure at `text[start:end]`."""

    start: int
    end: int
    readings: tuple[Reading, ...]
    strong: bool = True
    """False for what may be mere grammar: "one", "second", "both", "half"."""
    about: bool = False
    """Whether it is told as an approximation."""

    @cached_property
    def dimensions(self) -> frozenset[str]:
        """What it may measure."""
        return frozenset(dimension for dimension, _, _ in self.readings)

    @property
    def kind(self) -> str:
        """`date` or `number`, as findings name it."""
        year = self.dimensions == {""} and 1000 <= self.readings[0][1] <= 2100 and self.readings[0][1] % 1 == 0
        return "date" if year or self.dimensions & _CALENDAR else "number"

    def same_as(self, other: Quantity) -> bool:
        """Whether the two may mean the same: in one dimension that both measure, or else as bare numbers."""
        mine = [reading for reading in self.readings if reading[0] not in _LOOSE]
        theirs = [reading for reading in other.readings if reading[0] not in _LOOSE]
        shared = [(a, b) for a in mine for b in theirs if same_dimension(a[0], b[0])]
        if shared:
            if "date" in {a[0] for a, _ in shared}:
                shared = [(a, b) for a, b in shared if a[0] == "date"]
        elif mine and theirs:
            return False
        else:
            shared = [(a, b) for a in self.readings for b in other.readings if not a[0] and not b[0]]
        return any(self._agrees(a, other, b) for a, b in shared)

    def _agrees(self, mine: Reading, other: Quantity, theirs: Reading) -> bool:
        """Whether two amounts are equal, but for what a conversion rounds and what telling it roughly does."""
        one, another = mine[1], theirs[1]
        apart = abs(one - another) / max(abs(one), abs(another), 1e-300)
        if apart <= (1e-9 if mine[2] == theirs[2] else _ROUNDED):  # the same unit says the same number
            return True
        if self.about == other.about or apart > _ABOUT_SLACK:
            return False
        rough, exact = (mine, theirs) if self.about else (theirs, mine)
        return _digits(rough) <= _digits(exact)  # "about 1,502" is not what 1,500 is rounded to

    def comparable(self, other: Quantity) -> bool:
        """Whether the two are of one sort: both dates, both of one dimension, or both bare numbers."""
        if self.kind != other.kind:
            return False
        mine, theirs = self.dimensions - {""}, other.dimensions - {""}
        return not mine or not theirs or self.kind == "date" or any(same_dimension(a, b) for a in mine for b in theirs)

    def counts_rank(self, other: Quantity) -> bool:
        """Whether the one says which and the other how many: "the seventh", "seven"."""
        return ("rank" in self.dimensions) != ("rank" in other.dimensions)

    def other_unit_than(self, other: Quantity) -> bool:
        """Whether the bare numbers agree, and the units do not, though of one dimension: 5 km and 5 miles, A$22 and US$22."""
        if self.measured.isdisjoint(other.measured) or self.same_as(other):
            return False
        return any(not a[0] and not b[0] and a[1] == b[1] for a in self.readings for b in other.readings)

    @property
    def measured(self) -> frozenset[str]:
        """The sorts of things it measures with a unit: `length`, `money`, ..."""
        return frozenset(dimension.partition(" ")[0] for dimension in self.dimensions - _UNMEASURED)


def _digits(reading: Reading) -> int:
    """How many digits tell an amount in its unit, zeros behind them left out."""
    return len(f"{reading[1] / reading[2]:.6g}".partition("e")[0].replace(".", "").lstrip("-0").rstrip("0"))
