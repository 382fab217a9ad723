"""When two agents are one: nearly the same words of the system prompt over nearly the same tools.

Stands in for `tools_repo.specs.likeness.Likeness` in `pipelines.tools.dedup.DropDuplicates`, so that agents are compared
by keyed groupings as tools are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenmill.judges.form.words import words
from tokenmill.schemas.agentic import Agent
from tokenmill.tools_repo.specs.likeness import PERMUTATIONS, Fingerprint

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NONE = np.zeros(0, np.uint32)


@dataclass(frozen=True)
class AgentLikeness:
    """Decides on pairs of agents."""

    words: float = 0.7
    """Jaccard similarity of words, pairs of words and tool names from which two agents are one."""

    def __post_init__(self) -> None:
        if not 0 < self.words <= 1:
            raise ValueError(f"AgentLikeness.words is in (0, 1], not {self.words}")

    async def fingerprints(self, agents: Sequence[Agent]) -> list[Fingerprint]:
        """One for each agent, independent of the others."""
        return [_fingerprint(agent) for agent in agents]

    def score(self, a: Fingerprint, b: Fingerprint) -> float:
        """How alike two agents are, in [0, 1]; 0.0 unless they are one."""
        if a.content == b.content:
            return 1.0
        common = np.intersect1d(a.shingles, b.shingles, assume_unique=True).size
        jaccard = common / max(1, a.shingles.size + b.shingles.size - common)
        return round(jaccard, 4) if jaccard >= self.words else 0.0


def _fingerprint(agent: Agent) -> Fingerprint:
    spoken = words(agent.system)
    names = sorted(tool.name for tool in agent.tools)
    shingles = _hashes([*spoken, *map(" ".join, pairwise(spoken)), *(f"tool:{name}" for name in names)])
    return Fingerprint(
        id=agent.id,
        key=_hash(agent.id),
        server="",
        content=_hash("\n".join((" ".join(spoken), *names))),
        minhash=_minhash(shingles),
        sketch=None,
        vector=None,
        shingles=shingles,
        words=_NONE,
        objects=_NONE,
        told=_NONE,
        name_key=0,
        name=frozenset(),
        actions=frozenset(),
        directions=frozenset(),
    )


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _hashes(shingles: Iterable[str]) -> NDArray[np.uint32]:
    return np.array(sorted({_hash(shingle) & 0xFFFFFFFF for shingle in shingles}), np.uint32)


def _minhash(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    from datasketch import MinHash

    mine = _blank(MinHash).copy()
    mine.update_batch(hashes.tolist())
    return np.asarray(mine.hashvalues, np.uint32)


@cache
def _blank(kind: Any) -> Any:
    return kind(num_perm=PERMUTATIONS, seed=1, hashfunc=int, scheme="affine32")
