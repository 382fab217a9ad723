"""Randomness that depends on nothing but the seed and what is drawn for: the same whatever the runner, order or workers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1


def digest(*parts: object) -> int:
    """A 64-bit hash of the parts, which are told apart (`("ab", "c")` differs from `("a", "bc")`)."""
    text = "\x1f".join(f"{len(p)}:{p}" for p in map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def uniform(*parts: object) -> float:
    """A number in [0, 1)."""
    return digest(*parts) / 2**64


def pick(options: Sequence[T], *parts: object) -> T:
    """One of the options, each equally likely."""
    return options[digest(*parts) % len(options)]


def shuffled(options: Sequence[T], *parts: object, first: int | None = None) -> list[T]:
    """All options in a drawn order, or the `first` few of it (Fisher-Yates over a SplitMix64 stream from the hash)."""
    order, state = list(options), digest(*parts)
    count = len(order) if first is None else min(first, len(order))
    for place in range(count):
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        other = place + (mixed ^ (mixed >> 31)) % (len(order) - place)
        order[place], order[other] = order[other], order[place]
    return order[:count]


def normal(*parts: object) -> float:
    """A standard normal deviate (Box-Muller)."""
    u, v = uniform(*parts, "u"), uniform(*parts, "v")
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)
