"""Batches for the training loop, made ahead on a thread; each knows the state to resume behind it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any, TypeVar

import numpy as np
import torch
from tokenmill.training.data.packing import Packer, Row, lay
from tokenmill.training.schedules import Plan, StepSettings
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """All rows of one optimizer step, of all processes. Tensors are int64, (rows, sequence length)."""

    tokens: Tensor
    targets: Tensor
    document_ids: Tensor
    target_count: int
    """Targets that count in the loss."""
    settings: StepSettings
    seen: int
    """Tokens laid out up to here, this batch and padding included."""
    state: dict[str, Any]
    """`Loader.batches` goes on behind this batch from it."""
    epochs: dict[str, float]
    """How often each source has been taken so far."""

    def share(self, rank: int, world: int) -> tuple[Tensor, Tensor, Tensor]:
        """One process's rows; their number is the same for all."""
        return self.tokens[rank::world], self.targets[rank::world], self.document_ids[rank::world]


class Loader:
    """Follows a plan until its tokens are spent, or the data ends.

    `until_data_ends` goes on behind the plan, at its last settings: for runs that are measured in epochs.
    """

    def __init__(self, packer: Packer, plan: Plan, *, multiple: int = 1, until_data_ends: bool = False) -> None:
        self.packer, self.plan, self.multiple, self.until_data_ends = packer, plan, multiple, until_data_ends

    def batches(self, state: dict[str, Any] | None = None) -> Iterator[Batch]:
        seen = 0 if state is None else state["seen"]
        self.packer.load_state(None if state is None else state["packer"])
        while self.until_data_ends or seen < self.plan.tokens:
            settings = self.plan.at(seen)
            length = settings.sequence_length
            rows: list[Row] = []
            while len(rows) < settings.rows and (row := self.packer.row(length)) is not None:
                rows.append(row)
            if not rows:
                return
            # Short batches at the data's end are filled with rows of padding: shapes stay, and processes agree.
            rows += [lay([], length)] * (-(-settings.rows // self.multiple) * self.multiple - len(rows))
            tokens, targets, ids = (
                torch.from_numpy(np.stack([getattr(row, name) for row in rows]))
                for name in ("tokens", "targets", "document_ids")
            )
            seen += settings.tokens
            yield Batch(
                tokens,
                targets,
                ids,
                int((targets >= 0).sum()),
                settings,
                seen,
                {"seen": seen, "packer": self.packer.state()},
                self.packer.mixture.epochs(self.packer.position),
            )


def ahead(items: Iterator[T], depth: int = 2) -> Generator[T]:
    """The same items, made up to `depth` ahead on a thread, which ends with this iterator. Errors come out here."""
    queue: Queue[tuple[str, Any]] = Queue(depth)
    stop = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stop.is_set():
            try:
                return queue.put((kind, value), timeout=0.1)
            except Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put("item", item)
                if stop.is_set():
                    return
            put("end", None)
        except BaseException as error:
            put("error", error)

    thread = threading.Thread(target=work, name="loader", daemon=True)
    thread.start()
    try:
        while True:
            try:
                kind, value = queue.get(timeout=1.0)
            except Empty:
                continue
            if kind == "error":
                raise value
            if kind == "end":
                return
            yield value
    finally:
        stop.set()
        thread.join()
