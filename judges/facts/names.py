"""Names lost and added: which words of one text's names the other text has, in any form a person would accept."""

from __future__ import annotations

import re

from tokenmill.judges.facts.differences import Difference
from tokenmill.judges.facts.extract import SHORT_COUNTRIES, Fact, Facts, acronym, extract, split_words, starts_sentence
from tokenmill.judges.facts.tables import (
    ADDRESSES,
    FUNCTION_WORDS,
    IMPLIED,
    LABELS,
    NICKNAMES,
    NUMBER_WORDS,
    ROMAN,
    name_stem,
    ordinary,
    stem,
)


def names_lost(
    source: str, rewrite: str, before: Facts, after: Facts, context: str, language: str
) -> tuple[list[Difference], int]:
    """Names of the source that the rewrite lacks, and the number of distinct names.

    A name of the context is none of them: a text may speak of its title's subject as "he" or "the station".
    """
    if before.name_words <= after.words:
        return [], len({fact[3] for fact in before.names})
    distinct = {fact.keys: fact for fact in before.names if fact.strong or len(fact.keys) > 1}
    stems: frozenset[str] | None = None
    around = frozenset(map(stem, extract(context, language).words)) if context else frozenset()
    lost: list[Fact] = []
    for keys, fact in distinct.items():
        if after.words.issuperset(keys) or around.issuperset(map(stem, keys)):
            continue
        if keys[-1] in after.name_words or 2 * sum(key in after.name_words for key in keys) >= len(keys):
            continue
        if (not fact.strong and all(ordinary(key) for key in keys)) or _short_form(source, fact):
            continue
        if _abbreviated(short := _acronym(source, fact), fact, after) or _in_number(short, after):
            continue
        if _contains_acronym(keys, after) or _in_apposition(source, fact, after):
            continue
        if stems is None:
            stems = _stems(after)
        if 2 * sum(_known(key, stems) or key in ROMAN for key in keys) >= len(keys):
            continue
        if name_stem(_acronym(source, fact)) in stems:
            continue
        lost.append(fact)
    gone = {fact.keys for fact in lost}
    singles = {keys[-1] for keys in gone if len(keys) > 1}
    kept = [f for f in lost if len(f.keys) > 1 or f.keys[0] not in singles]
    return [Difference("name_lost", fact, in_source=True) for fact in kept], len(distinct)


