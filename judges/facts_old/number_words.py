"""Numbers written in English words: "twenty-five", "two hundred and five", "half a million", "nineteenth"."""

from __future__ import annotations

import re
from decimal import Decimal

from tokenmill.judges.facts.tables import NUMBER_WORDS, ONES, ORDINAL_SCALES, ORDINALS, SCALES, TENS
from tokenmill.judges.facts.text import AFTER, Fact, canonical, starts_sentence, unit_of

_SMALL = frozenset(str(number) for number in range(11))
_SCALES = tuple(SCALES)
_COMPOUNDING = frozenset([*SCALES, *ORDINAL_SCALES, *TENS])
_NUMBER_WORD = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_SPELLED = re.compile(
    rf"(?:half an? )?(?:{_NUMBER_WORD})(?:(?: and a half(?= )|(?: and |[ -])(?:{_NUMBER_WORD})\b))*", re.IGNORECASE
)


def note_spelled(text: str, present: frozenset[str], numbers: list[Fact], offers: set[str]) -> None:
    """Note every number written in words; `present` are the number words that the text has."""
    lower = text.lower()
    if len(lower) != len(text):  # a capital such as "İ" grows; then spans in the two differ
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    places = []
    if "one" in lower and not present.isdisjoint(_COMPOUNDING):
        present |= {"one"}
    for word in present:
        at = lower.find(word)
        while at >= 0:
            end = at + len(word)
            if not (at and lower[at - 1].isalnum()) and not lower[end : end + 1].isalpha():
                places.append(at)
            at = lower.find(word, end)
    until = 0
    for at in sorted(places):
        if at < until:
            continue
        begin = at
        for half in ("half a ", "half an "):
            if lower.startswith(half, max(0, at - len(half))) and at >= len(half):
                begin = at - len(half)
        scaled = lower[max(0, at - 2) : at - 1].isdigit() and lower.startswith(
            _SCALES, at
        )  # "3.5 million" is read with its digits
        if not scaled and (match := _SPELLED.match(lower, begin)):
            until = match.end()
            _spelled_run(text, match, numbers, offers)


def _spelled_run(text: str, match: re.Match, numbers: list[Fact], offers: set[str]) -> None:
    start, end = match.span()
    ordinal = match[0] in ORDINALS
    if ordinal and text[end : end + 1] in (",", ":") and starts_sentence(text, start):
        return  # "Second, ..." only orders the text
    tokens = [t for t in match[0].replace("-", " ").split() if t not in ("and", "a", "an")]
    if len(tokens) == 1 and tokens[0] in SCALES and text[start - 2 : start].lower() != "a ":
        offers.add(str(SCALES[tokens[0]]))  # "multi-million": no number, only its size
        return
    after = AFTER.match(text, end)
    unit = unit_of(after[1], text, end) if after and len(after[1]) > 1 else ""
    for value, size in _values(tokens):
        offers.add(value)
        large = value not in _SMALL and tokens[0] not in SCALES
        numbers.append(Fact("number", start, end, (value,), unit, value != "1" and (size > 1 or large)))


def _values(tokens: list[str]) -> list[tuple[str, int]]:
    """Numbers in a run of number words, each with how many words it took."""
    found: list[tuple[str, int]] = []
    total, current, size, last = 0, Decimal(0), 0, 0

    def flush() -> None:
        nonlocal total, current, size, last
        if size:
            found.append((canonical(format(total + current, "f")), size))
        total, current, size, last = 0, Decimal(0), 0, 0

    for token in tokens:
        scale = SCALES.get(token) or ORDINAL_SCALES.get(token) or (12 if token == "dozen" else None)
        if scale:
            if current * scale > 10**18:
                flush()
            current = (current or Decimal(1)) * scale
            size += 1
            last = scale
            if scale > 100:
                total, current = total + current, Decimal(0)
            if token in ORDINAL_SCALES:
                flush()
        elif token == "half" and size and not total and last != 0.5:
            current += Decimal("0.5")  # "two and a half"
            size += 1
        elif token == "half":
            flush()
            current, size, last = Decimal("0.5"), 1, 1
        else:
            value = ONES.get(token, TENS.get(token, ORDINALS.get(token, 0)))
            fits = not size or last >= 100 or (20 <= last < 100 and value < 10 and last % 10 == 0)
            if not fits:
                flush()
            current += value
            size += 1
            last = value if value >= 20 else 1
            if token in ORDINALS:
                flush()
    flush()
    return found
