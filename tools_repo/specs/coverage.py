"""How much of tool space a repository covers: numbers, and the t-SNE pictures of figure 9 of the Kimi K2 report.

    vectors = await Embedder().embed([describe(spec) for spec in specs])
    numbers = measure(specs, vectors)
    pictures = draw(specs, vectors, Path("out"))

Of a repository too large for that, compare a part and count all (`tools_repo.specs.tally`):

    tally, part = Tally(), Part(3000)
    for spec in repository:
        tally.add(spec)
        part.offer(spec)
    numbers = measure(part.drawn(), vectors, tally)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec
from tokenmill.tools_repo.specs.tally import Tally, group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLOCK = 2048
_MOST_GROUPS = 19
"""Groups that get a colour of their own in a picture; the rest are drawn grey."""


@dataclass(frozen=True)
class Distances:
    """Cosine distances (1 - cosine, in [0, 2]) of each tool to the nearest tool of a set, itself excepted."""

    median: float
    p10: float
    p90: float
    nearer_than_0_1: float
    """Share of the tools that have one so near that they do much the same."""

    @classmethod
    def of(cls, distances: np.ndarray) -> Distances:
        p10, median, p90 = (round(float(q), 4) for q in np.quantile(distances, (0.1, 0.5, 0.9)))
        return cls(median, p10, p90, round(float((distances < 0.1).mean()), 4))


@dataclass(frozen=True)
class Coverage:
    """What a repository covers; parts that it lacks are None."""

    tools: dict[str, int]
    """By origin."""
    entropy: dict[str, float]
    """In bits: how evenly tools spread over `category`, `toolset`, and `all_categories` (its greatest possible value)."""
    nearest: dict[str, Distances | None]
    """`real_to_real`, `synthetic_to_synthetic`, `real_to_synthetic`, `synthetic_to_real`."""
    features: dict[str, dict[str, float]]
    """Share of the tools that use each of `FEATURES`, for `real` and `synthetic`."""


def measure(specs: Sequence[ToolSpec], vectors: np.ndarray, tally: Tally | None = None) -> Coverage:
    """Numbers for tools and their unit embeddings (n, dimension).

    Args:
        tally: of all tools, where `specs` are only a part: distances are the part's, everything else is theirs.

    Raises:
        ValueError: tools and vectors differ in length, or there are no tools.
    """
    _check(specs, vectors)
    tally = tally or Tally(specs)
    synthetic = np.array([spec.origin == SYNTHETIC for spec in specs])
    parts = {"real": np.flatnonzero(~synthetic), "synthetic": np.flatnonzero(synthetic)}
    nearest: dict[str, Distances | None] = {}
    for one, mine in parts.items():
        for other, theirs in parts.items():
            enough = mine.size and theirs.size > (one == other)
            nearest[f"{one}_to_{other}"] = Distances.of(_nearest(vectors, mine, theirs)) if enough else None
    return Coverage(dict(sorted(tally.origins.items())), tally.entropy, nearest, tally.features)


def draw(specs: Sequence[ToolSpec], vectors: np.ndarray, folder: Path, *, seed: int = 0) -> list[Path]:
    """t-SNE pictures as PNG: real tools by category, synthetic ones by domain, and all by origin (figures 9a to 9c).

    One projection serves all three, so that regions can be compared. A picture without tools is left out.

    Raises:
        ValueError: the tools and vectors differ in length, or there are fewer than 5.
    """
    _check(specs, vectors)
    if len(specs) < 5:
        raise ValueError(f"t-SNE needs at least 5 tools, not {len(specs)}")
    points = project(vectors, seed=seed)
    synthetic = np.array([spec.origin == SYNTHETIC for spec in specs])
    groups = np.array([group(spec) for spec in specs])
    origins = np.where(synthetic, "synthetic", "real")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, title, rows, labels in (
        ("coverage_real.png", "Real tools by source category", ~synthetic, groups),
        ("coverage_synthetic.png", "Synthetic tools by domain", synthetic, groups),
        ("coverage_all.png", "Real and synthetic tools", np.ones(len(specs), bool), origins),
    ):
        if rows.any():
            drawn.append(_picture(folder / name, f"{title} ({int(rows.sum()):,})", points, rows, labels))
    return drawn


def project(vectors: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """(n, 2) t-SNE of unit embeddings, by cosine distance; the same for the same vectors and seed."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, max(2.0, (len(vectors) - 1) / 3))
    tsne = TSNE(2, metric="cosine", init="random", perplexity=perplexity, random_state=seed)
    return tsne.fit_transform(np.asarray(vectors, np.float32))


def _picture(path: Path, title: str, points: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> Path:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.5), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _scatter(axes, points, rows, labels)
    axes.set_title(title)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal", "datalim")
    figure.legend(loc="outside right center", frameon=False, fontsize=8, markerscale=1.6)
    figure.savefig(path, metadata={"Software": None})
    return path


def _scatter(axes: Axes, points: np.ndarray, rows: np.ndarray, labels: np.ndarray) -> None:
    from matplotlib import colormaps

    counted = Counter(labels[rows].tolist()).most_common()
    named = [label for label, _ in counted[:_MOST_GROUPS]]
    # Two origins must be told apart by everyone; many groups need twenty colours.
    colours = ["#1f77b4", "#ff7f0e"] if len(counted) <= 2 else [colormaps["tab20"](number) for number in range(20)]
    size = float(np.clip(4000 / max(1, rows.sum()), 4, 30))
    if len(counted) > len(named):
        rest = rows & ~np.isin(labels, named)
        label = f"{len(counted) - len(named)} others ({int(rest.sum()):,})"
        x, y = points[rest].T
        axes.scatter(x, y, s=size, color="#c7c7c7", alpha=0.6, linewidths=0, label=label)
    for place, label in enumerate(named):
        mine = rows & (labels == label)
        shown = " ".join(label.split())
        shown = shown if len(shown) <= 32 else f"{shown[:31]}…"
        # A leading underscore would hide a group from the legend, a dollar sign would start a formula.
        shown = shown.lstrip("_").replace("$", r"\$") or "other"
        colour = colours[place % len(colours)]
        x, y = points[mine].T
        axes.scatter(x, y, s=size, color=colour, alpha=0.75, linewidths=0, label=f"{shown} ({int(mine.sum()):,})")


def _nearest(vectors: np.ndarray, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """(len(mine),) cosine distance of each to the nearest of `theirs` that is not itself."""
    found = np.empty(len(mine), np.float32)
    others = vectors[theirs].astype(np.float32)
    for start in range(0, len(mine), _BLOCK):
        rows = mine[start : start + _BLOCK]
        cosines = vectors[rows].astype(np.float32) @ others.T
        cosines[rows[:, None] == theirs[None, :]] = -np.inf
        found[start : start + _BLOCK] = 1 - cosines.max(axis=1)
    return np.maximum(found, 0)


def _check(specs: Sequence[ToolSpec], vectors: np.ndarray) -> None:
    if not len(specs) or len(specs) != len(vectors):
        raise ValueError(f"as many tools as vectors are needed and at least one, not {len(specs)} and {len(vectors)}")
