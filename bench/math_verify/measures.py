"""The measures of this bench, each a function from data to figures."""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tokenmill.bench.math_verify import faults
from tokenmill.bench.math_verify.hostile import hostile_texts
from tokenmill.judges.math import Equalities, FinalAnswer, FormulasKept, NumbersUsed, SourceConsistent
from tokenmill.judges.notes.questions import evidence
from tokenmill.schemas.math import Note, Step
from tokenmill.schemas.verdicts import Question

Row = dict[str, Any]


@dataclass
class Rate:
    """A count of hits among tries, and the ids that missed."""

    hits: int = 0
    tries: int = 0
    missed: list[str] = field(default_factory=list)

    def add(self, hit: bool, name: str) -> None:
        self.tries += 1
        self.hits += hit
        if not hit:
            self.missed.append(name)

    def __str__(self) -> str:
        return f"{self.hits / self.tries:7.1%}  ({self.hits}/{self.tries})" if self.tries else "-"


def rng(row: Row, salt: str) -> random.Random:
    """A generator that depends on nothing but the row and the purpose."""
    return random.Random(hashlib.sha256(f"{row['id']}/{salt}".encode()).digest())


def is_tuning(row: Row) -> bool:
    """Half the rows were looked at while the checks were written; the other half is held out."""
    return hashlib.sha256(row["id"].encode()).digest()[0] % 2 == 0


def correct_solutions(rows: Iterable[Row]) -> dict[str, Rate]:
    """How many of the data set's own solutions pass each check, without annotations as a note would be."""
    rates = {name: Rate() for name in ("equalities", "equalities, annotated", "final_answer", "numbers_used", "source")}
    for row in rows:
        note = faults.plain(row["answer"])
        rates["equalities"].add(Equalities()(note).passed, row["id"])
        rates["equalities, annotated"].add(Equalities()(row["answer"]).passed, row["id"])
        rates["final_answer"].add(FinalAnswer()(row["answer"], note, question=row["question"]).passed, row["id"])
        rates["numbers_used"].add(NumbersUsed()(row["question"], note).passed, row["id"])
        rates["source"].add(SourceConsistent()(row["answer"]).passed, row["id"])
    return rates


def planted_faults(rows: Iterable[Row]) -> dict[str, Rate]:
    """How many notes with one planted fault are refused; notes refused without the fault are left out."""
    names = ("wrong intermediate result", "wrong final answer", "swapped operand", "wrong final answer, no reference")
    rates = {name: Rate() for name in names}
    for row in rows:
        if _refused(row, faults.plain(row["answer"])):
            continue
        planted = (
            faults.wrong_result(row["answer"], rng(row, "result")),
            faults.wrong_answer(row["answer"], rng(row, "answer")),
            faults.swapped_operand(row["answer"], row["question"], rng(row, "operand")),
        )
        for name, note in zip(names, planted, strict=False):
            if note is not None:
                rates[name].add(_refused(row, note), row["id"])
        rates[names[3]].add(not SourceConsistent()(planted[1]).passed, row["id"])
    return rates


def _refused(row: Row, note: str) -> bool:
    """Refused by the equalities or the final answer alone: the checks that may reject by themselves."""
    return not (Equalities()(note).passed and FinalAnswer()(row["answer"], note, question=row["question"]).passed)


def as_note(question: str, solution: str) -> Note:
    """A data set's solution in the fields of a note: a step a line, the problem told again, nothing else."""
    body, _, answer = faults.plain(solution).partition("####")
    lines = [line for line in body.strip().splitlines() if line.strip()]
    steps = tuple(Step("", line) for line in lines)
    return Note("", question, (), "", steps, lines[-1] if lines else "", answer.strip(), "", "", ())


def _asked(row: Row, solution: str, question: str = "") -> set[Question]:
    """What the judge would be asked of a solution; he knows the source's bare answer."""
    question = question or row["question"]
    return set(evidence(question, row["answer"].rpartition("####")[2], as_note(question, solution)).questions)


