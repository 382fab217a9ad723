"""Instructions that code can check, after those of IFEval and IFBench; each is worded, checked, and known to the composer.

    kind = KINDS["words_at_least"]
    kind.text(n=80)                    "Write at least 80 words."
    kind.fault("too short", n=80)      "has 2 words"

Written anew: no data, no downloads. A checker looks at the whole answer and says what is wrong, or nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_END = re.compile(r"[.!?]+")
_BULLET = re.compile(r"^[ \t]*[-*•][ \t]+\S", re.MULTILINE)
_HIGHLIGHT = re.compile(r"(?<!\*)\*{1,2}([^*\n]{1,200})\*{1,2}(?!\*)")
_PLACEHOLDER = re.compile(r"\[([^\[\]\n]{1,200})\](?!\()")
_BY_LETTERS = re.compile(r"(?<![^\W_])(?:[^\W\d_][ \t.·_*-]{1,2}){3,}[^\W\d_](?![^\W_])")
_TITLE = re.compile(r"<<([^<>\n]{1,200})>>")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")

_ESCAPED = re.compile(r"\\u00[2-7][0-9a-f]", re.IGNORECASE)
_TEXT_WORDS = 10
"""Words that the longest text of a JSON answer needs: loose keys and words are none."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of instruction."""

    name: str
    after: str
    """The group of IFEval or IFBench that it belongs to."""
    draw: Callable[[Random, Values], Values]
    """Its arguments; the topic's words are given (`topic`, `word`, `tempting`)."""
    text: Callable[..., str]
    fault: Callable[..., str]
    """(answer, **arguments) -> what is wrong; empty for nothing."""


def words(text: str) -> list[str]:
    """Words of a text."""
    return _WORD.findall(text)


def sentences(text: str) -> list[str]:
    """Sentences of a text: what ends in `.`, `!` or `?` and has a letter or a figure."""
    found, begin = [], 0
    for end in _END.finditer(
        text
    ):  # one pass: a pattern for whole sentences would take quadratic time on a text without any
        sentence = text[begin : end.end()].strip()
        begin = end.end()
        if any(c.isalnum() for c in sentence):
            found.append(sentence)
    return found


def paragraphs(text: str) -> list[str]:
    """Paragraphs: what blank lines part."""
    return [one.strip() for one in re.split(r"\n[ \t]*\n", text) if one.strip()]


def occurrences(word: str, text: str) -> int:
    """How often a word stands in a text as a word, in any case."""
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE))


def without_placeholders(text: str) -> str:
    """A text without what stands in square brackets."""
    return _PLACEHOLDER.sub(" ", text)


def spelled(text: str) -> str:
    """The first word that is written letter by letter, `c o l d` or `c-o-l-d`; empty where there is none."""
    found = _BY_LETTERS.search(text)
    return found[0] if found else ""


def _filled(pattern: re.Pattern[str], text: str) -> int:
    """How often a pattern stands in a text with a letter or a figure inside its marks."""
    return sum(any(c.isalnum() for c in inside) for inside in pattern.findall(text))


def _named(text: str) -> int:
    """Placeholders that name what belongs there: with a word of letters."""
    return sum(any(len(word) > 1 and word[0].isalpha() for word in words(one)) for one in _PLACEHOLDER.findall(text))


def _many(count: int, wanted: int, what: str, how: str) -> str:
    fits = {"exactly": count == wanted, "at least": count >= wanted, "at most": count <= wanted}[how]
    return "" if fits else f"has {count} {what}, {how} {wanted} are asked for"


def _where(right: bool, fault: str) -> str:
    return "" if right else fault