def _contains_acronym(keys: tuple[str, ...], other: Facts) -> bool:
    """Whether the other text abbreviates at least half of a long name: "the RAF" for the British Royal Air Force."""
    size = len(keys)
    return 3 <= size <= 8 and any(
        "".join(word[0] for word in keys[at : at + part]) in other.acronyms
        for part in range(max(2, (size + 1) // 2), size)
        for at in range(size - part + 1)
    )


_APPOSED = re.compile(r"[^\W\d_]+, $")
_NEXT_ITEM = re.compile(r",? (?:and|or|&) |, [^\W\d_]*[A-Z]")


def _in_apposition(text: str, fact: Fact, other: Facts) -> bool:
    """Whether a name only says in which larger place another is that was kept: "Toronto, Ontario"."""
    before = _APPOSED.search(text, max(0, fact.start - 30), fact.start)
    if not before or not before[0][0].isupper() or stem(before[0][:-2].lower()) not in map(stem, other.words):
        return False
    if text[max(0, before.start() - 2) : before.start()] == ", " or _NEXT_ITEM.match(text, fact.end):
        return False  # an item of a list
    return text[fact.end : fact.end + 1] in (",", ".", ";", ")", "")


def _stems(facts: Facts) -> frozenset[str]:
    """Roots of all words, and those of the peoples, places and things that the names among them stand for."""
    named = facts.name_words | facts.acronyms | facts.initials
    nicknames = [NICKNAMES[word] for word in facts.words & NICKNAMES.keys()]
    return frozenset([*map(stem, facts.words), *map(name_stem, named), *nicknames])


def _known(word: str, stems: frozenset[str]) -> bool:
    return stem(word) in stems or name_stem(word) in stems


def _abbreviated(short: str, fact: Fact, other: Facts) -> bool:
    """Whether the other text has a name's acronym, or the name that the acronym `short` stands for."""
    return short in (other.acronyms if len(fact.keys) > 1 else other.initials)


def _in_number(short: str, other: Facts) -> bool:
    """Whether the other text has an acronym in the other number: "IDs" for "ID"."""
    return bool(short) and (f"{short}s" in other.name_words or (short[-1] == "s" and short[:-1] in other.acronyms))


def _acronym(text: str, fact: Fact) -> str:
    return acronym(fact.keys, text[fact.start : min(fact.end, fact.start + 200)])


def names_added(
    source: str, rewrite: str, before: Facts, after: Facts, context: str, language: str
) -> list[Difference]:
    """Names of the rewrite with a word that neither the source nor the context has in any form."""
    unknown = after.name_words - before.words
    english = language[:2] in ("en", "", "un")
    # Most are common words that begin a sentence, and seen at once to be no names.
    doubtful = [
        fact
        for fact in after.names
        if not unknown.isdisjoint(fact.keys) and not (english and _begins_sentence(rewrite, fact))
    ]
    if not doubtful:
        return []
    labels = _speakers(rewrite)
    letter = _letter_ends(rewrite)
    around = extract(context, language) if context else None
    stems = _stems(before)
    lower_case = _lower_cased(rewrite, unknown)
    found: dict[tuple[str, ...], Difference] = {}
    for fact in doubtful:
        if any(begin <= fact.start < end for begin, end in letter):
            continue
        new = [key for key in fact.keys if key in unknown]
        if around:
            new = [key for key in new if key not in around.words]
        new = [
            key
            for key in new
            if not _known(key, stems)
            and not (key[-1] == "s" and key[:-1] in before.acronyms)
            and key not in labels
            and key not in lower_case
            and not (key in ROMAN and ROMAN[key] in before.offers)
            and not (key in IMPLIED or key in NUMBER_WORDS or key in FUNCTION_WORDS or key in ADDRESSES or _label(key))
        ]
        if len(new) > 1 and len(fact.keys) <= 12:
            new = _not_spelled_out(new, fact, before)
        new = [key for key in new if not _in_short(key, fact, source, rewrite, before)]
        if not new or tuple(new) in found:
            continue
        if _abbreviates(rewrite[fact.start : fact.end], source, before) or _addressed(rewrite, fact):
            continue
        short = _acronym(rewrite, fact)
        if (
            _abbreviated(short, fact, before)
            or _in_number(short, before)
            or (around and _abbreviated(short, fact, around))
        ):
            continue
        if new == [fact.keys[0]] or len(fact.keys) == len(new):  # the unknown words begin the name
            first = fact.keys[0]
            plain = not rewrite[fact.start : fact.start + len(first)].isupper()
            serving = english and len(fact.keys) == 1 and serves_as_name(rewrite, fact.start, fact.end)
            if not serving and not fact.strong and first in new and (not english or (plain and ordinary(first))):
                new = new[1:]
        if new and english and " " in rewrite[fact.start : fact.end] and _short_form(rewrite, fact):
            continue
        named = {word.lower() for pair in _AFTER_OF.findall(rewrite[fact.start : fact.end]) for word in pair}
        if english and 3 * len(new) <= len(fact.keys) and all(ordinary(key) for key in new) and named.isdisjoint(new):
            continue  # a fuller form of a known name: "the 23rd Infantry Regiment of the US Army"
        shouted = rewrite[fact.start : fact.end].isupper()
        if new and english and not shouted and all(ordinary(key) for key in new) and _on_heading(rewrite, fact):
            continue
        if new:
            found[tuple(new)] = Difference("name_added", fact)
    return list(found.values())


def _not_spelled_out(new: list[str], fact: Fact, before: Facts) -> list[str]:
    """Words of `new` without those that spell out an acronym of the other text: "United States" for "U.S."."""
    for size in (4, 3, 2):
        for at in range(len(fact.keys) - size + 1):
            part = fact.keys[at : at + size]
            short = "".join(word[0] for word in part)
            if short in before.acronyms or (short in before.name_words and short in SHORT_COUNTRIES):
                new = [word for word in new if word not in part]
    return new


def _in_short(key: str, fact: Fact, source: str, rewrite: str, before: Facts) -> bool:
    """Whether a word of a name is a short or kindred form of one of the source's: "TV", "(Lab.)", "Puerto Rico"."""
    run = rewrite[fact.start : min(fact.end, fact.start + 200)]
    if len(key) > 1 and len(fact.keys) > 1 and key.upper() in run and _abbreviates(key.upper(), source, before):
        return True
    clipped = rewrite[fact.end : fact.end + 1] in (".", ")")
    if clipped and len(key) >= 3 and len(fact.keys) == 1 and any(word.startswith(key) for word in before.name_words):
        return True
    at = fact.keys.index(key)
    if not at or len(key) < 4 or fact.keys[at - 1] not in before.name_words:
        return False
    kindred = re.search(rf"\b{re.escape(fact.keys[at - 1])}[ -]({re.escape(key[:3])}\w+)", source, re.IGNORECASE)
    return kindred is not None and abs(len(kindred[1]) - len(key)) <= 2


_SALUTATION = re.compile(r"\s*(?:Dear|Hi|Hello|Hey|My dear|Dearest)\b[^,:!\n.]{0,60}[,:!]")
_CLOSING = re.compile(
    r"(?:^|[.!?\n] *)(?:Love|Yours(?: \w+)?|Sincerely(?: yours)?|(?:\w+ )?(?:[Rr]egards|[Ww]ishes)|Cheers|Best|Warmly"
    r"|Affectionately|Faithfully|Respectfully|Your \w+(?: \w+)?|As ever|Signed),\s*[^,!?\n]{0,60}[.!]?\s*$"
)

_SIGNED = re.compile(r"\n[A-Z](?: ?[^\W\d_]+,?){1,5}\s*$")
"""A last line of a few words: "Drive safely, Anna"."""


def _letter_ends(text: str) -> list[tuple[int, int]]:
    """Where a letter greets its reader and where it is signed; nothing in a text that is no letter."""
    greeting = _SALUTATION.match(text)
    if not greeting:
        return []
    tail = max(greeting.end(), len(text) - 150)
    closing = _CLOSING.search(text, tail) or _SIGNED.search(text, tail)
    return [greeting.span()] + ([(closing.start(), len(text))] if closing else [])


_AFTER_OF = re.compile(r"\b(?:of|in|at) (\w+)$|(\w+)(?=['’]s )")
"""What a name is qualified by: a place, an owner. It tells one name from another, as a word for its kind does not."""
_ADDRESSED = re.compile(r"(?:^|[.!?:][\"”]? |\n)[^\W\d_]+(?: [^\W\d_]+)?, (?:Mrs?\.? |Ms\.? |Dr\.? )?$")


def _addressed(text: str, fact: Fact) -> bool:
    """Whether a dialogue's speaker turns to somebody, in a sentence of its own: "Thank you, Mr. Lopez!" """
    if " " in text[fact.start : fact.end].replace(". ", "") or text[fact.end : fact.end + 1] not in ("!", "?", "."):
        return False
    return _ADDRESSED.search(text[max(0, fact.start - 40) : fact.start]) is not None


def _abbreviates(run: str, other: str, facts: Facts) -> bool:
    """Whether capitals shorten common words that stand in the other text: "IP" innings pitched, "TDs" touchdowns."""
    letters = run.removesuffix("s")
    if len(run) > 2 and run[-1] in facts.offers:  # "WW2"
        letters = run[:-1]
    if not (2 <= len(letters) <= 5 and letters.isascii() and letters.isalpha() and letters.isupper()):
        return False
    letters = letters.lower()
    words = r"\w*[ -]".join(letters)
    if re.search(rf"\b{words}", other, re.IGNORECASE):
        return True
    # Of one word, its first letter and that of its second part: only long words have parts.
    return len(letters) == 2 and any(
        re.search(rf"\b{letters[0]}[a-z]{{2,}}{letters[1]}[a-z]{{2,}}", word) for word in _LONG_WORD.findall(other)
    )


_LONG_WORD = re.compile(r"\b[a-z]{8,20}\b")


def _begins_sentence(text: str, fact: Fact) -> bool:
    """Whether a capital is only that of a common word at the beginning of a sentence."""
    if fact.strong or len(fact.keys) > 1:
        return False
    (word,) = fact.keys
    return (
        ordinary(word)
        and not text[fact.start : fact.start + len(word)].isupper()
        and not serves_as_name(text, fact.start, fact.end)
    )


_PERSONAL = re.compile(
    r"['’]s [a-z]|,? who\b|, wh(?:ich|ose)\b| (?:sa(?:ys?|id|ws?)|sees?|kn(?:ew|ows)|th(?:ought|inks)|believe[ds]|fe(?:lt|els)"
    r"|wr(?:ote|ites)|t(?:old|ells)|asked|asks|refuse[ds]|marrie[ds]|want(?:ed|s)|hope[ds]|agree[ds]|decide[ds]|tried|tries"
    r"|learn(?:ed|t|s)|died|dies|lived|lives|himself|herself)\b"
)
"""After a name: what people own, who they are, or what only they do."""
_PRONOUNS = frozenset(
    [
        *("nobody", "neither", "someone", "everyone", "anyone", "somebody", "everybody", "anybody", "none", "either"),
        *("people", "yesterday", "tomorrow", "tonight"),
    ]
)
_OPENED, _CLOSED = re.compile(r"[^.!?:;\n] [\"“]$"), re.compile(r",?[\"”]")


def serves_as_name(text: str, start: int, end: int) -> bool:
    """Whether what stands beside a capitalised word makes it a name: "Bell's house", "Bell believes", called "Bell".

    Plurals and what else is no single person ("Critics say", "Singing") are let pass.
    """
    word = text[start:end]
    possessive = word.endswith(("'s", "’s"))
    bare = word[:-2].lower() if possessive else word.lower()
    if bare in _PRONOUNS or bare in FUNCTION_WORDS or not bare.isalpha():
        return False
    if _CLOSED.match(text, end) and _OPENED.search(text, max(0, start - 3), start):
        return True  # the "Bell" was
    if possessive:
        return text[end : end + 1] == " " and text[end + 1 : end + 2].islower()
    return not bare.endswith(("s", "ing", "ed", "ly")) and _PERSONAL.match(text, end) is not None


def _label(word: str) -> bool:
    """Whether a word only labels a part of the text: "Question", "Q2"."""
    return word in LABELS or (word[0] in "qa" and word[1:].isdecimal())


_SPEAKER = re.compile(r"^[ \t>*_#-]*([^\W\d_][\w.’' -]{0,40}?)[*_]{0,2}:", re.MULTILINE)
_PLAIN_SPEAKER = re.compile(r"[^\W\d_][\w.’'-]*(?: [A-Z][\w.’'-]*){0,3}")


def _speakers(text: str) -> set[str]:
    """Words that stand before a colon at the beginning of a line: a dialogue's speakers, a list's labels."""
    labels = [match[1] for match in _SPEAKER.finditer(text)]
    words = {word for label in labels if _PLAIN_SPEAKER.fullmatch(label) for word in split_words(label)}
    return words | {word for label in labels for word in split_words(label) if ordinary(word)}


def _lower_cased(text: str, words: frozenset[str]) -> set[str]:
    """Those of `words` that the text also writes without a capital: such a word is no name."""
    plain = frozenset(text.replace("-", " ").translate(_PUNCTUATION).split())
    return {word for word in words if word in plain}


_PUNCTUATION = str.maketrans({c: " " for c in ",.;:!?()\"'’“”*"})
_DETERMINERS = frozenset(
    ["the", "a", "an", "this", "that", "these", "those", "its", "their", "several", "some", "many"]
)
_DETERMINED = re.compile(r"\b(?:th(?:e|is|ese|ose)|its|their)(?: \d+)? $")


def _short_form(text: str, fact: Fact) -> bool:
    """Whether a common word with a capital only refers back, as in "the Games"; "The Bill" is a title instead."""
    if len(fact.keys) > 1 or not ordinary(fact.keys[0]):
        return False
    run = text[fact.start : fact.end]
    if " " in run:
        plain = not run.rpartition(" ")[2].removesuffix("'s").removesuffix("’s")[1:].isupper()
        return plain and split_words(run)[0] in _DETERMINERS and starts_sentence(text, fact.start)
    return not run.isupper() and _DETERMINED.search(text, max(0, fact.start - 12), fact.start) is not None


def _on_heading(text: str, fact: Fact) -> bool:
    """Whether the name stands on a short line in title case, without a full stop, where common words have capitals too."""
    begin = text.rfind("\n", 0, fact.start) + 1
    end = text.find("\n", fact.end)
    end = end if end >= 0 else len(text)
    line = text[begin:end].strip()
    if len(line) > 90 or line[-1:] in (".", "!", "?", ",", ";") or (not begin and end == len(text)):
        return False
    if line.startswith("#"):
        return True
    others = _LONG.findall(f"{text[begin : fact.start]} {text[fact.end : end]}")
    return 3 * sum(word.islower() for word in others) <= len(others)


_LONG = re.compile(r"[^\W\d_]{4,}")
