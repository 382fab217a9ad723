"""All tries at a task: an element of the rollout. They run together, or in waves where fewer may do.

    outcomes = await TryTask(step, samples=8, keep=2, give_up=3)(task, ask)

What a try asks depends on its number alone, so that the first n tries of more are the same ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, ClassVar
from typing import Protocol as Interface

from tokenmill.inference.call import Ask
from tokenmill.inference.errors import RunStopped
from tokenmill.inference.gather import together
from tokenmill.pipelines.agentic.trajectories.attempt import Attempt
from tokenmill.pipelines.agentic.trajectories.dialogue import USER_DONE, USER_GAVE_UP
from tokenmill.pipelines.agentic.trajectories.finished import UNTRIED
from tokenmill.pipelines.agentic.trajectories.wire_form import CHECK as FORM
from tokenmill.pipelines.transforms.rollout import Accepted, Paired, Rejected, Several
from tokenmill.schemas.agentic import ChatMessage, PreferencePair, RefusedTrajectory, Trajectory
from tokenmill.schemas.documents import FailedRow

Outcome = Accepted | Rejected | FailedRow
USER = "user"
FEW = 2
"""Refused tries from which a task of which none was kept is suspected."""


class Tried(Interface):
    """The rollout of one attempt: `RunTrajectory`, or `RunCodeTask` for tasks whose tests decide."""

    async def __call__(self, element: Attempt[Any], ask: Ask, /) -> Accepted | Rejected: ...

    def failed(self, element: Attempt[Any], error: str, message: str, /) -> FailedRow: ...


@dataclass(frozen=True)
class TryTask:
    """The rollout of one task."""

    step: Tried
    samples: int = 1
    """Tries at most: more than one is rejection sampling."""
    keep: int | None = None
    """Tries kept after which no more are made; None for all that pass."""
    give_up: int | None = None
    """Refused tries after which a task of which none was kept is given up; None for never."""
    pairs: bool = False
    """Whether kept tries are set against refused ones."""

    row_type: ClassVar[type] = Trajectory
    rejected_type: ClassVar[type] = RefusedTrajectory
    pair_type: ClassVar[type] = PreferencePair

    def __post_init__(self) -> None:
        for name in ("samples", "keep", "give_up"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise ValueError(f"TryTask.{name} is at least 1, not {given}")

    def check_worker(self) -> None:
        """Raises: tokenmill.tools_repo.sandbox.base.SandboxUnavailable, where the step has to do with one."""
        getattr(self.step, "check_worker", lambda: None)()

    @property
    def wave(self) -> int:
        """Tries that run together, at first."""
        return min(given for given in (self.samples, self.keep, self.give_up) if given is not None)

    async def __call__(self, task: Any, ask: Ask) -> Several:
        """Raises: tokenmill.inference.errors.RunStopped."""
        made: list[Outcome] = []
        while wanted := self._wanted(made):
            made += await together(self._try(Attempt(task, n), ask) for n in range(len(made), len(made) + wanted))
        pairs = list(self._paired(made)) if self.pairs else []
        return Several([*suspected(made), *map(Paired, pairs)])

    def _wanted(self, made: Sequence[Outcome]) -> int:
        """How many tries are made next, together."""
        kept = sum(isinstance(one, Accepted) for one in made)
        refused = sum(isinstance(one, Rejected) for one in made)
        wanted = self.samples - len(made)
        if self.keep is not None:
            wanted = min(wanted, self.keep - kept)
        if self.give_up is not None and not kept:
            wanted = min(wanted, self.give_up - refused)
        return max(wanted, 0)

    async def _try(self, attempt: Attempt[Any], ask: Ask) -> Outcome:
        try:
            return await self.step(attempt, ask)
        except RunStopped:
            raise
        except Exception as error:  # what breaks one try is no reason to lose the others
            return self.step.failed(attempt, type(error).__name__, " ".join(str(error).split())[:2000])

    @staticmethod
    def _paired(made: Sequence[Outcome]) -> Iterator[PreferencePair]:
        """Each kept try against one refused for what the agent did, in the order of their numbers."""
        kept = [one.row for one in made if isinstance(one, Accepted)]
        refused = [one.row for one in made if isinstance(one, Rejected) and at_fault(one.row)]
        for chosen, rejected in zip(kept, refused, strict=False):
            if found := pair(chosen, rejected):
                yield found

    def failed(self, task: Any, error: str, message: str) -> FailedRow:
        """The row of `failed/` for a task of which no try could be made."""
        return self.step.failed(Attempt(task, 0), error, message)


def suspected(made: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, those of a task of which every try was refused with what makes the task itself suspect."""
    refused = [one for one in made if isinstance(one, Rejected) and one.row.ended != UNTRIED]
    if len(refused) < max(FEW, len(made)):
        return list(made)
    missed = Counter(
        f"{verdict.criterion} ({verdict.reason})"
        for one in refused
        for verdict in one.row.verdicts
        if not verdict.passed and verdict.reason
    )
    told = ", ".join(f"{n} miss {what}" for what, n in sorted(missed.items(), key=lambda item: (-item[1], item[0]))[:4])
    evidence = f"none of {len(refused)} tries was kept; {told}"
    return [replace(one, row=replace(one.row, suspect=evidence)) for one in refused]


def at_fault(row: RefusedTrajectory) -> bool:
    """Whether a try came to an end, is valid on the wire and was refused for what the agent did, not for its user."""
    ended = row.ended in (USER_DONE, USER_GAVE_UP)
    return ended and all(verdict.passed for verdict in row.verdicts if verdict.criterion in (FORM, USER))


def pair(chosen: Trajectory, rejected: RefusedTrajectory) -> PreferencePair | None:
    """Both from where they part; None where they have not even the user's first message in common."""
    both = zip(chosen.messages, rejected.messages, strict=False)
    shared = [mine for mine, _ in takewhile(lambda two: _same(*two), both)]
    while shared and not all(_agents(row.messages, len(shared)) for row in (chosen, rejected)):
        shared.pop()
    if not any(message.role == "user" for message in shared):
        return None
    return PreferencePair(
        id=f"{chosen.id}>{rejected.sample}",
        prompt=shared,
        chosen=chosen.messages[len(shared) :],
        rejected=rejected.messages[len(shared) :],
        tools=chosen.tools,
        task_id=chosen.task_id,
        chosen_id=chosen.id,
        rejected_id=rejected.id,
        level=chosen.level,
        language=chosen.language,
        license=chosen.license,
        reason=rejected.reason,
        detail=rejected.detail,
        margin=round(chosen.score - rejected.score, 4),
        model=chosen.model,
    )


def _agents(messages: Sequence[ChatMessage], index: int) -> bool:
    """Whether a message is the agent's, in answer to somebody else's."""
    return index < len(messages) and messages[index].role == "assistant" != messages[index - 1].role


def _same(mine: ChatMessage, theirs: ChatMessage) -> bool:
    return replace(mine, reasoning_content=None) == replace(theirs, reasoning_content=None)
