"""What each step uses: learning rate, batch size, sequence length, balance coefficient; all functions of tokens seen.

Warm-up, stable, decay (WSD), annealing and a long-context stage (K2 report, section 2.5); the batch grows and the
balance coefficient is halved late (Kanana-MoE). A resumed run needs no other state than the number of tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

Shape = Literal["constant", "linear", "cosine"]


@dataclass(frozen=True)
class Leg:
    """One stretch of the learning rate's curve, from where the leg before it ended (0 at first) to `lr`."""

    name: str
    tokens: int
    lr: float
    shape: Shape
    """How the rate gets there; "constant" is there at once."""

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"{self.name}: tokens: give at least 1, not {self.tokens}")
        if not (math.isfinite(self.lr) and self.lr >= 0):
            raise ValueError(f"{self.name}: lr: give a number, 0 or more, not {self.lr}")
        if self.shape not in ("constant", "linear", "cosine"):
            raise ValueError(f"{self.name}: shape: give constant, linear or cosine, not {self.shape!r}")


@dataclass(frozen=True)
class Layout:
    """How tokens are laid out from `start` on."""

    start: int
    """Tokens seen when this begins to hold."""
    sequence_length: int
    batch_tokens: int
    """Tokens an optimizer step; rounded down to whole rows, at least one."""
    balance: float = 1.0
    """Factor on the model's balance coefficient."""

    def __post_init__(self) -> None:
        if self.sequence_length < 2:
            raise ValueError(f"sequence_length: give at least 2, not {self.sequence_length}")
        if self.batch_tokens < 1:
            raise ValueError(f"batch_tokens: give at least 1, not {self.batch_tokens}")
        if not (math.isfinite(self.balance) and self.balance >= 0):
            raise ValueError(f"balance: give 0 or more, not {self.balance}")

    @property
    def rows(self) -> int:
        return max(1, self.batch_tokens // self.sequence_length)


@dataclass(frozen=True)
class StepSettings:
    """What one optimizer step is to use."""

    leg: str
    lr: float
    rows: int
    sequence_length: int
    balance: float

    @property
    def tokens(self) -> int:
        return self.rows * self.sequence_length


@dataclass(frozen=True)
class Plan:
    legs: tuple[Leg, ...]
    layouts: tuple[Layout, ...]

    def __post_init__(self) -> None:
        if not self.legs or not self.layouts or self.layouts[0].start != 0:
            raise ValueError("plan: give at least one leg, and a layout that starts at 0")
        starts = [layout.start for layout in self.layouts]
        if starts != sorted(set(starts)):
            raise ValueError("plan: layouts must start one after the other")

    @property
    def tokens(self) -> int:
        """Laid out for the model, padding included."""
        return sum(leg.tokens for leg in self.legs)

    @property
    def longest(self) -> int:
        return max(layout.sequence_length for layout in self.layouts)

    @property
    def steps(self) -> int:
        seen = count = 0
        while seen < self.tokens:
            seen += self.at(seen).tokens
            count += 1
        return count

    def at(self, seen: int) -> StepSettings:
        """Settings of the step that starts when `seen` tokens are behind; past the end, those of the end.

        The rate is that of the step's end: so the first step trains, and the last one ends the curve.
        """
        layout = next(layout for layout in reversed(self.layouts) if layout.start <= seen)
        ends = list(accumulate(leg.tokens for leg in self.legs))
        index = next((i for i, end in enumerate(ends) if seen < end), len(self.legs) - 1)
        leg = self.legs[index]
        before = self.legs[index - 1].lr if index else 0.0
        after_step = seen + layout.rows * layout.sequence_length
        done = min(1.0, (after_step - (ends[index] - leg.tokens)) / leg.tokens)
        return StepSettings(
            leg.name, _between(before, leg.lr, done, leg.shape), layout.rows, layout.sequence_length, layout.balance
        )


def _between(start: float, end: float, done: float, shape: Shape) -> float:
    if shape == "constant":
        return end
    part = done if shape == "linear" else (1 - math.cos(math.pi * done)) / 2
    return start + (end - start) * part


@dataclass(frozen=True)
class Wsd:
    """The recipe by shares of all tokens. Raises `ValueError` where they do not fit.

    Warm-up, stable, cosine decay to `final` of the peak, then linear annealing to `anneal_final` of it, at last a stage
    at that rate with rows of `long_length`. From `late` on, the batch and the balance coefficient are multiplied.
    Defaults are the report's proportions without annealing.
    """

    warmup: float = 0.02
    decay: float = 0.35
    final: float = 0.1
    anneal: float = 0.0
    anneal_final: float = 0.035
    long: float = 0.0
    long_length: int | None = None
    late: float = 1.0
    """Where the late part begins, as a share of all tokens; 1 for never."""
    late_batch: float = 1.0
    late_balance: float = 1.0

    def __post_init__(self) -> None:
        for name in ("warmup", "decay", "final", "anneal", "anneal_final", "long", "late"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: give a share between 0 and 1, not {getattr(self, name)}")
        if self.warmup + self.decay + self.anneal + self.long > 1 + 1e-9:
            raise ValueError("warmup, decay, anneal and long: together they exceed the whole")
        if bool(self.long) != (self.long_length is not None):
            raise ValueError("long and long_length: give both or neither")
        if not self.late_batch > 0 or not self.late_balance >= 0:
            raise ValueError("late_batch: give a factor above 0; late_balance: 0 or more")

    def plan(self, tokens: int, lr: float, *, sequence_length: int, batch_tokens: int) -> Plan:
        if tokens < 1:
            raise ValueError(f"tokens: give at least 1, not {tokens}")
        if not (math.isfinite(lr) and lr > 0):
            raise ValueError(f"lr: give a number above 0, not {lr}")
        stable = 1 - self.warmup - self.decay - self.anneal - self.long
        legs: list[tuple[str, float, float, Shape]] = [
            ("warmup", self.warmup, lr, "linear"),
            ("stable", stable, lr, "constant"),
            ("decay", self.decay, self.final * lr, "cosine"),
            ("anneal", self.anneal, self.anneal_final * lr, "linear"),
            ("long", self.long, (self.anneal_final if self.anneal else self.final) * lr, "constant"),
        ]
        ends = [round(tokens * share) for share in accumulate(share for _, share, _, _ in legs)]
        made, start = [], 0
        for (name, _, rate, shape), end in zip(legs, [*ends[:-1], tokens], strict=True):
            if end > start:
                made.append(Leg(name, end - start, rate, shape))
                start = end
        starts = {0: Layout(0, sequence_length, batch_tokens)}
        late, long = round(tokens * self.late), round(tokens * (1 - self.long))
        batch = max(1, round(batch_tokens * self.late_batch))
        if late < tokens:
            starts[late] = Layout(late, sequence_length, batch, self.late_balance)
        if self.long_length is not None:
            is_late = late <= long
            starts[long] = Layout(
                long,
                self.long_length,
                batch if is_late else batch_tokens,
                self.late_balance if is_late else 1.0,
            )
            if late > long and late < tokens:
                starts[late] = Layout(late, self.long_length, batch, self.late_balance)
        return Plan(tuple(made), tuple(starts[at] for at in sorted(starts)))


K2 = Plan(
    (
        Leg("warmup", 500 * 67_108_864, 2e-4, "linear"),
        Leg("stable", 10_000_000_000_000, 2e-4, "constant"),
        Leg("decay", 5_500_000_000_000, 2e-5, "cosine"),
        Leg("anneal", 400_000_000_000, 7e-6, "linear"),
        Leg("long", 60_000_000_000, 7e-6, "constant"),
    ),
    (Layout(0, 4096, 67_108_864), Layout(500 * 67_108_864 + 15_900_000_000_000, 32_768, 67_108_864)),
)
"""The published run (report, section 2.5): 67M tokens a step; the shapes of annealing and long stage are our reading."""
