"""Which styles and perspectives a document is rewritten in."""

from __future__ import annotations

from functools import cache

import prompts
from schemas.draws import shuffled


@cache
def pairs() -> tuple[tuple[str, str], ...]:
    """Every (style, perspective) that makes sense, as prompt names; a perspective may exclude styles."""
    return tuple(
        (style, perspective)
        for style in prompts.names("styles")
        for perspective in prompts.names("perspectives")
        if style.removeprefix("styles/") not in (prompts.load(perspective).meta.get("excludes") or ())
    )


def draw_pairs(count: int, seed: int, id: str) -> list[tuple[str, str]]:
    """`count` different pairs for one document, drawn by hash; no style comes twice before each has come once.

    The first n of a longer draw are the draw of n, so raising `--rephrasings` keeps the rows already made.

    Raises:
        ValueError: more pairs are wanted than there are.
    """
    drawn = shuffled(pairs(), seed, id, "pairs")
    if count > len(drawn):
        raise ValueError(f"{count} rephrasings were asked for, but there are {len(drawn)} style-perspective pairs")
    rounds: list[list[tuple[str, str]]] = []
    seen: dict[str, int] = {}
    for pair in drawn:
        turn = seen.get(pair[0], 0)
        seen[pair[0]] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(pair)
    return [pair for turn in rounds for pair in turn][:count]
