"""Which styles and perspectives a document is rewritten in."""

from __future__ import annotations

from functools import cache

from tokenmill.schemas.draws import shuffled

from tokenmill import prompts


@cache
def perspectives_by_style() -> dict[str, tuple[str, ...]]:
    """For every style the perspectives that make sense with it, as prompt names; a perspective may exclude styles."""
    return {
        style: tuple(
            perspective
            for perspective in prompts.names("perspectives")
            if style.removeprefix("styles/") not in (prompts.load(perspective).meta.get("excludes") or ())
        )
        for style in prompts.names("styles")
    }


def pairs() -> tuple[tuple[str, str], ...]:
    """Every (style, perspective) that makes sense."""
    return tuple((style, perspective) for style, fitting in perspectives_by_style().items() for perspective in fitting)


def draw_pairs(count: int, seed: int, id: str) -> list[tuple[str, str]]:
    """`count` different pairs for one document, drawn by hash; no style comes twice before each has come once.

    The first n of a longer draw are the draw of n, so raising `--rephrasings` keeps the rows already made.

    Raises:
        ValueError: more pairs are wanted than there are.
    """
    fitting = perspectives_by_style()
    available = sum(map(len, fitting.values()))
    if count > available:
        raise ValueError(f"{count} rephrasings were asked for, but there are {available} style-perspective pairs")
    styles = shuffled(tuple(fitting), seed, id, "styles", first=count)
    drawn: list[tuple[str, str]] = []
    turn = 0
    while len(drawn) < count:
        for style in styles:
            perspectives = shuffled(fitting[style], seed, id, style, first=turn + 1)
            if turn < len(perspectives) and len(drawn) < count:
                drawn.append((style, perspectives[turn]))
        turn += 1
    return drawn
