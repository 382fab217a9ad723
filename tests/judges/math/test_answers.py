"""FinalAnswer: equal up to format, and no further."""

from __future__ import annotations

import pickle

import pytest
from tokenmill.judges.math import FinalAnswer
from tokenmill.judges.math.answers import final_answer

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
