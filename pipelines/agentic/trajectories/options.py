"""The options of jobs that run trajectories, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tokenmill.inference.servers.launch import DEFAULT_CTX
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.trajectories.agent_turn import JSON, NATIVE, Protocol
from tokenmill.pipelines.agentic.trajectories.dialogue import Limits
from tokenmill.pipelines.agentic.trajectories.tries import Tried, TryTask
from tokenmill.pipelines.runs.benchmarks import decontaminate_flag
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Counted, Plan
from tokenmill.pipelines.runs.options import RecordOptions, is_embedded
from tokenmill.schemas.flags import flag, positive

AUTO = "auto"
MARGIN = 1536
"""Tokens of a small context that are kept free for an answer."""
_how = partial(flag, group="how trajectories are run")


@dataclass(frozen=True, kw_only=True)
class TryOptions(RecordOptions):
    """How many tries, how long they may be, how the agent is spoken to."""

    samples: int = _how(
        1,
        metavar="S",
        parse=positive,
        shapes=True,
        help="tries at each task; more than one is rejection sampling and gives pass@k and pass^k",
    )
    keep_per_task: int | None = _how(
        None,
        metavar="N",
        parse=positive,
        shapes=True,
        help="tries kept of a task after which no more are made (default: all tries are made)",
    )
    give_up_after: int | None = _how(
        None,
        metavar="N",
        parse=positive,
        shapes=True,
        help="refused tries after which a task of which none was kept is given up as suspect (default: never)",
    )
    pairs: bool = _how(
        False,
        shapes=True,
        help="give all tries at a task one user and one first message, and write kept ones against refused ones into "
        "pairs/, for preference training",
    )
    agent_protocol: str = _how(
        AUTO,
        choices=(AUTO, NATIVE, JSON),
        help="native: OpenAI tool calling; json: a JSON answer, for models without it; "
        "auto (default): json for the embedded model, native for others",
    )
    max_turns: int = _how(30, metavar="N", parse=positive, help="messages of the agent")
    max_calls: int = _how(40, metavar="N", parse=positive, help="tool calls")
    max_context: int | None = _how(
        None,
        metavar="N",
        parse=positive,
        help="length of a conversation in tokens as the agent's endpoint bills it "
        "(default 32000, less where the embedded model's context is smaller)",
    )

    decontaminate: tuple[str, ...] = decontaminate_flag()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("keep_per_task", "give_up_after"):
            if (given := getattr(self, name)) is not None and given > self.samples:
                raise UsageError(f"--{name.replace('_', '-')} {given}: there are only --samples {self.samples}")
        if self.pairs and self.samples < 2:
            raise UsageError("--pairs: a pair takes two tries; add --samples 2 or more")

    def tries(self, step: Tried) -> TryTask:
        """The rollout of a task's tries."""
        return TryTask(step, self.samples, self.keep_per_task, self.give_up_after, self.pairs)

    @property
    def protocol(self) -> Protocol:
        """The agent's protocol, decided."""
        if self.agent_protocol != AUTO:
            return cast("Protocol", self.agent_protocol)
        return "json" if is_embedded(self.llm) else "native"

    def limits(self) -> Limits:
        """The limits of a trajectory; a context that is not given follows from the model.

        Raises:
            UsageError: it would not fit into the context of the server that we start.
        """
        spec, most = parse_spec(self.llm), 32_000
        if spec.on_llama:
            most = min(most, int(dict(spec.options).get("ctx", DEFAULT_CTX)) - MARGIN)
            if most < MARGIN:
                raise UsageError(
                    f"--llm {spec.text}: its context is too small for a conversation; add ?ctx={DEFAULT_CTX}"
                )
        return Limits(turns=self.max_turns, calls=self.max_calls, tokens=self.max_context or most)

    def answer_tokens(self, usual: int) -> int:
        """Tokens that one answer of the agent may have."""
        return min(usual, 1024) if parse_spec(self.llm).on_llama else usual


def tries_counted(counts: dict[str, int], column: Counted) -> dict[str, int]:
    """A task makes a row for each of its tries: these are what the manifest calls tasks."""
    rows = sum(counts[kind] for kind in ("accepted", "rejected", "failed"))
    return {"tasks": rows - counts["unreadable"], "extra": 0}


Plans = tuple[dict[str, Plan], dict[str, Plan]]


def estimate_tries(tries: TryTask, one: Callable[[Any], Plans], task: Any) -> Plans:
    """Calls and tokens of a task's tries: as many as are kept when nothing is refused, and all of them."""
    expected, most = one(task)
    fewest = tries.keep or tries.samples
    return (
        {role: plan.scaled(fewest) for role, plan in expected.items()},
        {role: plan.scaled(tries.samples) for role, plan in most.items()},
    )
