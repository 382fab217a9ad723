"""What the shards of a trajectory run say of its tasks: pass rates by level, pass@k, pass^k, what a kept one cost.

    figures = survey_trajectories(lambda folder: sorted(Path("out", folder).glob("*.parquet")))

Only few columns are read; no message is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tokenmill.pipelines.report.figures import by_count
from tokenmill.schemas.agentic import LEVELS

_COLUMNS = ("task_id", "level", "score", "ended", "model_calls", "prompt_tokens", "completion_tokens")


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
    def tasks(self) -> int:
        return len(self.tries)

    @property
    def judged(self) -> int:
        return sum(map(len, self.tries.values()))

    @property
    def kept(self) -> int:
        return sum(map(sum, self.tries.values()))

    def mean(self, estimator: Any, k: int) -> float | None:
        """Mean of an estimator over the tasks with at least `k` tries; None where there is none."""
        values = [estimator(len(t), sum(t), k) for t in self.tries.values() if len(t) >= k]
        return sum(values) / len(values) if values else None

    def as_dict(self, ks: Sequence[int]) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "judged": self.judged,
            "kept": self.kept,
            "pass_rate": self.kept / self.judged if self.judged else None,
            "pass_at": {str(k): value for k in ks if (value := self.mean(pass_at_k, k)) is not None},
            "pass_hat": {str(k): value for k in ks if (value := self.mean(pass_hat_k, k)) is not None},
        }


@dataclass
class TrajectoryFigures:
    levels: list[Level]
    """In the order of their difficulty; levels without a try are left out."""
    whole: Level
    endings: dict[str, int]
    """How trajectories ended, kept or not, most frequent first."""
    kept: int
    model_calls: int
    """Of all judged trajectories, kept or refused."""
    prompt_tokens: int
    completion_tokens: int

    @property
    def ks(self) -> list[int]:
        """1, 2, 4, ... up to the most tries that a task has, and that number itself."""
        most = max((len(t) for t in self.whole.tries.values()), default=0)
        return sorted({*(2**i for i in range(most.bit_length()) if 2**i <= most), *([most] if most else [])})

    @property
    def calls_per_kept(self) -> float | None:
        return self.model_calls / self.kept if self.kept else None

    @property
    def tokens_per_kept(self) -> float | None:
        return (self.prompt_tokens + self.completion_tokens) / self.kept if self.kept else None

    def tables(self) -> dict[str, Any]:
        """For the report and the card: levels, and all together where there are several."""
        ks = self.ks
        shown = [*self.levels, self.whole] if len(self.levels) > 1 else self.levels
        return {
            "ks": ks,
            "rows": [(level.name, level.as_dict(ks)) for level in shown],
            "endings": self.endings,
            "calls_per_kept": self.calls_per_kept,
            "tokens_per_kept": self.tokens_per_kept,
        }

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        ks = self.ks
        return {
            "levels": {level.name: level.as_dict(ks) for level in self.levels},
            "all": self.whole.as_dict(ks),
            "endings": self.endings,
            "model_calls": self.model_calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "model_calls_per_kept": self.calls_per_kept,
            "tokens_per_kept": self.tokens_per_kept,
        }


def survey_trajectories(shards: Callable[[str], Iterable[Path]]) -> TrajectoryFigures | None:
    """Read the shards of `data/` and `rejected/`; None where they hold no trajectories.

    Args:
        shards: those of one output folder, of which each need only be there until the next one is asked for.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read.
    """
    rows: list[tuple[bool, dict[str, Any]]] = []
    for folder in ("data", "rejected"):
        for path in shards(folder):
            with pq.ParquetFile(path, pre_buffer=False) as shard:
                if not set(_COLUMNS) <= set(shard.schema_arrow.names):
                    return None
                rows += [(folder == "data", row) for row in shard.read(columns=list(_COLUMNS)).to_pylist()]
    return _figures(rows) if rows else None


def _figures(rows: Iterable[tuple[bool, dict[str, Any]]]) -> TrajectoryFigures:
    levels: dict[str, Level] = {}
    whole, endings, sums = Level("all"), Counter[str](), Counter[str]()
    for kept, row in rows:
        level = levels.setdefault(row["level"], Level(row["level"]))
        for one in (level, whole):
            one.tries.setdefault(row["task_id"], []).append(kept)
        endings[row["ended"]] += 1
        sums.update({name: row[name] for name in ("model_calls", "prompt_tokens", "completion_tokens")})
    known = {name: place for place, name in enumerate(LEVELS)}
    return TrajectoryFigures(
        levels=sorted(levels.values(), key=lambda level: (known.get(level.name, len(known)), level.name)),
        whole=whole,
        endings=dict(by_count(endings)),
        kept=whole.kept,
        model_calls=sums["model_calls"],
        prompt_tokens=sums["prompt_tokens"],
        completion_tokens=sums["completion_tokens"],
    )
