"""When two tools are one: the same action on the same things, whatever the wording, the order or the origin.

    likeness = Likeness()
    first, second = await likeness.fingerprints([spec, other])
    likeness.score(first, second)      # 0.0 when they are different tools

Words in common (MinHash finds such pairs) or meaning in common (embeddings do) make two tools alike. What neither can see
makes them different again: an opposite action (`lock_door`, `unlock_door`), another or a narrower object in otherwise
equal boilerplate (`get_invoice`, `get_recurring_invoice`), an exchanged direction (`celsius_to_fahrenheit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import orjson

from judges.similarity import Embedder
from schemas.tools import ORIGINS, SYNTHETIC, ToolSpec, canonical

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERMUTATIONS = 128
"""Length of a MinHash signature."""
PLANES = 512
"""Bits of the sign sketch of an embedding."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_STOP_WORDS = (
    "a an and are as at be by for from given if in into is it its of on one or that the this to tool use used using which "
    "will with you your return returns returned provide provides specific specified optional api mcp function"
)
_STOP = frozenset(_STOP_WORDS.split())
_KINDS = {
    "get": "get fetch retrieve read show view obtain return see display describe check inspect monitor track report count",
    "search": "search find query lookup look locate discover",
    "list": "list browse enumerate",
    "create": "create add insert new make register book compose generate build draft reserve schedule place post capture",
    "update": "update edit modify change patch rename adjust revise amend alter set reschedule replace move",
    "delete": "delete remove drop erase clear destroy purge uninstall unregister discard cancel revoke",
    "start": "start begin launch enable activate resume unlock connect mount subscribe arm deploy play unmute open",
    "stop": "stop end halt disable deactivate pause suspend lock disconnect unmount unsubscribe disarm mute close shutdown",
    "run": "run execute perform invoke call do",
    "compute": "compute calculate estimate evaluate determine forecast predict",
    "send": "send publish dispatch upload push export write forward",
    "take": "receive download pull import",
    "more": "increase raise encrypt encode compress zip lend credit deposit buy approve accept follow like assign grant "
    "archive attach",
    "less": "decrease reduce lower decrypt decode decompress unzip extract borrow debit withdraw sell reject decline "
    "unfollow unlike unassign deny unarchive restore detach",
}
_ACTIONS = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_KINDRED = (
    {"get", "search"}, {"get", "list"}, {"search", "list"}, {"get", "take"}, {"get", "compute"}, {"create", "start"},
    {"create", "send"}, {"update", "more"}, {"update", "less"}, {"delete", "stop"}, {"delete", "less"}, {"start", "more"},
    {"stop", "less"}, {"create", "more"}, {"run", "start"}, {"run", "compute"}, {"run", "search"}, {"run", "get"},
)  # fmt: skip
"""Kinds of action that different words for one action may fall into."""
_OPPOSITES = (
    "on off", "up down", "in out", "left right", "min max", "minimum maximum", "first last", "next previous", "before after",
    "public private", "incoming outgoing", "read write", "start end", "upload download", "open close", "ascending descending",
    "input output", "old new", "local remote", "forward back", "forward backward", "top bottom", "horizontal vertical",
)  # fmt: skip
_OPPOSITE = {a: b for pair in _OPPOSITES for a, b in (pair.split(), pair.split()[::-1])}
_DIRECTIONS = frozenset({"to", "from", "into", "before", "after", "2", "vs"})


@dataclass(frozen=True)
class Fingerprint:
    """What is known of one tool when it is compared. Arrays are sorted and hold hashes, unless said otherwise."""

    id: str
    key: int
    """Order of preference and identity in 64 bits: real tools before synthetic ones, then by a hash of the id."""
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
    """What turns texts into vectors; `judges.similarity.Embedder` does. Picklable."""

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
        vectors: Sequence[Any] = [None] * len(tools)
        if self.embedder is not None and tools:
            vectors = await self.embedder.embed([describe(tool) for tool in tools])
        return [_fingerprint(tool, vector) for tool, vector in zip(tools, vectors, strict=True)]

    def score(self, a: Fingerprint, b: Fingerprint) -> float:
        """How alike two tools are, in [0, 1]; 0.0 unless they are one and the same."""
        if a.content == b.content:
            return 1.0
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
    arguments = ", ".join(" ".join(_split(name)) for name in _properties(tool))
    return f"{' '.join(_split(tool.name))}: {tool.description}\nArguments: {arguments}"


