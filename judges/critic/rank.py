"""Answers to one prompt, ranked: by all pairs while they are few, by comparisons with some of them when they are many."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from tokenmill.inference.call import Ask
from tokenmill.inference.gather import together
from tokenmill.inference.structured import StructuredAnswerInvalid
from tokenmill.judges.critic.compare import FIRST, SECOND, Compare, Comparison
from tokenmill.judges.critic.rubrics import BY_CODE, Rubric
from tokenmill.schemas.draws import digest

ALL_PAIRS = 6
"""Answers up to which every pair is compared: 15 pairs, 30 calls."""
PIVOTS = 3
"""Answers with which each one is compared when there are more."""


@dataclass(frozen=True)
class Ranked:
    """What became of one answer."""

    text: str
    score: float
    """Share of its comparisons that it won, a tie counting half; 0 to 1."""
    rank: int
    """1 for the best; answers that cannot be told apart share one."""
    broken: tuple[str, ...] = ()
    """Mandatory rubrics that it breaks."""
    evidence: str = ""
    """Where code saw that, or what the critic said of the comparison that it lost."""


@dataclass(frozen=True)
class Ranking:
    """All answers in the order in which they were given, and how sure the critic was."""

    answers: tuple[Ranked, ...]
    comparisons: int = 0
    flipped: int = 0
    """Comparisons whose verdict turned round with the order of the answers; they count as ties."""

    @property
    def reward(self) -> tuple[float, ...]:
        """From 1 for the best to 0 for the worst by rank, as a trainer takes it; equal ranks are equal."""
        ranks = sorted({one.rank for one in self.answers})
        last = max(1, len(ranks) - 1)
        return tuple(1.0 - ranks.index(one.rank) / last if len(ranks) > 1 else 0.5 for one in self.answers)


@dataclass(frozen=True)
class Critic:
    """Ranks answers that no program can verify.

    Its limits are those of the report's appendix F.3: a critic that is asked for clear, grounded answers may take assurance for
    quality. The prompt says otherwise; docs/jobs/prefer.md says what was measured.
    """

    rubrics: tuple[Rubric, ...]
    seed: int = 0
    compare: Compare = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compare", Compare(self.rubrics, seed=self.seed))

    async def __call__(self, prompt: str, answers: Sequence[str], ask: Ask) -> Ranking:
        """Rank them.

        Raises:
            StructuredAnswerInvalid: not one comparison was usable.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        seen = [self._seen_by_code(answer) for answer in answers]
        pairs = self._pairs(prompt, answers)
        compared = await together([self._compared(prompt, answers[a], answers[b], ask) for a, b in pairs])
        usable = [(pair, one) for pair, one in zip(pairs, compared, strict=True) if one is not None]
        if pairs and not usable:
            raise StructuredAnswerInvalid("the critic gave no usable comparison")
        ranked = [self._ranked(number, text, seen[number], usable) for number, text in enumerate(answers)]
        keys = [(bool(broken), -score) for _, score, broken, _ in ranked]
        order = sorted(set(keys))
        made = tuple(
            Ranked(text, score, order.index(key) + 1, tuple(sorted(broken)), evidence)
            for (text, score, broken, evidence), key in zip(ranked, keys, strict=True)
        )
        return Ranking(made, len(usable), sum(one.flipped for _, one in usable))

    async def _compared(self, prompt: str, first: str, second: str, ask: Ask) -> Comparison | None:
        try:
            return await self.compare(prompt, first, second, ask)
        except StructuredAnswerInvalid:
            return None

    def _seen_by_code(self, answer: str) -> dict[str, str]:
        """Mandatory rubrics that code sees broken, with the words."""
        looked = {rubric.name: BY_CODE[rubric.name](answer) for rubric in self.rubrics if rubric.name in BY_CODE}
        return {name: words for name, words in looked.items() if words}

    def _pairs(self, prompt: str, answers: Sequence[str]) -> list[tuple[int, int]]:
        """Numbers of the answers to compare, each pair once."""
        count = len(answers)
        if count <= ALL_PAIRS:
            return list(itertools.combinations(range(count), 2))
        drawn = sorted(range(count), key=lambda n: digest("pivot", self.seed, prompt, answers[n], n))[:PIVOTS]
        return sorted({(min(a, b), max(a, b)) for a in drawn for b in range(count) if a != b})

    def _ranked(
        self, number: int, text: str, seen: dict[str, str], compared: Sequence[tuple[tuple[int, int], Comparison]]
    ) -> tuple[str, float, set[str], str]:
        won, opinions, lost = [], [], ""
        for pair, comparison in compared:
            if number not in pair:
                continue
            side = pair.index(number)
            mine, theirs = (FIRST, SECOND)[side], (SECOND, FIRST)[side]
            won.append({mine: 1.0, theirs: 0.0}.get(comparison.better, 0.5))
            opinions.append((comparison.opinions, side))
            if comparison.better == theirs and not lost:
                lost = comparison.opinions[0].why
        score = sum(won) / len(won) if won else 0.5
        judged = [opinion.broken[side] for several, side in opinions for opinion in several]
        names = {name for broken in judged for name in broken}
        broken = {name for name in names if 2 * sum(name in one for one in judged) > len(judged)} | set(seen)
        evidence = "; ".join(f"{name}: {words!r}" for name, words in seen.items()) or lost
        return text, score, broken, " ".join(evidence.split())[:300]
