"""Which experts work on which domain: heat map and Gini index (after figures 5 and 6 of the Kanana-MoE post).

Run as `python -m tokenmill.training.expert_load CKPT --domain NAME=FILE.parquet ... --output DIR`; reads each file's
`text` column with the checkpoint's own `tokenizer.json`, writes `experts.json`, `heatmap.png` and `gini.png`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenmill.training.checkpoint import CheckpointError, load_model
from tokenmill.training.model import Model
from torch import Tensor


@dataclass(frozen=True)
class ExpertUsage:
    """Slots that each expert got, by domain and layer."""

    domains: list[str]
    counts: Tensor
    """int64, (domains, MoE layers, experts)"""

    def shares(self) -> Tensor:
        """Share of a layer's slots, (domains, layers, experts); 1 / experts everywhere at perfect balance."""
        return self.counts / self.counts.sum(dim=-1, keepdim=True).clamp(min=1)

    def gini(self) -> Tensor:
        """Concentration on few experts, (domains, layers): 0 when all work alike, near 1 when one does everything."""
        return gini(self.counts)

    def overall_gini(self) -> Tensor:
        """(layers,), over all domains, each weighing alike however many tokens it brought."""
        return gini(self.shares().mean(dim=0))

    def to_json(self) -> dict[str, Any]:
        return {
            "domains": self.domains,
            "counts": self.counts.tolist(),
            "gini": self.gini().tolist(),
            "gini_overall": self.overall_gini().tolist(),
        }


def gini(amounts: Tensor) -> Tensor:
    """Over the last dimension: mean absolute difference of all pairs over twice the mean; 0 where all is 0."""
    ordered = amounts.double().sort(dim=-1).values
    n = ordered.shape[-1]
    rank = torch.arange(1, n + 1, dtype=torch.float64, device=ordered.device)
    total = ordered.sum(dim=-1)
    return (ordered * (2 * rank - n - 1)).sum(dim=-1) / (n * total.clamp(min=1e-300))


@torch.no_grad()
def expert_usage(model: Model, batches: Mapping[str, Iterable[Tensor]]) -> ExpertUsage:
    """Route every domain's batches of tokens (batch, time). Raises `ValueError` for a model without experts."""
    if not model.config.is_moe:
        raise ValueError("this model has no experts")
    was_training = model.training
    model.eval()
    shape = (model.config.num_moe_layers, model.config.n_routed_experts)
    totals = []
    for tensors in batches.values():
        total = torch.zeros(shape, dtype=torch.int64)
        for tokens in tensors:
            _, stats = model.hidden(tokens.to(model.embed_tokens.weight.device))
            total += torch.stack([layer.load.counts for layer in stats if layer.load is not None]).cpu()
        totals.append(total)
    model.train(was_training)
    return ExpertUsage(list(batches), torch.stack(totals))


def draw_heatmap(usage: ExpertUsage, path: Path) -> None:
    """One panel a layer, domains by experts; colour is the share relative to perfect balance."""
    from matplotlib.figure import Figure

    relative = usage.shares() * usage.counts.shape[-1]
    layers = relative.shape[1]
    figure = Figure(figsize=(10, 0.8 + layers * (0.5 + 0.22 * len(usage.domains))), layout="constrained")
    axes = figure.subplots(layers, 1, squeeze=False)[:, 0]
    for layer, axis in enumerate(axes):
        image = axis.imshow(
            relative[:, layer].tolist(), aspect="auto", cmap="RdBu_r", vmin=0, vmax=2, interpolation="nearest"
        )
        axis.set_yticks(range(len(usage.domains)), usage.domains)
        axis.set_title(f"MoE layer {layer}", fontsize=9)
    axes[-1].set_xlabel("expert")
    figure.colorbar(image, ax=axes, label="share of slots / even share")
    figure.savefig(path, dpi=120)


def draw_gini(usage: ExpertUsage, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for name, values in zip(usage.domains, usage.gini(), strict=True):
        axis.plot(values.tolist(), marker="o", label=name)
    axis.plot(usage.overall_gini().tolist(), color="black", linewidth=2, label="all")
    axis.set(xlabel="MoE layer", ylabel="Gini index of expert use", ylim=(0, 1))
    axis.legend()
    figure.savefig(path, dpi=120)


def _batches(file: Path, checkpoint: Path, length: int, limit: int) -> Iterator[Tensor]:
    import pyarrow.parquet as pq
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    left = limit
    for batch in pq.ParquetFile(file).iter_batches(batch_size=64, columns=["text"]):
        for text in batch.column(0).to_pylist():
            ids = tokenizer.encode(text, add_special_tokens=False).ids[: min(length, left)]
            if ids:
                yield torch.tensor([ids])
            left -= len(ids)
            if left <= 0:
                return


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.expert_load", description="Expert selection by domain."
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--domain", metavar="NAME=FILE.parquet", action="append", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=100_000, help="at most so many of each domain")
    flags = parser.parse_args(argv)
    domains = dict(entry.split("=", 1) for entry in flags.domain if "=" in entry)
    if len(domains) < len(flags.domain):
        parser.error("--domain: give NAME=FILE.parquet, each name once")
    try:
        model = load_model(flags.checkpoint)
        length = model.config.max_position_embeddings
        usage = expert_usage(
            model, {name: _batches(Path(f), flags.checkpoint, length, flags.tokens) for name, f in domains.items()}
        )
    except (CheckpointError, OSError, KeyError, ValueError) as error:
        parser.error(str(error))
    flags.output.mkdir(parents=True, exist_ok=True)
    (flags.output / "experts.json").write_text(json.dumps(usage.to_json()) + "\n")
    draw_heatmap(usage, flags.output / "heatmap.png")
    draw_gini(usage, flags.output / "gini.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
