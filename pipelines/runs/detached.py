"""Finish a job that was begun with --detach, once its cluster has done it.

    python beam_runner.py finish gs://bucket/out

Writes what the command itself would have written at its end: final names, card, report and manifest. It asks no model.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.pipelines.runs.errors import RowsMissing, RunFailed, UsageError
from tokenmill.pipelines.runs.exit import ended, raising
from tokenmill.pipelines.runs.folder import WORK, OutputFolder
from tokenmill.pipelines.runs.options import RunOptions
from tokenmill.schemas.flags import Options, add_flags, as_flags, flag, from_namespace

JOB = "job.json"
"""Within `WORK`: what was asked of the cluster."""
_OURS = "tokenmill.pipelines."


@dataclass(frozen=True, kw_only=True)
class FinishOptions(Options):
    """What `finish` may be given."""

    dir: str = flag(name="dir", metavar="DIR", help="the --output of a job that was begun with --detach")


def check_detached(options: RunOptions, *, local: bool) -> None:
    """
    Raises:
        UsageError: nobody would be there to go on with the job.
    """
    if options.detach and local:
        raise UsageError("--detach is for runs on other machines: add --on, or Beam's --runner")
    if options.detach and options.account:
        raise UsageError("--detach: this command runs several jobs, one after the other; detach each by itself")


def leave_word(out: OutputFolder, options: RunOptions, beam_args: Sequence[str], fingerprint: str) -> None:
    """Say in the work folder what is being done there."""
    told = {
        "module": type(options).__module__,
        "flags": as_flags(options),
        "beam": list(beam_args),
        "folder": str(Path.cwd()) if out.local else "",  # of another machine, relative paths mean nothing
        "command": list(options.command),
        "fingerprint": fingerprint,
    }
    out.write(f"{WORK}/{JOB}", orjson.dumps(told))


def check_same(out: OutputFolder, fingerprint: str) -> None:
    """
    Raises:
        UsageError: the rows in the work folder are of another input, or other settings.
    """
    if _word(out)["fingerprint"] != fingerprint:
        raise UsageError(f"{out.path}: input, prompts or settings are not those that the job was begun with any more")


def _word(out: OutputFolder) -> dict[str, Any]:
    path = out.at(WORK, JOB)
    try:
        with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            told = orjson.loads(file.read())
    except (OSError, ValueError):
        told = None
    if not isinstance(told, dict) or not str(told.get("module", "")).startswith(_OURS):
        raise UsageError(f"{out.path}: no job was begun there with --detach")
    return told


def run(given: FinishOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py finish`: the exit code of the command whose job it was."""
    return ended(lambda: _finish(OutputFolder(given.dir.rstrip("/")), [*beam_args]))


def _finish(out: OutputFolder, beam_args: list[str]) -> int:
    """
    Raises:
        RunFailed: the cluster has not done the job yet.
    """
    told = _word(out)
    job = importlib.import_module(told["module"]).COMMAND
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser, job.options)
    options = from_namespace(job.options, parser.parse_args(told["flags"]))
    options = dataclasses.replace(options, output=out.path, detach=False, collect=True)
    there = (
        contextlib.chdir(told["folder"])
        if told["folder"] and Path(told["folder"]).is_dir()
        else contextlib.nullcontext()
    )
    try:
        with there, raising():
            return job.run(options, [*told["beam"], *beam_args], told["command"])
    except RowsMissing as error:
        raise RunFailed(f"{out.path}: the cluster has not done all of it yet ({error})") from None


COMMAND = SimpleNamespace(options=FinishOptions, run=run)