def _fingerprint(tool: ToolSpec, vector: Any) -> Fingerprint:
    name = _split(tool.original_name)
    server = set(_split(tool.server))  # names often repeat it: `github_get_issue`
    text = [_stem(word) for word in _split(tool.description) if word not in _STOP]
    arguments = [_stem(word) for argument in _properties(tool) for word in _split(argument)]
    stems = [_stem(word) for word in name if word not in _STOP]
    pairs = [f"{one} {two}" for one, two in pairwise(text)]
    shingles = {*(f"n:{w}" for w in stems), *text, *pairs, *(f"a:{w}" for w in arguments)}
    # A description that begins with a word of the name tells that this word is its verb: "Predicts ...", `predict_storm`.
    begins = {_stem(word) for word in _split(tool.description)[:1]}
    objects = {
        _stem(word) for word in name
        if word not in _STOP | server and _verb(word) not in _ACTIONS and not word.isdigit() and _stem(word) not in begins
    }  # fmt: skip
    hashes = _hashes(shingles)
    half = None if vector is None else np.asarray(vector, np.float16)
    return Fingerprint(
        id=tool.id,
        key=_key(tool),
        content=_content(tool),
        minhash=_minhash(hashes),
        sketch=None if vector is None else np.packbits(_planes(len(vector)) @ np.asarray(vector, np.float32) > 0),
        vector=half,
        shingles=hashes,
        words=_hashes({*text, *arguments, *stems}),
        objects=_hashes(objects),
        told=_hashes(objects & set(text)),
        name_key=_name_key([word for word in name if word not in server]),
        name=frozenset(name),
        actions=_actions(name, tool.description),
        directions=frozenset((a, b) for a, to, b in zip(name, name[1:], name[2:], strict=False) if to in _DIRECTIONS),
    )


def _actions(name: list[str], description: str) -> frozenset[str]:
    """Kinds of action that the name speaks of; the first verb of the description where the name has none."""
    found = {_ACTIONS[word] for word in map(_verb, name) if word in _ACTIONS}
    if not found:
        verbs = (word for word in map(_verb, _split(description)[:4]) if word in _ACTIONS)
        found = {_ACTIONS[word] for word in verbs}
    return frozenset(found)


def _name_key(name: list[str]) -> int:
    """0 for a name that says too little: no object, or a single one and no action."""
    kinds = sorted({_ACTIONS[_verb(word)] for word in name if _verb(word) in _ACTIONS})
    objects = sorted({word for word in name if _verb(word) not in _ACTIONS and word not in _STOP})
    if not objects or len(kinds) + len(objects) < 2:
        return 0
    return int.from_bytes(blake2b(orjson.dumps([kinds, objects]), digest_size=8).digest(), "big") | 1


def _differ(a: Fingerprint, b: Fingerprint) -> bool:
    """Whether two tools whose texts are alike do different things all the same."""
    opposed = a.actions and b.actions and not a.actions & b.actions
    if opposed and not any({x, y} in _KINDRED for x in a.actions for y in b.actions):
        return True
    if any(_OPPOSITE.get(word) in b.name - a.name for word in a.name - b.name):
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


def _split(text: str) -> list[str]:
    """Words in lower case; snake_case, kebab-case and camelCase are taken apart."""
    return [word.lower() for word in _WORD.findall(text)]


def _stem(word: str) -> str:
    """A crude English stem: enough to make `invoices` and `invoice` one."""
    for ending, replacement in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("ss", "ss"),
                                ("us", "us"), ("is", "is"), ("s", "")):  # fmt: skip
        if len(word) > len(ending) + 2 and word.endswith(ending):
            return word[: len(word) - len(ending)] + replacement
    return word


def _verb(word: str) -> str:
    """A verb without the s of its third person: descriptions say `Creates`."""
    for candidate in (word, _stem(word), word.removesuffix("s"), word.removesuffix("es")):
        if candidate in _ACTIONS:
            return candidate
    return word


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
