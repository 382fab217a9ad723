"""The flags that every job has."""

from __future__ import annotations

import argparse
import json
import os
from math import inf
from pathlib import Path
from typing import Any

from tokenmill.inference.roles import Role
from tokenmill.inference.spec import EMBEDDED, SpecError, parse_spec
from tokenmill.pipelines.runs.errors import UsageError

EMBEDDED_SAMPLING = {"temperature": 0.3, "repeat_penalty": 1.1}
"""The embedded model goes round in circles without."""


def positive(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def seed(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:  # as columns and manifests hold it
        raise argparse.ArgumentTypeError("must be within 64 bits")
    return value


def seconds(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


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


def sampling(text: str) -> dict[str, Any]:
    """Sampling parameters as JSON; null leaves one out. Parameters that only some servers know are passed on unseen.

    Raises:
        argparse.ArgumentTypeError: no JSON object, a parameter that is not the user's to set, or a value that cannot be.
    """
    try:
        value = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("must be a JSON object")
    for name, given in value.items():
        if name in OURS:
            raise argparse.ArgumentTypeError(f"{name} is set by the job and cannot be given here")
        wanted = "" if given is None else _wanted(name, given)
        if wanted:
            raise argparse.ArgumentTypeError(f"{name} must be {wanted} (or null to leave it out), not {given!r}")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


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


def default_cache() -> str:
    """Where answers are kept unless a run says otherwise: one file for all runs of this user, since an answer's address
    does not depend on the run."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return str(Path(base, "tokenmill", "answers.sqlite"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the contract of a run."""
    data = parser.add_argument_group("what is read and written")
    data.add_argument(
        "--input",
        nargs="+",
        required=True,
        metavar="GLOB",
        help="Parquet, JSONL (.gz, .zst), .txt or .md; local or on any Beam filesystem",
    )
    data.add_argument(
        "--output", metavar="DIR", help="a folder for this run alone; required unless previewing or estimating"
    )
    data.add_argument(
        "--columns",
        default="",
        metavar="A=B,…",
        help="where the input's columns are named otherwise: text=body,id=url",
    )
    data.add_argument("--limit", type=positive, metavar="N", help="read only the first N rows")
    data.add_argument(
        "--max-document-bytes",
        type=positive,
        default=5_000_000,
        metavar="N",
        help="longer rows go to failed/ (default 5 MB)",
    )
    data.add_argument("--overwrite", action="store_true", help="replace a finished run of other settings in DIR")
    models = parser.add_argument_group("models")
    models.add_argument(
        "--llm",
        default="smollm2",
        metavar="SPEC",
        help="smollm2 (embedded, the default), MODEL@http://host:port/v1, openai:MODEL, vllm:MODEL, llamacpp:FILE.gguf",
    )
    models.add_argument("--judge-llm", metavar="SPEC", help="model that judges (default: as --llm)")
    models.add_argument(
        "--sampling",
        type=sampling,
        default={},
        metavar="JSON",
        help='parameters for the writer\'s calls that replace the built-in ones: \'{"temperature": 0.5, "top_p": null}\'',
    )
    models.add_argument(
        "--judge-sampling", type=sampling, default={}, metavar="JSON", help="the same for the judge's calls"
    )
    add_endpoint(models)
    add_money(parser, "rewrite N rows, show them side by side, write nothing to DIR")


def add_endpoint(models: argparse._ArgumentGroup) -> None:
    """How a job's models are called."""
    models.add_argument(
        "--max-concurrency",
        type=positive,
        default=64,
        metavar="N",
        help="calls in flight per worker process (default 64)",
    )
    models.add_argument("--timeout", type=seconds, default=600.0, metavar="S", help="seconds to wait for one answer")
    models.add_argument(
        "--patience",
        type=seconds,
        default=300.0,
        metavar="S",
        help="seconds that an endpoint may be gone before the run stops",
    )


def add_money(parser: argparse.ArgumentParser, preview: str) -> None:
    """What is spent, and the seed; `preview` is what the help says of `--preview`."""
    money = parser.add_argument_group("money")
    money.add_argument("--estimate", action="store_true", help="print calls, tokens and cost, and make no call")
    money.add_argument("--preview", type=positive, metavar="N", help=preview)
    money.add_argument(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="tokens this output may cost in all, over repeated commands; the run stops cleanly before it would exceed them",
    )
    money.add_argument(
        "--prices", metavar="FILE", help="JSON with prices per million tokens, on top of the shipped table"
    )
    money.add_argument(
        "--cache", metavar="PATH|URL", help="answers are kept here: a file or redis://… (default: ~/.cache/tokenmill)"
    )
    money.add_argument(
        "--retry-failed", action="store_true", help="ask again what failed or was refused by the endpoint"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of every draw (default 0)")


def roles(args: argparse.Namespace, *, judge: bool = True) -> dict[str, Role]:
    """The models of a run by role.

    Raises:
        UsageError: a SPEC is malformed.
    """
    small = EMBEDDED_SAMPLING if args.llm.startswith(EMBEDDED) else {}
    chosen = {"writer": Role(args.llm, {**small, **args.sampling})}
    if judge:
        chosen["judge"] = Role(args.judge_llm or args.llm, args.judge_sampling)
    for role in chosen.values():
        try:
            parse_spec(role.spec)
        except SpecError as error:
            raise UsageError(str(error)) from None
    return chosen


def too_small(spec: str, what: str) -> tuple[str, ...]:
    """A warning where the writer is the embedded model, for a job's `notes`; `what` is beyond that model."""
    if parse_spec(spec).kind != "embedded":
        return ()
    return (f"the embedded model is too small to {what}; take it to try the command, not to make data",)


def columns(text: str, known: tuple[str, ...]) -> dict[str, str]:
    """`--columns text=body,id=url` as a dict.

    Raises:
        UsageError: not of that form, or a name that the job does not know.
    """
    mapping: dict[str, str] = {}
    for pair in filter(None, (p.strip() for p in text.split(","))):
        name, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column:
            raise UsageError(f"--columns {pair}: write NAME=COLUMN, such as text=body")
        if name not in known:
            raise UsageError(f"--columns {pair}: no such name; known are {', '.join(known)}")
        mapping[name] = column
    return mapping
