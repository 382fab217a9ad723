"""Small charts as inline SVG: no style attributes and no script, so that a strict content security policy holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from tokenmill.pipelines.report.formatting import one_line

_WIDTH, _HEIGHT = 300.0, 84.0


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def stacked_bar(parts: Sequence[tuple[str, int, str]], whole: int | None = None) -> Markup:
    """One horizontal bar of (class, rows, label) segments; `whole` is what its full width stands for."""
    total = whole or sum(n for _, n, _ in parts)
    x, out = 0.0, []
    for kind, n, label in parts:
        if n and total:
            width = 100 * n / total
            # A hair's breadth is still shown: what exists must be visible.
            shown = max(width, 0.4)
            title = escape(one_line(f"{label}: {n:,}"))
            place = f'x="{_n(min(x, 99.6))}" y="0" width="{_n(shown)}" height="10"'
            out.append(f'<rect class="{kind}" {place}><title>{title}</title></rect>')
            x += width
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img">'
        f'<rect class="track" x="0" y="0" width="100" height="10"/>{"".join(out)}</svg>'
    )


def histogram(series: Sequence[tuple[str, str, np.ndarray]], low: float, high: float, overflow: bool = False) -> Markup:
    """A stacked histogram of (class, label, counts per bin) series over [`low`, `high`]; with `overflow` the last bin
    holds everything above `high`."""
    counts = np.stack([bins for _, _, bins in series])
    bins = counts.shape[1]
    peak = max(int(counts.sum(axis=0).max()), 1)
    step = (high - low) / (bins - int(overflow))
    width = _WIDTH / bins
    out = []
    for i in range(bins):
        if not counts[:, i].any():
            continue
        start = low + i * step
        span = f"over {high:g}" if overflow and i == bins - 1 else f"{start:.2f} to {start + step:.2f}"
        said = ", ".join(f"{int(counts[s, i]):,} {label}" for s, (_, label, _) in enumerate(series) if counts[s, i])
        y, rects = _HEIGHT, []
        for s, (kind, _, _) in enumerate(series):
            if counts[s, i]:
                height = max(counts[s, i] / peak * (_HEIGHT - 4), 1.5)
                y -= height
                rects.append(
                    f'<rect class="{kind}" x="{_n(i * width + 0.6)}" y="{_n(max(y, 0))}" '
                    f'width="{_n(width - 1.2)}" height="{_n(height)}"/>'
                )
        hover = f'<rect class="hover" x="{_n(i * width)}" y="0" width="{_n(width)}" height="{_n(_HEIGHT)}"/>'
        out.append(f"<g><title>{escape(one_line(f'{span}: {said}'))}</title>{''.join(rects)}{hover}</g>")
    return Markup(
        f'<svg class="histogram" viewBox="0 0 {_n(_WIDTH)} {_n(_HEIGHT + 1)}" preserveAspectRatio="none" role="img">'
        f'{"".join(out)}<rect class="axis" x="0" y="{_n(_HEIGHT)}" width="{_n(_WIDTH)}" height="1"/></svg>'
    )


def rebin(bins: np.ndarray, n: int) -> np.ndarray:
    """Counts in `n` wider bins; `len(bins)` is a multiple of `n`."""
    return bins.reshape(n, -1).sum(axis=1)
