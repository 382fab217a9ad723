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
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import Any

from tokenmill import COMMAND
from tokenmill.inference import redaction
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
    "agentic import": ("agentic.imported.job", "import domains: policy, tools that run, data, tasks"),
    "agentic agents": ("agentic.agents.job", "write agents: a tool-set, a system prompt and a policy each"),
    "agentic tasks": ("agentic.tasks.job", "write tasks with rubrics for agents"),
    "agentic trajectories": ("agentic.trajectories.job", "run agents on tasks"),
    "agentic code": ("agentic.code.job", "work on coding tasks in a sandbox"),
    "corpus": ("corpus", "assemble a pre-training corpus from raw sources and finished runs"),
    "corpus run": ("corpus.job", "the whole corpus (the default)"),
    "corpus label": ("corpus.label", "score a sample with a model, learn to score the rest"),
    "agentic export": ("agentic.export.job", "write kept trajectories in another shape"),
    "generate": ("generate.job", "answer every row with your own prompt, schema and checks"),
    "gym": ("gym", "tasks whose rewards are tested: environments to check, rate and roll out"),
    "gym list": ("gym.listing", "what there is, by topic, and what is under-covered"),
    "gym show": ("gym.showing", "tasks of an environment, with their references"),
    "gym check": ("gym.checking", "attack the rewards of environments"),
    "gym difficulty": ("gym.difficulty", "keep the tasks that a model solves sometimes"),
    "gym rollout": ("gym.rollout", "attempts at tasks, each with its reward"),
    "gym export": ("gym.exporting", "tasks and rewards for trl, verl or verifiers"),
    "prefer": ("prefer.job", "rank several answers to each prompt by a critic: preference pairs"),
    "finish": ("runs.detached", "make a finished run of what a job begun with --detach has written"),
    "publish": ("runs.publish", "upload a finished run to the Hugging Face Hub"),
}
"""Subcommands: the module below `pipelines`, and what it does, in a few words. A module has a `COMMAND`; a package names
several more."""


QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_VERBOSITY": "error"}
"""Environment that keeps progress bars and warnings of the Hub's libraries out of logs, where nobody watches them."""


UNUSED = ("pandas", "pymongo", "bson", "apache_beam.io.gcp.bigquery")
"""What Beam imports with itself where it is installed, a third of its time, and what we have no use for."""


def load(command: str) -> Any:
    """The `COMMAND` of a subcommand such as `tools harvest`: its `options`, and `run(options, beam_args)`."""
    return _module(command).COMMAND


def arguments(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of all subcommands; only that which the words name, which takes seconds to import, has its flags."""
    parser = _Parser(prog=COMMAND[-1], description=__doc__.split("\n", 1)[0], allow_abbrev=False)
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


def command() -> int:
    """The life of a process that does nothing but run the command line it was given; the exit code."""
    redaction.learn(*(word for word in sys.argv if "://" in word))
    redaction.guard_streams()  # before anything holds on to them
    debug = bool(os.environ.get("TOKENMILL_DEBUG"))
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR)
    if not debug:
        # What ends a run is told in one line; Beam would print the traceback of every layer first.
        logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
        threading.excepthook = _complain
    if not sys.stderr.isatty():
        os.environ |= {**QUIET, **os.environ}
    gc.set_threshold(50_000, 20, 50)  # imports and rollouts make many objects and few cycles
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what ends a pod ends a run as Ctrl-C does
    try:
        if sys.argv[1:2] != ["publish"] and sys.argv[1:2] and sys.argv[1] in COMMANDS:
            import_beam()
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


def import_beam() -> None:
    """Import Beam as if what it can do without were not installed. Whoever needs that imports it later."""
    hidden: dict[str, Any] = dict.fromkeys(name for name in UNUSED if name not in sys.modules)
    sys.modules.update(hidden)
    before = logging.root.manager.disable
    logging.disable(max(before, logging.WARNING))  # what it then says it misses
    try:
        import apache_beam  # noqa: F401
    finally:
        logging.disable(before)
        for name in hidden:
            del sys.modules[name]


def main(argv: Sequence[str]) -> int:
    """Run a command line; the exit code."""
    argv = list(argv)
    words = argv
    runs = argv[:1] in (["agentic"], ["corpus"])
    if runs and argv[1:2] not in (["-h"], ["--help"]) and not (argv[1:2] and argv[1][0] != "-"):
        words = [argv[0], "run", *argv[1:]]
    try:
        given, beam_args = arguments(words).parse_known_args(words)
        job = load(given.subcommand)
        options = from_namespace(job.options, given)
    except UsageError as error:
        print(f"tokenmill: {error}", file=sys.stderr)
        return 2
    return job.run(options, beam_args, [*COMMAND, *argv])


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> Any:
        raise UsageError(f"{message}; {self.prog} --help tells more")


def _module(command: str) -> Any:
    return importlib.import_module(f"tokenmill.pipelines.{COMMANDS[command][0]}")
