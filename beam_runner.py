"""Tokenmill's command line: one subcommand per job.

    python beam_runner.py knowledge --input 'corpus/*.parquet' --output out --llm MODEL@http://localhost:8000/v1
    python beam_runner.py publish out --repo-id me/my-dataset --dry-run

Flags that a job does not know go to Apache Beam (`--runner=FlinkRunner --flink_master=…`).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence


def arguments() -> argparse.ArgumentParser:
    """The parser of all subcommands."""
    from pipelines import agentic_job, knowledge_job, math_job, tools_job
    from pipelines.runs import publish

    parser = argparse.ArgumentParser(prog="beam_runner.py", description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, module, help in (
        ("knowledge", knowledge_job, "rewrite documents in diverse styles, verified for fidelity"),
        ("math", math_job, "turn mathematics into learning notes in English, every calculation verified"),
    ):
        command = commands.add_parser(name, help=help, description=module.__doc__, allow_abbrev=False)
        module.add_arguments(command)
        command.set_defaults(make=module.job)
    command = commands.add_parser("tools", help="harvest real tool specifications", allow_abbrev=False)
    tools_job.add_arguments(command)
    command = commands.add_parser(
        "agentic",
        help="make tool-use trajectories: agents, tasks, users, worlds, judges",
        description=agentic_job.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    agentic_job.add_arguments(command)
    command = commands.add_parser(
        "publish", help="upload a finished run to the Hugging Face Hub", description=publish.__doc__, allow_abbrev=False
    )
    publish.add_arguments(command)
    command.set_defaults(run=publish.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    logging.basicConfig(level=logging.DEBUG if os.environ.get("TOKENMILL_DEBUG") else logging.ERROR)
    from pipelines import agentic_job

    argv = list(sys.argv[1:] if argv is None else argv)
    args, beam_args = arguments().parse_known_args(agentic_job.spelled_out(argv))
    args.command_line = ["python", "beam_runner.py", *argv]
    if hasattr(args, "chain"):  # several jobs, one after another
        return args.chain(args, beam_args)
    if hasattr(args, "run"):
        if beam_args:
            print(f"tokenmill: unknown flag {beam_args[0]}", file=sys.stderr)
            return 2
        return args.run(args)
    if hasattr(args, "chain"):
        return args.chain(args, beam_args)
    from pipelines.runs.errors import UsageError
    from pipelines.runs.launch import launch

    try:
        job = args.make(args)
    except UsageError as error:
        print(f"tokenmill: {error}", file=sys.stderr)
        return 2
    return launch(job, args, beam_args)


if __name__ == "__main__":
    sys.exit(main())
