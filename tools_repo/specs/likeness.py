"""When two tools are one: the same action on the same things, whatever the wording, the order or the origin.

    likeness = Likeness()
    first, second = await likeness.fingerprints([spec, other])
    likeness.score(first, second)      # 0.0 when they are different tools

Words in common (MinHash finds such pairs) or meaning in common (embeddings do) make two tools alike. What neither can see
makes them different again: an opposite action (`lock_door`, `unlock_door`), another or a narrower object in otherwise
equal boilerplate (`get_invoice`, `get_recurring_invoice`), an exchanged direction (`celsius_to_fahrenheit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import orjson
from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.schemas.tools import ORIGINS, SYNTHETIC, ToolSpec, canonical
from tokenmill.tools_repo.specs.words import (
    ACTIONS,
    DIRECTIONS,
    OPPOSITE,
    STOP,
    actions,
    name_key,
    opposed,
    split,
    stem,
    verb,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERMUTATIONS = 128
"""Length of a MinHash signature."""
PLANES = 512
"""Bits of the sign sketch of an embedding."""


@dataclass(frozen=True)
class Fingerprint:
    """What is known of one tool when it is compared. Arrays are sorted and hold hashes, unless said otherwise."""

    id: str
    key: int
    """Order of preference and identity in 64 bits: real tools before synthetic ones, then by a hash of the id."""
    server: str
    """Server of a real tool; empty for synthetic ones."""
    content: int
    """Hash of all that is shown to a model: equal for exact duplicates."""
    minhash: NDArray[np.uint32]
    """(PERMUTATIONS,), not sorted."""
    sketch: NDArray[np.uint8] | None
    """(PLANES / 8,), on which side of random planes the embedding lies; None without an embedder."""
    vector: NDArray[np.float16] | None
    """Unit embedding."""
    shingles: NDArray[np.uint32]
    words: NDArray[np.uint32]
    """Every word of name, description and argument names."""
    objects: NDArray[np.uint32]
    """Words of the name that are no action."""
    told: NDArray[np.uint32]
    """Those of them that the description repeats: what the tool is about."""
    name_key: int
    """Hash of kinds of action and of objects, singular told from plural: equal for names that say the same."""
    name: frozenset[str]
    """Words of the name."""
    actions: frozenset[str]
    directions: frozenset[tuple[str, str]]
    """Words of the name on both sides of a word such as `to`."""


class Embeds(Protocol):
    """What turns texts into vectors; `judges.embedding.similarity.Embedder` does. Picklable."""

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (len(texts), dimension), each independent of the other texts."""
        ...


@dataclass(frozen=True)
class Likeness:
    """Decides on pairs of tools; picklable configuration."""

    embedder: Embeds | None = field(default_factory=Embedder)
    """None compares words only."""
    words: float = 0.7
    """Jaccard similarity of the word shingles from which two tools are one."""
    meaning: float = 0.88
    """Cosine of the embeddings from which two tools are one."""
    meaning_same_name: float = 0.78
    """The same for tools whose names speak of the same action on the same things."""

    def __post_init__(self) -> None:
        for name in ("words", "meaning", "meaning_same_name"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"Likeness.{name} is in (0, 1], not {getattr(self, name)}")

    async def fingerprints(self, tools: Sequence[ToolSpec]) -> list[Fingerprint]:
        """One for each tool, independent of the others.

        Raises:
            ValueError: an input schema is no JSON.
        """
        vectors: Iterable[NDArray[np.float32] | None] = [None] * len(tools)
        if self.embedder is not None and tools:
            vectors = await self.embedder.embed([describe(tool) for tool in tools])
        return [_fingerprint(tool, vector) for tool, vector in zip(tools, vectors, strict=True)]

    def score(self, a: Fingerprint, b: Fingerprint) -> float:
        """How alike two tools are, in [0, 1]; 0.0 unless they are one and the same."""
        if a.content == b.content:
            return 1.0
        if a.server and a.server == b.server:  # whoever wrote that server means them to be two
            return 0.0
        jaccard = _jaccard(a.shingles, b.shingles)
        cosine = 0.0
        if a.vector is not None and b.vector is not None:
            cosine = float(a.vector.astype(np.float32) @ b.vector.astype(np.float32))
        words, meaning = self.words, self.meaning
        if _beyond(a.objects, b.words) or _beyond(b.objects, a.words):
            words, meaning = (1 + words) / 2, (1 + meaning) / 2
        elif a.name_key == b.name_key != 0:
            meaning = self.meaning_same_name
        if (jaccard < words and cosine < meaning) or _differ(a, b):
            return 0.0
        return round(min(1.0, max(jaccard, cosine)), 4)


