"""Is a reward fit to train on? Reference answers must earn it; attacks and answers that are wrong by construction must not.

    report = asyncio.run(check(find("game24")))
    report.passed, report.faults

The environment is attacked through its own `rollout`, with a model that answers what it is told to.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from tokenmill.gym.attacks import attacks, mutants
from tokenmill.gym.environment import Environment, EnvironmentFault
from tokenmill.inference.call import Answer, Ask, Message, Usage
from tokenmill.inference.errors import RunStopped
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

LEAST_REFERENCE, MOST_ATTACK, MOST_WRONG = 0.99, 0.02, 0.01
"""What a reference must earn, what each attack may earn, and what wrong answers may, in the mean."""
TASKS = 24
"""Tasks that are looked at."""
SLOWEST = 3.0
"""CPU seconds that the making of one task, or the reward of one answer, may take,"""
SLOWEST_IN_ALL = 30.0
"""and that all tasks and answers may take together."""
REFERENCE, WRONG, REPEATS, RAISES, SLOW, NO_TASKS = "reference", "wrong", "repeats", "raises", "slow", "no_tasks"
NO_REFERENCE = "no_reference"
NO_JUDGE = "no_judge"


class TooSlow(BaseException):
    """Something took too much CPU time; no `except Exception` of a scorer's swallows it."""


class JudgeMissing(RunStopped):
    """A model takes part in the reward, and none was given."""


@dataclass(frozen=True)
class Fault:
    """What an environment is not offered for."""

    probe: str
    detail: str


