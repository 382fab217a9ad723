"""From what a corpus weighs to what a training run reads of it: shares of tokens by domain, in phases, no source seen too often.

    web=.5,code=.25,math=.1,knowledge=.15   of 10B tokens: 5B tokens of web, ...

A source is exposed once for each epoch and each row that was made of it: a row whose source has three rows may be read
a third as often as one that stands alone. Domains are filled evenly, as far as the cap lets each of their strata; what
cannot be had is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.pipelines.corpus.weigh import LENGTHS
from tokenmill.schemas.corpus import DOMAINS

VERSION = 1
FILE = "mixture.json"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


class MixtureImpossible(ValueError):
    """The corpus does not hold what is asked for; the text is one line that says what would do."""


@dataclass(frozen=True)
class Phase:
    """A part of a training run."""

    name: str
    shares: Mapping[str, float]
    """By domain, of the tokens; they sum to 1."""
    tokens: int
    least_tokens: int = 0
    """Of the documents that are read."""


@dataclass(frozen=True)
class Stratum:
    """Rows that a mixture does not tell apart."""

    domain: str
    source_rows: int
    least_tokens: int
    tokens: int


def parse_shares(text: str) -> dict[str, float]:
    """`web=.5,code=.5` as shares that sum to 1.

    Raises:
        ValueError: not of that form, or they do not sum to 1.
    """
    shares: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        domain, _, share = part.partition("=")
        if domain not in DOMAINS or domain in shares:
            raise ValueError(f"{part}: write DOMAIN=SHARE, each once, of {', '.join(DOMAINS)}")
        try:
            shares[domain] = float(share)
        except ValueError:
            raise ValueError(f"{part}: the share is a number") from None
        if not 0 < shares[domain] <= 1:
            raise ValueError(f"{part}: a share is above 0 and at most 1")
    if shares and abs(sum(shares.values()) - 1) > 1e-6:
        raise ValueError(f"the shares sum to {sum(shares.values()):g}; they must to 1")
    return shares


def parse_tokens(text: str) -> int:
    """`10B`, `1.5M` or `300000` as a number.

    Raises:
        ValueError: not of that form.
    """
    unit = text[-1:].upper() if text[-1:].upper() in _UNITS else ""
    try:
        tokens = round(float(text[: len(text) - len(unit)].replace("_", "")) * _UNITS[unit])
    except (ValueError, OverflowError):
        tokens = 0
    if tokens < 1:
        raise ValueError("write a number of tokens, such as 300000, 1.5M or 10B")
    return tokens


def plan(strata: Sequence[Mapping[str, Any]], phases: Sequence[Phase], cap: float) -> dict[str, Any]:
    """The content of `mixture.json`.

    Args:
        strata: of `Manifest.strata`.
        cap: how often a source may be seen in all phases together, epochs and rephrasings counted.

    Raises:
        MixtureImpossible: a phase asks for more than that.
    """
    held = [Stratum(s["domain"], s["source_rows"], s["least_tokens"], s["tokens"]) for s in strata if s["tokens"]]
    seen = dict.fromkeys(held, 0.0)
    made = {}
    # Long documents are few: they are taken before the phases that could do without.
    for phase in sorted(phases, key=lambda phase: -phase.least_tokens):
        made[phase.name] = {"name": phase.name, "tokens": phase.tokens, "sources": _sources(phase, held, seen, cap)}
    return {
        "version": VERSION,
        "exposures": cap,
        "most_exposed": round(max((seen[s] * s.source_rows for s in held), default=0.0), 4),
        "phases": [made[phase.name] for phase in phases],
    }


def _sources(phase: Phase, held: Sequence[Stratum], seen: dict[Stratum, float], cap: float) -> list[dict[str, Any]]:
    sources = []
    for domain, share in phase.shares.items():
        wanted = share * phase.tokens
        mine = [s for s in held if s.domain == domain and s.least_tokens >= phase.least_tokens]
        left = {s: max(0.0, cap / s.source_rows - seen[s]) for s in mine}
        epochs = _level(mine, left, wanted)
        if epochs is None:
            had = sum(s.tokens * left[s] for s in mine)
            long = f" in documents of {phase.least_tokens:,} tokens and more" if phase.least_tokens else ""
            raise MixtureImpossible(
                f"{phase.name}: {domain}={share:g} of {phase.tokens:,} tokens is {wanted:,.0f}, and there are {had:,.0f}{long} "
                f"at {cap:g} exposures of a source; ask for a share of {_floor(had / phase.tokens)}, fewer tokens, "
                "or more exposures"
            )
        by_rows: dict[int, list[Stratum]] = {}
        for stratum in mine:
            by_rows.setdefault(stratum.source_rows, []).append(stratum)
        for rows, several in sorted(by_rows.items()):
            taken = {s: min(epochs, left[s]) for s in several}
            # Lengths of one kind are one source for as long as they may be read equally often.
            every = [s.least_tokens for s in held if (s.domain, s.source_rows) == (domain, rows)]
            for times in sorted(set(taken.values()) - {0.0}):
                sources.append(_source(phase, [s for s in several if taken[s] == times], every, times))
            for stratum, times in taken.items():
                seen[stratum] += times
    return sources


def _level(strata: Sequence[Stratum], left: Mapping[Stratum, float], wanted: float) -> float | None:
    """Epochs that, capped for each stratum, come to the tokens wanted; None where that is not to be had."""
    if sum(s.tokens * left[s] for s in strata) < wanted * (1 - 1e-9):
        return None
    taken, rest = 0.0, sum(s.tokens for s in strata)
    for stratum in sorted(strata, key=lambda s: left[s]):
        if taken + rest * left[stratum] >= wanted:
            return (wanted - taken) / rest
        taken, rest = taken + stratum.tokens * left[stratum], rest - stratum.tokens
    return max(left.values(), default=0.0)


def _source(phase: Phase, strata: Sequence[Stratum], every: Sequence[int], epochs: float) -> dict[str, Any]:
    """What is read of strata that differ in length alone, of which the corpus has `every` length."""
    domain, rows = strata[0].domain, strata[0].source_rows
    tokens = sum(s.tokens for s in strata)
    where: list[list[Any]] = [["domain", "=", domain], ["source_rows", "=", rows]]
    name = domain if rows == 1 else f"{domain}, {rows} rows of a source"
    if len(strata) < len(every):
        ranges = _ranges([s.least_tokens for s in strata])
        where.append(["tokens", "in", ranges])
        name += "".join(f", {least}-{'' if end is None else end} tokens" for least, end in ranges)
    return {
        "name": name,
        "where": where,
        "weight": tokens * epochs / phase.tokens,
        "tokens": tokens,
        "epochs": epochs,
    }


def _ranges(lengths: Sequence[int]) -> list[list[int | None]]:
    """Classes of length as ranges, those that touch as one."""
    ranges: list[list[int | None]] = []
    for least in sorted(lengths):
        end = next((other for other in LENGTHS if other > least), None)
        if ranges and ranges[-1][1] == least:
            ranges[-1][1] = end
        else:
            ranges.append([least, end])
    return ranges


def _floor(share: float) -> str:
    return f"{int(share * 1000) / 1000:g}"
