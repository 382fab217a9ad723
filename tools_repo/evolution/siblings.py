"""What has been made already, and how near something new may come to it.

    siblings = Siblings(Distinct())
    new = await siblings.describe(id, name, description)
    repeated = siblings.repetition(new)        # None, or what it is too near to
    siblings.add(new)

A step that makes one more of a kind is shown its siblings (`view`, bounded) and must differ from each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.schemas.draws import shuffled
from tokenmill.tools_repo.specs.likeness import Embeds
from tokenmill.tools_repo.specs.words import STOP, split, stem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAME_NAME, TOO_SIMILAR = "same_name", "too_similar"
"""Why a domain is refused as a repetition."""

VIEW = 40
"""Siblings shown at most,"""
NEAREST = 25
"""of which so many are those nearest to what is being worked on; the others are a sample of the rest."""
_LINE = 140


@dataclass(frozen=True)
class Distinct:
    """How different two siblings must be; picklable configuration."""

    embedder: Embeds | None = field(default_factory=Embedder)
    """None compares words only."""
    words: float = 0.6
    """Jaccard similarity of the words of name and description from which two are one."""
    meaning: float = 0.88
    """Cosine of the embeddings from which two are one."""

    def __post_init__(self) -> None:
        for name in ("words", "meaning"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"Distinct.{name} is in (0, 1], not {getattr(self, name)}")


@dataclass(frozen=True)
class Sibling:
    """One that was made: what is shown of it and compared."""

    id: str
    name: str
    line: str
    """What it is, in one line."""
    key: frozenset[str]
    """Stems of its name: equal for names that say the same."""
    words: frozenset[str]
    vector: NDArray[np.float32] | None


@dataclass(frozen=True)
class Repetition:
    """A sibling that something new is too near to."""

    of: Sibling
    reason: str
    similarity: float

    @property
    def detail(self) -> str:
        if self.reason == SAME_NAME:
            return f'it has the name of the existing "{self.of.name}"'
        return f'it is too near to the existing "{self.of.name}" (similarity {self.similarity:.2f})'


class Siblings:
    """Siblings in the order in which they were made."""

    def __init__(self, distinct: Distinct) -> None:
        self.distinct = distinct
        self._made: list[Sibling] = []

    def __len__(self) -> int:
        return len(self._made)

    async def describe(self, id: str, name: str, description: str) -> Sibling:
        """Something new, ready to be compared."""
        key = stems(name)
        vector = None
        if self.distinct.embedder is not None:
            (vector,) = await self.distinct.embedder.embed([f"{name}: {description}"])
        return Sibling(id, name, first_line(description), key, key | stems(description), vector)

    def repetition(self, new: Sibling) -> Repetition | None:
        """The sibling that `new` repeats; None when it differs from all."""
        nearest, most = None, 0.0
        for other in self._made:
            if other.key == new.key:
                return Repetition(other, SAME_NAME, 1.0)
            words = _jaccard(new.words, other.words)
            meaning = 0.0
            if new.vector is not None and other.vector is not None:
                meaning = float(new.vector @ other.vector)
            if (words >= self.distinct.words or meaning >= self.distinct.meaning) and max(words, meaning) > most:
                nearest, most = other, max(words, meaning)
        return None if nearest is None else Repetition(nearest, TOO_SIMILAR, round(min(1.0, most), 4))

    def add(self, new: Sibling) -> None:
        self._made.append(new)

    def view(self, towards: str, *draw: object) -> str:
        """Names and one-line descriptions: of all, or of those nearest to `towards` and a sample drawn for `draw`."""
        return view([(sibling.name, sibling.line) for sibling in self._made], towards, *draw)


def view(made: Sequence[tuple[str, str]], towards: str, *draw: object) -> str:
    """(name, line) pairs as a list to be shown, bounded, in the order in which they were made."""
    if len(made) > VIEW:
        aim = stems(towards)
        order = sorted(range(len(made)), key=lambda at: (-_jaccard(aim, stems(" ".join(made[at]))), at))
        near, far = order[:NEAREST], order[NEAREST:]
        places = sorted([*near, *shuffled(sorted(far), *draw, first=VIEW - NEAREST)])
        made = [made[at] for at in places]
    return "\n".join(f"- {name}: {line}" for name, line in made) or "(none yet)"


def first_line(text: str) -> str:
    """The first sentence of a description, cut to a line."""
    flat = " ".join(text.split())
    end = flat.find(". ")
    flat = flat[: end + 1] if 0 < end < _LINE else flat
    return flat if len(flat) <= _LINE else f"{flat[: _LINE - 1]}…"


def stems(text: str) -> frozenset[str]:
    """Stems of the words that carry meaning."""
    return frozenset(stem(word) for word in split(text) if word not in STOP)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / max(1, len(one | other))
