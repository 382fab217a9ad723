"""What the shards of a trajectory run say of its tasks: pass rates by level, pass@k, pass^k, what a kept one cost.

    figures = survey_tries(shards_under(Path("out")))

Only few columns are read; no message is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow.parquet as pq
from tokenmill.pipelines.report.formatting import by_count
from tokenmill.pipelines.report.tally import Shards
from tokenmill.schemas.agentic import LEVELS

_TOOK = ("model_calls", "prompt_tokens", "completion_tokens")


def pass_at_k(tries: int, passed: int, k: int) -> float:
    """Probability that at least one of `k` tries at a task passes: 1 - C(n-c, k) / C(n, k).

    The unbiased estimator from `n` tries of which `c` passed (Chen et al. 2021, "Evaluating Large Language Models Trained
    on Code", equation 1).

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check(tries, passed, k)
    return 1.0 - math.comb(tries - passed, k) / math.comb(tries, k)


def pass_hat_k(tries: int, passed: int, k: int) -> float:
    """Probability that all of `k` tries at a task pass (pass^k): C(c, k) / C(n, k).

    The unbiased estimator of Yao et al. 2024, "tau-bench", section 3.

    Raises:
        ValueError: not 1 <= k <= n, or not 0 <= c <= n.
    """
    _check(tries, passed, k)
    return math.comb(passed, k) / math.comb(tries, k)


def _check(tries: int, passed: int, k: int) -> None:
    if not (1 <= k <= tries and 0 <= passed <= tries):
        raise ValueError(f"{passed} of {tries} tries passed: there is no estimate for k = {k}")


@dataclass
class Level:
    """The tries at the tasks of one level. Tries in `failed/` do not count: what broke them was not the agent."""

    name: str
    tries: dict[str, list[bool]] = field(default_factory=dict)
    """By task, whether each of its tries was kept."""

    @property
    def judged(self) -> int:
        return sum(map(len, self.tries.values()))

    @property
    def kept(self) -> int:
        return sum(map(sum, self.tries.values()))

    def mean(self, estimator: Callable[[int, int, int], float], k: int) -> float | None:
        """Mean of an estimator over the tasks with at least `k` tries; None where there is none."""
        values = [estimator(len(t), sum(t), k) for t in self.tries.values() if len(t) >= k]
        return sum(values) / len(values) if values else None

    def as_dict(self, ks: Sequence[int]) -> dict[str, Any]:
        return {
            "tasks": len(self.tries),
            "judged": self.judged,
            "kept": self.kept,
            "pass_rate": self.kept / self.judged if self.judged else None,
            "pass_at": {str(k): value for k in ks if (value := self.mean(pass_at_k, k)) is not None},
            "pass_hat": {str(k): value for k in ks if (value := self.mean(pass_hat_k, k)) is not None},
        }


@dataclass
class PassRates:
    """How the tries of a run went, kept or refused."""

    FIELD: ClassVar[str] = "trajectories"
    levels: list[Level]
    """In the order of their difficulty; levels without a try are left out."""
    whole: Level
    endings: dict[str, int]
    """How trajectories ended, most frequent first."""
    took: dict[str, int]
    """`model_calls`, `prompt_tokens` and `completion_tokens` of all tries."""

    @property
    def ks(self) -> list[int]:
        """1, 2, 4, ... up to the most tries that a task has, and that number itself."""
        most = max(map(len, self.whole.tries.values()))
        return sorted({*(2**i for i in range(most.bit_length())), most})

    @property
    def per_kept(self) -> dict[str, float | None]:
        """What a kept trajectory took, refused tries included; None where none was kept."""
        tokens = self.took["prompt_tokens"] + self.took["completion_tokens"]
        sums = {"model_calls_per_kept": self.took["model_calls"], "tokens_per_kept": tokens}
        return {name: n / self.whole.kept if self.whole.kept else None for name, n in sums.items()}

    @property
    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """(level, rates) for a table: all together last, where there are several."""
        shown = [*self.levels, self.whole] if len(self.levels) > 1 else self.levels
        return [(level.name, level.as_dict(self.ks)) for level in shown]

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        levels = {level.name: level.as_dict(self.ks) for level in self.levels}
        whole = {"all": self.whole.as_dict(self.ks), "endings": self.endings}
        return {"levels": levels, **whole, **self.took, **self.per_kept}


def survey_tries(shards: Shards) -> PassRates | None:
    """Read the shards of `data/` and `rejected/`; None where they have no rows.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read.
    """
    levels: dict[str, Level] = {}
    whole, endings, took = Level("all"), Counter[str](), dict.fromkeys(_TOOK, 0)
    for folder in ("data", "rejected"):
        for path in shards(folder):
            for row in pq.read_table(path, columns=["task_id", "level", "ended", *_TOOK]).to_pylist():
                for one in (levels.setdefault(row["level"], Level(row["level"])), whole):
                    one.tries.setdefault(row["task_id"], []).append(folder == "data")
                endings[row["ended"]] += 1
                for name in _TOOK:
                    took[name] += row[name]
    known = {name: place for place, name in enumerate(LEVELS)}
    ranked = sorted(levels.values(), key=lambda level: (known.get(level.name, len(known)), level.name))
    return PassRates(ranked, whole, dict(by_count(endings)), took) if levels else None
