"""Draw tool-sets from a repository (Kimi K2 report, section 3.1.1 and figure 8b).

    vectors = asyncio.run(Embedder().embed([describe(tool) for tool in tools]))
    sets = draw_toolsets(tools, 1000, Sampling(), seed=0, vectors=vectors)

A set grows around a lead tool: from the lead's own domain or server, or from its neighbours in embedding space. Some
sets get distractors, tools that their tasks do not need: near ones, which are easily confused, and far ones. The draw
depends on the seed and the tools alone, and not on the order in which they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.draws import digest, pick, shuffled, uniform
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec
from tokenmill.schemas.toolsets import DOMAIN, NEIGHBOURS, SERVER, ToolSet
from tokenmill.tools_repo.specs.names import assign_names
from tokenmill.tools_repo.world.merge import MergedWorld, worlds_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

LEADS = 256
"""Lead tools whose neighbours are looked up at once: cosines of so many with all tools are held, never of all with all."""
POOL = 4
"""Neighbours are drawn from so many times as many nearest ones as are wanted."""
NEAR = 32
"""Near distractors come from so many tools that follow those."""
MOST_CROWD = 120
"""Tools that endpoints take beside a few are not many more."""
ONE_TOOL = 0.97
"""Cosine from which two tools are too much the same to stand in one set, as neighbours."""


@dataclass(frozen=True)
class Sampling:
    """How tool-sets are drawn."""

    least: int = 3
    """Smallest size without distractors."""
    most: int = 20
    """Largest size without distractors, drawn log-uniformly: a set of 3 to 5 tools is as likely as one of 12 to 20."""
    within: float = 0.6
    """Share of the sets that stay in their lead's domain or server."""
    distracted: float = 0.5
    """Share of the sets that get distractors: at least one, at most a third of the set's size."""
    most_distractors: int = 5
    """Most distractors of a set."""
    crowd: int = 0
    """Distractors of every set that gets some, whatever its size; 0: as above."""

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most <= 100:
            raise ValueError(f"sizes of tool-sets are 1 <= least <= most <= 100, not {self.least} to {self.most}")
        for name in ("within", "distracted"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"Sampling.{name} is a share in [0, 1], not {getattr(self, name)}")
        if not 0 <= self.crowd <= MOST_CROWD:
            raise ValueError(f"a tool-set has at most {MOST_CROWD} distractors, not {self.crowd}")
        if self.most_distractors < 1:
            raise ValueError(f"Sampling.most_distractors is at least 1, not {self.most_distractors}")

    def size(self, *parts: object) -> int:
        """A size, log-uniform over `least` to `most`."""
        return min(self.most, int(self.least * ((self.most + 1) / self.least) ** uniform(*parts, "size")))

    def distractors(self, size: int, *parts: object) -> int:
        """How many distractors a set of `size` tools gets."""
        if uniform(*parts, "distracted") >= self.distracted:
            return 0
        if self.crowd:
            return self.crowd
        return 1 + digest(*parts, "distractors") % max(1, min(self.most_distractors, size // 3))


def draw_toolsets(
    tools: Sequence[ToolSpec],
    count: int,
    sampling: Sampling = Sampling(),
    *,
    seed: int = 0,
    vectors: NDArray[np.float32] | None = None,
    domains: Sequence[Domain] = (),
) -> Iterator[ToolSet]:
    """`count` tool-sets, the first n of a longer draw being the draw of n.

    Args:
        tools: ids are unique.
        vectors: (len(tools), d) unit embeddings of the tools in their order; None: neighbours are those of one category.
        domains: entity models and states of synthetic domains. Tools whose models do not go together are kept apart.

    Raises:
        ValueError: no tools, an id twice, or vectors of another number.
    """
    if not tools:
        raise ValueError("there are no tools to draw from")
    if vectors is not None and len(vectors) != len(tools):
        raise ValueError(f"{len(vectors)} vectors for {len(tools)} tools")
    order = sorted(range(len(tools)), key=lambda at: tools[at].id)
    ordered = [tools[at] for at in order]
    repository = _Repository(ordered, None if vectors is None else np.asarray(vectors, np.float32)[order], domains)
    for start in range(0, count, LEADS):
        # Always a full block: the last bits of a product of matrices may depend on their shapes.
        leads = [_lead(len(ordered), number, seed) for number in range(start, start + LEADS)]
        near = repository.neighbours(leads, POOL * sampling.most + NEAR)
        for number, lead, neighbours in zip(range(start, min(count, start + LEADS)), leads, near, strict=False):
            yield _draw(repository, number, lead, neighbours, sampling, seed)


def _lead(tools: int, number: int, seed: int) -> int:
    """Every tool leads once before any leads again: an affine permutation of the tools for each round."""
    turn, place = divmod(number, tools)
    step = 1 + digest(seed, turn, "step") % tools
    while np.gcd(step, tools) != 1:
        step = step % tools + 1
    return (place * step + digest(seed, turn, "offset")) % tools


class _Repository:
    """The tools in order of their ids, with what is looked up in them."""

    def __init__(self, tools: list[ToolSpec], vectors: NDArray[np.float32] | None, domains: Sequence[Domain]) -> None:
        self.tools = tools
        self.vectors = vectors
        self.worlds: Mapping[str, Any] = worlds_of(domains)
        self.groups: dict[tuple[str, str], list[int]] = {}
        self.categories: dict[str, list[int]] = {}
        seen = set()
        for at, tool in enumerate(tools):
            if tool.id in seen:
                raise ValueError(f"two tools have the id {tool.id!r}")
            seen.add(tool.id)
            self.groups.setdefault((tool.origin, tool.toolset), []).append(at)
            self.categories.setdefault(tool.category, []).append(at)

    def group(self, at: int) -> list[int]:
        """The tools of a tool's domain or server, itself included."""
        return self.groups[self.tools[at].origin, self.tools[at].toolset]

    def neighbours(self, leads: Sequence[int], most: int) -> list[list[int]]:
        """For each lead the nearest other tools, nearest first, without those that are nearly the same as it."""
        if self.vectors is None:
            return [[at for at in self._alike(lead) if at != lead][:most] for lead in leads]
        cosines = np.round(self.vectors[list(leads)] @ self.vectors.T, 5)
        found = []
        for lead, row in zip(leads, cosines, strict=True):
            row[lead] = -2
            row[row >= ONE_TOOL] = -2
            nearest = np.argpartition(-row, min(most, len(row) - 1))[:most]
            nearest = nearest[np.lexsort((nearest, -row[nearest]))]
            found.append([int(at) for at in nearest if row[at] > -2])
        return found

    def repeats(self, at: int, others: Sequence[int]) -> bool:
        """Whether a tool is nearly the same as one of the others."""
        if self.vectors is None or not others:
            return False
        return bool((self.vectors[list(others)] @ self.vectors[at]).max() >= ONE_TOOL)

    def _alike(self, lead: int) -> list[int]:
        category = self.categories[self.tools[lead].category]
        return shuffled(category, self.tools[lead].id, "category")


def _draw(repository: _Repository, number: int, lead: int, near: list[int], sampling: Sampling, seed: int) -> ToolSet:
    parts = (seed, number)
    size = sampling.size(*parts)
    world = MergedWorld(repository.worlds)
    tools = repository.tools
    siblings = shuffled([at for at in repository.group(lead) if at != lead], *parts, "siblings")
    within = len(siblings) + 1 >= sampling.least and uniform(*parts, "within") < sampling.within
    pool = near[: POOL * size]
    # Few others of its kind or meaning are there: whatever is, it comes from the nearer of the two.
    candidates = siblings if within else [*shuffled(pool, *parts, "pool"), *near[len(pool) :], *siblings]
    chosen: list[int] = []
    for at in (lead, *candidates):
        if len(chosen) == size:
            break
        if at not in chosen and (within or not repository.repeats(at, chosen)) and world.add(tools[at]):
            chosen.append(at)
    extra: list[int] = []
    wanted = sampling.distractors(len(chosen), *parts)
    beyond = [at for at in near if at not in chosen]
    while wanted and len(extra) < wanted:
        other = _distractor(repository, beyond, {*chosen, *extra}, world, *parts, len(extra))
        if other is None:
            break
        extra.append(other)
    named = assign_names([tools[at] for at in (*chosen, *extra)])
    order = shuffled(named, *parts, "order")  # distractors must not be told by their place
    entities, state = world.merged([tools[at] for at in chosen])
    synthetic = tools[lead].origin == SYNTHETIC
    sets = list(dict.fromkeys(tool.toolset for tool in named if tool.toolset))
    mark = digest(seed, *(tool.id for tool in named)) & 0xFFFFFF
    return ToolSet(
        id=f"agent-{number:05d}-{mark:06x}",
        number=number,
        tools=order,
        distractors=sorted(tool.name for tool in named[len(chosen) :]),
        sampling=(DOMAIN if synthetic else SERVER) if within else NEIGHBOURS,
        domains=sets,
        entities=entities,
        state=state,
    )


def _distractor(
    repository: _Repository, beyond: Sequence[int], taken: set[int], world: MergedWorld, *parts: object
) -> int | None:
    """A tool to distract: half of them near, half from anywhere; None if none is left that can be had."""
    everywhere = range(len(repository.tools))
    near = uniform(*parts, "near") < 0.5
    for attempt in range(16):
        at = pick(beyond if near and beyond else everywhere, *parts, attempt, "distractor")
        if at not in taken and world.add(repository.tools[at]):
            return at
    return None
