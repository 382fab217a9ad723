"""What environments and finished runs cover, by topic, and what they cover too little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

UNDER = 0.5
"""A topic with less than this share of what it would have if all had the same is under-covered."""


def under_covered(counts: Mapping[str, int], wanted: Iterable[str] = ()) -> list[str]:
    """Topics with far fewer tasks than their share, those without any first; each is rarer than the next.

    Args:
        wanted: topics that ought to be there, whether or not they have tasks.
    """
    whole = {**dict.fromkeys(wanted, 0), **counts}
    if not whole:
        return []
    share = sum(whole.values()) / len(whole)
    few = [topic for topic, count in whole.items() if count < UNDER * share or not count]
    return sorted(few, key=lambda topic: (whole[topic], topic))


def counted(topics: Iterable[Iterable[str]]) -> Counter[str]:
    """How many tasks each topic has; a task counts for each of its topics."""
    return Counter(topic for one in topics for topic in one)
