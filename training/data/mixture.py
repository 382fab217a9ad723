"""From shards to token sequences: encoding, exact repetition, mixture by weight, a position that can be saved.

A mixture gives documents one after the other, the same ones in the same order whatever the number of processes that
train; its position is a few integers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tokenmill.training.data.rows import InputError, Shards, ShuffledRows, find_files, iterate_rows, open_shards
from tokenmill.training.encoding import encode_segments
from tokenmill.training.template import Style, TemplateError, declaration, normalize_row, render
from tokenmill.training.tokenizer import Tokenizer

ENCODED_AT_ONCE = 256


@dataclass(frozen=True)
class Example:
    """One document or conversation: what is read at each place, what should follow, and whether that counts."""

    inputs: np.ndarray
    """int32, (time,)"""
    targets: np.ndarray
    """int32, (time,): the next token of the same document."""
    mask: np.ndarray | None = None
    """bool, (time,): targets that count in the loss; None for all."""

    def __len__(self) -> int:
        return len(self.inputs)


Encoded = Example | str
"""An example, or the reason why a row gives none."""
Encode = Callable[[Sequence[dict[str, Any]]], list[Encoded]]


@dataclass(frozen=True)
class TextEncoder:
    """Pre-training: `[BOS] text [EOS]`, all of it learnt. Rows of conversations are rendered and learnt as a whole."""

    tokenizer: Tokenizer
    style: Style = "json"

    def __call__(self, rows: Sequence[dict[str, Any]]) -> list[Encoded]:
        if rows and "text" not in rows[0]:
            return [
                _unmasked(encoded)
                for encoded in ConversationEncoder(self.tokenizer, style=self.style, bound=None)(rows)
            ]
        texts = [row["text"] or "" for row in rows]
        bos, eos = (np.asarray([token], dtype=np.int32) for token in (self.tokenizer.bos, self.tokenizer.eos))
        encoded: list[Encoded] = []
        for ids in self.tokenizer.encode_batch(texts):
            if not len(ids):
                encoded.append("empty")
                continue
            tokens = np.concatenate((bos, ids, eos))
            encoded.append(Example(tokens[:-1], tokens[1:]))
        return encoded


@dataclass(frozen=True)
class ConversationEncoder:
    """Fine-tuning: the chat template, the loss on the assistant's tokens alone; `bound` is the longest that fits."""

    tokenizer: Tokenizer
    bound: int | None
    style: Style = "json"

    def __call__(self, rows: Sequence[dict[str, Any]]) -> list[Encoded]:
        rendered: list[list[Any] | str] = []
        for row in rows:
            try:
                messages, tools = normalize_row(row)
                rendered.append(list(render(messages, declaration(tools, self.style))))
            except TemplateError as error:
                rendered.append(f"broken: {error}")
        pairs = iter(encode_segments(self.tokenizer, [one for one in rendered if not isinstance(one, str)]))
        return [one if isinstance(one, str) else self._example(*next(pairs)) for one in rendered]

    def _example(self, tokens: np.ndarray, trained: np.ndarray) -> Encoded:
        if self.bound is not None and len(tokens) - 1 > self.bound:
            return "too long"
        if not trained[1:].any():
            return "no assistant turn to learn"
        return Example(tokens[:-1], tokens[1:], trained[1:])


def _unmasked(encoded: Encoded) -> Encoded:
    return encoded if isinstance(encoded, str) else Example(encoded.inputs, encoded.targets)


@dataclass(frozen=True)
class Source:
    """One domain of the mixture; either `weight`, its share of the tokens, or `epochs`, how often each row is seen."""

    name: str
    shards: Shards
    weight: float | None = None
    epochs: float = 1.0

    def __post_init__(self) -> None:
        if self.weight is not None and not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"weight of {self.name}: give a number above 0, not {self.weight}")
        if not (math.isfinite(self.epochs) and self.epochs > 0):
            raise ValueError(f"epochs of {self.name}: give a number above 0, not {self.epochs}")

    @property
    def wanted_rows(self) -> int:
        """How many rows `epochs` are: 1.5 epochs are every row once and half of them again."""
        return round(self.epochs * self.shards.rows)


def parse_source(text: str) -> Source:
    """`DIR`, `DIR@EPOCHS`, `DIR=WEIGHT` or `NAME:DIR...`. Raises `InputError` with one line."""
    name, _, rest = text.partition(":") if ":" in text and not Path(text).exists() else ("", "", text)
    try:
        if Path(rest).exists():
            place, options = rest, {}
        elif "=" in rest:
            place, _, number = rest.rpartition("=")
            options = {"weight": float(number)}
        elif "@" in rest:
            place, _, number = rest.rpartition("@")
            options = {"epochs": float(number)}
        else:
            place, options = rest, {}
        return Source(name or Path(place).name, open_shards(find_files(Path(place))), **options)
    except ValueError as error:
        raise InputError(f"--data {text}: {error}") from error


