"""The bench's own parts: faults that are faults, rates that count, a command that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenmill.bench.math_verify import faults, measures
from tokenmill.bench.math_verify.__main__ import main

ROWS = [
    {
        "id": f"p{n}",
        "question": f"{n} boxes of 12 pens and {n + 5} more are shared by 2. How many are there?",
        "answer": (
            f"There are {n}*12 = <<{n}*12={12 * n}>>{12 * n} pens.\nWith the rest {12 * n}+{n + 5} = "
            f"<<{12 * n}+{n + 5}={13 * n + 5}>>{13 * n + 5}.\nLess 2 is {13 * n + 5} - 2 = "
            f"<<{13 * n + 5}-2={13 * n + 3}>>{13 * n + 3}.\n#### {13 * n + 3}"
        ),
    }
    for n in range(20, 40)
]


def test_each_fault_changes_one_place() -> None:
    for row in ROWS:
        original = faults.plain(row["answer"])
        for name, note in (
            ("result", faults.wrong_result(row["answer"], measures.rng(row, "a"))),
            ("operand", faults.swapped_operand(row["answer"], row["question"], measures.rng(row, "b"))),
            ("answer", faults.wrong_answer(row["answer"], measures.rng(row, "c"))),
        ):
            assert note is not None, name
            changed = [(a, b) for a, b in zip(original.split("\n"), note.split("\n"), strict=True) if a != b]
            assert len(changed) == 1, (name, note)


def test_faults_for_a_reader_change_one_number() -> None:
    row = ROWS[3]
    told = "That leaves 17 pens.\n" + row["answer"]
    prose = faults.number_in_prose(told, measures.rng(row, "p"))
    assert prose is not None and prose.split("\n")[1:] == faults.plain(row["answer"]).split("\n")
    assert (
        prose.split("\n")[0] != "That leaves 17 pens."
        and faults.number_in_prose(row["answer"], measures.rng(row, "p")) is None
    )
    other = faults.other_condition(row["question"], measures.rng(row, "c"))
    assert other is not None and sum(a != b for a, b in zip(row["question"].split(), other.split(), strict=True)) == 1
    assert faults.answers_in_units("How many minutes is it?", "#### 7") == ("7 minutes", "7 hours")
    assert faults.answers_in_units("How many pens?", "#### 7") is None
    assert faults.wrong_result("It is 3 * 4 = 12.\n#### 12", measures.rng(row, "r")) not in (
        None,
        "It is 3 * 4 = 12.\n#### 12",
    )


def test_questions_and_faults_reached_on_rows_of_our_own() -> None:
    rates, kinds = measures.questions(ROWS)
    assert next(iter(rates.values())).hits == len(ROWS) and not kinds
    table = {
        name: (refused.hits, either.hits, either.tries) for name, (refused, either) in measures.reached(ROWS).items()
    }
    assert table["wrong result"] == (20, 20, 20)
    refused, either, tries = table["number of the problem changed"]
    assert refused == 0 and tries == 20 and either >= 15, "a number that only the solution has, or only the problem"


def test_rates_on_rows_of_our_own() -> None:
    correct = measures.correct_solutions(ROWS)
    assert {name: rate.hits for name, rate in correct.items()} == dict.fromkeys(correct, len(ROWS))
    missed = {name: len(ROWS) - rate.hits for name, rate in measures.planted_faults(ROWS).items()}
    assert (
        len(missed) == 4 and missed.pop("wrong final answer, no reference") <= 6
    )  # the source alone tells of 14 in 20
    assert not any(missed.values()), missed


@pytest.mark.parametrize(
    ("language", "text"), [("de", "1.234,5"), ("ru", "1\u00a0234,5"), ("bn", "১,২৩৪.৫"), ("sw", "1,234.5")]
)
def test_localised(language: str, text: str) -> None:
    assert measures.localised("1234.5", language) == text


def test_the_command_prints_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(measures, "notes_per_second", lambda rows: 1000.0)
    monkeypatch.setattr(measures, "hostile", lambda: ([("tower", "equalities", 0.1)] * 5, 50.0))
    gsm8k, mgsm = tmp_path / "gsm8k.jsonl", tmp_path / "mgsm.jsonl"
    gsm8k.write_text("\n".join(map(json.dumps, ROWS)))
    question = "Ein Kleid erfordert 2 Knäuel blaue Wolle und halb so viel weiße Wolle."
    mgsm.write_text(json.dumps({"id": "mgsm-de-1", "language": "de", "question": question, "answer": "3"}))
    assert main(["--gsm8k", str(gsm8k), "--unseen", str(gsm8k), "--mgsm", str(mgsm)]) == 0
    out = capsys.readouterr().out
    assert "| equalities |  100.0%" in out
    assert "| de | 1/1 |" in out and "| right solutions, unseen | |" in out and "| fault planted, held out |" in out
