"""The facts of a rewrite against those of its source (K2 report, section 2.2: fidelity verification).

FactCheck()(source, rewrite, context=title)  ->  Verdict: refused for plain contradictions alone
questions(source, rewrite, title)            ->  what a judge model is asked about everything else that is unmatched
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from tokenmill.judges.facts import markers, quotations
from tokenmill.judges.facts.compare import Doubt, aligned, doubts, may_contradict, sentences
from tokenmill.schemas.verdicts import Finding, Question, Verdict

CHECK = "facts"
REASONS = ("number_added", "date_added", "unit_changed", "name_added", "code_changed")
"""Reasons of refusals, gravest first."""
MAX_QUESTIONS = 8
"""Asked of one text; beyond that the judge's own reading must do."""
_AROUND = 60
"""Characters of a text shown on either side of what a finding is about,"""
_NEAR = 20
"""and of what a question is: the judge has the text."""
_QUOTED = 60
"""Characters of a quotation that a question shows."""
_INLINE = re.compile(r"`([^`\n]+)`")
_LINE = re.compile(r"[^\n]+")
_MOST_LINES = 200
"""Lines of code of one text that are compared."""
_MOST_CODE = 20
"""Changed pieces of code that are told."""
_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*|[\w./~-]+|[^\s\w]+")

Span = tuple[int, int, str]
"""Start, end (characters) and kind of a fact that differs."""


@dataclass(frozen=True)
class FactCheck:
    """Refuses a rewrite that says something else where its source states a number, date, unit, name or piece of code."""

    def __call__(self, source: str, rewrite: str, context: str = "", language: str = "en") -> Verdict:
        """Judge `rewrite`; facts it takes from `context` (title, the source before this chunk) are no additions. The score is
        the share of doubts that are no contradictions."""
        if not may_contradict(source, rewrite, context, language) and "`" not in rewrite:
            return _CLEAN
        found = _all(source, rewrite, context, language)
        clear = [doubt for doubt in found if doubt.clear]
        if not clear:
            return _CLEAN
        clear.sort(key=lambda doubt: REASONS.index(doubt.kind))
        findings = tuple(_finding(doubt, source, rewrite) for doubt in clear[:12])
        return Verdict(CHECK, False, round(1 - len(clear) / (1 + len(found)), 4), clear[0].kind, findings)


_CLEAN = Verdict(CHECK, True, 1.0)


@lru_cache(maxsize=32)
def _all(source: str, rewrite: str, context: str, language: str) -> tuple[Doubt, ...]:
    return (*doubts(source, rewrite, context, language), *_code(source, rewrite))


def _code(source: str, rewrite: str) -> list[Doubt]:
    """Words of the rewrite's code that the source has nowhere, where both have code: plain where the source has the same piece
    of code but for this word."""
    if "`" not in source or "`" not in rewrite or not (theirs := _code_lines(source)):
        return []
    known = [frozenset(token[0] for token in line) for line in theirs]
    found: dict[str, Doubt] = {}
    for line in _code_lines(rewrite):
        own = frozenset(token[0] for token in line)
        for token in line:
            if token[0] not in found and token[0] not in source and any(c.isalnum() for c in token[0]):
                there = max(known, key=lambda other: len(own & other))
                same = len(own) > 2 and len(own - there) == 1 and len(there - own) == 1
                counterpart = next(iter(there - own)) if same else ""
                found[token[0]] = Doubt("code_changed", token[0], False, *token.span(), same, counterpart)
                if len(found) == _MOST_CODE:
                    return list(found.values())
    return list(found.values())


def _code_lines(text: str) -> list[list[re.Match[str]]]:
    """The words of each line of code that has some."""
    lines = (
        (start + m.start(), start + m.end())
        for start, end in _code_spans(text)
        for m in _LINE.finditer(text[start:end])
    )
    return [found for start, end in islice(lines, _MOST_LINES) if (found := list(_FLAG.finditer(text, start, end)))]


