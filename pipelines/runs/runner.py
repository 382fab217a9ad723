"""Where a pipeline runs: on this machine, in one process or several, or on the cluster that the user named."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
import orjson
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.portability.api import beam_provision_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import ExtendedProvisionInfo
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.transforms.environments import SubprocessSDKEnvironment
from tokenmill.inference.errors import RunStopped
from tokenmill.inference.fleet import STOPPED
from tokenmill.inference.roles import Models
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs.errors import RowsMissing, RunFailed, UsageError
from tokenmill.pipelines.runs.folder import WORK, OutputFolder
from tokenmill.pipelines.runs.forkserver import Zygote, ignoring_interrupts, possible
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.transforms.counts import read_counts

from tokenmill import IMPORT_ROOT

ONE_PROCESS_BYTES = 200_000
"""Input up to this size is not worth the seconds that further worker processes take to start."""
HERE = ("DirectRunner", "FnApiRunner", "BundleBasedDirectRunner", "SwitchingDirectRunner")
DEBUG = "TOKENMILL_DEBUG"
# Workers must find our packages wherever the command was given, and what they start must not find others for it.
_BEGIN = "import sys; sys.path.insert(0, sys.argv[1]); from tokenmill.pipelines.runs.forkserver import work; work(sys.argv[2])"


@dataclass(frozen=True)
class Runner:
    """Beam's options and what they mean for us."""

    options: PipelineOptions
    local: bool
    processes: bool
    """Whether workers on this machine are processes of their own."""

    @property
    def workers(self) -> int:
        """Worker processes on this machine; 1 where this process itself is the worker."""
        if not self.processes:
            return 1
        return self.options.view_as(DirectOptions).direct_num_workers or os.cpu_count() or 1

    def zygote(self, job: Job, models: Models) -> Zygote | None:
        """What forks this machine's worker processes; None where they are started otherwise or there are none."""
        if not self.processes or not models.state or not possible():
            return None
        return Zygote(models.state, getattr(job.step, "preload", None))

    def submit(self, job: Job, models: Models, found: Inputs, out: OutputFolder, shards: int) -> str:
        """Hand the job's pipeline to its cluster and do not wait for it; where to look at it.

        Raises:
            RunFailed: the cluster does not take it.
        """
        pipeline = beam.Pipeline(runner=None, options=self.options)
        job.build(pipeline, models, found.pieces, out.at(WORK), shards)
        try:
            return f"submitted: {_name(pipeline.run())}"
        except Exception as error:
            raise _stopped(error, "") from error

    def execute(
        self,
        job: Job,
        models: Models,
        found: Inputs,
        out: OutputFolder,
        shards: int,
        zygote: Zygote | None = None,
        state: str = "",
        heed: Callable[[], None] = lambda: None,
    ) -> dict[str, int]:
        """Run the job's pipeline; its counts.

        Args:
            state: folder in which workers say what stopped them; empty where there is none.
            heed: brings there what workers on other machines have said.

        Raises:
            RunStopped: the budget is spent, an endpoint is gone, ...
            RunFailed: anything else that ended the pipeline.
        """
        # Not beside the shards: a worker that finds that disk full must be able to say so.
        log = str(Path(models.state, "worker.log").resolve())
        pipeline = beam.Pipeline(runner=self._beam_runner(log, zygote), options=self.options)
        job.build(pipeline, models, found.pieces, out.at(WORK), shards)
        try:
            run_through(pipeline, state, heed)
            return counted(out)
        except RunFailed as error:
            if not self.processes:
                raise
            with contextlib.suppress(OSError):  # where nothing was printed, or there is no room either
                kept = shutil.copyfile(log, out.at(WORK, "worker.log"))
                raise RunFailed(f"{error}; {kept} has what the workers printed") from error
            raise

    def _beam_runner(self, log: str, zygote: Zygote | None) -> Any:
        if not self.local:
            return None  # Beam takes the one that the options name
        if not self.processes:
            return FnApiRunner()
        log = "" if os.environ.get(DEBUG) else log
        # As in Beam's own multi_processing mode, with the workers' chatter in a file.
        command = (
            ignoring_interrupts([sys.executable, "-c", _BEGIN, IMPORT_ROOT, log])
            if zygote is None
            else zygote.command(log)
        )
        # Arithmetic of all workers together shall have a thread per core, not that of each.
        threads = max(1, (os.cpu_count() or 1) // self.workers)
        command = f'export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-{threads}}}"; {command}'
        told = JobServiceHandle.encode_pipeline_options(self.options.get_all_options())
        return FnApiRunner(
            default_environment=SubprocessSDKEnvironment.from_command_string(command),
            provision_info=ExtendedProvisionInfo(beam_provision_api_pb2.ProvisionInfo(pipeline_options=told)),
        )


def counted(out: OutputFolder) -> dict[str, int]:
    """What a pipeline has counted.

    Raises:
        RowsMissing: it has not come to its end.
    """
    try:
        return read_counts(out.at(WORK))
    except FileNotFoundError:
        raise RowsMissing(f"{out.path}: the rows are not counted yet") from None


def _name(result: Any) -> str:
    """The job as its runner calls it."""
    for name in ("job_id", "_job_id"):
        if given := getattr(result, name, None):
            return str(given() if callable(given) else given)
    return "a job"


def run_through(pipeline: beam.Pipeline, state: str, heed: Callable[[], None] = lambda: None) -> None:
    """Run a pipeline to its end.

    Args:
        state: folder in which workers say what stopped them; empty where there is none.
        heed: brings there what workers on other machines have said.

    Raises:
        RunStopped: the budget is spent, an endpoint is gone, ...
        RunFailed: anything else that ended the pipeline.
    """
    result = None
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except BaseException as error:
        if not isinstance(error, Exception) or _interrupted(error):
            if result is not None:
                with contextlib.suppress(Exception):  # not every runner can; the workers see that nobody leads them
                    result.cancel()
            if not isinstance(error, Exception):
                raise
            raise KeyboardInterrupt from None
        heed()
        raise _stopped(error, state) from error


def choose(beam_args: Sequence[str], found: Inputs, job: Job) -> Runner:
    """Where to run.

    On this machine Beam's portable runner is used directly (the default one would download a Go binary), with a worker
    process per core once the input is worth it and the model is not itself bound to these cores.

    Raises:
        UsageError: a flag that neither we nor Beam know, or a wrong value.
    """
    unknown = _unknown_flags(beam_args)
    if unknown:
        raise UsageError(f"unknown flag {unknown[0]}; --help lists ours, and Beam's own are accepted too")
    options = PipelineOptions(list(beam_args))
    runner = (options.view_as(StandardOptions).runner or "DirectRunner").rsplit(".")[-1]
    if runner not in HERE:
        return Runner(options, local=False, processes=False)
    direct = options.view_as(DirectOptions)
    named = " ".join(beam_args)
    processes = direct.direct_running_mode == "multi_processing"
    if "direct_running_mode" not in named and "direct_num_workers" not in named:
        embedded = all(parse_spec(role.spec).on_llama for role in job.roles.values())
        processes = (os.cpu_count() or 1) > 1 and found.size > ONE_PROCESS_BYTES and not embedded
        direct.direct_num_workers = 0 if processes else 1
    if processes:
        direct.direct_running_mode = "in_memory"  # or Beam would replace our worker command by its own
    return Runner(options, local=True, processes=processes)


def _unknown_flags(beam_args: Sequence[str]) -> list[str]:
    """Flags that neither we nor Beam know; Beam itself would drop them with a warning."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for group in {str(cls): cls for cls in PipelineOptions.__subclasses__()}.values():
        group._add_argparse_args(parser)  # type: ignore[arg-type]  # any parser will do for flags alone
    try:
        return parser.parse_known_args(list(beam_args))[1]
    except SystemExit:
        raise UsageError("a flag of Beam's has a wrong value, see above") from None


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C came while Beam ran our code, which it makes an error of its own of."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or "KeyboardInterrupt" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _no_room(error: BaseException, seen: Sequence[str]) -> bool:
    """Whether a disk was full. Those of the output and of the cache say so themselves; what is left is that of temporary
    files, on which Beam and our own workers talk to each other."""
    full = os.strerror(errno.ENOSPC)
    return getattr(error, "errno", None) == errno.ENOSPC or any(full in text for text in seen)


_RAISED = re.compile(r"tokenmill\.inference\.errors\.(\w+): (.*?)(?: \[while running |\\n|\n|$)")


def _stopped(error: Exception, state: str) -> Exception:
    """What ended a pipeline, as the workers meant it: runners hand their exceptions on as text, or as themselves with more
    text, and a worker leaves its reason in the state folder."""
    from tokenmill.inference import errors

    told = Path(state, STOPPED)
    if state and told.exists():
        kind, message = orjson.loads(told.read_bytes())
    else:
        chain: BaseException | None = error
        seen: list[str] = []
        while chain is not None:
            seen.append(
                f"tokenmill.inference.errors.{type(chain).__name__}: {chain}"
                if isinstance(chain, RunStopped)
                else str(chain)
            )
            chain = chain.__cause__ or chain.__context__
        match = next((m for text in seen for m in [_RAISED.search(text)] if m), None)
        if match is None:
            if _no_room(error, seen):
                return RunStopped(
                    f"{tempfile.gettempdir()} is full (No space left on device); make room there, or name another folder "
                    "in TMPDIR, and repeat the command to go on"
                )
            line = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
            return RunFailed(f"the pipeline broke: {line.strip()[:500]} ({DEBUG}=1 shows all of it)")
        kind, message = match.groups()
    raised = getattr(errors, kind, RunStopped)
    return raised(message) if isinstance(raised, type) and issubclass(raised, RunStopped) else RunStopped(message)
