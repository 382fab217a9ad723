"""FinalAnswer: equal up to format, and no further."""

from __future__ import annotations

import pickle

import pytest
from tokenmill.judges.math import FinalAnswer
from tokenmill.judges.math.answer_forms import final_answer
from tokenmill.judges.math.answer_units import asked_unit

SAME = [
    ("#### 72", "Natalia sold 72 clips altogether in April and May."),
    ("72", r"so \boxed{72}"),
    ("72", "The answer is **72**."),
    ("1080", "1,080"),
    ("$5", "5 dollars"),
    ("0.5", "1/2"),
    ("50%", "0.5"),
    ("1.5", "1 1/2"),
    ("3/2", r"1\frac12"),
    ("{1,2}", r"\{2, 1\}"),
    ("x=2 or x=3", "3, 2"),
    ("[0,1)", r"\left[0, 1\right)"),
    ("2x+2", "2(x+1)"),
    ("y=2x+1", "2x - y + 1 = 0"),
    ("x^2-1=0", "x=1 or x=-1"),
    ("1.5 hours", "90 minutes"),
    ("100 minutes", "1.67 hours"),
    ("1 hour 40 minutes", "100 minutes"),
    ("1500 m", "1.5 km"),
    ("60 miles per hour", "60 mph"),
    ("10/3", "3.33"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("sin(x)^2", "1-cos(x)^2"),
    ("12", r"The answer is $3 \times 4 = 12$."),
    ("80", "Total = $80"),
    ("Tuesday", "tuesday."),
    ("seventy-two", "72"),
]
DIFFERENT = [
    ("72", "73"),
    ("72", "She sold 72 of the 73."),
    ("$5", "5 euros"),
    ("5 km", "5 m"),
    ("5 hours", "5 minutes"),
    ("5 hours", "5 km"),
    ("100 minutes", "1.7 hours"),
    ("12 square meters", "12 meters"),
    ("5 cm^2", "5 cm"),
    ("60 mph", "60 km/h"),
    ("{1,2}", "{1,3}"),
    ("(1,2)", "(2,1)"),
    ("[0,1)", "[0,1]"),
    ("2x+2", "2(x+2)"),
    ("y=2x+1", "y=2x+2"),
    ("x^2-1=0", "x=1 or x=2"),
    ("x=2 or x=3", "2"),
    ("10/3", "3.34"),
    (r"\sqrt{8}", r"2\sqrt{3}"),
    ("70000", "70.000"),
    ("Tuesday", "Monday"),
    ("3", "9^9^9^9^9"),
]


@pytest.mark.parametrize(("gold", "given"), SAME)
def test_same_answers_pass_both_ways(gold: str, given: str) -> None:
    verdict = FinalAnswer()(gold, given)
    assert verdict.passed, verdict
    assert verdict.check == "final_answer"
    assert FinalAnswer()(given, gold).passed


@pytest.mark.parametrize(("gold", "given"), DIFFERENT)
def test_other_answers_are_refused_with_both_quoted(gold: str, given: str) -> None:
    verdict = FinalAnswer()(gold, given)
    assert verdict.reason == "wrong_answer"
    (finding,) = verdict.findings
    assert finding.source == final_answer(gold)
    assert finding.rewrite == final_answer(given)


MINUTES = "A film starts at eight. How many minutes does it last?"
MONEY = "Rosa pays $5 for a ball and gets it back. How much has she left?"
IN_THE_UNIT_ASKED = [
    (MINUTES, "90", "90"),
    (MINUTES, "90", "90 minutes"),
    (MINUTES, "1.5 hours", "90"),
    (MINUTES, "1.5 hours", "90 minutes"),
    ("How long does it last?", "90 minutes", "1.5 hours"),
    ("How many miles per hour is that?", "60", "60 mph"),
    ("How many clips did she sell?", "72", "72 clips"),
    ("What percent is left?", "14%", "14"),
    (MONEY, "0.5", "50 cents"),
    (MONEY, "18", "$18"),
]
IN_ANOTHER_UNIT = [
    (MINUTES, "90", "1.5 hours", "wrong_unit"),
    (MINUTES, "1.5 hours", "1.5 hours", "wrong_unit"),
    (MINUTES, "90", "90 hours", "wrong_answer"),
    (MINUTES, "90", "90 miles", "wrong_answer"),
    ("What is its area in square meters?", "12", "12 meters", "wrong_answer"),
    ("How many miles per hour is that?", "60", "1 mile per minute", "wrong_unit"),
    ("What percent is left?", "14%", "0.14", "wrong_unit"),
    (MONEY, "18", "18 cents", "wrong_answer"),
    (MONEY, "18", "18 euros", "wrong_answer"),
]


@pytest.mark.parametrize(("question", "gold", "given"), IN_THE_UNIT_ASKED)
def test_the_unit_asked_for_passes(question: str, gold: str, given: str) -> None:
    verdict = FinalAnswer()(gold, given, question=question)
    assert verdict.passed, verdict


@pytest.mark.parametrize(("question", "gold", "given", "reason"), IN_ANOTHER_UNIT)
def test_another_unit_than_the_one_asked_for_is_refused(question: str, gold: str, given: str, reason: str) -> None:
    assert FinalAnswer()(gold, given, question=question).reason == reason


@pytest.mark.parametrize(
    ("question", "unit"),
    [
        ("How many hours a day does he study?", ("hours", "/", "day")),
        ("How many square feet is it?", ("square", "feet")),
        ("How long in minutes did she run?", ("minutes",)),
        ("How many minutes longer does it take?", ("minutes",)),
        ("How many dollar bills has he?", ()),
        ("How many minutes, and how many hours?", ()),
        ("How long does it take?", ()),
    ],
)
def test_the_unit_that_a_question_asks_for(question: str, unit: tuple[str, ...]) -> None:
    assert asked_unit(question) == unit


@pytest.mark.parametrize(
    ("text", "language"),
    [("70.000 $", "de"), ("70 000", "fr"), ("70\u00a0000", "ru"), ("৭০,০০০", "bn"), ("౭౦,౦౦౦", "te"), ("๗๐,๐๐๐", "th"),
     ("7万", "ja"), ("７００００", "zh"), ("70.000", "es"), ("70,000", "sw")],
)  # fmt: skip
def test_ten_languages(text: str, language: str) -> None:
    assert FinalAnswer()("70000", text, note_language=language).passed
    assert not FinalAnswer()("70001", text, note_language=language).passed


def test_no_answer_and_no_source() -> None:
    assert FinalAnswer()("72", "  \n").reason == "no_answer"
    with pytest.raises(ValueError, match="blank"):
        FinalAnswer()("", "72")


def test_the_last_announcement_counts() -> None:
    note = "The answer is 5?\nNo.\nTherefore the answer is: 7 apples.\n"
    assert final_answer(note) == "7 apples."
    assert FinalAnswer()("7", note).passed


def test_it_pickles() -> None:
    assert pickle.loads(pickle.dumps(FinalAnswer()))("2x+2", "2(x+1)").passed
