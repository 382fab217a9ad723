"""Flags that pre-training and fine-tuning share; a JSON file can set any of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tokenmill.training.checkpoint import CheckpointError, read_config
from tokenmill.training.data.mixture import Source, parse_source
from tokenmill.training.data.mixture_file import read_mixture
from tokenmill.training.data.rows import InputError
from tokenmill.training.loop import LoopSettings
from tokenmill.training.model import PRESETS, ModelConfig, Yarn, preset
from tokenmill.training.schedules import Wsd
from tokenmill.training.template import Style


@dataclass(frozen=True)
class Job:
    """Everything a run was asked for."""

    sources: tuple[Source, ...]
    output: Path
    init: Path | None
    config: ModelConfig
    tokenizer: Path | None
    tokens: int | None
    """Length of the run; None: as long as the sources' epochs last."""
    sequence_length: int
    batch_tokens: int
    lr: float
    wsd: Wsd
    loop: LoopSettings
    seed: int
    window: int
    declarations: Style
    validation: Path | None
    average_last: int
    device: str | None


def add_flags(parser: argparse.ArgumentParser, defaults: dict[str, Any]) -> None:
    parser.add_argument(
        "--data",
        nargs="+",
        metavar="DIR",
        help="run or folder of Parquet files: [NAME:]DIR[@EPOCHS|=WEIGHT]",
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="CKPT", help="checkpoint to write, and the run's folder"
    )
    parser.add_argument("--init", type=Path, metavar="CKPT", help="start from this checkpoint's weights")
    parser.add_argument(
        "--config", metavar="NAME|FILE.json", help=f"{', '.join(PRESETS)}, or a file (training/README.md)"
    )
    parser.add_argument(
        "--tokenizer", type=Path, metavar="DIR", help="default: the checkpoint's, or a new one from the data"
    )
    parser.add_argument("--vocab-size", type=int, help="of a new tokenizer; default: the model's")
    parser.add_argument("--tokens", type=int, help="tokens to train on; needed with weights, else the epochs decide")
    parser.add_argument("--sequence-length", type=int, help="default: at most 1024 of what the model takes")
    parser.add_argument("--batch-tokens", type=int, help="tokens of one optimizer step; default: 16 rows")
    parser.add_argument("--lr", type=float, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--window", type=int, default=16, metavar="GROUPS", help="row groups shuffled together")
    parser.add_argument("--declarations", choices=("typescript", "json", "mixed"), default="mixed", help="of tools")
    parser.add_argument("--yarn", type=float, metavar="FACTOR", help="extend the context of --init by YaRN")
    parser.add_argument("--validation", type=Path, metavar="DIR", help="held-out shards")
    parser.add_argument(
        "--average-last", type=int, default=0, metavar="N", help="publish the mean of the last N checkpoints"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"))
    schedule = parser.add_argument_group("schedule", "shares of all tokens, and factors")
    for field in fields(Wsd):
        kind = int if field.name == "long_length" else float
        schedule.add_argument(_flag(field.name), type=kind, default=field.default)
    loop = parser.add_argument_group("loop")
    for field in fields(LoopSettings):
        if field.name == "compile":
            loop.add_argument("--compile", action="store_true", help="compile each layer")
        else:
            loop.add_argument(_flag(field.name), type=type(field.default), default=field.default)
    parser.set_defaults(**defaults)


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> tuple[Job, argparse.Namespace]:
    """The job. Anything wrong ends the program with one line."""
    flags = parser.parse_args(argv)
    try:
        if flags.config and flags.config.endswith(".json"):
            settings = _read_settings(parser, Path(flags.config))
            parser.set_defaults(**settings)
            flags = parser.parse_args(argv)
        return _job(flags), flags
    except (CheckpointError, InputError, ValueError, TypeError, OSError) as error:
        parser.error(str(error))


def _job(flags: argparse.Namespace) -> Job:
    mixture: Path | None = getattr(flags, "mixture", None)
    if bool(flags.data) == bool(mixture):
        raise InputError(
            "--data: name what to train on" + (", or --mixture, not both" if hasattr(flags, "mixture") else "")
        )
    if mixture is not None:
        sources, tokens = read_mixture(mixture, flags.phase)
        flags.tokens = flags.tokens or tokens
    else:
        sources = tuple(parse_source(text) for text in flags.data)
    weighted = [source.weight is not None for source in sources]
    if any(weighted) and flags.tokens is None:
        raise InputError("--tokens: give the length of the run, sources with weights have no end")
    if flags.tokens is not None and flags.tokens < 1:
        raise InputError(f"--tokens: give at least 1, not {flags.tokens}")
    config = _model_config(flags)
    length = flags.sequence_length or min(1024, config.max_position_embeddings)
    if max(length, flags.long_length or 0) > config.max_position_embeddings:
        raise InputError(f"--sequence-length: the model takes at most {config.max_position_embeddings} tokens")
    if flags.average_last > flags.keep:
        raise InputError(f"--average-last: only --keep {flags.keep} checkpoints are kept; keep as many")
    return Job(
        sources,
        flags.output,
        flags.init,
        config,
        flags.tokenizer,
        flags.tokens,
        length,
        flags.batch_tokens or 16 * length,
        flags.lr,
        Wsd(**{field.name: getattr(flags, field.name) for field in fields(Wsd)}),
        LoopSettings(**{field.name: getattr(flags, field.name) for field in fields(LoopSettings)}),
        flags.seed,
        flags.window,
        flags.declarations,
        flags.validation,
        flags.average_last,
        flags.device,
    )


def _model_config(flags: argparse.Namespace) -> ModelConfig:
    if flags.init is not None:
        if flags.config and not flags.config.endswith(".json"):
            raise InputError("--config: --init brings the model's shape with it; give one of the two")
        config = read_config(flags.init)
        if flags.yarn is not None:
            length = config.max_position_embeddings
            yarn = Yarn(factor=flags.yarn, original_max_position_embeddings=length)
            config = config.replace(yarn=yarn, max_position_embeddings=round(length * flags.yarn))
        return config
    if flags.yarn is not None:
        raise InputError("--yarn: extends a trained model; give --init as well")
    if not flags.config:
        raise InputError("--config: name the model to train, or give --init")
    if not flags.config.endswith(".json"):
        return preset(flags.config)
    given = json.loads(Path(flags.config).read_text())
    return preset(given["preset"]).replace(**given.get("model", {}))


def _read_settings(parser: argparse.ArgumentParser, path: Path) -> dict[str, Any]:
    """`{"preset": NAME, "model": {changes}, "training": {flags}}`."""
    given = json.loads(path.read_text())
    if not isinstance(given, dict) or not isinstance(given.get("preset"), str):
        raise InputError(f"{path}: needs a `preset` to start from, one of {', '.join(PRESETS)}")
    known = {action.dest: action for action in parser._actions}
    training = {key.replace("-", "_"): value for key, value in given.get("training", {}).items()}
    unknown = [*(set(given) - {"preset", "model", "training"}), *(set(training) - set(known))]
    if unknown:
        raise InputError(f"{path}: unknown settings: {', '.join(sorted(unknown))}")
    return {key: _like_a_flag(known[key], value, path) for key, value in training.items()}


def _like_a_flag(action: argparse.Action, value: Any, path: Path) -> Any:
    """argparse checks text only; a value from a file gets the same treatment."""
    if value is None:
        return value
    if action.choices is not None and value not in action.choices:
        raise InputError(f"{path}: {action.dest}: give {', '.join(action.choices)}, not {value!r}")
    try:
        return action.type(value) if callable(action.type) else value
    except (TypeError, ValueError):
        raise InputError(f"{path}: {action.dest}: {value!r} is not of the right type") from None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
