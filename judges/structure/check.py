"""Does the rewrite keep its source's headings and blocks of code, in a form that has room for them?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "structure"
_FENCE = re.compile(r"^\s{0,3}(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s+(?P<hashes>\S.*?)[\s#]*|={2,6}\s*(?P<signs>[^=]+?)\s*={2,6}\s*)$")
_BOLD = re.compile(r"\s{0,3}(?:[-*]\s+)?(?:\*\*|__)\S")
_UNDERLINE = re.compile(r"\s{0,3}(?:=+|-{2,})\s*$")
_SHOWN = 120
"""Characters shown of a heading or of a block's first line."""


@dataclass(frozen=True)
class Structure:
    """Refuses with `headings_lost` or `code_block_lost` where fewer than half are left.

    A line that begins in bold counts as a heading of the rewrite, since several forms have such; the source's first line is
    none where it repeats the document's title.
    """

    kept: float = 0.5
    """Least share of the source's headings, and of its blocks of code, that the rewrite must have."""

    def __post_init__(self) -> None:
        if not 0 <= self.kept <= 1:
            raise ValueError(f"Structure.kept is a share in [0, 1], not {self.kept}")

    def __call__(self, source: str, rewrite: str, title: str = "") -> Verdict:
        """Judge `rewrite`. The score is the smaller of the two shares that are left."""
        headings, blocks = _headings(source), _blocks(source)
        if title and headings and _plain(headings[0]) == _plain(title):
            headings = headings[1:]
        here, there = _marked(rewrite), len(_blocks(rewrite))
        shares = [min(1.0, left / len(all_)) for left, all_ in ((here, headings), (there, blocks)) if all_]
        score = round(min(shares, default=1.0), 4)
        findings = []
        if headings and here < self.kept * len(headings):
            findings += [
                Finding("headings_lost", f'Keep a heading for what stands under "{h}" in the source.', h)
                for h in headings
            ]
        if blocks and there < self.kept * len(blocks):
            findings += [Finding("code_block_lost", "Keep the block of code, between fences.", b) for b in blocks]
        if not findings:
            return Verdict(CHECK, True, score)
        return Verdict(CHECK, False, score, findings[0].kind, tuple(findings[:8]))


def _headings(text: str) -> list[str]:
    """Words of the headings that are marked as such."""
    found = (_HEADING.match(line) for line in _prose(text))
    return [(m["hashes"] or m["signs"])[:_SHOWN] for m in found if m]


def _marked(text: str) -> int:
    """Lines of a rewrite that head something."""
    lines = _prose(text)
    under = sum(bool(_UNDERLINE.match(line)) and bool(above.strip()) for above, line in pairwise(lines))
    return under + sum(bool(_HEADING.match(line) or _BOLD.match(line)) for line in lines)


def _prose(text: str) -> list[str]:
    """Lines outside blocks of code."""
    lines, fenced = [], False
    for line in text.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            lines.append(line)
    return lines


def _blocks(text: str) -> list[str]:
    """The first line inside each block of code that is closed."""
    found, opened, lines = [], -1, text.splitlines()
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            if opened >= 0:
                found.append(lines[opened + 1].strip()[:_SHOWN] if number > opened + 1 else "")
            opened = -1 if opened >= 0 else number
    return found


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip("*_ ")
