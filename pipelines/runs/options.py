"""The flags that every job has, declared once; jobs add their own in subclasses."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, ClassVar

from tokenmill.inference.pricing import load_prices
from tokenmill.inference.providers import reasoning
from tokenmill.inference.roles import Role
from tokenmill.inference.spec import EMBEDDED, parse_spec
from tokenmill.pipelines.runs.remote import PROFILES
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES
from tokenmill.schemas.flags import (
    Options,
    UsageError,
    checked,
    flag,
    more_than_zero,
    must,
    not_negative,
    odd,
    positive,
)

EMBEDDED_SAMPLING = {"temperature": 0.3, "repeat_penalty": 1.1}
"""The embedded model goes round in circles without."""
DATA, MODELS, MONEY, WHERE = "what is read and written", "models", "money", "where it runs"
"""Headings in the help."""

OURS = frozenset(
    ["functions", "messages", "model", "n", "response_format", "stream", "stream_options", "tool_choice", "tools"]
)
"""Parameters of a call that are no matter of sampling: what a job asks, and the form in which it reads the answer."""
_NUMBERS = {
    "temperature": (0, inf),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "repeat_penalty": (0, inf),
    "repetition_penalty": (0, inf),
}
"""Lowest and highest value."""
_WHOLE = {"max_tokens": 1, "max_completion_tokens": 1, "seed": -(2**63), "top_k": -1}
"""Lowest value; the highest is that of 64 bits."""


def check_sampling(given: dict[str, Any]) -> dict[str, Any]:
    """Sampling parameters; None leaves one out. Parameters that only some servers know are passed on unseen.

    Raises:
        ValueError: a parameter that is not the user's to set, or a value that cannot be.
    """
    for name, value in given.items():
        if name in OURS:
            raise ValueError(f"{name} is set by the job and cannot be given here")
        wanted = "" if value is None else _wanted(name, value)
        if wanted:
            raise ValueError(f"{name} must be {wanted} (or null to leave it out), not {value!r}")
    return given


def _wanted(name: str, given: Any) -> str:
    """What the value of a well-known parameter must be, where `given` is not that."""
    whole = isinstance(given, int) and not isinstance(given, bool)
    if name in _NUMBERS:
        low, high = _NUMBERS[name]
        fits = (whole or isinstance(given, float)) and low <= given <= high
        return "" if fits else f"a number from {low}{'' if high == inf else f' to {high}'}"
    if name in _WHOLE:
        least = _WHOLE[name]
        return "" if whole and least <= given < 2**63 else f"a whole number{f' from {least}' if least > -2 else ''}"
    if name == "stop":
        texts = given if isinstance(given, list) else [given]
        return "" if texts and all(isinstance(one, str) and one for one in texts) else "a text or a list of texts"
    return ""


of_data, of_models, of_money = (partial(flag, group=group) for group in (DATA, MODELS, MONEY))
# A spec may hold a key; its errors show it without.
model = partial(of_models, metavar="SPEC", parse=checked(parse_spec), echo=False)
_in_64_bits = must("within 64 bits", lambda value: -(2**63) <= value < 2**63)  # as columns and manifests hold it
longest_row = partial(of_data, metavar="N", parse=positive, shapes=True, help="longer rows go to failed/")


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """The contract of a run. What means nothing to a job, such as a judge's model where nothing is judged, is taken and
    changes nothing.

    Raises:
        UsageError: a value cannot be, or there is nowhere to write to.
    """

    input: tuple[str, ...] = of_data(
        metavar="GLOB",
        help="Parquet, JSONL (.gz, .zst), .txt or .md; local, on any Beam filesystem, or hf://datasets/NAME[/CONFIG][:SPLIT]",
    )
    output: str | None = of_data(
        None,
        metavar="DIR",
        parse=lambda path: path.rstrip("/") or path,
        help="a folder for this run alone; required unless previewing or estimating",
    )
    limit: int | None = of_data(None, metavar="N", parse=positive, shapes=True, help="read only the first N rows")
    max_document_bytes: int = longest_row(5_000_000)
    overwrite: bool = of_data(False, help="replace a finished run of other settings in DIR")
    llm: str = model(
        EMBEDDED,
        help=f"model that writes: {EMBEDDED} (embedded, the default), MODEL@http://host:port/v1, openai:MODEL, "
        "vllm:MODEL, llamacpp:FILE.gguf, hf:ORG/REPO[/FILE.gguf], recorded:FILE",
    )
    judge_llm: str | None = model(None, help="model that judges (default: as --llm)")
    sampling: dict[str, Any] = flag(
        {},
        group=MODELS,
        metavar="JSON",
        parse=check_sampling,
        help="parameters for the writer's calls that replace the built-in ones: "
        '\'{"temperature": 0.5, "top_p": null}\'',
    )
    judge_sampling: dict[str, Any] = flag(
        {}, group=MODELS, metavar="JSON", parse=check_sampling, help="the same for the judge's calls"
    )
    max_concurrency: int = of_models(64, metavar="N", parse=positive, help="calls in flight per worker process")
    max_concurrency_total: int | None = of_models(
        None, metavar="N", parse=positive, help="calls in flight of all workers together, on however many machines"
    )
    timeout: float = of_models(600.0, metavar="S", parse=more_than_zero, help="seconds to wait for one answer")
    patience: float = of_models(
        300.0, metavar="S", parse=more_than_zero, help="seconds that an endpoint may be gone before the run stops"
    )
    estimate: bool = of_money(False, help="print calls, tokens and cost, and make no call")
    preview: int | None = of_money(
        None, metavar="N", parse=positive, help="work on N rows, show them, write nothing to DIR"
    )
    max_tokens: int | None = of_money(
        None,
        metavar="N",
        parse=positive,
        help="tokens this output may cost in all, over repeated commands; the run stops cleanly before it would exceed them",
    )
    prices: str | None = of_money(
        None,
        metavar="FILE",
        parse=checked(load_prices),
        echo=False,
        help="JSON with prices per million tokens, on top of the shipped table",
    )
    cache: str | None = of_money(
        None, metavar="PATH|URL", help="answers are kept here: a file or redis://… (default: ~/.cache/tokenmill)"
    )
    on: str | None = flag(
        None,
        group=WHERE,
        choices=tuple(PROFILES),
        help="run on such a cluster: gives its runner the flags that these jobs need, and prints them; Beam's own stand before",
    )
    shared_filesystem: bool = flag(
        False, group=WHERE, help="local paths are mounted under the same names on all machines of the cluster"
    )
    detach: bool = flag(
        False,
        group=WHERE,
        help="on a cluster: end once the job is submitted; `finish DIR` makes its rows a finished run",
    )
    record: str | None = of_money(
        None, metavar="FILE", help="also write every answer to FILE, from which --llm recorded:FILE gives it again"
    )
    batch_below: int = of_money(
        0,
        metavar="N",
        parse=not_negative,
        help="with ?batch in a SPEC: ask directly, at full price, once fewer than N calls wait",
    )
    retry_failed: bool = of_money(False, help="ask again what failed or was refused by the endpoint")
    seed: int = flag(0, metavar="N", parse=_in_64_bits, shapes=True, help="of every draw")

    command: tuple[str, ...] = field(default=(), compare=False)
    """The command line, for the manifest."""
    account: str = field(default="", compare=False)
    """Name of the ledger where several runs share one budget."""
    collect: bool = field(default=False, compare=False)
    """Whether the rows were made by a job that was begun with `detach` and need only be finished."""
    stages: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    """The runs before this one, where it ends a chain: see `Manifest.stages`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.output or self.preview or self.estimate):
            raise UsageError("--output DIR is required (or --preview N, or --estimate)")

    @property
    def folder(self) -> str:
        """The output, of a run that writes rows."""
        assert self.output is not None
        return self.output


