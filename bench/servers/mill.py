"""Documents that can be made by the thousand, and a scripted writer that rewrites them faithfully.

Every sentence comes from a template with slots; each template has an honest paraphrase with the same slots, so the right
rewrite of any passage is known. What the writer is asked for comes from the request alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

PEOPLE = (
    "Ada Lovelace", "Carl Linnaeus", "Rosa Bonheur", "Otto Lilienthal", "Maria Merian", "Hugo Alfven", "Emmy Noether",
    "Niels Abel", "Clara Barton", "Jan Oort", "Lise Meitner", "Karl Jansky", "Ida Noddack", "Paul Klee", "Edith Stein",
)  # fmt: skip
PLACES = (
    "Leeds", "Uppsala", "Bordeaux", "Potsdam", "Frankfurt", "Norrland", "Gdansk", "Oslo", "Boston", "Leiden", "Vienna",
    "Ghent", "Turin", "Aarhus", "Porto",
)  # fmt: skip
TEMPLATES = (
    (
        "{name} founded a paper mill near {place} in {year} and employed {n} workers there.",
        "It was in {year} that {name} set up a factory for paper not far from {place}, giving jobs to {n} people.",
    ),
    (
        "The bridge at {place} was finished in {year} after {n} months and cost {m} crowns.",
        "Building took {n} months at {place}; when the crossing opened in {year}, the bill had reached {m} crowns.",
    ),
    (
        "In {year} the library of {place} held {n} volumes, most of them given by {name}.",
        "Thanks above all to gifts from {name}, readers could find {n} books on the shelves in {place} by {year}.",
    ),
    (
        "{name} taught at the school in {place} for {m} years and trained {n} apprentices.",
        "Some {n} apprentices learned their craft from {name}, who spent {m} years as a teacher in {place}.",
    ),
    (
        "The mine near {place} produced {n} tons of ore in {year} before its flooding.",
        "Before water filled it, miners close to {place} had brought up {n} tons of ore during {year}.",
    ),
    (
        "A storm in {year} destroyed {n} houses in {place} and damaged the old harbour.",
        "Along with harm to the old harbour, {n} homes were lost at {place} when a gale struck in {year}.",
    ),
    (
        "{name} measured the height of the tower in {place} and found {m} metres in {year}.",
        "According to a survey that {name} made in {year}, the tower of {place} stands {m} metres tall.",
    ),
    (
        "The railway reached {place} in {year}, and {n} passengers used it in the first week.",
        "During its opening week the line, which got to {place} in {year}, carried {n} travellers.",
    ),
    (
        "{name} sold {n} copies of the map of {place} and gave the money to a hospital.",
        "A hospital received what {name} earned from {n} printed maps showing {place}.",
    ),
    (
        "The garden of {place} grew {n} kinds of roses under the care of {name} until {year}.",
        "Until {year}, visitors to {place} could admire {n} varieties of rose tended by {name}.",
    ),
    (
        "In {year} the council of {place} bought {m} lamps and lit the market square.",
        "Light came to the market square when {m} lamps were purchased by the council of {place} in {year}.",
    ),
    (
        "{name} crossed the pass above {place} with {m} mules in the winter of {year}.",
        "Leading {m} mules, {name} went over the heights beyond {place} during the cold season of {year}.",
    ),
)
_SLOTS = {
    "name": "|".join(PEOPLE), "place": "|".join(PLACES), "year": r"1[5-9]\d\d", "n": r"\d{2,6}", "m": r"\d{1,3}"
}  # fmt: skip


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.escape(template).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{_SLOTS[m[1]]})", escaped))


_PATTERNS = tuple((_pattern(source), rewrite) for source, rewrite in TEMPLATES)
_PASSAGE = re.compile(r"<passage-(\w+)>\n(.*?)\n</passage-\1>", re.DOTALL)


def sentence(draw: random.Random) -> str:
    template = TEMPLATES[draw.randrange(len(TEMPLATES))][0]
    return template.format(
        name=draw.choice(PEOPLE),
        place=draw.choice(PLACES),
        year=draw.randrange(1500, 2000),
        n=draw.randrange(10, 100_000),
        m=draw.randrange(2, 999),
    )


def document(number: int, sentences: int = 4, paragraph: int = 5) -> dict[str, Any]:
    """Row `number`: about 14 words a sentence."""
    draw = random.Random(number)
    lines = [sentence(draw) for _ in range(sentences)]
    text = "\n\n".join(" ".join(lines[i : i + paragraph]) for i in range(0, sentences, paragraph))
    return {
        "id": f"doc-{number:06d}",
        "title": f"Chronicle {number}",
        "text": text,
        "language": "en",
        "license": "cc0-1.0",
    }


def documents(count: int, sentences: int = 4) -> Iterator[dict[str, Any]]:
    return (document(number, sentences) for number in range(count))


def rewrite(passage: str) -> str:
    """The honest paraphrase of a passage made of templates, sentence by sentence, paragraphs kept."""
    return "\n\n".join(" ".join(_rewritten(part)) for part in passage.split("\n\n"))


def _rewritten(paragraph: str) -> Iterable[str]:
    position = 0
    while position < len(paragraph):
        for pattern, paraphrase in _PATTERNS:
            found = pattern.match(paragraph, position)
            if found:
                yield paraphrase.format(**found.groupdict())
                position = found.end()
                break
        else:
            raise ValueError(f"no template for {paragraph[position : position + 60]!r}")
        while position < len(paragraph) and paragraph[position].isspace():
            position += 1


def passage(body: dict[str, Any]) -> str:
    """The passage that a writer's call asks to be rewritten."""
    return next(_PASSAGE.finditer(body["messages"][-1]["content"]))[2]


FAITHFUL: dict[str, Any] = {"answers": [], "unsupported": [], "missing": [], "form_kept": True, "form_fault": ""}
"""A judge's answer that has no complaint."""


class Writer:
    """Scripted answers: the honest rewrite for the writer, no complaint for the judge.

    `faults` maps a marker that may occur in a passage to a function that spoils the rewrite.
    """

    def __init__(self, faults: dict[str, Any] | None = None, judge: Any = None) -> None:
        self.faults = faults or {}
        self.judge = judge

    def __call__(self, body: dict[str, Any]) -> Any:
        if "response_format" in body:
            asked = body["response_format"]["json_schema"]["schema"].get("properties", {})
            seams: dict[str, Any] = {"seams": []} if "seams" in asked else {}
            verdict = FAITHFUL | seams | (self.judge(body) if self.judge else {})
            return orjson.dumps(verdict).decode()
        text = passage(body)
        for marker, spoil in self.faults.items():
            if marker in text:
                return spoil(text)
        return rewrite(text)