def describe(tool: ToolSpec) -> str:
    """The tool in words, for embedding: name, description, arguments."""
    arguments = ", ".join(" ".join(split(name)) for name in _properties(tool))
    return f"{' '.join(split(tool.name))}: {tool.description}\nArguments: {arguments}"


def _fingerprint(tool: ToolSpec, vector: Any) -> Fingerprint:
    name = split(tool.original_name)
    server = set(split(tool.server))  # names often repeat it: `github_get_issue`
    text = [stem(word) for word in split(tool.description) if word not in STOP]
    arguments = [stem(word) for argument in _properties(tool) for word in split(argument)]
    stems = [stem(word) for word in name if word not in STOP]
    pairs = [f"{one} {two}" for one, two in pairwise(text)]
    shingles = {*(f"n:{w}" for w in stems), *text, *pairs, *(f"a:{w}" for w in arguments)}
    # A description that begins with a word of the name tells that this word is its verb: "Predicts ...", `predict_storm`.
    begins = {stem(word) for word in split(tool.description)[:1]}
    objects = {
        stem(word) for word in name
        if word not in STOP | server and verb(word) not in ACTIONS and not word.isdigit() and stem(word) not in begins
    }  # fmt: skip
    hashes = _hashes(shingles)
    half = None if vector is None else np.asarray(vector, np.float16)
    return Fingerprint(
        id=tool.id,
        key=_key(tool),
        server=tool.server,
        content=_content(tool),
        minhash=_minhash(hashes),
        sketch=None if vector is None else np.packbits(_planes(len(vector)) @ np.asarray(vector, np.float32) > 0),
        vector=half,
        shingles=hashes,
        words=_hashes({*text, *arguments, *stems}),
        objects=_hashes(objects),
        told=_hashes(objects & set(text)),
        name_key=name_key([word for word in name if word not in server]),
        name=frozenset(name),
        actions=actions(name, tool.description),
        directions=frozenset((a, b) for a, to, b in zip(name, name[1:], name[2:], strict=False) if to in DIRECTIONS),
    )


def _differ(a: Fingerprint, b: Fingerprint) -> bool:
    """Whether two tools whose texts are alike do different things all the same."""
    if opposed(a.actions, b.actions):
        return True
    if any(OPPOSITE.get(word) in b.name - a.name for word in a.name - b.name):
        return True
    if any((y, x) in b.directions for x, y in a.directions):
        return True
    if _beyond(a.told, b.words) or _beyond(b.told, a.words):
        return True
    return _beyond(a.objects, b.words) and _beyond(b.objects, a.words)


def _beyond(some: NDArray[np.uint32], others: NDArray[np.uint32]) -> bool:
    """Whether one of `some` is not among `others`, both sorted."""
    if not some.size or not others.size:
        return bool(some.size)
    at = np.minimum(np.searchsorted(others, some), others.size - 1)
    return bool((others[at] != some).any())


def _properties(tool: ToolSpec) -> list[str]:
    properties = tool.parameters.get("properties")
    return sorted(properties) if isinstance(properties, dict) else []


@lru_cache(maxsize=200_000)
def _hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "big")


def _hashes(words: Iterable[str]) -> NDArray[np.uint32]:
    return np.array(sorted({_hash(word) for word in words}), np.uint32)


def _minhash(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    from datasketch import MinHash

    mine = _blank_minhash(MinHash).copy()
    mine.update_batch(hashes.tolist())
    return np.asarray(mine.hashvalues, np.uint32)


@cache
def _blank_minhash(kind: Any) -> Any:
    return kind(num_perm=PERMUTATIONS, seed=1, hashfunc=int, scheme="affine32")


@cache
def _planes(dimension: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((PLANES, dimension), np.float32)


def _key(tool: ToolSpec) -> int:
    preference = int(tool.origin == SYNTHETIC) * len(ORIGINS) + ORIGINS.index(tool.origin)
    digest = int.from_bytes(blake2b(tool.id.encode(), digest_size=8).digest(), "big")
    return preference << 60 | digest >> 4


def _content(tool: ToolSpec) -> int:
    parts = orjson.dumps([tool.original_name, " ".join(tool.description.split()), canonical(tool.input_schema)])
    return int.from_bytes(blake2b(parts, digest_size=8).digest(), "big")


def _jaccard(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> float:
    common = np.intersect1d(a, b, assume_unique=True).size
    return common / max(1, a.size + b.size - common)
