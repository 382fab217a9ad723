"""A run's curves as one picture, from its `metrics.jsonl`. Run as `python -m tokenmill.training.report CKPT ...`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenmill.training.metrics import read_metrics

FILE = "report.png"
PANELS = (
    ("cross_entropy", "loss (nats a token)", False),
    ("lr", "learning rate", False),
    ("gradient_norm", "gradient norm", True),
    ("max_logit", "largest attention logit", False),
    ("load_violation", "busiest expert over mean, less 1", False),
    ("tokens_per_second", "tokens a second", False),
)
"""(field, title, logarithmic)"""


def write_report(folder: Path) -> Path:
    """Draw `report.png` into the run's folder. Raises `ValueError` when nothing was logged."""
    lines = read_metrics(folder)
    if not lines:
        raise ValueError(f"{folder}: no metrics to draw")
    return draw({folder.name: lines}, folder / FILE)


def draw(runs: dict[str, list[dict[str, Any]]], path: Path) -> Path:
    """Several runs in the same panels, over tokens seen."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7), layout="constrained")
    for axis, (field, title, logarithmic) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for name, lines in runs.items():
            axis.plot([line["tokens"] for line in lines], [line[field] for line in lines], label=name, linewidth=1)
            if field == "cross_entropy":
                held_out = [(line["tokens"], line["validation"]) for line in lines if "validation" in line]
                if held_out:
                    axis.plot(*zip(*held_out, strict=True), marker="o", markersize=3, label=f"{name}, held out")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("tokens")
        if logarithmic:
            axis.set_yscale("log")
        axis.grid(alpha=0.3)
        if field == "cross_entropy":
            axis.legend(fontsize=8)
    figure.savefig(path, dpi=110)
    return path


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.report", description="Draw one or more runs' curves."
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="CKPT")
    parser.add_argument("--output", type=Path, metavar="FILE.png", help="default: report.png of the first run")
    flags = parser.parse_args(argv)
    runs = {str(folder): read_metrics(folder) for folder in flags.runs}
    if empty := [name for name, lines in runs.items() if not lines]:
        parser.error(f"{empty[0]}: no metrics to draw")
    print(draw(runs, flags.output or flags.runs[0] / FILE))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
