"""Does a table say what its source says, cell by cell?

A cell stands alone, without the words by which other checks find its place in the source. So what is asked of it is more:
every number, date, unit and name must be there, and a row may not hold what the source says of another row's subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

from tokenmill.judges.facts import names as naming
from tokenmill.judges.facts.compare import Doubt, doubts
from tokenmill.judges.facts.compare import sentences as spans
from tokenmill.judges.facts.quantities import read as quantities
from tokenmill.judges.form.copying import CHECK as COPYING
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "tables"
_RULE = re.compile(r"\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?")
_CAPTION = re.compile(r"#{1,6}\s+\S.*|\*\*[^*]+\*\*:?")
_EMPTY = re.compile(
    r"[\s–—\-?/.]*|n/?a|unknown|none|not (?:stated|given|known|specified|available|mentioned)", re.IGNORECASE
)
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_WRONG = frozenset({"number_added", "date_added", "unit_changed"})
_MOST_CELLS = 600
"""Cells whose place is looked for."""
_SHOWN = 10


@dataclass(frozen=True)
class Row:
    """A row of a table, with the header above it."""

    header: tuple[str, ...]
    cells: tuple[str, ...]
    line: str


@dataclass(frozen=True)
class Tables:
    """Refuses with `table_broken` what is no table: other text, rows of another length, empty cells. With `cell_unsupported` a
    cell whose number, date, unit or name the source does not have; with `cell_misplaced` one that the source says of
    another row's subject alone."""

    spares: ClassVar[frozenset[str]] = frozenset({COPYING})  # cells are short and may stay as they are

    def fits(self, source: str, language: str) -> bool:
        return bool(source.strip())

    def stated(self, text: str) -> str:
        return text

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        rows, problem, quote = read(text)
        if problem:
            return Verdict(CHECK, False, 0.0, "table_broken", (Finding("table_broken", problem, "", quote[:200]),))
        cells = sum(len(row.cells) for row in rows)
        if found := list(_unsupported(source, text, rows, context, language)):
            return _refused("cell_unsupported", found, cells)
        if found := list(_misplaced(f"{context}\n{source}", rows)):
            return _refused("cell_misplaced", found, cells)
        return Verdict(CHECK, True, 1.0)


def read(text: str) -> tuple[list[Row], str, str]:
    """The rows of all tables of a text, without headers; or what is wrong, as an order to the writer, and where."""
    rows: list[Row] = []
    header: tuple[str, ...] = ()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if _CAPTION.fullmatch(line):
            header = ()
        elif not (line.startswith("|") and line.endswith("|") and len(line) > 1):
            return [], "Write nothing but tables and a heading for each: this line is neither.", line
        elif number + 1 < len(lines) and _RULE.fullmatch(lines[number + 1]):
            header = _cells(line)
        elif not header:
            return [], "A table begins with a row of headers and a row of dashes.", line
        elif not _RULE.fullmatch(line):
            cells = _cells(line)
            if len(cells) != len(header):
                return [], f"This row has {len(cells)} cells where its table has {len(header)} columns.", line
            if any(_EMPTY.fullmatch(cell) for cell in cells):
                return [], "Leave no cell empty or unknown: leave the row out, or make another column.", line
            rows.append(Row(header, cells, line))
    return (rows, "", "") if rows else ([], "Write a table with at least one row.", text)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("\0", "|") for cell in line.strip("|").replace("\\|", "\0").split("|"))


def _unsupported(source: str, text: str, rows: Sequence[Row], context: str, language: str) -> Iterator[Finding]:
    told = {cell for row in rows for cell in row.cells}
    found: list[Doubt] = [
        doubt
        for doubt in doubts(source, text, context, language)
        if not doubt.in_source and not doubt.weak and (doubt.kind in _WRONG or _is_name(doubt, language))
    ]
    missing = [(doubt.kind, doubt.text) for doubt in found]
    missing += [("number_added", quote) for quote in _rounder(f"{context}\n{source}", text, language)]
    for kind, quote in missing[:_SHOWN]:
        if cell := next((cell for cell in told if quote in cell), ""):
            yield Finding(kind, f'The source has no "{quote}": say what it says, or leave the row out.', "", cell)


def _rounder(source: str, text: str, language: str) -> Iterator[str]:
    """Exact numbers for which the source has only something like "more than" another one."""
    there = quantities(source, language)
    for quantity in quantities(text, language):
        if quantity.about or not quantity.strong:
            continue
        same = [other for other in there if quantity.same_as(other)]
        if same and all(other.about and not set(other.readings) & set(quantity.readings) for other in same):
            yield text[quantity.start : quantity.end]


def _is_name(doubt: Doubt, language: str) -> bool:
    return doubt.kind == "name_added" and not (language[:2] == "en" and naming.ordinary(doubt.text))


def _misplaced(source: str, rows: Sequence[Row]) -> Iterator[Finding]:
    """Cells that the source has only in sentences about another row's subject."""
    told = [(source[start:end], _tokens(source[start:end])) for start, end in spans(source)]
    count = 0
    for _, group in groupby(rows, key=lambda row: row.header):
        table = list(group)
        labels = _distinct([_tokens(row.cells[0]) for row in table])
        for place, row in enumerate(table):
            for column, cell in enumerate(row.cells[1:], 1):
                count += 1
                wanted = _tokens(cell)
                if count > _MOST_CELLS or not wanted or not labels[place]:
                    continue
                there = [(sentence, words) for sentence, words in told if wanted <= words]
                others = [(table[i].cells[column], label) for i, label in enumerate(labels) if i != place and label]
                if there and all(
                    not labels[place] & words
                    and any(label <= words and not _has_its_own(theirs, cell, words) for theirs, label in others)
                    for _, words in there
                ):
                    yield Finding(
                        "cell_misplaced",
                        f'The source says "{cell}" of something else than "{row.cells[0]}".',
                        there[0][0].strip()[:200],
                        row.line[:200],
                    )


def _has_its_own(theirs: str, cell: str, words: frozenset[str]) -> bool:
    """Whether a sentence says something else of the other subject in the same column, so that the cell may be of a subject
    that it does not name."""
    return theirs != cell and _tokens(theirs) <= words


def _distinct(labels: list[frozenset[str]]) -> list[frozenset[str]]:
    """The words of each row's subject that no other row's has."""
    return [frozenset(word for word in label if sum(word in other for other in labels) == 1) for label in labels]


def _tokens(text: str) -> frozenset[str]:
    """Beginnings of words that carry meaning, and figures."""
    return frozenset(
        word.lower()[:5] for word in _TOKEN.findall(text) if word[0].isdigit() or len(word) > 3 or word[0].isupper()
    )


def _refused(reason: str, found: list[Finding], cells: int) -> Verdict:
    return Verdict(CHECK, False, round(max(0.0, 1 - len(found) / max(1, cells)), 4), reason, tuple(found[:_SHOWN]))
