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

from tokenmill import COMMAND

JOBS = {
    "knowledge": ("tokenmill.pipelines.knowledge.job", "rewrite documents in diverse styles, verified for fidelity"),
    "math": (
        "tokenmill.pipelines.math.job",
        "turn mathematics into learning notes in English, every calculation verified",
    ),
    "tools": ("tokenmill.pipelines.tools.cli", "harvest, evolve, curate and implement tool specifications"),
    "agentic": ("tokenmill.pipelines.agentic.cli", "make tool-use trajectories: agents, tasks, users, worlds, judges"),
    "publish": ("tokenmill.pipelines.runs.publish", "upload a finished run to the Hugging Face Hub"),
}


def arguments(job: str = "") -> argparse.ArgumentParser:
    """The parser of all subcommands; where `job` names one, the others, which take seconds to import, stay empty."""
    parser = argparse.ArgumentParser(prog=COMMAND[-1], description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, (path, help) in JOBS.items():
        if job in JOBS and name != job:
            commands.add_parser(name, help=help)
            continue
        module = importlib.import_module(path)
        command = commands.add_parser(
            name,
            help=help,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter if name == "agentic" else argparse.HelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(command)
        if name in ("knowledge", "math"):
            command.set_defaults(make=module.job)
        elif name == "publish":
            command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code."""
    logging.basicConfig(level=logging.DEBUG if os.environ.get("TOKENMILL_DEBUG") else logging.ERROR)
    argv = list(sys.argv[1:] if argv is None else argv)
    spelled = argv
    if argv[:1] == ["agentic"]:
        from tokenmill.pipelines.agentic.cli import spelled_out

        spelled = spelled_out(argv)
    gc.disable()  # imports make many objects and no garbage
    try:
        args, beam_args = arguments(argv[0] if argv else "").parse_known_args(spelled)
    finally:
        gc.enable()
    args.command_line = [*COMMAND, *argv]
    if hasattr(args, "chain") or hasattr(args, "make"):
        from apache_beam.io.filesystems import FileSystems
        from apache_beam.options.pipeline_options import PipelineOptions

        # A pipeline does this too, but files are looked for before there is one, and S3 is not to be had without.
        FileSystems.set_options(PipelineOptions(beam_args))
    if hasattr(args, "chain"):  # several jobs, one after another
        return args.chain(args, beam_args)
    if hasattr(args, "run"):
        if beam_args:
            print(f"tokenmill: unknown flag {beam_args[0]}", file=sys.stderr)
            return 2
        return args.run(args)
    from tokenmill.pipelines.runs.errors import UsageError
    from tokenmill.pipelines.runs.launch import launch

    try:
        job = args.make(args)
    except UsageError as error:
        print(f"tokenmill: {error}", file=sys.stderr)
        return 2
    return launch(job, args, beam_args)


if __name__ == "__main__":
    sys.exit(main())
