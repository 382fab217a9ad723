"""Untrusted text as HTML with marked passages: differing facts, and what findings quote."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from markupsafe import Markup, escape
from tokenmill.pipelines.report.formatting import visible

Span = tuple[int, int, str]
"""(start, end, kind) in characters."""


def quoted(text: str, quotations: Iterable[str], label: str = "quoted by a finding") -> list[Span]:
    """Where each quotation first stands in `text`, those that stand there."""
    spans = []
    for quotation in dict.fromkeys(q for q in quotations if q.strip()):
        start = text.find(quotation)
        if start >= 0:
            spans.append((start, start + len(quotation), label))
    return spans


def marked(text: str, layers: dict[str, list[Span]], limit: int) -> Markup:
    """The first `limit` characters of `text`, escaped, with `<mark class=LAYER>` around the spans of each layer.

    Spans may overlap: the text is cut at every border, and a piece carries the classes of all layers over it.
    """
    shown = text[:limit]
    clipped = [
        (max(start, 0), min(end, len(shown)), kind, layer)
        for layer, spans in layers.items()
        for start, end, kind in spans
        if start < min(end, len(shown)) and end > 0
    ]
    borders = sorted({0, len(shown), *(s for s, _, _, _ in clipped), *(e for _, e, _, _ in clipped)})
    pieces = []
    for start, end in pairwise(borders):
        over = [(layer, kind) for s, e, kind, layer in clipped if s <= start and end <= e]
        piece = escape(visible(shown[start:end]))
        if over:
            classes = " ".join(dict.fromkeys(layer for layer, _ in over))
            title = visible("; ".join(dict.fromkeys(kind.replace("_", " ") for _, kind in over)))
            piece = Markup('<mark class="{}" title="{}">{}</mark>').format(classes, title, piece)
        pieces.append(piece)
    return Markup("").join(pieces)
