"""Which styles and perspectives a document is rewritten in.

A style says in its front matter what it suits: its `genre` (styles of one genre read alike), the kinds of document
(`suits`, see `content.KINDS`; left out, all), and the length in `tokens` of the document, from and to; where only some
`perspectives` make sense with it, their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count as counting
from itertools import islice

from tokenmill.pipelines.knowledge.content import KINDS
from tokenmill.pipelines.knowledge.contracts import see_to
from tokenmill.prompts.own import OwnPrompt
from tokenmill.schemas.draws import shuffled

from tokenmill import prompts


@dataclass(frozen=True)
class Repertoire:
    """Which styles and perspectives a run draws from, by the names of their prompts."""

    styles: tuple[str, ...] = field(default_factory=lambda: prompts.names("styles"))
    perspectives: tuple[str, ...] = field(default_factory=lambda: prompts.names("perspectives"))
    own: tuple[OwnPrompt, ...] = ()
    """Those of them that the user brings."""


@dataclass(frozen=True)
class Style:
    """What a style's front matter says of its use."""

    name: str
    genre: str
    kinds: frozenset[str]
    least: int
    most: float
    """Tokens of a document that it suits."""
    perspectives: tuple[str, ...]
    """Those that make sense with it, as prompt names; a perspective may exclude styles."""

    def suits(self, kind: str, tokens: int) -> bool:
        return kind in self.kinds and self.least <= tokens <= self.most


@cache
def styles(among: Repertoire | None = None) -> tuple[Style, ...]:
    """Every style of a repertoire; without one, of all that are shipped.

    Raises:
        prompts.PromptError: a style's front matter names a kind that there is not, or a length that is none.
    """
    among = among or Repertoire()
    return tuple(_style(name, among.perspectives) for name in among.styles)


def _style(name: str, perspectives: Sequence[str] | None = None) -> Style:
    meta, short = prompts.load(name).meta, name.removeprefix("styles/")
    see_to(name)
    kinds = frozenset(meta.get("suits") or KINDS)
    if unknown := sorted(map(str, kinds - KINDS.keys())):
        raise prompts.PromptError(f"prompts/{name}.md: suits {', '.join(unknown)}; known kinds are {', '.join(KINDS)}")
    match meta.get("tokens") or (None, None):
        case (int() | None as least, int() | None as most):
            pass
        case other:
            raise prompts.PromptError(f"prompts/{name}.md: tokens must be [least, most], not {other!r}")
    fitting = tuple(
        p
        for p in (prompts.names("perspectives") if perspectives is None else perspectives)
        if short not in (prompts.load(p).meta.get("excludes") or ())
    )
    only = meta.get("perspectives") or ()
    fitting = tuple(p for p in fitting if p.rpartition("/")[2] in only) or fitting
    return Style(name, str(meta.get("genre") or short), kinds, least or 0, most or float("inf"), fitting)


@cache
def pairs(among: Repertoire | None = None) -> tuple[tuple[str, str], ...]:
    """Every (style, perspective) that makes sense."""
    return tuple((style.name, perspective) for style in styles(among) for perspective in style.perspectives)


def draw_pairs(
    count: int, seed: int, id: str, kind: str = "prose", tokens: int = 1000, among: Repertoire | None = None
) -> list[tuple[str, str]]:
    """`count` different pairs for one document, drawn by hash.

    Styles that suit its kind and length come first, one of each genre before a second of any, and each once before any comes
    with another perspective; the others only when those are used up.
    The first n of a longer draw are the draw of n, so raising `--rephrasings` keeps the rows already made.

    Raises:
        ValueError: more pairs are wanted than there are.
    """
    if count > (there := len(pairs(among))):
        raise ValueError(f"{count} rephrasings were asked for, but there are {there} style-perspective pairs")
    suiting = [style for style in styles(among) if style.suits(kind, tokens)]
    others = [style for style in styles(among) if not style.suits(kind, tokens)]
    drawn = list(islice(_drawn(suiting, count, seed, id), count))
    return drawn + list(islice(_drawn(others, count, seed, id), count - len(drawn)))


def _drawn(suiting: list[Style], count: int, seed: int, id: str) -> Iterator[tuple[str, str]]:
    """Every pair of these styles in the order of the draw; of the perspectives of a style, the first `count`."""
    order = _by_genre(shuffled(suiting, seed, id, "styles"))
    for turn in range(count):
        for style in order:
            perspectives = shuffled(style.perspectives, seed, id, style.name, first=turn + 1)
            if turn < len(perspectives):
                yield style.name, perspectives[turn]


def _by_genre(order: list[Style]) -> list[Style]:
    """The styles with those first that are the first of their genre, then the second ones, and so on."""
    places: dict[str, Iterator[int]] = {}
    ranked = [(next(places.setdefault(style.genre, counting())), style) for style in order]
    return [style for _, style in sorted(ranked, key=lambda pair: pair[0])]
