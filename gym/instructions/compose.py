"""A text that meets given instructions: the proof that a task can be solved, and its reference."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from tokenmill.gym.instructions.checkers import words

Arguments = dict[str, dict[str, Any]]
_words = str.split
_OPENERS = _words(
    "Often Then Here Still Today Now Most Some Nobody Everybody Slowly Later Indeed Above Inside Among Towards Old Water Light"
)
_PLAIN = (
    "people find {word} worth a closer look",
    "what one learns of {word} comes bit by bit",
    "there is more to {word} than one might think",
    "those who care for {word} tell of it without haste",
    "one sees {word} in another light after a while",
    "much about {word} can be told in a few words",
    "old hands and new ones differ about {word}",
    "what matters in {word} is seldom the first thing that one sees",
    "it takes time until {word} is understood",
    "some of what is said about {word} is wrong",
)
_FILLERS = _words("and more of it with care once again in that way for all of them on most days as before")


def composed(random: Random, topic: dict[str, Any], given: Arguments) -> str:
    """A text on the topic meant to meet the instructions; whether it does is for the checkers to say."""
    if "json_object" in given:
        return json.dumps({topic["word"]: " ".join(_lines(random, topic, given))}, indent=1)
    lines = list(_lines(random, topic, given))
    parts = _parts(lines, given)
    if "sections" in given:
        number = given["sections"]["n"]
        chunks = [lines[i::number] for i in range(number)]
        parts = [f"SECTION {i + 1}\n{' '.join(chunk)}" for i, chunk in enumerate(chunks)]
    if "bullets_exactly" in given:
        number = given["bullets_exactly"]["n"]
        head, items = lines[:-number] or lines[:1], lines[-number:]
        parts = [f"{' '.join(head)}\n" + "\n".join(f"- {item}" for item in items)]
    if "two_answers" in given:
        half = max(1, len(lines) // 2)
        parts = [f"{' '.join(lines[:half])}\n******\n{' '.join(lines[half:])}"]
    text = "\n\n".join(parts)
    if "title" in given:
        text = f"<<{topic['word']}>>\n{text}"
    if "begin_with" in given:
        text = f"{given['begin_with']['phrase']} {text}"
    if "repeat_request" in given:
        text = f"{given['repeat_request']['request']}\n{text}"
    if "postscript" in given:
        text = f"{text}\nP.S. {topic['word'].capitalize()} again."
    if "end_with" in given:
        text = f"{text} {given['end_with']['phrase']}"
    if "lower_case" in given:
        text = text.lower()
    if "upper_case" in given:
        text = text.upper()
    return f'"{text}"' if "quoted" in given else text


def _lines(random: Random, topic: dict[str, Any], given: Arguments) -> Iterator[str]:
    """Sentences on the topic with the words, numbers and marks that are asked for."""
    letters = given["acrostic"]["letters"] if "acrostic" in given else ""
    number = (
        len(letters) or given.get("sentences_exactly", {}).get("n") or given.get("sentences_at_most", {}).get("n", 8)
    )
    least = given.get("words_exactly", given.get("words_at_least", {})).get("n", 45)
    most = given.get("words_exactly", given.get("words_at_most", {})).get("n", 0)
    if not letters and "sentences_exactly" not in given and "sentences_at_most" not in given:
        number = max(number, -(-least // 9))
    wanted = [
        word
        for name in ("include_word", "word_at_least", "word_exactly")
        for word in [given.get(name, {}).get("word", "")] * given.get(name, {}).get("n", 1)
        if word
    ]
    wanted += [str(random.randint(11, 97)) for _ in range(given.get("numbers_exactly", {}).get("n", 0))]
    counted = "numbers_exactly" in given
    for i in range(given.get("highlights", {}).get("n", 0)):
        wanted.append(f"*{topic['word']}*" if counted else f"*{topic['word']} {i}*")
    wanted += [f"[{name}]" for name in ("name", "place", "day", "colour")[: given.get("placeholders", {}).get("n", 0)]]
    marks = given.get("exclamations", {}).get("n", 0)
    plain = random.sample(_PLAIN, len(_PLAIN))
    openers = random.sample(_OPENERS, len(_OPENERS))
    lines = []
    for i in range(number):
        opener = openers[i % len(openers)]
        if letters:
            opener = next((one for one in openers if one[0] == letters[i]), letters[i])
        body = plain[i % len(plain)].format(word=topic["word"])
        lines.append([opener, *body.split()])
    for i, word in enumerate(wanted):
        lines[i % len(lines)].append(word)
    longest = given.get("sentence_words", {}).get("n", 0)
    fixed = _outside(topic, given)
    i = 0
    while sum(map(len, lines)) + fixed < least and i < 4000:
        line = lines[i % len(lines)]
        if not longest or len(line) < longest:
            line.append(_FILLERS[i % len(_FILLERS)])
        i += 1
    while most and sum(map(len, lines)) + fixed > most and any(len(line) > 4 for line in lines):
        line = max(lines, key=len)
        removable = [at for at in range(1, len(line)) if line[at] not in wanted and line[at] != topic["word"]]
        if not removable:
            break
        del line[removable[-1]]
    for i, line in enumerate(lines):
        yield " ".join(line) + ("!" if i < marks else ".")


def _outside(topic: dict[str, Any], given: Arguments) -> int:
    """Words that are added around the sentences."""
    added = [given[name]["phrase"] for name in ("begin_with", "end_with") if name in given]
    added += [given["repeat_request"]["request"]] if "repeat_request" in given else []
    added += [topic["word"]] if "title" in given else []
    added += [f"P S {topic['word']} again"] if "postscript" in given else []
    added += ["SECTION 1"] * given.get("sections", {}).get("n", 0)
    return len(words(" ".join(added)))


def _parts(lines: list[str], given: Arguments) -> list[str]:
    number = given.get("paragraphs_exactly", {}).get("n", 1)
    return [part for i in range(number) if (part := " ".join(lines[i::number]))]
