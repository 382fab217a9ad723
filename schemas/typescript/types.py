"""TypeScript type expressions and the ways to join them, with brackets where precedence needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_TUPLE_AND_REST = 64
"""Tuples longer than this are written as arrays of any of their types."""


@dataclass(frozen=True)
class Type:
    """A type expression."""

    text: str
    level: int = 0
    """How loosely it binds: 0 needs no brackets anywhere, 1 is an intersection, 2 a union."""
    wide: bool = False
    """Whether it is, or may be, a union: two of them intersected multiply, and the compiler gives up at 100,000."""

    def within(self, level: int) -> str:
        """The text, in brackets if it binds more loosely than `level`."""
        return f"({self.text})" if self.level > level else self.text


ANY, NEVER = Type("any"), Type("never")


def union(options: Sequence[Type]) -> Type:
    """Any of the options; nothing at all (`never`) if there are none."""
    distinct = list(dict.fromkeys(option for option in options if option != NEVER))
    if ANY in distinct:
        return ANY
    if len(distinct) < 2:
        return distinct[0] if distinct else NEVER
    return Type(" | ".join(dict.fromkeys(option.within(1) for option in distinct)), 2, True)


def intersection(parts: Sequence[Type]) -> Type:
    """All of the parts at once. Of several unions only the first is kept, which widens the type."""
    kept: list[Type] = []
    for part in dict.fromkeys(part for part in parts if part != ANY):
        if not (part.wide and any(other.wide for other in kept)):
            kept.append(part)
    if NEVER in kept:
        return NEVER
    if len(kept) < 2:
        return kept[0] if kept else ANY
    return Type(" & ".join(part.within(0) for part in kept), 1, any(part.wide for part in kept))


def array(item: Type) -> Type:
    """An array of any length."""
    return Type(f"{item.within(0)}[]")


def tuple_type(first: Sequence[Type], needed: float, rest: Type) -> Type:
    """An array that begins with `first`, of which `needed` must be there, and goes on with any number of `rest`."""
    if len(first) > _TUPLE_AND_REST:
        return array(union([*first, rest]))
    parts = [item.text if at < needed else f"{item.within(0)}?" for at, item in enumerate(first)]
    if rest != NEVER:
        parts.append(f"...{array(rest).text}")
    return Type(f"[{', '.join(parts)}]")


def object_type(fields: Sequence[tuple[list[str], str]]) -> Type:
    """An object of fields, each with the comment lines above it."""
    if not fields:
        return Type("{}")
    lines: list[str] = []
    for at, (remarks, text) in enumerate(fields):
        lines += remarks
        lines += f"{text}{',' if at < len(fields) - 1 else ''}".split("\n")
    return Type("\n".join(["{", *(f"  {line}" for line in lines), "}"]))
