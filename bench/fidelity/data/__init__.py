"""Passages of Wikipedia and honest paraphrases of them (see LICENSE.md for their licence)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

HALVES = ("dev", "test")
"""`test` may be empty, between two rounds of tuning."""


@dataclass(frozen=True)
class Pair:
    """A passage and one honest paraphrase of it."""

    id: str
    half: str
    """`dev` or `test`, a row's `half` in `passages.jsonl`."""
    title: str
    source: str
    rewrite: str
    style: str
    names: dict[str, list[str]]
    """Names of the passage that a fault may swap, by type: `person`, `place`, `org`, `work`."""
    other_names: dict[str, list[str]]
    """Names of the other passages of the same pool, by type. A row's pool is its half, if it names no other: a half that
    was moved keeps its own, so that the same names are swapped in as before."""


def _rows(name: str) -> list[dict[str, Any]]:
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def pairs(half: str | None = None) -> list[Pair]:
    """All pairs, or those of one half, in the order of the files."""
    passages = {row["id"]: row for row in _rows("passages.jsonl")}
    for row in passages.values():
        if row["half"] not in HALVES:
            raise ValueError(f"passages.jsonl: {row['id']} is in half {row['half']!r}, which is none of {HALVES}")
    pools: dict[str, dict[str, dict[str, None]]] = {}
    for row in passages.values():
        pool = pools.setdefault(row.setdefault("pool", row["half"]), {})
        for kind, names in row["names"].items():
            pool.setdefault(kind, {}).update(dict.fromkeys(names))
    found = []
    for row in _rows("paraphrases.jsonl"):
        passage = passages[row["passage"]]
        own = {name for names in passage["names"].values() for name in names}
        others = {kind: [n for n in names if n not in own] for kind, names in pools[passage["pool"]].items()}
        found.append(
            Pair(
                f"{passage['id']}/{row['style']}",
                passage["half"],
                passage["title"],
                passage["text"],
                row["text"],
                row["style"],
                passage["names"],
                others,
            )
        )
    return [pair for pair in found if half in (None, pair.half)]
