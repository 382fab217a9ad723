"""Word lists, written as people read them."""

from __future__ import annotations


def vocabulary(words: str) -> frozenset[str]:
    """The words of a blank-separated list."""
    return frozenset(words.split())
