"""Every job as a function of Python, with the options of its command.

    run = tm.knowledge("corpus/*.parquet", llm="openai:gpt-5-mini", rephrasings=1, output="out/wiki")
    run = tm.math([{"question": "…", "answer": "…"}], llm=SPEC, preview=3)
    run = tm.agentic(tm.tools.evolve(llm=SPEC), llm=SPEC, agents=10)
    tm.knowledge.estimate("corpus/*.parquet", llm=SPEC)
    help(tm.knowledge.options)                  # every option: a field of a frozen dataclass

What goes wrong is an exception whose text is the one line that the command prints: `tm.UsageError` (nothing was spent),
`tm.RunStopped` (the same call goes on where it ended), `tm.RunFailed`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tokenmill.cli import COMMANDS, import_beam, load

import_beam()  # before what is below does, with all that we have no use for

from tokenmill.inference.roles import Models, Role  # noqa: E402
from tokenmill.inference.spec import parse_spec  # noqa: E402
from tokenmill.pipelines.runs.errors import RunFailed  # noqa: E402
from tokenmill.pipelines.runs.exit import raising  # noqa: E402
from tokenmill.pipelines.runs.options import RunOptions, default_cache  # noqa: E402
from tokenmill.result import Run  # noqa: E402
from tokenmill.rows import as_paths  # noqa: E402
from tokenmill.schemas.flags import UsageError, describe  # noqa: E402


class Job:
    """One job of the command line as a function. `help(job.options)` names its options; they are those of the command,
    without dashes: `--judge-llm` is `judge_llm`."""

    def __init__(self, command: str, **parts: Job) -> None:
        self._command = command
        self.__name__ = self.__qualname__ = command.split()[0]
        self.__doc__ = f"{COMMANDS[command][1].capitalize()}.\n\n{self.__call__.__doc__}"
        vars(self).update(parts)

    @property
    def options(self) -> type[RunOptions]:
        """The dataclass of the job's options."""
        return load(self._command).options

    def __call__(
        self,
        rows: Any = None,
        /,
        *,
        output: str | Path | None = None,
        preview: int | None = None,
        quiet: bool = False,
        beam_args: Sequence[str] = (),
        **settings: Any,
    ) -> Run:
        """Run the job and return the finished run. May be called where an event loop runs, as in a notebook.

        Args:
            rows: paths or globs, a list of dicts, a pandas or polars table, an Arrow table, a `datasets.Dataset`, or an
                earlier `Run`.
            output: the run's folder; by default a temporary one, deleted when the returned run is no longer in use. A call
                that was cut short goes on where it ended when it is repeated, in any folder: answers are kept in the cache.
            preview: work on this many rows, in a temporary folder.
            quiet: print neither progress nor outcome.
            beam_args: flags of Beam's.
            settings: options of the job, see `options`.

        Raises:
            UsageError: an option or the input is wrong; nothing was spent.
            RunStopped: the budget is spent, an endpoint is gone, a request is not recorded, …; repeating goes on.
            RunFailed: the run broke, or a chain came to nothing.
        """
        if settings.get("estimate"):
            raise UsageError(f"call {self._command.replace(' ', '.')}.estimate(…) with the same arguments")
        temporary = None
        if output is None or preview:
            temporary = tempfile.TemporaryDirectory(prefix="tokenmill-run-")
            output = temporary.name
        if preview:
            settings = {**settings, **self._few(preview)}
        with self._made(rows, {**settings, "output": str(output)}) as options, _silent(quiet):
            load(self._command).run(options, list(beam_args))
        try:
            return Run(str(options.output), temporary=temporary)
        except RunFailed:
            raise RunFailed(f"{self._command}: a stage kept nothing; see {options.output}/report.html") from None

    def estimate(self, rows: Any = None, /, **settings: Any) -> None:
        """Print calls, tokens and cost of the same call, and make none.

        Raises:
            UsageError: an option or the input is wrong.
        """
        with self._made(rows, {**settings, "estimate": True}) as options:
            load(self._command).run(options)

    @contextlib.contextmanager
    def _made(self, rows: Any, settings: dict[str, Any]) -> Iterator[Any]:
        """The options of a call, while its rows lie where they say; errors are raised, not printed."""
        known = [field.name for field in dataclasses.fields(self.options)]
        if unknown := [name for name in settings if name not in known]:
            raise UsageError(f"{self._command} has no option {unknown[0]}; it has {', '.join(known)}")
        with tempfile.TemporaryDirectory(prefix="tokenmill-rows-") as folder, raising():
            given = {} if rows is None else {"input": as_paths(rows, Path(folder))}
            needed = [one.field for one in describe(self.options) if one.default is dataclasses.MISSING]
            if missing := [name for name in needed if name not in (*given, *settings)]:
                raise UsageError(f"{self._command} needs {missing[0] if missing[0] != 'input' else 'rows'}")
            yield self.options(**{**settings, **given})

    def _few(self, count: int) -> dict[str, Any]:
        """The options of a preview of so many rows."""
        if count < 1:
            raise UsageError(f"preview={count}: must be at least 1")
        names = {one.field for one in describe(self.options)}
        # What a chain makes of its tools are agents; other jobs without rows to read make of nothing what they are told to.
        return {"agents": count} if "agents" in names else {"limit": count}

    @property
    def __signature__(self) -> inspect.Signature:
        own = inspect.signature(type(self).__call__).parameters
        first = [one for name, one in own.items() if name not in ("self", "settings")]
        fields = [one for one in describe(self.options) if one.field not in ("input", "estimate", *own)]
        more = [
            inspect.Parameter(
                one.field,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if one.default is dataclasses.MISSING else one.default,
                annotation=one.type | None if one.optional else one.type,
            )
            for one in fields
        ]
        return inspect.Signature([*first, *more], return_annotation=Run)


@contextlib.contextmanager
def _silent(quiet: bool) -> Iterator[None]:
    if not quiet:
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def models(
    *, cache: str = "", budget: int | None = None, run: str = "python", max_concurrency: int = 64, **specs: str
) -> Models:
    """Which models a `Rollout` may call, for a Beam pipeline of one's own: `tm.models(writer=SPEC, judge=SPEC)`.

    Args:
        cache: where answers are kept: a file or `redis://…`; by default `~/.cache/tokenmill`.
        budget: tokens that may be spent under the name `run` in all, over repeated runs.
        max_concurrency: calls in flight per worker process.
        specs: a model SPEC for each role that the step's `ask(…, to=ROLE)` names; `writer` is the one asked by default.

    Raises:
        UsageError: a SPEC cannot be read, or none is given.
    """
    if not specs:
        raise UsageError("name a model for each role: models(writer=SPEC)")
    for name, spec in specs.items():
        try:
            parse_spec(spec)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    roles = {name: Role(spec) for name, spec in specs.items()}
    return Models(roles, cache or default_cache(), run, budget=budget, max_concurrency=max_concurrency)


knowledge = Job("knowledge")
math = Job("math")
generate = Job("generate")
agentic = Job(
    "agentic run",
    agents=Job("agentic agents"),
    tasks=Job("agentic tasks"),
    trajectories=Job("agentic trajectories"),
    code=Job("agentic code"),
)
tools = SimpleNamespace(
    harvest=Job("tools harvest"),
    evolve=Job("tools evolve"),
    curate=Job("tools curate"),
    implement=Job("tools implement"),
)
