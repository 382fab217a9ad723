"""Faults planted in honest paraphrases, each drawn from a seed.

The patterns here are the bench's own and know nothing of `judges.facts.extract`; names come from lists made per passage, so a
name or number that the check fails to read is planted, and counted, all the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tokenmill.bench.fidelity.data import Pair

_MONTHS = "January February March April May June July August September October November December"
_MONTH = _MONTHS.replace(" ", "|")
_DATES = re.compile(
    rf"(?P<day>\b\d{{1,2}}(?= (?:{_MONTH})\b))|(?:\b(?P<month>{_MONTH})(?: (?P<after>\d{{1,2}})\b(?!:))?)"
    r"|(?P<year>(?<![\d,.$])(?:1[0-9]|20)\d\d(?![\d,.]\d))(?P<decade>s?)"
)
_NUMBER = re.compile(r"(?<![\w.,:⁄])\d+(?:,\d{3})*(?:\.\d+)?(?!\w*[A-Z])")
_WORDS = [
    "two three four five six seven eight nine ten eleven twelve",
    "second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth nineteenth",
]
_WORD = re.compile(r"\b(" + "|".join(" ".join(_WORDS).split()) + r")\b", re.IGNORECASE)
_AUXILIARY = re.compile(r"\b(was|were|is|are|had|has|have|could|can|would|will|did)\b(?! not)(?!['’?])(?= \w)")
_SENTENCE = re.compile(r"[^\n]+?(?:(?<![A-Z])(?<!No)(?<!Mr)(?<!c)[.!?]+[\"”)]*(?= [A-Z\"“*-]|$)|$)", re.MULTILINE)

CLAIMS = (
    "Observers at the time considered this a turning point.",
    "Not everyone welcomed this development, and complaints soon followed.",
    "The whole affair was later shown to have been planned in secret.",
    "It remains the most popular of its kind to this day.",
    "Many people afterwards said that they had never seen anything like it.",
    "The decision was reversed shortly afterwards.",
    "A second attempt ended in complete failure.",
    "Experts continue to disagree about the real cause.",
    "Heavy rain had delayed the start by several hours.",
    "Most of the money came from private donors.",
    "Its influence can still be felt in neighbouring countries.",
    "The plan had been rejected once before on grounds of cost.",
    "About 350 people attended the ceremony.",
    "A survey found that 64 percent of respondents approved.",
    "The same thing happened again in 1987.",
    "It took 11 months to complete.",
    "The total cost was later put at $2.7 million.",
    "On 23 April a further report was issued.",
    "Margaret Holloway later wrote a book about it.",
    "A similar case is known from Portugal.",
    "The University of Leeds now keeps the records.",
    "It was praised by Henrik Lindqvist, who knew the subject well.",
    "A copy is kept in Montevideo.",
    "Reuters carried the story the next morning.",
)
"""Sentences that no passage supports; the second dozen have a number, a date or a name."""


_ENDING = re.compile(r"(?:st|nd|rd|th)\b")


def _replace(text: str, match: re.Match[str], new: str, group: int | str = 0) -> str:
    return text[: match.start(group)] + new + text[match.end(group) :]


def _dated(text: str) -> set[int]:
    """Positions that belong to dates."""
    return {i for m in _DATES.finditer(text) for i in range(m.start(), m.end())}


def change_number(pair: Pair, rng: random.Random) -> str | None:
    """Another value for one number, in digits or words, that is no date."""
    text, dated = pair.rewrite, _dated(pair.rewrite)
    places = [m for m in _NUMBER.finditer(text) if m.start() not in dated]
    places += [m for m in _WORD.finditer(text) if m.start() not in dated]
    if not places:
        return None
    match = rng.choice(places)
    old = match[0]
    if old[0].isalpha():
        row = next(row.split() for row in _WORDS if old.lower() in row.split())
        new = rng.choice([word for word in row if word != old.lower()])
        return _replace(text, match, new.capitalize() if old[0].isupper() else new)
    spots = [i for i, c in enumerate(old) if c.isdigit()]
    spot = rng.choice(spots)
    digits = "123456789" if spot == 0 else "0123456789"
    new = old[:spot] + rng.choice([d for d in digits if d != old[spot]]) + old[spot + 1 :]
    ordinal = _ENDING.match(text, match.end())
    if ordinal and new.isdecimal():  # a slip reads well: "5th" for "2nd", and not "5nd"
        text = _replace(text, ordinal, _ending(int(new)))
    return _replace(text, match, new)


def _ending(number: int) -> str:
    return "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def shift_date(pair: Pair, rng: random.Random) -> str | None:
    """Another year, month, day or decade in one date."""
    text = pair.rewrite
    places = list(_DATES.finditer(text))
    if not places:
        return None
    match = rng.choice(places)
    if match["year"]:
        step = (
            rng.choice((-30, -20, -10, 10, 20)) if match["decade"] else rng.choice((-9, -4, -3, -2, -1, 1, 2, 3, 5, 8))
        )
        return _replace(text, match, str(int(match["year"]) + step), "year")
    if match["day"] or (match["after"] and rng.random() < 0.5):
        group = "day" if match["day"] else "after"
        day = int(match[group])
        return _replace(text, match, str(rng.choice([d for d in range(1, 29) if d != day])), group)
    return _replace(text, match, rng.choice([m for m in _MONTHS.split() if m != match["month"]]), "month")


def swap_name(pair: Pair, rng: random.Random) -> str | None:
    """One mention of a name becomes a name of the same type from another passage of the same pool."""
    places = [
        (match, kind)
        for kind, names in pair.names.items()
        for name in names
        for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", pair.rewrite)
    ]
    if not places:
        return None
    match, kind = rng.choice(places)
    others = [name for name in pair.other_names.get(kind, ()) if name not in pair.source and name not in pair.rewrite]
    if not others:
        return None
    new = rng.choice(others)
    if kind == "person" and " " not in match[0]:
        new = new.split()[-1]
    return None if new in pair.source else _replace(pair.rewrite, match, new)


def insert_negation(pair: Pair, rng: random.Random) -> str | None:
    """ "not" after one auxiliary verb."""
    places = list(_AUXILIARY.finditer(pair.rewrite))
    if not places:
        return None
    match = rng.choice(places)
    return _replace(pair.rewrite, match, f"{match[0]} not")


def drop_sentence(pair: Pair, rng: random.Random) -> str | None:
    """One sentence less."""
    places = [m for m in _SENTENCE.finditer(pair.rewrite) if len(m[0].split()) >= 4]
    if len(places) < 2:
        return None
    return re.sub(r"  +", " ", _replace(pair.rewrite, rng.choice(places), "")).strip()


def add_claim(pair: Pair, rng: random.Random) -> str | None:
    """One sentence more, which the source does not support."""
    places = [m for m in _SENTENCE.finditer(pair.rewrite) if len(m[0].split()) >= 4]
    match = rng.choice(places)
    return f"{pair.rewrite[: match.end()]} {rng.choice(CLAIMS)}{pair.rewrite[match.end() :]}"


def exchange(pair: Pair, rng: random.Random) -> str | None:
    """Two names of one type trade places: no fact is lost or added, and yet the text is wrong."""
    text = pair.rewrite
    kinds = {k: [n for n in names if text.count(n) == 1] for k, names in pair.names.items()}
    kinds = {k: names for k, names in kinds.items() if len(names) >= 2}
    if not kinds:
        return None
    first, second = rng.sample(kinds[rng.choice(sorted(kinds))], 2)
    if first in second or second in first:
        return None
    return text.replace(first, "\0").replace(second, first).replace("\0", second)


FAULTS: dict[str, Callable[[Pair, random.Random], str | None]] = {
    "number changed": change_number,
    "date shifted": shift_date,
    "name swapped": swap_name,
    "negation inserted": insert_negation,
    "sentence dropped": drop_sentence,
    "claim added": add_claim,
    "names exchanged": exchange,
}


def plant(pair: Pair, fault: str, variants: int, seed: int = 0) -> list[str]:
    """Up to `variants` different faulty versions of the pair's rewrite."""
    found: dict[str, None] = {}
    for trial in range(4 * variants):
        rng = random.Random(f"{seed}/{pair.id}/{fault}/{trial}")
        faulty = FAULTS[fault](pair, rng)
        if faulty is not None and faulty != pair.rewrite:
            found[faulty] = None
        if len(found) == variants:
            break
    return list(found)
