"""One run of one job, from its flags to its exit code: check everything, estimate or preview, run, finish."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from tokenmill.inference import runtime as runtimes
from tokenmill.inference.identity import installed
from tokenmill.inference.roles import Models
from tokenmill.inference.servers.hub import NotFetched, pinned_text
from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.runs import detached, inputs, live, recordings, remote
from tokenmill.pipelines.runs.batched import at_the_driver, batched, check_batches
from tokenmill.pipelines.runs.conclude import conclude, counted, verdict
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import OK, ended, say
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.manifest import Begun, check_utf8, described_models, described_prompts, fingerprint_of
from tokenmill.pipelines.runs.options import RunOptions, default_cache
from tokenmill.pipelines.runs.preflight import check_models
from tokenmill.pipelines.runs.prepare import prepared
from tokenmill.pipelines.runs.progress import Progress
from tokenmill.pipelines.runs.runner import choose
from tokenmill.pipelines.runs.runner import counted as counted_rows
from tokenmill.pipelines.transforms.files import absolute, whole_path
from tokenmill.schemas.flags import as_flags, describe, shaping

from tokenmill import COMMAND as PROGRAM

SHARD_BYTES = 64_000_000
"""Input bytes per output shard, all rephrasings counted."""
LEAST_ROOM = 1 << 18
"""Bytes that must fit among the temporary files for a run to begin."""
FEW, SMALL_SHARD_BYTES = 16, 1_000_000
"""A smaller job makes a few files all the same, since each is written by one worker."""


@dataclass(frozen=True)
class Command:
    """A subcommand: what it may be given, and what it does.

    Command("knowledge", KnowledgeOptions, one(job)).run(KnowledgeOptions(input="a.jsonl", output="out", llm="…"))
    """

    name: str
    options: type[RunOptions]
    begin: Callable[[Any, Sequence[str]], int]
    """Runs its job, or several, with its options and Beam's; the exit code."""

    def run(self, options: RunOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
        """Run it and return the exit code; whatever goes wrong that a user can act on is one line on stderr.

        Args:
            beam_args: Beam's own flags.
            command: the command line, for the manifest; one is made of the options where there is none.
        """
        # A pipeline does this too, but files are looked for before there is one, and S3 is not to be had without.
        FileSystems.set_options(PipelineOptions(list(beam_args)))
        words = command or [*PROGRAM, *self.name.split(), *as_flags(options), *beam_args]
        options = dataclasses.replace(options, command=tuple(words))
        return ended(lambda: self.begin(_pinned(options), beam_args))


def _pinned(options: RunOptions) -> RunOptions:
    """The options with models of the Hub pinned to a file and a commit, so that all workers and stages mean the same.

    Raises:
        UsageError: there is no such model, or no way to the Hub.
    """
    if options.estimate:  # asks nobody
        return options
    specs = {one.field: getattr(options, one.field) for one in describe(type(options)) if one.metavar == "SPEC"}
    try:
        named = {field: pinned_text(spec) for field, spec in specs.items() if spec}
    except NotFetched as error:
        raise UsageError(str(error)) from None
    changed: dict[str, Any] = {field: spec for field, spec in named.items() if spec != specs[field]}
    return dataclasses.replace(options, **changed) if changed else options


def one(job: Callable[[Any], Job]) -> Callable[[Any, Sequence[str]], int]:
    """What a command begins that runs one job, made of its options."""
    return lambda options, beam_args: launch(job(options), options, beam_args)


def launch(job: Job, options: RunOptions, beam_args: Sequence[str] = ()) -> int:
    """Run a job and return the exit code; whatever goes wrong that a user can act on is one line on stderr."""
    return ended(lambda: _launch(job, options, beam_args))


def _launch(job: Job, options: RunOptions, beam_args: Sequence[str]) -> int:
    found = job.found or _found(job, options)
    check_utf8(options.command, (file.path for file in found.files))
    for note in (*job.notes, *recordings.check(job, options)):
        say(note, OK)
    if options.estimate:
        from tokenmill.pipelines.runs import estimate

        estimate.show(job, found, options)
        return OK
    with _temporary() as state:
        models = models_of(job, options, state)
        with recordings.kept(models, options):
            if options.preview:
                from tokenmill.pipelines.runs import preview

                return preview.show(job, found, models, options.preview)
            out = OutputFolder(options.folder)
            with out.locked():
                return _run(job, options, beam_args, found, models, out)


@contextlib.contextmanager
def _temporary() -> Iterator[str]:
    """A folder for what the processes of this run tell each other.

    Raises:
        UsageError: there is no room for it.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="tokenmill-", ignore_cleanup_errors=True)
        Path(folder.name, "room").write_bytes(b"x" * LEAST_ROOM)
        Path(folder.name, "room").unlink()
    except OSError as error:
        raise UsageError(f"TMPDIR {tempfile.gettempdir()}: {error.strerror or error}; name another folder") from None
    with folder as name:
        yield name


def _found(job: Job, options: RunOptions) -> inputs.Inputs:
    """
    Raises:
        UsageError: there are no rows to read, or not such as the job reads.
    """
    found = inputs.find(options.input, limit=options.limit)
    assert job.parser is not None  # a job without one has found its rows
    inputs.check_columns(found, job.parser)
    if not found.pieces or found.rows == 0:
        raise UsageError(f"--input {' '.join(options.input)}: there are no rows")
    return found


def models_of(job: Job, options: RunOptions, state: str) -> Models:
    """What workers need to make a job's calls."""
    return Models(
        roles=job.roles,
        cache=options.cache or default_cache(),
        run=options.account or f"{job.name} {whole_path(options.output or 'preview')}",
        budget=options.max_tokens,
        max_concurrency=options.max_concurrency,
        max_concurrency_total=options.max_concurrency_total or 0,
        timeout=options.timeout,
        patience=options.patience,
        retry_refused=options.retry_failed,
        state=state,
        record=bool(options.record),
        worker_of=os.getpid(),
    )


def _run(
    job: Job, options: RunOptions, beam_args: Sequence[str], found: inputs.Inputs, models: Models, out: OutputFolder
) -> int:
    kept_out = {} if job.benchmarks is None else {"decontaminate": job.benchmarks.config}
    config = {**job.config, **kept_out, **shaping(options, RunOptions)}
    served, used = described_models(job.roles, job.sampling), described_prompts(job.prompts)
    shape = {"job": job.name, "config": config, "inputs": [[f.name, f.stamp] for f in found.files]}
    fingerprint = fingerprint_of(shape, served, used)
    described = {"config": config, "fingerprint": fingerprint, "models": served, "prompts": used}
    earlier = out.manifest()
    out.check_apart(file.path for file in found.files)
    if earlier is not None and not _to_be_replaced(earlier, fingerprint, options, out):
        with contextlib.suppress(OSError):  # one that was killed just before its end left it
            out.end()
        say(f"{out.path} is finished already: {counted(earlier['counts'])}. Nothing was done", OK)
        return verdict(earlier["counts"])
    begun = Begun()
    beam_args, added = remote.arguments(options.on, beam_args)
    if added:
        say(f"--on {options.on}: {' '.join(added)}", OK)
    runner = choose(beam_args, found, job)
    check_batches(job, local=runner.local)
    detached.check_detached(options, local=runner.local)
    state, shards = models.state, _shards(job, found)
    if runner.local:
        models = _shared_out(models, runner.workers)
        driven = at_the_driver(models) if batched(job) else models
    else:
        found, out = found.absolute(), OutputFolder(absolute(out.path))
        models = _elsewhere(models)
        benchmarks = () if job.benchmarks is None else job.benchmarks.paths
        paths_there = (out.path, *(file.path for file in found.files), *benchmarks)
        remote.check(models, paths_there, shared=options.shared_filesystem)
        driven = remote.of_driver(models, state)
    zygote = runner.zygote(job, models)  # before this process has threads
    try:
        runtime = runtimes.obtain(driven)
        try:
            if options.collect:
                detached.check_same(out, fingerprint)
                counters = counted_rows(out)
            else:
                check_models(runtime)
                if driven.attempt:
                    runtime.lead(for_good=options.detach)
                out.begin()
                if options.detach:
                    detached.leave_word(out, options, beam_args, fingerprint)
                    say(f"{runner.submit(job, models, found, out, shards)}; then: {PROGRAM[-1]} finish {out.path}", OK)
                    return OK
                total = found.rows and found.rows * job.tasks_per_row * job.rows_per_task
                progress = Progress(Path(state), total)
                watched = live.shown(out, job.name, job.title, progress, finished_before=earlier is not None)
                with progress, watched, prepared():
                    if batched(job):
                        from tokenmill.pipelines.runs.waves import Waves  # with its client of the Batch API

                        waves = Waves(runner, job, models, found, out, shards, runtime, options.batch_below, zygote)
                        counters = waves.run()
                    else:
                        counters = runner.execute(job, models, found, out, shards, zygote, state, runtime.heed)
            spent = runtime.run(runtime.client.cache.spent())
        finally:
            runtime.leave()
            runtimes.release(runtime)
    finally:
        if zygote is not None:
            zygote.close()
    return conclude(job, options, begun, found, out, counters, spent, described)


def _shards(job: Job, found: inputs.Inputs) -> int:
    """How many files the rows are spread over: by the input's size alone, so that it is the same on every machine."""
    made = found.size * job.tasks_per_row
    return max(1, -(-made // SHARD_BYTES), min(FEW, made // SMALL_SHARD_BYTES))


def _to_be_replaced(earlier: dict[str, Any], fingerprint: str, options: RunOptions, out: OutputFolder) -> bool:
    """Whether a finished run in the folder gives way to this one.

    Raises:
        UsageError: it was made with other settings and --overwrite is not given.
    """
    if earlier.get("fingerprint") == fingerprint:
        return options.overwrite or (options.retry_failed and earlier["counts"]["failed"] > 0)
    if not options.overwrite:
        raise UsageError(
            f"--output {out.path} holds a finished run of other settings or input; choose another folder or add --overwrite"
        )
    return True


def _shared_out(models: Models, workers: int) -> Models:
    """The models as the worker processes of this machine need them, which share out among them what all may have in flight.

    Raises:
        UsageError: there are more of them than calls.
    """
    total = models.max_concurrency_total
    if not total:
        return models
    if total < workers:
        raise UsageError(
            f"--max-concurrency-total {total} is less than one call for each of {workers} worker processes"
        )
    each = min(models.max_concurrency, total // workers)
    return dataclasses.replace(models, max_concurrency=each, max_concurrency_total=0)


def _elsewhere(models: Models) -> Models:
    """The models as workers on other machines need them: no local state, no parent but a leader to follow.

    Raises:
        UsageError: answers are recorded or come from a recording, which is a file of this machine.
    """
    recorded = any(parse_spec(role.spec).kind == "recorded" for role in models.roles.values())
    if models.record or recorded:
        raise UsageError("recordings are files of this machine: leave --record and recorded:FILE to runs on it")
    return dataclasses.replace(models, state="", worker_of=0, attempt=uuid.uuid4().hex, code=installed())
