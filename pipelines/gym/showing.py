"""Tasks of an environment with their references, as a model and its reward see them.

python beam_runner.py gym show tables --tasks 2 --seed 7
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from tokenmill.pipelines.runs.exit import ended, say
from tokenmill.schemas.flags import Options, flag, positive


@dataclass(frozen=True, kw_only=True)
class ShowOptions(Options):
    """What `gym show` may be given."""

    env: tuple[str, ...] = flag(name="env", metavar="ENV", help="environments")
    tasks: int = flag(1, metavar="N", parse=positive, help="tasks of each")
    seed: int = flag(0, metavar="N", help="of the tasks")


def run(options: ShowOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py gym show`; the exit code."""
    if beam_args:
        return say(f"unknown flag {beam_args[0]}", 2)
    return ended(lambda: _show(options))


COMMAND = SimpleNamespace(options=ShowOptions, run=run)


def _show(options: ShowOptions) -> int:
    from tokenmill.pipelines.gym.environments import expanded, find, here
    from tokenmill.pipelines.runs.terminal import harmless

    for name in expanded(options.env):
        for task in itertools.islice(find(name, here()).tasks(options.seed), options.tasks):
            print(f"--- {task.id}  kind {task.kind}  topics {', '.join(task.topics)}  budget {task.budget} tokens")
            print(harmless(task.system + "\n\n" + task.prompt if task.system else task.prompt))
            print(f"--- reference\n{harmless(task.reference) or '(none)'}\n")
    return 0
