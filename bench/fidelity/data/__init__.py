"""Passages and versions of them, honest and faulty (see LICENSE.md for their licences).

The planted set: Wikipedia passages with honest paraphrases, in which `faults.py` plants faults. The foreign set: passages of
eight genres in eight languages, each with an honest version and one with a natural slip, both by independent writers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

HALVES = ("dev", "test")
"""`test` may be empty, between two rounds of tuning."""
VERSIONS = ("honest", "faulty")


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


@dataclass(frozen=True)
class Foreign:
    """A passage with the two versions that one writer made of it: they differ in the slip alone."""

    id: str
    half: str
    genre: str
    language: str
    title: str
    source: str
    writer: str
    form: str
    """What the version was to be, in the writer's words: "news report", "letter to a friend", ..."""
    honest: str
    faulty: str
    kind: str
    """Of the slip: `roles exchanged`, `wrong source`, ..."""
    slip: str
    """What the slip is, in one sentence of its writer's."""
    second_reader: dict[str, str]
    """What somebody who compared each version with its source called it: `faithful` or `unfaithful`."""


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


def foreign(half: str | None = None) -> list[Foreign]:
    """The foreign set, or one half of it, in the order of the files."""
    versions = {row.pop("passage"): row for row in _rows("foreign_versions.jsonl")}
    told = ("id", "half", "genre", "language", "title")
    found = [
        Foreign(**{key: row[key] for key in told}, source=row["text"], **versions[row["id"]])
        for row in _rows("foreign_passages.jsonl")
    ]
    return [passage for passage in found if half in (None, passage.half)]