def _code_spans(text: str) -> list[tuple[int, int]]:
    """Where code stands: between fences, less the fence's own line, and between single backticks of one line."""
    found, at = [], 0
    for i, part in enumerate(text.split("```")):
        if i % 2 and "\n" in part:
            found.append((at + part.index("\n") + 1, at + len(part)))
        elif not i % 2:
            found += [(at + m.start(1), at + m.end(1)) for m in _INLINE.finditer(part)]
        at += len(part) + 3
    return found


def questions(source: str, rewrite: str, context: str = "", language: str = "en") -> list[Question]:
    """What a judge should look at: every doubt that is no contradiction, quotations in other words or of another speaker, and
    markers of extent and certainty that went or came. The gravest first, `MAX_QUESTIONS` at most."""
    asked = [
        _question(doubt.kind, source if doubt.in_source else rewrite, doubt.start, doubt.end, in_source=doubt.in_source)
        for doubt in _all(source, rewrite, context, language)
        if doubt.asked
    ]
    for quote in quotations.reworded(source, rewrite):
        shown = quote[1][:_QUOTED]
        asked.append(Question("quotation", f'Rewrite quotes "{shown}". Words of the source?', "", shown))
    for quote, speaker in quotations.reattributed(source, rewrite, language):
        shown = quote[1][:_QUOTED]
        asked.append(Question("quotation", f'Rewrite: "{speaker}" says "{shown}". In the source, too?', "", shown))
    asked.sort(key=lambda question: _ORDER.get(question.kind, 3))
    return [*asked, *_markers(source, rewrite, language)][:MAX_QUESTIONS]


_ORDER = {
    "number_added": 0,
    "date_added": 0,
    "unit_changed": 0,
    "quotation": 1,
    "name_added": 1,
    "number_lost": 2,
    "date_lost": 2,
}


def _question(kind: str, text: str, start: int, end: int, *, in_source: bool) -> Question:
    """Whether the other text says what this one does at `text[start:end]`."""
    quoted, near = _around(text, start, end), _around(text, start, end, _NEAR)
    owner, other = ("Source", "rewrite") if in_source else ("Rewrite", "source")
    line = f'{owner}: "{text[start:end]}" in "{near}". In the {other}, too?'
    return Question(kind, line, quoted if in_source else "", "" if in_source else quoted)


def _markers(source: str, rewrite: str, language: str) -> list[Question]:
    asked = []
    for text, other, in_source in ((source, rewrite, True), (rewrite, source, False)):
        for start, end in sentences(text):
            kinds = markers.present(text[start:end], language)
            if not in_source:
                kinds &= {"negation"}
            if not kinds or not (there := aligned(text[start:end], other)):
                continue
            answered = markers.present(" ".join(other[s:e] for s, e in there), language)
            for kind in sorted(kinds - answered):
                low, high = markers.first(text[start:end], kind, language)
                place = start + low, start + high
                asked.append(_question(f"{kind}_changed", text, *place, in_source=in_source))
    return asked


def differing_spans(
    source: str, rewrite: str, context: str = "", language: str = "en"
) -> tuple[list[Span], list[Span]]:
    """Where the two differ: spans of facts lost, in `source`, and of facts added or changed, in `rewrite`; each sorted."""
    found = _all(source, rewrite, context, language)
    lost = sorted((d.start, d.end, d.kind) for d in found if d.in_source)
    return lost, sorted((d.start, d.end, d.kind) for d in found if not d.in_source)


def _finding(doubt: Doubt, source: str, rewrite: str) -> Finding:
    quoted = _around(rewrite, doubt.start, doubt.end)
    at = source.find(doubt.counterpart)
    there = _around(source, at, at + len(doubt.counterpart))
    return Finding(
        doubt.kind, f'The source says "{doubt.counterpart}" where the rewrite says "{doubt.text}".', there, quoted
    )


def _around(text: str, start: int, end: int, width: int = _AROUND) -> str:
    """The words around a place, cut between words, in one line."""
    low, high = max(0, start - width), min(len(text), end + width)
    low = text.find(" ", low, start) + 1 if low and " " in text[low:start] else low
    high = text.rfind(" ", end, high) if high < len(text) and " " in text[end:high] else high
    return " ".join(text[low:high].split())
