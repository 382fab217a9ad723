"""Figure 2 of the Kimi K2 report in small: under Muon attention logits run away, under MuonClip they stop at tau.

    python -m tokenmill.bench.training.figure2 --output OUT

The same model, start, data and learning rate twice. The data asks for attention: pairs of key and value in which keys
come back with the value they had before, so the loss falls by looking up and not by counting. Writes `figure2.png`
and `figure2.json`.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenmill.training.model import Model, preset
from tokenmill.training.optim import MuonClip
from torch import Tensor

KEYS, VALUES, PAIRS, BATCH = 8, 8, 24, 16
CONFIG = preset("tiny").replace(vocab_size=KEYS + VALUES, balance_loss_coef=0.0, z_loss_coef=0.0)


@dataclass
class Curve:
    name: str
    tau: float | None
    loss: list[float]
    max_logit: list[float]
    clipped_heads: list[int]


def lookup_batch(generator: torch.Generator) -> Tensor:
    """(batch, 2 * pairs): key, value, key, value, ...; each row draws its own table from keys to values."""
    table = torch.randint(KEYS, KEYS + VALUES, (BATCH, KEYS), generator=generator)
    keys = torch.randint(0, KEYS, (BATCH, PAIRS), generator=generator)
    return torch.stack([keys, table.gather(1, keys)], dim=2).flatten(1)


def train(name: str, tau: float | None, *, steps: int, lr: float, seed: int) -> Curve:
    torch.manual_seed(seed)
    model = Model(CONFIG).train()
    optimizer = MuonClip(model, lr=lr, weight_decay=0.1, tau=tau)
    data = torch.Generator().manual_seed(seed)
    curve = Curve(name, tau, [], [], [])
    # Only values can be foretold; keys are drawn at random.
    mask = (torch.arange(2 * PAIRS - 1) % 2 == 0).expand(BATCH, -1)
    for _ in range(steps):
        batch = lookup_batch(data)
        output = model(batch[:, :-1], targets=batch[:, 1:], loss_mask=mask)
        optimizer.zero_grad()
        output.loss.backward()
        optimizer.step()
        model.update_selection_bias()
        curve.loss.append(output.cross_entropy.item())
        curve.max_logit.append(optimizer.last_clip.max_logits.max().item())
        curve.clipped_heads.append(int(optimizer.last_clip.clipped.sum()))
    return curve


def draw(curves: list[Curve], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    logits, losses = figure.subplots(1, 2)
    for curve in curves:
        logits.plot(curve.max_logit, label=curve.name)
        losses.plot(_smooth(curve.loss), label=curve.name)
    for curve in curves:
        if curve.tau is not None:
            logits.axhline(curve.tau, color="grey", linestyle=":", label=f"tau = {curve.tau:g}")
    logits.set(title="Largest attention logit", xlabel="step", yscale="log")
    losses.set(title="Cross entropy of the values", xlabel="step")
    logits.legend()
    losses.legend()
    figure.savefig(path, dpi=120)


def _smooth(values: list[float], width: int = 10) -> list[float]:
    return [sum(values[max(0, i - width + 1) : i + 1]) / min(i + 1, width) for i in range(len(values))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.training.figure2")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--tau", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    curves = [
        train(name, tau, steps=flags.steps, lr=flags.lr, seed=flags.seed)
        for name, tau in (("Muon", None), ("MuonClip", flags.tau))
    ]
    flags.output.mkdir(parents=True, exist_ok=True)
    (flags.output / "figure2.json").write_text(json.dumps([asdict(curve) for curve in curves]) + "\n")
    draw(curves, flags.output / "figure2.png")
    for curve in curves:
        last = curve.loss[-50:]
        print(
            f"{curve.name}: loss {sum(last) / len(last):.4f} (mean of the last {len(last)} steps), largest logit "
            f"{max(curve.max_logit):.1f} ever, {curve.max_logit[-1]:.1f} at the end, "
            f"clipped in {sum(c > 0 for c in curve.clipped_heads)} of {len(curve.loss)} steps"
        )


if __name__ == "__main__":
    main()
