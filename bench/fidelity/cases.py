"""The texts that the bench has judged: each set as one list of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenmill.bench.fidelity.data import VERSIONS, Pair, foreign, pairs
from tokenmill.bench.fidelity.faults import FAULTS, plant
from tokenmill.schemas.draws import digest

HONEST, FAULTY = VERSIONS


@dataclass(frozen=True)
class Case:
    """A version of a passage, to be judged against it."""

    id: str
    version: str
    """`HONEST`, `FAULTY`, or for a planted fault its name and number."""
    half: str
    title: str
    language: str
    source: str
    rewrite: str
    honest: str
    """The honest version that the case is, or was made of."""
    form: str = ""
    genre: str = ""
    kind: str = ""
    """Of the fault; of an honest version what its sibling has."""

    @property
    def faulty(self) -> bool:
        return self.version != HONEST


def foreign_cases(half: str) -> list[Case]:
    """Both versions of each passage of a half of the foreign set."""
    return [
        Case(p.id, version, half, p.title, p.language, p.source, text, p.honest, p.form, p.genre, p.kind)
        for p in foreign(half)
        for version, text in ((HONEST, p.honest), (FAULTY, p.faulty))
    ]


def planted_cases(half: str, variants: int = 1, seed: int = 0, paraphrases: int | None = None) -> list[Case]:
    """Every honest paraphrase of a half of the planted set, or `paraphrases` of them drawn by hash, and up to `variants` of
    each fault planted in it."""
    chosen: Sequence[Pair] = pairs(half)
    if paraphrases:
        chosen = sorted(chosen, key=lambda pair: digest("paraphrase", seed, pair.id))[:paraphrases]
    found = []
    for pair in chosen:
        told = (half, pair.title, "en", pair.source)
        found.append(Case(pair.id, HONEST, *told, pair.rewrite, pair.rewrite))
        for fault in FAULTS:
            for number, text in enumerate(plant(pair, fault, variants, seed)):
                found.append(Case(pair.id, f"{fault} {number}", *told, text, pair.rewrite, kind=fault))
    return found
