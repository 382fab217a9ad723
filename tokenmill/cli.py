"""Tokenmill's command line: one subcommand per job.

    python beam_runner.py knowledge --input 'corpus/*.parquet' --output out --llm MODEL@http://localhost:8000/v1
    python beam_runner.py publish out --repo-id me/my-dataset --dry-run

Flags that a job does not know go to Apache Beam (`--runner=FlinkRunner --flink_master=…`).
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from tokenmill.schemas.flags import UsageError, add_flags, from_namespace

COMMANDS = {
    "knowledge": ("knowledge.job", "rewrite documents in diverse styles, verified for fidelity"),
    "math": ("math.job", "turn mathematics into learning notes in English, every calculation verified"),
    "tools": ("tools", "harvest, evolve, curate and implement tool specifications"),
    "tools harvest": ("tools.harvest.job", "ask MCP servers from PyPI and npm for their tools"),
    "tools curate": ("tools.curate.job", "merge runs, keep each tool once"),
    "tools evolve": ("tools.evolve.job", "make synthetic tools with a model, through domains"),
    "tools implement": ("tools.implement.job", "write Python for the tools of domains, checked in a sandbox"),
    "agentic": ("agentic", "make tool-use trajectories: agents, tasks, users, worlds, judges"),
    "agentic run": ("agentic.chain", "the whole chain (the default)"),
    "agentic agents": ("agentic.agents.job", "write agents: a tool-set, a system prompt and a policy each"),
    "agentic tasks": ("agentic.tasks.job", "write tasks with rubrics for agents"),
    "agentic trajectories": ("agentic.trajectories.job", "run agents on tasks"),
    "agentic code": ("agentic.code.job", "work on coding tasks in a sandbox"),
    "publish": ("runs.publish", "upload a finished run to the Hugging Face Hub"),
}
"""Subcommands: the module below `pipelines`, and what it does, in a few words. A module has a `COMMAND`; a package names
several more."""


def load(command: str) -> Any:
    """The `COMMAND` of a subcommand such as `tools harvest`: its `options`, and `run(options, beam_args)`."""
    return _module(command).COMMAND


def arguments(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all subcommands; only that which the words name, which takes seconds to import, has its flags."""
    parser = _Parser(prog="beam_runner.py", description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    kinds = {"": parser.add_subparsers(required=True, metavar="JOB")}
    for name, (_, help) in COMMANDS.items():
        above, _, last = name.rpartition(" ")
        if above not in kinds:
            continue
        if list(words[: name.count(" ") + 1]) != name.split():
            kinds[above].add_parser(last, help=help)
            continue
        command = kinds[above].add_parser(
            last,
            help=help,
            description=_module(name).__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if any(other.startswith(f"{name} ") for other in COMMANDS):
            kinds[name] = command.add_subparsers(required=True, metavar="WHAT")
        else:
            add_flags(command, load(name).options)
            command.set_defaults(subcommand=name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    logging.basicConfig(level=logging.DEBUG if os.environ.get("TOKENMILL_DEBUG") else logging.ERROR)
    argv = list(sys.argv[1:] if argv is None else argv)
    words = argv
    if (
        argv[:1] == ["agentic"]
        and (len(argv) == 1 or argv[1].startswith("-"))
        and argv[1:2] not in (["-h"], ["--help"])
    ):
        words = ["agentic", "run", *argv[1:]]
    gc.disable()  # imports make many objects and no garbage
    try:
        given, beam_args = arguments(words).parse_known_args(words)
        command = load(given.subcommand)
        options = from_namespace(command.options, given)
    except UsageError as error:
        print(f"tokenmill: {error}", file=sys.stderr)
        return 2
    finally:
        gc.enable()
    return command.run(options, beam_args, ["python", "beam_runner.py", *argv])


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; {self.prog} --help tells more")


def _module(command: str) -> Any:
    return importlib.import_module(f"tokenmill.pipelines.{COMMANDS[command][0]}")


if __name__ == "__main__":
    sys.exit(main())
