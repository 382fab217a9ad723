"""What a kept trajectory costs, by role: every try made to its end, against tries that end early, in waves, with one user.

    python -m tokenmill.bench.agentic.tries [--tasks 300] [--samples 6]

No server: the real steps, prompts, checks and judges run over scripted players whose words are counted as tokens.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any
from unittest import mock

import orjson
from tokenmill.bench.agentic.throughput import sized_task
from tokenmill.bench.servers.agents import calling, results
from tokenmill.bench.servers.scripted import completion
from tokenmill.bench.servers.troupe import Troupe
from tokenmill.inference.call import Answer, Usage
from tokenmill.pipelines.agentic.trajectories import rollout
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt, ModelNames
from tokenmill.pipelines.agentic.trajectories.rollout import RunTrajectory
from tokenmill.pipelines.agentic.trajectories.tries import TryTask
from tokenmill.pipelines.agentic.trajectories.worlds import SimulatedWorlds
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.transforms.rollout import Accepted, Paired
from tokenmill.schemas.agentic import FORBIDDEN, AgentTask, Criterion
from tokenmill.schemas.draws import uniform
from tokenmill.tools_repo.world.outcomes import CERTAIN

ROLES = {"writer": "agent", "user": "user", "tools": "tools", "judge": "judge"}
KINDS = (("hopeless", 0.15, 0.0), ("hard", 0.25, 0.2), ("fair", 0.6, 0.7))
"""Tasks: share of them, and how often a try at one goes well. Chosen for the bench, not measured."""
BREAKS, IDLES = 0.4, 0.3
"""Of tries that go wrong, those that break a rule, and those that do nothing; the others leave out the cancellation and claim
it."""
LOOKS = 8
"""Look-ups of a try, at most."""
SAMPLE: ContextVar[int] = ContextVar("sample")
"""Number of the try that is being made."""


def given_task(number: int) -> AgentTask:
    """A task with a rule that a call can break: the order of another customer is left alone."""
    made, other = sized_task(number), f"ORD-{number + 1000}"
    rule = Criterion(
        id="leaves_others",
        kind=FORBIDDEN,
        description="the order of another customer is left alone",
        spec=json.dumps({"tool": "cancel_order", "arguments": [{"path": "/order_id", "is": "equals", "value": other}]}),
    )
    return replace(made, rubric=[*made.rubric, rule])


@dataclass
class Players:
    """An `ask` over scripted players of which some go wrong; counts tokens by role. What was asked before is not paid again."""

    chance: float | None = None
    """How often a try goes well, whatever its task; None: as `KINDS` say."""
    spent: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    paid: set[bytes] = field(default_factory=set)

    async def __call__(
        self, messages: Any, *, to: str = "writer", schema: Any = None, tools: Any = None, **params: Any
    ) -> Answer:
        attempt = params.pop("attempt", 0)
        body = {"model": ROLES[to], "messages": messages, **params}
        if schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
        if tools:
            body["tools"] = tools
        sent = orjson.dumps([attempt, body])
        answer = Troupe({"agent": self._agent})(orjson.loads(orjson.dumps(body)))
        answer = answer if isinstance(answer, dict) else completion(answer)
        used = Usage(_tokens(messages) + _tokens(tools), _tokens(answer["choices"][0]["message"]))
        answer["usage"] = {"prompt_tokens": used.prompt, "completion_tokens": used.completion}
        if sent not in self.paid:
            self.paid.add(sent)
            self.spent[to] += used.total
            self.calls[to] += 1
        return Answer.parse(orjson.dumps(answer))

    def _agent(self, body: dict[str, Any]) -> Any:
        """Looks up, then does well, breaks the rule, does nothing or claims what it did not do."""
        order = json.dumps(body["messages"][1]["content"]).split("ORD-")[1].split()[0].strip('".\\')
        number, seed = int(order), SAMPLE.get()
        share = uniform(number, "kind")
        bounds = accumulate(part for _, part, _ in KINDS)
        chance = next(
            (chance for bound, (*_, chance) in zip(bounds, KINDS, strict=True) if share < bound), KINDS[-1][2]
        )
        good = uniform(number, seed, "good") < (chance if self.chance is None else self.chance)
        wrong = uniform(number, seed, "way")
        seen, looks = results(body), 2 + int(uniform(number, seed, "looks") * (LOOKS - 1))
        mine, other = {"order_id": f"ORD-{number}"}, {"order_id": f"ORD-{number + 1000}"}
        if not good and BREAKS <= wrong < BREAKS + IDLES:
            return completion("I am afraid that I cannot find it.")
        if len(seen) < looks:
            return calling([("get_order", mine if len(seen) % 2 else other)])
        if not good and wrong < BREAKS and not any("cancelled" in text and str(number + 1000) in text for text in seen):
            return calling([("cancel_order", other)])
        if not good and wrong >= BREAKS:
            return completion(f"Your order ORD-{number} is cancelled.")
        if not any("cancelled" in text and f'"ORD-{number}"' in text for text in seen):
            return calling([("cancel_order", mine)])
        return completion(f"Your order ORD-{number} is cancelled.")


def _tokens(value: Any) -> int:
    return count_tokens(orjson.dumps(value).decode()) if value else 0


@dataclass(frozen=True)
class Numbered:
    """A step whose scripted agent knows the number of its try."""

    step: RunTrajectory

    async def __call__(self, attempt: Attempt[AgentTask], ask: Any) -> Any:
        SAMPLE.set(attempt.sample)
        return await self.step(attempt, ask)

    def failed(self, attempt: Attempt[AgentTask], error: str, message: str) -> Any:
        raise RuntimeError(f"{attempt.id}: {error}: {message}")


@dataclass(frozen=True)
class Way:
    """How tries are made."""

    name: str
    watched: bool = True
    keep: int | None = None
    give_up: int | None = None
    pairs: bool = False


WAYS = (
    Way("every try to its end", watched=False),
    Way("ends at a broken rule"),
    Way("… `--pairs`", pairs=True),
    Way("… `--pairs --give-up-after 3`", give_up=3, pairs=True),
    Way("… `--pairs --keep-per-task 2`", keep=2, pairs=True),
)


@dataclass
class Came:
    """What came of it."""

    players: Players
    kept: int = 0
    tries: int = 0
    pairs: int = 0
    tasks: set[str] = field(default_factory=set)
    """Tasks of which something was kept."""


async def play(way: Way, tasks: int, samples: int, chance: float | None = None) -> Came:
    """All tasks, in one way."""
    came = Came(Players(chance))
    models = ModelNames("agent", "user", "tools", "judge")
    step = RunTrajectory(models, SimulatedWorlds(CERTAIN), one_user=way.pairs)
    tried = TryTask(Numbered(step), samples, way.keep, way.give_up, way.pairs)
    unwatched = contextlib.nullcontext() if way.watched else mock.patch.object(rollout, "broken", lambda *_: None)
    with unwatched:
        for number in range(1, tasks + 1):
            made = await tried(given_task(number), came.players)
            for one in made.outcomes:
                came.pairs += isinstance(one, Paired)
                came.tries += not isinstance(one, Paired)
                if isinstance(one, Accepted):
                    came.kept += 1
                    came.tasks.add(one.row.task_id)
    return came


def told(came: dict[str, Came]) -> str:
    """A table: a way a column, tokens of a kept trajectory by role."""
    head = ["tokens per kept trajectory", *came]
    rows = [[role, *(f"{one.players.spent[role] / one.kept:,.0f}" for one in came.values())] for role in ROLES]
    sums = [sum(one.players.spent.values()) / one.kept for one in came.values()]
    rows += [
        ["all", *(f"{tokens:,.0f}" for tokens in sums)],
        ["share of the first", *(f"{tokens / sums[0]:.2f}" for tokens in sums)],
        ["kept of tries", *(f"{one.kept:,} of {one.tries:,}" for one in came.values())],
        ["tasks with a kept one", *(f"{len(one.tasks):,}" for one in came.values())],
        ["pairs", *(f"{one.pairs:,}" for one in came.values())],
    ]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--samples", type=int, default=6)
    parser.add_argument("--chance", type=float, help="how often every try goes well, in place of the mixture of tasks")
    args = parser.parse_args()
    began = time.process_time()
    came = {way.name: asyncio.run(play(way, args.tasks, args.samples, args.chance)) for way in WAYS}
    print(told(came))
    print(f"\n{args.tasks} tasks, {args.samples} tries at most, {time.process_time() - began:.0f} s of CPU")


if __name__ == "__main__":
    main()