@dataclass
class Report:
    """What the check found of one environment."""

    environment: str
    tasks: int = 0
    faults: list[Fault] = field(default_factory=list)
    rewards: dict[str, float] = field(default_factory=dict)
    """Mean reward by probe."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.faults

    def as_dict(self) -> dict[str, Any]:
        """For a file; without the time, which differs each time."""
        faults = [{"probe": one.probe, "detail": one.detail} for one in self.faults]
        return {"passed": self.passed, "tasks": self.tasks, "faults": faults, "rewards": self.rewards}


async def check(
    environment: Environment, *, seed: int = 0, tasks: int = TASKS, judge: Ask | None = None, again: str | None = None
) -> Report:
    """Attack one environment.

    Args:
        judge: who answers to other roles than `writer`; None for nobody.
        again: `fingerprint` of the same tasks made by another process, if one was asked.
    """
    began, report = time.monotonic(), Report(environment.name)
    try:
        drawn = draw(environment, seed, tasks)
    except (Exception, TooSlow) as error:  # whatever a generator raises
        report.faults.append(_raised(error, "making tasks"))
        return report
    report.tasks = len(drawn)
    if not drawn:
        report.faults.append(Fault(NO_TASKS, "there are no tasks"))
        return report
    _repeats(environment, seed, drawn, again, report)
    script = getattr(environment, "script", None)
    if script is None and not all(task.reference for task in drawn):
        missing = sum(not task.reference for task in drawn)
        report.faults.append(Fault(NO_REFERENCE, f"{missing} of {len(drawn)} tasks have no reference answer"))
    try:
        await _probe(environment, drawn, judge, report)
    except JudgeMissing:
        report.faults.append(Fault(NO_JUDGE, "a model takes part in the reward: give --judge-llm"))
    report.seconds = time.monotonic() - began
    return report


def draw(environment: Environment, seed: int, count: int) -> list[GymTask]:
    """The first tasks of a seed.

    Raises:
        TooSlow: making one takes too long.
    """
    made: list[GymTask] = []
    tasks, began = iter(environment.tasks(seed)), time.process_time()
    while len(made) < count:
        if time.process_time() - began > SLOWEST_IN_ALL:
            raise TooSlow
        with within(SLOWEST):
            task = next(tasks, None)
        if task is None:
            break
        made.append(task)
    return made


def fingerprint(tasks: Sequence[GymTask]) -> str:
    """A hash of tasks, the same where they are the same."""
    return f"{digest(*(orjson.dumps(task) for task in tasks)):016x}"


def _repeats(environment: Environment, seed: int, drawn: list[GymTask], again: str | None, report: Report) -> None:
    mine = fingerprint(drawn)
    try:
        here = fingerprint(draw(environment, seed, len(drawn)))
    except (Exception, TooSlow) as error:
        report.faults.append(_raised(error, "making tasks a second time"))
        return
    if here != mine:
        report.faults.append(Fault(REPEATS, "the same seed gives other tasks the second time"))
    elif again is not None and again != mine:
        report.faults.append(Fault(REPEATS, "the same seed gives other tasks in another process"))
    ids = [task.id for task in drawn]
    if len(set(ids)) < len(ids):
        report.faults.append(Fault(REPEATS, "two tasks have one id"))


async def _probe(environment: Environment, drawn: list[GymTask], judge: Ask | None, report: Report) -> None:
    earned: dict[str, list[tuple[float, str]]] = defaultdict(list)
    began = time.process_time()
    for task in drawn:
        for probe, answers in probes(environment, task, drawn):
            shown = " ".join(answers[-1].text.split())[:120]
            if time.process_time() - began > SLOWEST_IN_ALL:
                report.faults.append(
                    Fault(SLOW, f"its rewards take more than {SLOWEST_IN_ALL:g} s for {len(drawn)} tasks")
                )
                return
            try:
                with within(SLOWEST):
                    episode = await environment.rollout(task, Scripted(answers, judge))
                earned[probe].append((episode.reward, shown))
            except (JudgeMissing, KeyboardInterrupt):
                raise
            except TooSlow:
                report.faults.append(
                    Fault(SLOW, f"the reward of one answer takes more than {SLOWEST:g} s ({probe}): {shown}")
                )
                return
            except Exception as error:
                if not any(fault.probe == RAISES for fault in report.faults):
                    report.faults.append(_raised(error, f"judging {probe}: {shown!r}"))
    for probe, rewards in earned.items():
        mean = sum(reward for reward, _ in rewards) / len(rewards)
        report.rewards[probe] = round(mean, 4)
        best, worst = max(rewards), min(rewards)
        if probe == REFERENCE and worst[0] < LEAST_REFERENCE:
            few = sum(reward < LEAST_REFERENCE for reward, _ in rewards)
            report.faults.append(
                Fault(probe, f"{few} of {len(rewards)} references earn less than {LEAST_REFERENCE}: {worst[1]}")
            )
        elif probe != REFERENCE and mean > (MOST_WRONG if probe == WRONG else MOST_ATTACK):
            report.faults.append(Fault(probe, f"earns {mean:.2f} in the mean, {best[0]:.2f} at most: {best[1]}"))


def probes(environment: Environment, task: GymTask, drawn: Sequence[GymTask]) -> Iterator[tuple[str, list[Answer]]]:
    """(name, the model's answers) of all that is tried on a task."""
    script: Callable[[GymTask], list[Answer]] | None = getattr(environment, "script", None)
    if script is not None and (turns := script(task)):
        yield REFERENCE, turns
    elif task.reference:
        yield REFERENCE, [said(task.reference)]
    wrong: Callable[[GymTask], list[str]] | None = getattr(environment, "wrong", None)
    made = wrong(task) if wrong is not None else mutants(task.reference) if task.reference else ()
    yield from ((WRONG, [said(text)]) for text in made)
    yield from ((name, [said(text)]) for name, text in attacks(task, drawn))


def said(text: str) -> Answer:
    """An answer of this text."""
    return Answer(text, "stop", Usage(1, 1), "check")


@dataclass
class Scripted:
    """An `Ask` whose writer says what it is told to, the last answer again and again; other roles are `judge`'s."""

    answers: Sequence[Answer]
    judge: Ask | None = None
    given: int = 0

    async def __call__(self, messages: list[Message], *, to: str = "writer", **params: Any) -> Answer:
        if to != "writer":
            if self.judge is None:
                raise JudgeMissing(f"nobody plays the role {to}")
            return await self.judge(messages, to=to, **params)
        answer = self.answers[min(self.given, len(self.answers) - 1)]
        self.given += 1
        return answer


def _raised(error: BaseException, when: str) -> Fault:
    """What a generator or a reward raised, as a fault."""
    kind = error.__cause__ if isinstance(error, EnvironmentFault) and error.__cause__ else error
    if isinstance(error, TooSlow):
        return Fault(SLOW, f"{when} takes more than {SLOWEST:g} s")
    return Fault(RAISES, f"{when}: {type(kind).__name__}: {' '.join(str(kind).split())[:160]}")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Break off what takes too much CPU time, where this thread can be interrupted: generators and scorers of others may hang.

    Raises:
        TooSlow: it did.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