of_writing, of_checking = (partial(flag, group=group) for group in ("how texts are written", "how texts are checked"))


@dataclass(frozen=True, kw_only=True)
class TextOptions(RunOptions):
    """Of jobs that write texts anew, with a judge."""

    known_columns: ClassVar[tuple[str, ...]] = ()
    """What `--columns` may name."""

    columns: str = of_data("", metavar="A=B,…", help="where the input's columns are named otherwise: text=body,id=url")
    repairs: int = of_writing(2, metavar="N", parse=not_negative, shapes=True, help="further tries for what is refused")
    no_judge: bool = of_checking(False, help="leave out the judge model")
    votes: int = of_checking(1, metavar="N", parse=odd, help="judge's votes per text, odd")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.named_columns()

    def named_columns(self) -> dict[str, str]:
        """`--columns text=body,id=url` as a dict.

        Raises:
            UsageError: not of that form, or a name that the job does not know.
        """
        mapping: dict[str, str] = {}
        for pair in filter(None, (p.strip() for p in self.columns.split(","))):
            name, equals, column = (part.strip() for part in pair.partition("="))
            if not equals or not column:
                raise UsageError(f"--columns {pair}: write NAME=COLUMN, such as text=body")
            if name not in self.known_columns:
                raise UsageError(f"--columns {pair}: no such name; known are {', '.join(self.known_columns)}")
            mapping[name] = column
        return mapping


@dataclass(frozen=True, kw_only=True)
class RecordOptions(RunOptions):
    """Of jobs that read rows which another job wrote: those of agents, with their tools and worlds, are long."""

    max_document_bytes: int = longest_row(MAX_ROW_BYTES)


_ROLES = {"writer": "", "user": "user_", "tools": "tool_", "judge": "judge_"}
"""How the options of a role begin: `tool_llm`, `tool_sampling`."""


def roles(options: RunOptions, *names: str) -> dict[str, Role]:
    """The models of a run by role; a role without a model of its own is played by the writer's."""
    chosen = {}
    for name in names:
        spec = getattr(options, f"{_ROLES[name]}llm") or options.llm
        parsed = parse_spec(spec)
        told = reasoning(parsed.model, parsed.maker, (parsed.option("effort") if not parsed.managed else "") or "")
        small = EMBEDDED_SAMPLING if is_embedded(spec) else {}
        chosen[name] = Role(spec, {**small, **told, **getattr(options, f"{_ROLES[name]}sampling")})
    return chosen


def is_embedded(spec: str) -> bool:
    return parse_spec(spec).kind == "embedded"


def too_small(spec: str, what: str) -> tuple[str, ...]:
    """A warning where the writer is the embedded model, for a job's `notes`; `what` is beyond that model."""
    if not is_embedded(spec):
        return ()
    return (f"the embedded model is too small to {what}; take it to try the command, not to make data",)


def default_cache() -> str:
    """Where answers are kept unless a run says otherwise: one file for all runs of this user, since an answer's address
    does not depend on the run."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return str(Path(base, "tokenmill", "answers.sqlite"))


def server_store() -> Path:
    """Where packages of MCP servers are installed and kept, unless a run says otherwise."""
    return Path(default_cache()).with_name("servers")
