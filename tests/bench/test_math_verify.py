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
    assert main(["--gsm8k", str(gsm8k), "--mgsm", str(mgsm)]) == 0
    out = capsys.readouterr().out
    assert "| equalities |  100.0%" in out
    assert "| de | 1/1 |" in out