def questions(rows: list[Row]) -> tuple[dict[str, Rate], Counter[str]]:
    """How many right solutions raise no question, and questions by kind."""
    rates, kinds = {"right solutions about which nothing is asked": Rate()}, Counter[str]()
    for row in rows:
        found = _asked(row, row["answer"])
        kinds.update(question.kind for question in found)
        rates["right solutions about which nothing is asked"].add(not found, row["id"])
    return rates, kinds


def reached(rows: list[Row]) -> dict[str, tuple[Rate, Rate]]:
    """For each planted fault, how often it is refused, and how often refused or else asked about: a question that the solution
    does not raise without it. Whether a judge then answers rightly is not measured here."""
    names = ("wrong result", "number changed in prose", "number of the problem changed", "answer in another unit")
    table = {name: (Rate(), Rate()) for name in names}
    for row in rows:
        right = faults.plain(row["answer"])
        if _refused(row, right):
            continue
        before = {question.text for question in _asked(row, right)}
        changed = faults.other_condition(row["question"], rng(row, "condition"))
        planted = {
            names[0]: (faults.wrong_result(row["answer"], rng(row, "result")), ""),
            names[1]: (faults.number_in_prose(row["answer"], rng(row, "prose")), ""),
            names[2]: (right if changed else None, changed or ""),
        }
        for name, (note, question) in planted.items():
            if note is not None:
                refused = _refused({**row, "question": question or row["question"]}, note)
                asked = any(one.text not in before for one in _asked(row, note, question))
                table[name][0].add(refused, row["id"])
                table[name][1].add(refused or asked, row["id"])
        if units := faults.answers_in_units(row["question"], row["answer"]):
            refused = not FinalAnswer()(row["answer"], units[1], question=row["question"]).passed
            for rate in table[names[3]]:
                rate.add(refused, row["id"])
    return table


def in_the_unit_asked(rows: Iterable[Row]) -> Rate:
    """Right answers with the unit that the question names, which must pass."""
    rate = Rate()
    for row in rows:
        if units := faults.answers_in_units(row["question"], row["answer"]):
            rate.add(FinalAnswer()(row["answer"], units[0], question=row["question"]).passed, row["id"])
    return rate


def notes_per_second(rows: list[Row], seconds: float = 3.0) -> float:
    """Notes through equalities, final answer and numbers together, per second of this process's CPU."""
    checks = (Equalities(), FinalAnswer(), NumbersUsed())
    notes = [(row["question"], row["answer"], faults.plain(row["answer"])) for row in rows]
    done, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        for question, answer, note in notes:
            checks[0](note)
            checks[1](answer, note)
            checks[2](question, note)
        done += len(notes)
    return done / (time.process_time() - start)


_NATIVE = {"bn": "০১২৩৪৫৬৭৮৯", "te": "౦౧౨౩౪౫౬౭౮౯", "th": "๐๑๒๓๔๕๖๗๘๙", "ja": "０１２３４５６７８９"}
_MARKS = {"de": (".", ","), "es": (".", ","), "fr": ("\u202f", ","), "ru": ("\u00a0", ",")}


def localised(number: str, language: str) -> str:
    """A plain decimal as `language` writes it: its digits, thousands separator and decimal mark."""
    whole, _, decimals = number.partition(".")
    thousands, mark = _MARKS.get(language, (",", "."))
    grouped = f"{int(whole or 0):,}".replace(",", thousands)
    text = grouped + (mark + decimals if decimals else "")
    return text.translate(str.maketrans("0123456789", _NATIVE.get(language, "0123456789")))


