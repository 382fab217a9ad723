"""Packing: documents laid behind each other in rows of one length, each seeing only itself.

`stream` cuts documents at the end of a row and goes on in the next one: no padding, every target exactly once. `fit`
keeps conversations whole, several to a row as they fit best.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from tokenmill.training.data.mixture import Example, Mixture, Position

PADDING = -1
"""Document id of padding, as the model wants it; its targets are -1 too and never count."""
Packing = Literal["stream", "fit"]


@dataclass(frozen=True)
class Row:
    """All of shape (length,)."""

    tokens: np.ndarray
    targets: np.ndarray
    """-1 where nothing is to be learnt."""
    document_ids: np.ndarray
    """0, 1, ... along the row; `PADDING` behind the last."""


class Packer:
    """Takes examples from a mixture and gives rows of whatever length is asked for.

    `state()` holds the mixture's position and the examples taken but not yet laid, in plain numbers and tensors: going
    on from it gives the rows that would have come.
    """

    def __init__(self, mixture: Mixture, packing: Packing = "stream", *, buffer: int = 64) -> None:
        if packing not in ("stream", "fit"):
            raise ValueError(f"packing: give 'stream' or 'fit', not {packing!r}")
        if buffer < 1:
            raise ValueError(f"buffer: give at least 1 conversation, not {buffer}")
        self.mixture, self.packing, self.buffer = mixture, packing, buffer
        self.load_state(None)

    def state(self) -> dict[str, Any]:
        waiting = [(_tensor(e.inputs), _tensor(e.targets), _tensor(e.mask)) for e in self._waiting]
        position = self.position
        return {"rows": position.rows, "tokens": position.tokens, "dropped": position.dropped, "waiting": waiting}

    def load_state(self, state: dict[str, Any] | None) -> None:
        """Go on from a `state()`, or from the start."""
        self.position = self.mixture.start()
        self._waiting: list[Example] = []
        if state is not None:
            self.position = Position(list(state["rows"]), list(state["tokens"]), dict(state["dropped"]))
            self._waiting = [
                Example(inputs.numpy(), targets.numpy(), None if mask is None else mask.numpy())
                for inputs, targets, mask in state["waiting"]
            ]
        self._examples: Iterator[tuple[Example | None, Position]] = self.mixture.iterate(self.position)

    def row(self, length: int) -> Row | None:
        """The next row, or None when the data has ended. Raises `ValueError` on a conversation longer than `length`."""
        parts = self._cut(length) if self.packing == "stream" else self._fit(length)
        return lay(parts, length) if parts else None

    def _take(self) -> Example | None:
        for example, position in self._examples:
            self.position = position
            if example is not None:
                return example
        return None

    def _cut(self, length: int) -> list[Example]:
        parts: list[Example] = []
        room = length
        while room:
            example = self._waiting.pop() if self._waiting else self._take()
            if example is None:
                break
            part, rest = split(example, room)
            if rest is not None:
                self._waiting.append(rest)
            parts.append(part)
            room -= len(part)
        return parts

    def _fit(self, length: int) -> list[Example]:
        """The oldest conversation that waits opens the row, so none waits for ever; then the longest that still fits."""
        while len(self._waiting) < self.buffer and (example := self._take()) is not None:
            if len(example) > length:
                raise ValueError(f"a conversation of {len(example)} tokens does not fit rows of {length}")
            self._waiting.append(example)
        if not self._waiting:
            return []
        parts = [self._waiting.pop(0)]
        room = length - len(parts[0])
        while True:
            fitting = [i for i, example in enumerate(self._waiting) if len(example) <= room]
            if not fitting:
                return parts
            best = max(fitting, key=lambda i: len(self._waiting[i]))
            parts.append(self._waiting.pop(best))
            room -= len(parts[-1])


def split(example: Example, room: int) -> tuple[Example, Example | None]:
    """The first `room` places of an example, and the rest, which starts afresh: it sees nothing of the first part."""
    if len(example) <= room:
        return example, None
    mask = example.mask
    first = Example(example.inputs[:room], example.targets[:room], None if mask is None else mask[:room])
    rest = Example(example.inputs[room:], example.targets[room:], None if mask is None else mask[room:])
    return first, rest


def lay(parts: list[Example], length: int) -> Row:
    tokens = np.zeros(length, dtype=np.int64)
    targets = np.full(length, -1, dtype=np.int64)
    document_ids = np.full(length, PADDING, dtype=np.int64)
    at = 0
    for number, part in enumerate(parts):
        end = at + len(part)
        tokens[at:end] = part.inputs
        targets[at:end] = part.targets if part.mask is None else np.where(part.mask, part.targets, -1)
        document_ids[at:end] = number
        at = end
    return Row(tokens, targets, document_ids)


def count_rows(mixture: Mixture, packing: Packing, length: int) -> int:
    """Rows that the data gives, by packing all of it once. Only for a mixture that ends."""
    packer = Packer(mixture, packing)
    return sum(1 for _ in iter(lambda: packer.row(length), None))


def _tensor(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(array)
