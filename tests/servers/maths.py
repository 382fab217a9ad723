"""Problems that can be made by the thousand, and a scripted teacher that writes true notes on them.

Every source comes from a template with numbers, in English or German, so the right note is known from the request alone.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

NAMES = ("Ada", "Carl", "Rosa", "Otto", "Maria", "Hugo", "Emmy", "Niels")
QUESTION = "{name} has {a} boxes with {b} pens each and buys {c} more pens. How many pens does {name} have now?"
WORKED = "The boxes hold {a} * {b} = {ab} pens.\nTogether these are {ab} + {c} = {t} pens.\n#### {t}"
GERMAN = "{name} hat {a} Kisten mit je {b} Stiften und kauft {c} weitere Stifte. Wie viele Stifte hat {name} jetzt?"
GERMAN_WORKED = "In den Kisten sind {a} * {b} = {ab} Stifte.\nZusammen sind das {ab} + {c} = {t} Stifte.\n#### {t}"
SENTENCE = "A rectangle with sides of ${a}$ cm and ${b}$ cm has an area of ${a} \\cdot {b} = {ab}$ square centimetres."
_BLOCK = r"<{0}-(\w+)>\n(.*?)\n</{0}-\1>"
_SLOTS = {"name": "|".join(NAMES), "a": r"\d+", "b": r"\d+", "c": r"\d+", "ab": r"\d+", "t": r"\d+"}


def _values(draw: random.Random) -> dict[str, Any]:
    a, b, c = draw.randrange(2, 60), draw.randrange(3, 90), draw.randrange(5, 300)
    return {"name": draw.choice(NAMES), "a": a, "b": b, "c": c, "ab": a * b, "t": a * b + c}


def problem(number: int, german: bool = False, worked: bool = True) -> dict[str, Any]:
    """Row `number`, with a worked answer or a bare one."""
    values = _values(random.Random(number))
    answer = (GERMAN_WORKED if german else WORKED).format(**values) if worked else str(values["t"])
    question = (GERMAN if german else QUESTION).format(**values)
    return {"id": f"p-{number:04d}", "question": question, "answer": answer, "license": "cc0-1.0"}


def document(number: int, sentences: int = 30) -> dict[str, Any]:
    """A text of as many worked statements, five a paragraph."""
    draw = random.Random(number)
    lines = [SENTENCE.format(**_values(draw)) for _ in range(sentences)]
    text = "\n\n".join(" ".join(lines[i : i + 5]) for i in range(0, sentences, 5))
    return {"id": f"d-{number:04d}", "title": f"Areas {number}", "text": text, "license": "cc0-1.0"}


def block(body: dict[str, Any], label: str) -> str:
    """The fenced text of a request, empty when there is none."""
    request = next(message["content"] for message in body["messages"] if message["role"] == "user")
    found = re.search(_BLOCK.format(label), request, re.DOTALL)
    return found[2] if found else ""


def _matched(template: str, text: str) -> dict[str, str] | None:
    seen: set[str] = set()

    def group(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{_SLOTS[name]})"

    pattern = re.sub(r"\\\{(\w+)\\\}", group, re.escape(template))
    found = re.search(pattern, text)
    return found.groupdict() if found else None


def note(question: str) -> dict[str, Any]:
    """The true note on a problem."""
    found = _matched(QUESTION, question)
    assert found is not None, question
    a, b, c = (int(found[key]) for key in "abc")
    ab, t = a * b, a * b + c
    return {
        "title": "Boxes and single pieces",
        "asked": question,
        "known": [f"There are ${a}$ boxes of ${b}$ pens.", f"Another ${c}$ pens are bought."],
        "idea": "Pens in boxes are counted by a product, and the new ones are added to them.",
        "steps": [
            {"reason": "Equal boxes make a product.", "work": f"The boxes hold ${a} \\cdot {b} = {ab}$ pens."},
            {"reason": "What is bought comes on top.", "work": f"The total is ${ab} + {c} = {t}$ pens."},
        ],
        "result": f"{found['name']} now has {t} pens.",
        "answer": f"{t} pens",
        "check": f"Taking the bought pens away leaves ${t} - {c} = {ab}$, the pens in the boxes.",
        "remark": "Adding the number of boxes to the number of pens would mix two different things.",
        "unused": [],
    }


def passage_note(passage: str) -> dict[str, Any]:
    """The true note on a passage of a document."""
    found = [m.groups() for m in re.finditer(r"\$(\d+)\$ cm and \$(\d+)\$ cm", passage)]
    first = found[0]
    return {
        "title": "Areas of rectangles",
        "asked": "How large is a rectangle when its two sides are known?",
        "known": [f"The sides measure ${a}$ cm and ${b}$ cm." for a, b in found],
        "idea": "Unit squares lie in equal rows, so their number is a product.",
        "steps": [
            {
                "reason": f"Rectangle {n} has rows of equal length.",
                "work": f"${a} \\cdot {b} = {int(a) * int(b)}$ square centimetres.",
            }
            for n, (a, b) in enumerate(found, 1)
        ],
        "result": "Each area is the product of both sides.",
        "answer": "",
        "check": f"Division gives a side back: ${int(first[0]) * int(first[1])} / {first[1]} = {first[0]}$.",
        "remark": "A product of two lengths is no length, so its unit is a square one.",
        "unused": [],
    }


def english(text: str) -> str:
    """The right translation of a German question or answer."""
    for template, into in ((GERMAN, QUESTION), (GERMAN_WORKED, WORKED)):
        found = _matched(template, text)
        if found:
            return into.format(**found)
    raise ValueError(f"no template for {text[:60]!r}")


class Teacher:
    """Scripted answers: true notes and translations from the writer, no complaint from the judge.

    `spoil(note, body)` may change a note, `translate(text, body)` a translation, `judge(body)` gives the judge's faults,
    `settle(question)` his word on a question, `dispute(body)` settles stated answers.
    """

    def __init__(
        self,
        spoil: Callable[[dict, dict], Any] = lambda note, body: note,
        translate: Callable[[str, dict], str] = lambda text, body: english(text),
        judge: Callable[[dict], list] = lambda body: [],
        dispute: Callable[[dict], dict] | None = None,
        settle: Callable[[str], str] = lambda question: "right",
    ) -> None:
        self.spoil, self.translate, self.judge, self.dispute, self.settle = spoil, translate, judge, dispute, settle

    def __call__(self, body: dict[str, Any]) -> str:
        asked = body.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        if not asked:
            return self.translate(block(body, "text"), body)
        if "steps" in asked:
            made = note(block(body, "problem")) if block(body, "problem") else passage_note(block(body, "passage"))
            answer = self.spoil(made, body)
        elif "faults" in asked:
            asked = block(body, "questions").splitlines()
            answers = [{"question": n, "verdict": self.settle(question)} for n, question in enumerate(asked, 1)]
            answer = {"answers": answers, "faults": self.judge(body)}
        elif "stated_is_right" in asked:
            answer = self.dispute(body) if self.dispute else None
        else:
            answer = {"unsupported": [], "missing": []}
        return answer if isinstance(answer, str) else json.dumps(answer)
