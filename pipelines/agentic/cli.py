"""Tool-use trajectories from a tool repository: agents, tasks with rubrics, simulated users, tools that run, judges.

    python beam_runner.py agentic --tools TOOLS --output OUT --agents 100 --tasks-per-agent 4 --samples 4 --llm SPEC

runs the whole chain (Kimi K2 report, section 3.1.1 and figure 8); `agentic agents`, `agentic tasks` and
`agentic trajectories` run one stage of it, `agentic code` works on coding tasks from files.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tokenmill.pipelines.agentic.agents.job import add_agents
from tokenmill.pipelines.agentic.chain import add_chain
from tokenmill.pipelines.agentic.code.job import add_code
from tokenmill.pipelines.agentic.tasks.job import add_tasks
from tokenmill.pipelines.agentic.trajectories.job import add_trajectories

CHAIN = "run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    add_chain(kinds, CHAIN)
    add_agents(kinds)
    add_tasks(kinds)
    add_trajectories(kinds)
    add_code(kinds)


def spelled_out(argv: Sequence[str]) -> list[str]:
    """The command line with the kind of `agentic` written out: the chain, where only flags follow."""
    argv = list(argv)
    if (
        argv[:1] == ["agentic"]
        and (len(argv) == 1 or argv[1].startswith("-"))
        and argv[1:2] not in (["-h"], ["--help"])
    ):
        argv.insert(1, CHAIN)
    return argv