def _json_fault(text: str) -> str:
    body = text.strip()
    if body.startswith("```"):
        body = body.removeprefix("```json").removeprefix("```").removesuffix("```")
    if _ESCAPED.search(body):
        return "hides letters behind escapes"
    try:
        value = json.loads(body, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        return "is no JSON" if not isinstance(error, _Twice) else str(error)
    if not isinstance(value, dict) or not value:
        return "is no JSON object"
    return "" if _longest_text(value) >= _TEXT_WORDS else "holds no text"


class _Twice(ValueError):
    """Of two values under one key a reader of the JSON sees one only."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twice("has a key twice")
    return found


def _longest_text(value: Any) -> int:
    """Words of the longest text in a JSON value; those of a list stand together."""
    if isinstance(value, str):
        return len(words(value))
    if isinstance(value, list):
        return sum(len(words(one)) if isinstance(one, str) else _longest_text(one) for one in value)
    return max((_longest_text(one) for one in value.values()), default=0) if isinstance(value, dict) else 0


def _repeats(text: str, request: str) -> str:
    return "" if text.lstrip().startswith(request) else "does not begin with the request, word for word"


def _acrostic(text: str, letters: str) -> str:
    first = "".join((words(one) or ["?"])[0][0] for one in sentences(text)).casefold()
    return "" if first == letters.casefold() else f"its sentences begin with {first[:20]!r}, not {letters!r}"


def _longest_sentence(text: str, n: int) -> str:
    longest = max((len(words(one)) for one in sentences(text)), default=0)
    return "" if 0 < longest <= n else f"its longest sentence has {longest} words, at most {n} are asked for"


def _sections(text: str, n: int) -> str:
    found = re.findall(r"^[ \t#*]*SECTION (\d+)\b", text, re.MULTILINE)
    if found != [str(number + 1) for number in range(n)]:
        return f"has sections {found}, 1 to {n} are asked for"
    parts = re.split(r"^[ \t#*]*SECTION \d+\b", text, flags=re.MULTILINE)[1:]
    return "" if all(words(part) for part in parts) else "has an empty section"


def _two(text: str) -> str:
    parts = text.split("******")
    if len(parts) != 2 or not all(words(part) for part in parts):
        return f"has {len(parts)} parts between ******, two are asked for"
    return "" if parts[0].strip() != parts[1].strip() else "gives the same text twice"


def _case(text: str, upper: bool) -> str:
    letters = [c for c in text if c.isalpha()]
    wrong = [c for c in letters if (c.islower() if upper else c.isupper())]
    return "" if letters and not wrong else f"has {len(wrong)} letters of the other case"


def _nothing(random: Random, about: Values) -> Values:
    return {}


def _number(low: int, high: int) -> Callable[[Random, Values], Values]:
    return lambda random, about: {"n": random.randint(low, high)}


def _word(random: Random, about: Values) -> Values:
    return {"word": random.choice(about["others"])}


def _repeated(low: int, high: int) -> Callable[[Random, Values], Values]:
    return lambda random, about: {"word": random.choice(about["others"]), "n": random.randint(low, high)}


_SPELLED = ("TIDE", "ATLAS", "OAT", "SALT", "WIT")
_ENDINGS = ("That is all there is to say.", "Is there anything else I can help with?", "Let the reader decide.")
_BEGINNINGS = ("To begin with,", "On reflection,", "In plain words,")

_ALL = (
    Kind("words_at_least", "length_constraints", _number(60, 140), lambda n: f"Write at least {n} words.",
         lambda text, n: _many(len(words(text)), n, "words", "at least")),
    Kind("words_at_most", "length_constraints", _number(60, 160), lambda n: f"Write at most {n} words.",
         lambda text, n: _many(len(words(text)), n, "words", "at most")),
    Kind("words_exactly", "ifbench:count", _number(45, 90), lambda n: f"Write exactly {n} words.",
         lambda text, n: _many(len(words(text)), n, "words", "exactly")),
    Kind("sentences_exactly", "length_constraints", _number(4, 9), lambda n: f"Write exactly {n} sentences.",
         lambda text, n: _many(len(sentences(text)), n, "sentences", "exactly")),
    Kind("sentences_at_most", "length_constraints", _number(5, 10), lambda n: f"Write no more than {n} sentences.",
         lambda text, n: _many(len(sentences(text)), n, "sentences", "at most")),
    Kind("paragraphs_exactly", "length_constraints", _number(2, 5),
         lambda n: f"Write exactly {n} paragraphs with a blank line between them.",
         lambda text, n: _many(len(paragraphs(text)), n, "paragraphs", "exactly")),
    Kind("bullets_exactly", "detectable_format", _number(3, 6),
         lambda n: f"Include exactly {n} bullet points, each on a line that begins with `- `.",
         lambda text, n: _many(len(_BULLET.findall(text)), n, "bullet points", "exactly")),
    Kind("include_word", "keywords", _word, lambda word: f"Use the word \"{word}\".",
         lambda text, word: "" if occurrences(word, text) else f"does not use {word!r}"),
    Kind("word_at_least", "keywords", _repeated(2, 4), lambda word, n: f"Use the word \"{word}\" at least {n} times.",
         lambda text, word, n: _many(occurrences(word, text), n, f"times {word!r}", "at least")),
    Kind("word_exactly", "keywords", _repeated(1, 3), lambda word, n: f"Use the word \"{word}\" exactly {n} time(s).",
         lambda text, word, n: _many(occurrences(word, text), n, f"times {word!r}", "exactly")),
    Kind("forbid_word", "keywords", lambda random, about: {"word": about["tempting"]},
         lambda word: f"Do not use the word \"{word}\".",
         lambda text, word: f"uses {word!r}" if occurrences(word, text) else ""),
    Kind("no_commas", "punctuation", _nothing, lambda: "Do not use any commas.",
         lambda text: f"has {text.count(',')} commas" if "," in text else ""),
    Kind("lower_case", "change_case", _nothing, lambda: "Write everything in lower case, without a single capital letter.",
         lambda text: _case(text, upper=False)),
    Kind("upper_case", "change_case", _nothing, lambda: "Write everything in capital letters.",
         lambda text: _case(text, upper=True)),
    Kind("end_with", "startend", lambda random, about: {"phrase": random.choice(_ENDINGS)},
         lambda phrase: f"End with exactly these words, and nothing after them: {phrase}",
         lambda text, phrase: _where(text.strip().casefold().endswith(phrase.casefold()), f"does not end with {phrase!r}")),
    Kind("begin_with", "startend", lambda random, about: {"phrase": random.choice(_BEGINNINGS)},
         lambda phrase: f"Begin with exactly these words: {phrase}",
         lambda text, phrase: _where(text.strip().casefold().startswith(phrase.casefold()), f"does not begin with {phrase!r}")),
    Kind("quoted", "startend", _nothing, lambda: "Put the whole answer in double quotation marks.",
         lambda text: _where(len(text.strip()) > 2 and text.strip()[0] == text.strip()[-1] == '"', "is not in quotation marks")),
    Kind("title", "detectable_format", _nothing, lambda: "Give a title in double angular brackets, such as <<title>>.",
         lambda text: "" if _filled(_TITLE, text) else "has no title in << >>"),
    Kind("highlights", "detectable_format", _number(2, 4), lambda n: f"Highlight at least {n} phrases with *asterisks*.",
         lambda text, n: _many(_filled(_HIGHLIGHT, text), n, "highlighted phrases", "at least")),
    Kind("placeholders", "detectable_content", _number(2, 4),
         lambda n: f"Leave at least {n} placeholders in square brackets, such as [name].",
         lambda text, n: _many(_named(text), n, "placeholders", "at least")),
    Kind("postscript", "detectable_content", _nothing, lambda: "Add a postscript at the end that begins with P.S.",
         lambda text: "" if re.search(r"^[ \t]*P\.\s?S\.[ \t]*\S", text, re.MULTILINE | re.IGNORECASE) else "has no postscript"),
    Kind("json_object", "detectable_format", _nothing, lambda: "Give the whole answer as one JSON object.", _json_fault),
    Kind("sections", "detectable_format", _number(2, 4),
         lambda n: f"Write {n} sections, each under a line with SECTION and its number, such as SECTION 1.", _sections),
    Kind("two_answers", "combination", _nothing, lambda: "Give two different answers with six asterisks ****** between.", _two),
    Kind("repeat_request", "combination", lambda random, about: {"request": about["request"]},
         lambda request: "First repeat the sentence of the request that says what to write, word for word, and then write it: "
                         f"{request}",
         _repeats),
    Kind("sentence_words", "ifbench:sentence", _number(9, 14), lambda n: f"No sentence may have more than {n} words.",
         lambda text, n: _longest_sentence(text, n)),
    Kind("numbers_exactly", "ifbench:count", _number(1, 4), lambda n: f"Include exactly {n} number(s) written in figures.",
         lambda text, n: _many(len(_DIGITS.findall(text)), n, "numbers in figures", "exactly")),
    Kind("exclamations", "ifbench:count", _number(1, 3), lambda n: f"Use exactly {n} exclamation mark(s).",
         lambda text, n: _many(text.count("!"), n, "exclamation marks", "exactly")),
    Kind("no_letter", "letters", lambda random, about: {"letter": random.choice("jkqxz")},
         lambda letter: f"Do not use the letter {letter} at all.",
         lambda text, letter: f"uses the letter {letter}" if letter in text.casefold() else ""),
    Kind("acrostic", "ifbench:sentence", lambda random, about: {"letters": random.choice(_SPELLED)},
         lambda letters: f"Write {len(letters)} sentences whose first letters spell {letters}.",
         _acrostic),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _ALL}
"""By name."""
