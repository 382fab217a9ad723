"""What calculation leaves open is asked of the judge, and he is told what was checked and what was not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tokenmill.judges.notes.questions import MAX_QUESTIONS, evidence
from tokenmill.schemas.math import Note, Step

PROBLEM = (
    "A train goes 70 km in 75 minutes and waits 8 minutes. Half of its 80 seats are taken. How long is it on its way?"
)
NOTE = Note(
    title="A journey with a stop",
    asked=PROBLEM,
    known=("The train drives for 75 minutes.",),
    idea="Driving and waiting follow one another, so their times add up; the 70 km and the seats do not matter.",
    steps=(
        Step("Both times belong to the journey.", "$75 + 8 = 83$ minutes."),
        Step("Seats.", "$80 / 2 = 40$ are taken."),
    ),
    result="The train is on its way for 83 minutes.",
    answer="83 minutes",
    check="$83 - 8 = 75$, the driving time.",
    remark="With 12 carriages of 99 seats nothing would change.",
    unused=(),
)


def asked(note: Note, source: str = PROBLEM, answer: str = "83") -> list[tuple[str, str]]:
    return [(question.kind, question.text) for question in evidence(source, answer, note).questions]


def kinds(note: Note, source: str = PROBLEM, answer: str = "83") -> list[str]:
    return [kind for kind, _ in asked(note, source, answer)]


def test_of_a_note_whose_every_number_is_the_sources_or_calculated_nothing_is_asked() -> None:
    assert asked(NOTE) == []


@pytest.mark.parametrize(
    ("sentence", "kind", "quoted"),
    [
        ("The train is on its way for about 56 minutes.", "number_unproved", "about 56 minutes"),
        ("Waiting takes 14 percent of the time.", "number_unproved", "14 percent"),
        ("Half of 80 and twenty more are taken, which is 60 in all.", "number_unproved", "60 in all"),
        ("With the other wagons $80 + 33 = 113$ seats.", "number_unproved", '"33" in'),
        ("Half of 80 and eight more is 75.", "words_unchecked", "Half of 80 and eight more is 75."),
        ("That is $83 \\text{ minutes} = 1$ hour.", "equality_unchecked", "83"),
        ("The train is 5 minutes of 83 minutes late = 70", "equality_unchecked", "= 70"),
    ],
)
def test_what_a_sentence_says_without_a_calculation_is_asked(sentence: str, kind: str, quoted: str) -> None:
    told = asked(replace(NOTE, steps=(*NOTE.steps, Step("So.", sentence))))
    assert kind in [k for k, _ in told] and any(quoted in text for _, text in told), told


@pytest.mark.parametrize(
    "sentence",
    [
        "There are 60 minutes in an hour, and $83 / 60 = 1.38$ hours.",
        "Of the time 10 percent is $83 \\cdot 0.1 = 8.3$ minutes, told as 8.3.",
        "With $n$ for the stops we have $75 + 8n = 83$.",
    ],
)
def test_conversions_results_and_coefficients_raise_no_question_about_a_number(sentence: str) -> None:
    note = replace(NOTE, steps=(*NOTE.steps, Step("So.", sentence)))
    source = PROBLEM.replace("Half", "At 10 percent of speed half")
    assert "number_unproved" not in kinds(replace(note, asked=source), source)


def test_data_that_the_working_never_uses_are_asked_even_if_the_note_tells_them_again_or_calls_them_unneeded() -> None:
    hurried = replace(
        NOTE, idea="Only the driving counts.", steps=(Step("Driving.", "$70 + 5 = 75$"),), check="-", result="-"
    )
    assert [text.split('"')[1] for kind, text in asked(hurried) if kind == "condition_unused"] == ["8", "Half", "80"]
    declared = replace(hurried, unused=("8 minutes: waiting is not driving",))
    assert any("says that it does not need it" in text for _, text in asked(declared))


@pytest.mark.parametrize(
    ("question", "answer", "doubted"),
    [
        ("How long is it on its way?", "83", True),
        ("How long is it on its way?", "83 minutes", False),
        ("How many clips did Natalia sell?", "83 clips", False),
        ("How many clips did Natalia sell?", "83 friends", True),
        ("How many minutes is it?", "83", False),
    ],
)
def test_an_answer_in_another_unit_than_the_questions_words_is_asked(question: str, answer: str, doubted: bool) -> None:
    source = PROBLEM.replace("How long is it on its way?", question)
    assert ("unit_doubted" in kinds(replace(NOTE, answer=answer, asked=source), source)) == doubted


def test_the_judge_is_told_what_was_checked_and_what_was_not() -> None:
    assert (
        evidence(PROBLEM, "83", NOTE).checked
        == "Checked by a program and right: 3 calculations of the note, by themselves."
    )
    words = replace(
        NOTE, steps=(Step("Add.", "Seventy-five and eight make eighty-three."),), check="Take eight away again."
    )
    assert evidence(PROBLEM, "83", words).checked.startswith("No calculation of the note was checked")
    unknown = replace(NOTE, idea="Solve $2x + 8 = 83$ for the time.")
    assert evidence(PROBLEM, "83", unknown).checked.endswith("\nNot checked: 2x + 8 = 83.")


def test_a_passage_is_asked_about_what_its_note_lacks_and_does_not_declare() -> None:
    passage = "Let $n = 12$. Then 144 is its square. 17 users liked this."
    note = replace(
        NOTE, asked="What is the square of 12?", known=(), idea="Square it.", steps=(Step("Square.", "$12^2 = 144$"),)
    )
    note = replace(note, result="It is 144.", check="-", answer="")
    assert [k for k in kinds(note, passage, "")] == ["condition_unused"]
    assert kinds(replace(note, unused=("17 users: no mathematics",)), passage, "") == []


def test_questions_are_few_and_none_is_asked_twice() -> None:
    wild = replace(NOTE, idea=" ".join(f"Take {n} minutes. Take {n} minutes." for n in range(101, 140)))
    told = asked(wild)
    assert len(told) == len(set(told)) == MAX_QUESTIONS
    assert evidence(PROBLEM, "", replace(NOTE, steps=())).questions == ()