@dataclass
class Position:
    """Where a mixture stands. Everything is per source, in order; plain numbers, to be saved in checkpoints."""

    rows: list[int]
    """Rows taken, dropped ones included."""
    tokens: list[int]
    """Targets given."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows dropped so far, by reason."""

    def copy(self) -> Position:
        return Position(list(self.rows), list(self.tokens), dict(self.dropped))


class Mixture:
    """Documents of several sources, interleaved without chance: next comes the source farthest behind its share.

    With weights the share is of tokens and the stream has no end. With epochs it is of rows, and the stream ends when
    every source has been seen exactly as often as it asks. Raises `ValueError` when the two are mixed, or two sources
    have one name.
    """

    def __init__(self, sources: Sequence[Source], encode: Encode, *, seed: int = 0, window: int = 16) -> None:
        if not sources:
            raise ValueError("data: give at least one source")
        names = [source.name for source in sources]
        if len(set(names)) < len(names):
            raise ValueError(f"data: two sources have the same name among {', '.join(names)}; write NAME:DIR")
        weighted = [source.weight is not None for source in sources]
        if any(weighted) and not all(weighted):
            raise ValueError("data: give a weight to all sources or to none")
        self.sources, self.encode, self.weighted = list(sources), encode, all(weighted)
        # A seed of its own for each source: two copies of a source are not seen in step.
        self.rows = [ShuffledRows(s.shards, seed * 1_000_003 + i, window) for i, s in enumerate(sources)]

    def start(self) -> Position:
        return Position([0] * len(self.sources), [0] * len(self.sources))

    def iterate(self, position: Position) -> Iterator[tuple[Example | None, Position]]:
        """Examples from `position` on, each with the position behind it; None for a row that is dropped."""
        position = position.copy()
        streams = [self._encoded(i, position.rows[i]) for i in range(len(self.sources))]
        while (index := self._next_source(position)) is not None:
            encoded = next(streams[index])
            position = position.copy()
            position.rows[index] += 1
            if isinstance(encoded, str):
                reason = f"{self.sources[index].name}: {encoded}"
                position.dropped[reason] = position.dropped.get(reason, 0) + 1
                self._refuse_emptiness(index, position)
                yield None, position
            else:
                position.tokens[index] += len(encoded)
                yield encoded, position

    def _refuse_emptiness(self, index: int, position: Position) -> None:
        """A weighted source of which no row is usable would be asked for ever."""
        if position.rows[index] >= self.sources[index].shards.rows and not position.tokens[index]:
            reasons = "; ".join(f"{count} {reason}" for reason, count in position.dropped.items())
            raise InputError(f"no row of {self.sources[index].name} can be trained on ({reasons})")

    def _encoded(self, index: int, position: int) -> Iterator[Encoded]:
        rows = self.rows[index].iterate(position)
        if not self.weighted:
            rows = islice(rows, self.sources[index].wanted_rows - position)
        while batch := list(islice(rows, ENCODED_AT_ONCE)):
            yield from self.encode(batch)

    def _next_source(self, position: Position) -> int | None:
        if self.weighted:
            progress = [tokens / (s.weight or 1.0) for tokens, s in zip(position.tokens, self.sources, strict=True)]
        else:
            progress = [
                taken / source.wanted_rows if taken < source.wanted_rows else math.inf
                for taken, source in zip(position.rows, self.sources, strict=True)
            ]
        best = min(range(len(progress)), key=progress.__getitem__)
        return None if progress[best] == math.inf else best

    def epochs(self, position: Position) -> dict[str, float]:
        """How often each source has been seen."""
        return {s.name: rows / s.shards.rows for s, rows in zip(self.sources, position.rows, strict=True)}

    def fingerprint(self) -> list[Any]:
        return [[s.name, s.weight, s.epochs, s.shards.fingerprint()] for s in self.sources]


def count_targets(sources: Sequence[Source], encode: Encode) -> tuple[int, Counter[str]]:
    """Targets that the sources give over all their epochs, by encoding every row once; and rows dropped by reason.

    Exact for whole epochs; a part of an epoch is counted by its share.
    """
    total, dropped = 0.0, Counter[str]()
    for source in sources:
        rows = iterate_rows(source.shards)
        once = 0
        while batch := list(islice(rows, ENCODED_AT_ONCE)):
            for encoded in encode(batch):
                if isinstance(encoded, str):
                    dropped[encoded] += 1
                else:
                    once += len(encoded)
        total += once * source.epochs
    return round(total), dropped