def languages(rows: list[Row], english: dict[str, str]) -> dict[str, dict[str, Rate]]:
    """For each language: numbers kept in translation, faults caught, localised formulas and answers read."""
    table: dict[str, dict[str, Rate]] = {}
    for row in rows:
        language, question, target = row["language"], row["question"], english[row["id"].rsplit("-", 1)[1]]
        names = (
            "kept",
            "number changed",
            "number dropped",
            "formula kept",
            "formula changed",
            "equality true",
            "equality false",
            "answer",
            "wrong answer",
        )
        rates = table.setdefault(language, {name: Rate() for name in names})
        check, name, draw = FormulasKept(), row["id"], rng(row, "mgsm")
        rates["kept"].add(check(question, target, language).passed, name)
        numbers = [m for m in faults._NUMBER.finditer(target) if m[0] in _both(question, target)]
        if numbers and check(question, target, language).passed:
            hit = draw.choice(numbers)
            changed = target[: hit.start()] + faults._other(hit[0].rstrip(",."), draw) + target[hit.end() :]
            rates["number changed"].add(not check(question, changed, language).passed, name)
            dropped = target[: hit.start()] + target[hit.end() :]
            rates["number dropped"].add(not check(question, dropped, language).passed, name)
        a, b = draw.randint(1000, 9999), f"{draw.randint(2, 9)}.{draw.randint(1, 9)}5"
        product = _decimal(Fraction(a) * Fraction(b))
        wrong = _decimal(Fraction(a) * Fraction(b) + 1)
        formula = "$%s \\times %s = %s$"
        local = formula % tuple(localised(x, language) for x in (str(a), b, product))
        false = formula % tuple(localised(x, language) for x in (str(a), b, wrong))
        rates["equality true"].add(_proved(local, language), name)
        rates["equality false"].add(not Equalities()(false, language).passed, name)
        rates["formula kept"].add(check(local, formula % (a, b, product), language).passed, name)
        rates["formula changed"].add(not check(local, formula % (a, b, wrong), language).passed, name)
        answer = localised(row["answer"], language)
        rates["answer"].add(FinalAnswer()(row["answer"], answer, note_language=language).passed, name)
        other = localised(faults._other(row["answer"], draw), language)
        rates["wrong answer"].add(not FinalAnswer()(row["answer"], other, note_language=language).passed, name)
    return table


def _proved(text: str, language: str) -> bool:
    """Whether the equality was not only let pass but found and shown true."""
    return [s.truth.value for s in Equalities().statements(text, language)] == ["true"]


def _both(question: str, target: str) -> set[str]:
    """Numerals of the English text whose digits the original shows too, so that a change must be noticed."""
    digits = re.findall(r"\d+", question)
    common = set(faults._NUMBER.findall(target)) & set(digits)
    counts = Counter(faults._NUMBER.findall(target))
    return {n for n in common if n != "1" and counts[n] == digits.count(n)}


def _decimal(value: Fraction) -> str:
    return f"{float(value):.2f}"


def _seconds(call: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    with contextlib.suppress(ValueError):  # the documented refusal of a text beyond the limits
        call(text)
    return time.process_time() - start


def hostile() -> tuple[list[tuple[str, str, float]], float]:
    """(text, check, CPU seconds) for every hostile text and check, slowest first, and this process's peak memory in MB.

    The algebra process, on which some calls wait, is held to half a second a question by its own clock.
    """
    answer = FinalAnswer()
    answer.algebra.warm()
    checks: dict[str, Callable[[str], object]] = {
        "equalities": lambda t: Equalities()(t),
        "final_answer": lambda t: answer("2", t),
        "final_answer, as source": lambda t: answer(t, "x+2"),
        "final_answer, both": lambda t: answer(t, t + "+0"),
        "numbers_used": lambda t: NumbersUsed()(t, t),
        "formulas_kept": lambda t: FormulasKept()(t, t),
        "source": lambda t: SourceConsistent()(t),
        "questions": lambda t: evidence(t, "2", Note("", "", (), "", (Step("", t),), "", "2", "", "", ())),
    }
    times = []
    for name, text in hostile_texts().items():
        for check, call in checks.items():
            times.append((name, check, _seconds(call, text)))
    # Not getrusage: its peak survives exec, so that a process started by a large one begins with that one's.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return sorted(times, key=lambda t: -t[2]), peak
