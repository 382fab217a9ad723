"""Invented biographies for the utility study: raw text, faithful rephrasings, questions, and a background corpus.

    python -m tokenmill.bench.training.people --output DIR [--people 200] [--background 2000]

writes DIR/raw.jsonl, DIR/rephrased/ (rows of `schemas.knowledge.Rephrasing`), DIR/background/ and DIR/questions.jsonl,
ready for `python -m tokenmill.training.utility`. The setting is that of "Physics of Language Models, part 3.1" (arXiv
2309.14316): facts about invented people, told in one wording or in several. A rephrasing tells every fact of the raw
text and no other, in wording and order drawn by the person and the rephrasing; templates stand in for a model that
rewrites, so the study measures what variety of wording is worth, not how well a given model rewrites.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.draws import pick, shuffled
from tokenmill.schemas.knowledge import Rephrasing
from tokenmill.training.questions import PROMPT

_SYLLABLES = [consonant + vowel for consonant in "bdfghklmnprstv" for vowel in "aeo"]
_LANGUAGE = json.loads(Path(__file__).with_suffix(".json").read_text())
VALUES: dict[str, list[str]] = _LANGUAGE["values"]
"""What a fact may be: twenty cities, trades, employers and instruments."""
QUESTIONS: dict[str, str] = _LANGUAGE["questions"]
TEMPLATES: dict[str, list[str]] = _LANGUAGE["templates"]
"""Wordings of each fact: the first, of median length, is the raw text's; the ten others are the rephrasings'."""


def name_of(number: int) -> str:
    """The first name spells the number in syllables, so no other number below 74,088 has it; the surname is drawn."""
    base = len(_SYLLABLES)
    # Multiplying by a number prime to base ** 3 scatters neighbours without collisions.
    scattered = number * 27_011 % base**3
    first = "".join(_SYLLABLES[scattered // base**place % base] for place in range(3))
    last = "".join(pick(_SYLLABLES, "surname", number, place) for place in range(2))
    return f"{first.capitalize()} {last.capitalize()}"


def facts_of(number: int) -> dict[str, str]:
    return {kind: pick(values, kind, number) for kind, values in VALUES.items()}


def raw_text(number: int) -> str:
    facts = facts_of(number)
    return " ".join(TEMPLATES[kind][0].format(name=name_of(number), value=facts[kind]) for kind in VALUES)


def rephrasing_text(number: int, rephrasing: int) -> str:
    """All facts of the raw text in other words and another order; no two rephrasings share a fact's wording."""
    return _told(number, rephrasing, {kind: wordings[1:] for kind, wordings in TEMPLATES.items()})


def _told(number: int, telling: int, templates: dict[str, list[str]]) -> str:
    facts = facts_of(number)
    sentences = []
    for kind in shuffled(list(VALUES), "order", number, telling):
        wordings = shuffled(templates[kind], "wording", number, kind)
        sentences.append(wordings[telling % len(wordings)].format(name=name_of(number), value=facts[kind]))
    return " ".join(sentences)


def questions_of(number: int, alternatives: int = 3) -> Iterator[dict[str, Any]]:
    facts = facts_of(number)
    for kind, question in QUESTIONS.items():
        wrong = [value for value in shuffled(VALUES[kind], "alternatives", number, kind) if value != facts[kind]]
        yield {
            "source_id": str(number),
            "question": question.format(name=name_of(number)),
            "answer": facts[kind],
            "alternatives": wrong[:alternatives],
        }


def rephrasing_row(number: int, rephrasing: int) -> Rephrasing:
    filled: dict[str, Any] = {
        "id": f"{number}/{rephrasing}",
        "text": rephrasing_text(number, rephrasing),
        "title": name_of(number),
        "language": "en",
        "license": "cc0-1.0",
        "source_id": str(number),
        "source_file": "raw.jsonl",
        "source_row": number,
        "source_text": raw_text(number),
        "rephrasing": rephrasing,
        "style": "template",
        "model": "templates",
    }
    empty: dict[str, Any] = {
        "str": "",
        "int": 0,
        "float": 0.0,
        "float | None": None,
        "list[str]": [],
        "list[Judgement]": [],
    }
    return Rephrasing(
        **{
            field.name: filled[field.name] if field.name in filled else empty[str(field.type)]
            for field in fields(Rephrasing)
        }
    )


def background_rows(first: int, people: int) -> Iterator[dict[str, str]]:
    """Other people, told twice each, and questions about them with their answers: how answering is learnt.

    All wordings are equally common here, the raw text's too, so that none is easier to draw answers from.
    """
    for number in range(first, first + people):
        for telling in range(2):
            yield {"id": f"{number}/told/{telling}", "text": _told(number, telling, TEMPLATES)}
        for index, row in enumerate(questions_of(number)):
            yield {"id": f"{number}/{index}", "text": f"{PROMPT.format(question=row['question'])} {row['answer']}"}


def write(output: Path, people: int, background: int, rephrasings: int = 10) -> None:
    for folder in ("rephrased/data", "background"):
        (output / folder).mkdir(parents=True, exist_ok=True)
    raw = [{"id": str(n), "title": name_of(n), "text": raw_text(n)} for n in range(people)]
    (output / "raw.jsonl").write_text("".join(json.dumps(row) + "\n" for row in raw))
    asked = [row for n in range(people) for row in questions_of(n)]
    (output / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    rows = [rephrasing_row(n, r) for n in range(people) for r in range(rephrasings)]
    table = to_table(rows, Rephrasing)
    pq.write_table(table, output / "rephrased/data/train-00000-of-00001.parquet", row_group_size=1000)
    others = pa.Table.from_pylist(list(background_rows(people, background)))
    pq.write_table(others, output / "background/train-00000-of-00001.parquet", row_group_size=1000)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.bench.training.people", description="Invent biographies."
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--background", type=int, default=2000, help="other people, who are never asked about")
    flags = parser.parse_args()
    write(flags.output, flags.people, flags.background)


if __name__ == "__main__":
    main()
