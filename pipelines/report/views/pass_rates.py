"""What the shards of a trajectory run say of its tasks: pass rates by level, pass@k, pass^k, what a kept one cost.

    figures = survey_tries(shards_under(Path("out")))

Only few columns are read, a part of the rows at a time; what messages say is not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pyarrow.parquet as pq
from tokenmill.pipelines.report.formatting import by_count
from tokenmill.pipelines.report.tally import Shards
from tokenmill.schemas.agentic import LEVELS

_BATCH = 1000
_SUSPECTS = 200
"""Suspect tasks that are named."""
_SHAPE = ("messages.list.element.role", "calls.list.element.error", "tools", "language")
"""What tells how the kept ones spread."""
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
class Spread:
    """How the kept trajectories spread."""

    turns: Counter[int] = field(default_factory=Counter)
    """Trajectories by messages of the agent,"""
    calls: Counter[int] = field(default_factory=Counter)
    """by tool calls,"""
    tools: Counter[int] = field(default_factory=Counter)
    """by tools in context,"""
    users: Counter[int] = field(default_factory=Counter)
    """and by messages of the user."""
    errors: Counter[str] = field(default_factory=Counter)
    """Calls by the error that they met."""
    languages: Counter[str] = field(default_factory=Counter)

    def add(self, row: dict[str, Any]) -> None:
        """Count a row of `data/`."""
        roles = Counter(message["role"] for message in row["messages"])
        self.turns[roles["assistant"]] += 1
        self.users[roles["user"]] += 1
        self.calls[len(row["calls"])] += 1
        self.tools[len(orjson.loads(row["tools"]))] += 1
        self.errors.update(call["error"] for call in row["calls"] if call["error"])
        self.languages[row["language"]] += 1

    @property
    def lengths(self) -> list[tuple[str, list[int]]]:
        """(what, its least, its quantiles of 10, 50 and 90 percent, its most) for a table."""
        counted = {
            "messages of the agent": self.turns,
            "messages of the user": self.users,
            "tool calls": self.calls,
            "tools in context": self.tools,
        }
        return [(what, _spread(counts)) for what, counts in counted.items() if counts]

    def as_dict(self) -> dict[str, Any]:
        names = ("least", "p10", "median", "p90", "most")
        told: dict[str, Any] = {what: dict(zip(names, found, strict=True)) for what, found in self.lengths}
        return {**told, "errors of calls": dict(by_count(self.errors)), "languages": dict(by_count(self.languages))}


def _spread(counts: Counter[int]) -> list[int]:
    """Least, quantiles of 10, 50 and 90 percent (nearest rank), and most of counted numbers."""
    ranked = sorted(counts.elements())
    return [ranked[0], *(ranked[math.ceil(q * len(ranked)) - 1] for q in (0.1, 0.5, 0.9)), ranked[-1]]


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
    spread: Spread
    """How long the kept ones are, and what is in them."""
    suspects: dict[str, str]
    """Tasks of which every try was refused, with what they missed."""

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
        more = {"spread": self.spread.as_dict(), "suspect_tasks": self.suspects}
        return {"levels": levels, **whole, **self.took, **self.per_kept, **more}


def survey_tries(shards: Shards) -> PassRates | None:
    """Read the shards of `data/` and `rejected/`; None where they have no rows.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read.
    """
    levels: dict[str, Level] = {}
    whole, endings, took = Level("all"), Counter[str](), dict.fromkeys(_TOOK, 0)
    spread, suspects = Spread(), dict[str, str]()
    for folder in ("data", "rejected"):
        for path in shards(folder):
            for row in _rows(path, folder):
                if folder == "data":
                    spread.add(row)
                elif row["suspect"] and len(suspects) < _SUSPECTS:
                    suspects[row["task_id"]] = row["suspect"]
                for one in (levels.setdefault(row["level"], Level(row["level"])), whole):
                    one.tries.setdefault(row["task_id"], []).append(folder == "data")
                endings[row["ended"]] += 1
                for name in _TOOK:
                    took[name] += row[name]
    known = {name: place for place, name in enumerate(LEVELS)}
    ranked = sorted(levels.values(), key=lambda level: (known.get(level.name, len(known)), level.name))
    return PassRates(ranked, whole, dict(by_count(endings)), took, spread, suspects) if levels else None


def _rows(path: Path, folder: str) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as shard:
        more = _SHAPE if folder == "data" else ("suspect",)
        for batch in shard.iter_batches(batch_size=_BATCH, columns=["task_id", "level", "ended", *_TOOK, *more]):
            for row in batch.to_pylist():
                yield {"suspect": "", **row}
