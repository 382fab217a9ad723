"""Attack the rewards of environments: references must earn them, wrong answers must not.

    python beam_runner.py gym check game24 tables
    python beam_runner.py gym check all
    python beam_runner.py gym check reasoning-gym              every generator of the package, those that fail, too
    python beam_runner.py gym check my_module:MyEnvironment --judge-llm SPEC

Exit code 1 where one does not pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
from tokenmill.inference.call import Answer, Ask, Message
from tokenmill.pipelines.runs.exit import ended, say
from tokenmill.pipelines.runs.options import model
from tokenmill.schemas.flags import Options, flag, positive

if TYPE_CHECKING:
    from tokenmill.gym.check import Report

PASSED, NOT_PASSED, MISUSED = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Options):
    """What `gym check` may be given."""

    env: tuple[str, ...] = flag(
        name="env",
        metavar="ENV",
        help="environments; `all` for what is shipped, `reasoning-gym` for all its generators",
    )
    tasks: int = flag(24, metavar="N", parse=positive, help="tasks of each that are looked at")
    seed: int = flag(0, metavar="N", help="of the tasks")
    judge_llm: str | None = model(None, help="model for environments in whose rewards one takes part")
    write: str | None = flag(None, metavar="FILE", help="also write what was found as JSON")


def run(options: CheckOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py gym check`; the exit code."""
    if beam_args:
        return say(f"unknown flag {beam_args[0]}", MISUSED)
    return ended(lambda: _check(options))


COMMAND = SimpleNamespace(options=CheckOptions, run=run)


def _check(options: CheckOptions) -> int:
    from tokenmill.gym.again import fingerprints
    from tokenmill.gym.check import check
    from tokenmill.pipelines.gym.environments import find, here

    names = _named(options.env)
    environments = [find(name, here()) for name in names]
    again = fingerprints(names, options.seed, options.tasks, here())
    reports = []
    with _judge(options.judge_llm) as judge:
        for name, environment in zip(names, environments, strict=True):
            with contextlib.redirect_stdout(io.StringIO()):  # packages of others print
                checking = check(
                    environment, seed=options.seed, tasks=options.tasks, judge=judge, again=again.get(name)
                )
                reports.append(asyncio.run(checking))
            print(told(reports[-1]), flush=True)
    if options.write:
        Path(options.write).write_bytes(written(reports))
    failed = sum(not report.passed and not unjudged(report) for report in reports)
    without = sum(map(unjudged, reports))
    print(
        f"{len(reports) - failed - without} of {len(reports)} pass"
        + (f", {without} need --judge-llm" if without else "")
    )
    return NOT_PASSED if failed else PASSED


def _named(specs: tuple[str, ...]) -> tuple[str, ...]:
    """As for a run, but `reasoning-gym` means all its generators here: this is where it is found which ones are offered."""
    from tokenmill.gym import reasoning
    from tokenmill.pipelines.gym.environments import expanded

    every = tuple(f"{reasoning.PREFIX}:{name}" for name in reasoning.generators()) if reasoning.PREFIX in specs else ()
    return tuple(dict.fromkeys((*expanded(tuple(s for s in specs if s != reasoning.PREFIX)), *every)))


@contextlib.contextmanager
def _judge(spec: str | None) -> Iterator[Ask | None]:
    """Who judges: a function that asks the model of `spec` in every role; None where there is none."""
    if spec is None:
        yield None
        return
    from tokenmill.inference import runtime as runtimes
    from tokenmill.inference.roles import Models, Role
    from tokenmill.pipelines.runs.options import default_cache
    from tokenmill.pipelines.runs.preflight import check_models

    roles = {name: Role(spec) for name in ("judge", "user", "tools")}
    runtime = runtimes.obtain(Models(roles=roles, cache=default_cache(), run="gym check"))
    try:
        check_models(runtime)

        async def ask(messages: list[Message], **params: Any) -> Answer:
            work = asyncio.run_coroutine_threadsafe(runtime.client.ask(messages, **params), runtime.loop)
            return await asyncio.wrap_future(work)

        yield ask
    finally:
        runtimes.release(runtime)


def unjudged(report: Report) -> bool:
    """Whether all that an environment lacks is a judge."""
    return [fault.probe for fault in report.faults] == ["no_judge"]


def told(report: Report) -> str:
    """A report as lines for people."""
    head = f"{'pass' if report.passed else 'judge' if unjudged(report) else 'FAIL'}  {report.environment}  ({report.tasks} tasks)"
    return "\n".join([head, *(f"        {fault.probe}: {fault.detail}" for fault in report.faults)])


def written(reports: Sequence[Report]) -> bytes:
    """Reports as the file that says what is offered."""
    import importlib.metadata

    try:
        version = importlib.metadata.version("reasoning-gym")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    python = ".".join(map(str, sys.version_info[:2]))
    found = {report.environment: report.as_dict() for report in reports}
    return (
        orjson.dumps({"version": version, "python": python, "environments": found}, option=orjson.OPT_INDENT_2) + b"\n"
    )
