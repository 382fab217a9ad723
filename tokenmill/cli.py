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
import threading
import traceback
from collections.abc import Sequence

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

QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_VERBOSITY": "error"}
"""Environment that keeps progress bars and warnings of the Hub's libraries out of logs, where nobody watches them."""


UNUSED = ("pandas", "pymongo", "bson", "apache_beam.io.gcp.bigquery")
"""What Beam imports with itself where it is installed, a third of its time, and what we have no use for."""


def arguments(job: str = "") -> argparse.ArgumentParser:
    """The parser of all subcommands. They take a second to import, so that only the one that `job` names has its flags."""
    parser = argparse.ArgumentParser(prog="beam_runner.py", description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, (path, help) in JOBS.items():
        if name != job:
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


def command() -> int:
    """The life of a process that does nothing but run the command line it was given; the exit code."""
    debug = bool(os.environ.get("TOKENMILL_DEBUG"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR)
    if not debug:
        # What ends a run is told in one line; Beam would print the traceback of every layer first.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
        threading.excepthook = _complain
    if not sys.stderr.isatty():
        os.environ |= {**QUIET, **os.environ}
    gc.set_threshold(50_000, 20, 50)  # imports and rollouts make many objects and few cycles
    try:
        if sys.argv[1:2] != ["publish"] and sys.argv[1:2] and sys.argv[1] in JOBS:
            _import_beam()
        return main(sys.argv[1:])
    except KeyboardInterrupt:  # before there was a run
        print("tokenmill: interrupted", file=sys.stderr)
        return 130
    finally:
        gc.freeze()  # Python need not look for garbage in what ends with the process


def _complain(broken: threading.ExceptHookArgs) -> None:
    """Print what broke in a thread, but for Beam's own, which miss a worker that has ended: the run tells that better."""
    frames = traceback.walk_tb(broken.exc_traceback)
    if not any(frame.f_globals.get("__name__", "").startswith("apache_beam.") for frame, _ in frames):
        threading.__excepthook__(broken)


def _import_beam() -> None:
    """Import Beam as if what it can do without were not installed. Whoever needs that imports it later."""
    hidden = dict.fromkeys(name for name in UNUSED if name not in sys.modules)
    sys.modules.update(hidden)
    try:
        import apache_beam  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


def main(argv: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    argv = list(argv)
    spelled = argv
    if argv[:1] == ["agentic"]:
        from tokenmill.pipelines.agentic.cli import spelled_out

        spelled = spelled_out(argv)
    args, beam_args = arguments(argv[0] if argv else "").parse_known_args(spelled)
    args.command_line = ["python", "beam_runner.py", *argv]
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
