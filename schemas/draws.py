"""Randomness that depends on nothing but the seed and what is drawn for: the same whatever the runner, order or workers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


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


def shuffled(options: Sequence[T], *parts: object) -> list[T]:
    """All options in a drawn order."""
    return [
        option
        for _, _, option in sorted((digest(*parts, index), index, option) for index, option in enumerate(options))
    ]


def normal(*parts: object) -> float:
    """A standard normal deviate (Box-Muller)."""
    u, v = uniform(*parts, "u"), uniform(*parts, "v")
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)
