"""What kind of document it is, so that a style can be drawn that suits it.

kind_of(text)  ->  "steps"

By the marks that writing has in every language: headings, lists, tables, code, quotation marks, question marks, figures.
No word is looked for, so an English recipe and a Korean one are of one kind. The first kind that fits is taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = {
    "code": "a sixth of the lines or more stand in fenced code",
    "table": "a third of the lines or more are rows of a table",
    "steps": "three numbered lines or more, a fifth of all lines",
    "list": "three list items or more, two fifths of all lines",
    "questions": "three questions or more, a sixth of all sentences",
    "quoting": "a tenth of the characters or more stand in quotation marks",
    "dated": "three different years or more, one in 100 tokens",
    "figures": "one token in twelve or more is a number",
    "prose": "everything else",
}
"""Each kind with what a document of it has, the first that fits first."""

_LOOKED_AT = 40_000
"""Characters of a document's beginning that are looked at."""
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_ROW = re.compile(r"\s*\|.*\|\s*$|[^|\n]+\|[^|\n]+\||[^\t\n]+\t[^\t\n]+\t")
_NUMBERED = re.compile(r"\s*(?:\d{1,3}(?:[.)]\s+|[、．]\s*)\S|[①-⑳])")
_ITEM = re.compile(r"\s*(?:(?:[-*+–]|\d{1,3}[.)])\s+|[•·▪◦・]\s*)\S")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+\S|={2,6}[^=\n]+={2,6}\s*$")
_SENTENCE_END = re.compile(r"[.!?](?=[\s\"'”’»)\]]|$)|[。！？؟]")
_QUESTION = re.compile(r"[?？؟](?=[\s\"'”’»)\]]|$)|[？؟]")
_QUOTED = re.compile(
    r'"[^"\n]{3,600}"|“[^”\n]{3,600}”|„[^“”\n]{3,600}[“”]|«[^»\n]{3,600}»|「[^」\n]{3,600}」|『[^』\n]{3,600}』'
)
_QUOTE = re.compile('["“„«「『]')
_ASKED = re.compile("[?？؟]")
_YEAR = re.compile(r"(?<![\d.,:])(?:1[0-9]{3}|20[0-9]{2})(?![\d:]|[.,]\d)")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


@dataclass(frozen=True)
class Features:
    """What is counted of a document's beginning."""

    lines: int
    """Lines that are not blank."""
    code: int
    rows: int
    steps: int
    items: int
    """Of the lines: in fenced code, of tables, numbered, of lists (numbered ones among them)."""
    headings: int
    sentences: int
    questions: int
    quoted: float
    """Share of the characters in quotation marks."""
    years: int
    """Different years from 1000 to 2099."""
    numbers: int
    tokens: int


def features(text: str, tokens: int) -> Features:
    """Count a document's marks.

    Args:
        tokens: of the whole text.
    """
    part = text[:_LOOKED_AT]
    tokens = round(tokens * len(part) / max(1, len(text)))
    lines = code = rows = steps = items = headings = 0
    fenced = False
    for line in part.splitlines():
        if not line.strip():
            continue
        lines += 1
        if _FENCE.match(line):
            fenced = not fenced
            code += 1
        elif fenced:
            code += 1
        elif _HEADING.match(line):
            headings += 1
        elif ("|" in line or "\t" in line) and _ROW.match(line):
            rows += 1
        else:
            steps += _NUMBERED.match(line) is not None
            items += _ITEM.match(line) is not None
    return Features(
        lines, code, rows, steps, items, headings,
        sentences=len(_SENTENCE_END.findall(part)),
        questions=len(_QUESTION.findall(part)) if _ASKED.search(part) else 0,
        quoted=sum(map(len, _QUOTED.findall(part))) / len(part) if _QUOTE.search(part) else 0.0,
        years=len(set(_YEAR.findall(part))),
        numbers=len(_NUMBER.findall(part)),
        tokens=tokens,
    )  # fmt: skip


def kind_of(text: str, tokens: int) -> str:
    """The kind of a document, one of `KINDS`.

    Args:
        tokens: of the whole text, as `pipelines.rollouts.chunking.count_tokens` counts them.
    """
    of = features(text, tokens)
    fits = {
        "code": of.code * 6 >= of.lines and of.code > 2,
        "table": of.rows * 3 >= of.lines and of.rows > 2,
        "steps": of.steps * 5 >= of.lines and of.steps > 2,
        "list": of.items * 5 >= 2 * of.lines and of.items > 2,
        "questions": of.questions * 6 >= of.sentences and of.questions > 2,
        "quoting": of.quoted >= 0.1,
        "dated": of.years > 2 and of.years * 100 >= of.tokens,
        "figures": of.numbers * 12 >= of.tokens,
    }
    return next((kind for kind, fit in fits.items() if fit), "prose")
