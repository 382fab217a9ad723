"""The fidelity bench: its data, its faults, its count; and that the coverage check holds what the bench reports."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from tokenmill.bench.fidelity import faults
from tokenmill.bench.fidelity.__main__ import cases, main, tabulate, targets_missed
from tokenmill.bench.fidelity.data import HALVES, pairs
from tokenmill.bench.fidelity.judged import RECORDED, judge_pairs, question, recorded_pairs
from tokenmill.bench.fidelity.table import HONEST, Cell, Table
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.errors import CallFailed
from tokenmill.judges.model.faithfulness import Faithfulness

HONEST_REFUSED = 0.025
"""Guard, close to what coverage alone does on the development half today: of 825 honest texts it refuses 18 (2.2 %),"""
CAUGHT = {"number changed": 0.98, "date shifted": 0.99, "name swapped": 0.98}
"""and it catches 98.4 %, 99.6 % and 98.4 % of these faults. Who makes the check better makes the guard tighter."""


def test_the_data_are_as_described():
    every = pairs()
    assert len(every) >= 80
    assert len(pairs("dev")) >= 200
    assert {pair.half for pair in every} <= set(HALVES)
    assert len(pairs("dev")) + len(pairs("test")) == len(every)
    assert not {p.source for p in pairs("dev")} & {p.source for p in pairs("test")}
    assert len({pair.id for pair in every}) == len(every)
    for pair in every:
        assert 40 <= len(pair.rewrite.split()) <= 200
        assert pair.rewrite != pair.source
        assert all(name in pair.source for names in pair.names.values() for name in names)
    assert (Path(faults.__file__).parent / "data" / "LICENSE.md").is_file()


@pytest.mark.parametrize("fault", faults.FAULTS)
def test_faults_are_planted_by_seed(fault):
    planted = 0
    for pair in pairs("dev"):
        first = faults.plant(pair, fault, 2)
        assert first == faults.plant(pair, fault, 2)
        assert len(set(first)) == len(first) <= 2
        assert pair.rewrite not in first
        planted += len(first)
    assert planted >= 40
    assert any(faults.plant(p, fault, 2) != faults.plant(p, fault, 2, seed=1) for p in pairs("dev"))


def test_wilson_interval():
    low, high = Cell(95, 100).interval()
    assert (round(low, 4), round(high, 4)) == (0.8882, 0.9785)
    assert Cell(0, 10).interval()[0] == 0
    assert Cell().interval() == (0.0, 1.0)


def test_a_missed_target_is_reported():
    table = Table(["(a)+(b)"])
    for caught in (True, False):
        table.count("test", "number changed", {"(a)+(b)": caught})
    table.count("test", HONEST, {"(a)+(b)": True})
    assert len(targets_missed(table)) == 2
    assert "1/2 = 50.0%" in table.markdown(["test"])


def test_coverage_alone_on_the_development_half():
    """A regression guard on the half that the check was tuned on; the bench itself reports the other."""
    table = tabulate(cases(["dev"], variants=1), similarity=False)
    honest = table.cell("dev", HONEST, "(b) coverage")
    assert honest.refused <= HONEST_REFUSED * honest.total
    for fault, share in CAUGHT.items():
        cell = table.cell("dev", fault, "(b) coverage")
        assert cell.refused >= share * cell.total > 400, fault


def test_the_judge_fills_its_columns(tmp_path):
    """A real client and a scripted judge that knows the sentences which `claim added` plants, and nothing else."""

    def answer(body: dict) -> str:
        prompt = body["messages"][-1]["content"]
        planted = [claim for claim in faults.CLAIMS if claim in prompt]
        reported = [
            {"claim": "Not in the source.", "source_quote": "", "rewrite_quote": claim, "severity": "major"}
            for claim in planted
        ]
        return json.dumps({"unsupported": reported, "missing": []})

    work = [case for case in cases(["dev"], variants=1)[:80] if case.fault in (HONEST, "claim added")]
    with ScriptedServer(answer) as server:
        judge = partial(judge_pairs, server.spec, cache=tmp_path / "answers.sqlite")
        table = tabulate(work, similarity=False, judge=judge)
    assert table.columns == ["(b) coverage", "judge", "(b)+judge"]
    assert table.cell("dev", "claim added", "judge").refused == table.cell("dev", "claim added", "judge").total >= 5
    assert table.cell("dev", HONEST, "judge").refused == 0 < table.cell("dev", HONEST, "judge").total
    assert table.cell("dev", "claim added", "(b) coverage").refused < len(work) / 2


def test_recorded_answers_fill_them_too(tmp_path):
    """An answer is found by all that was put to the judge; a text without one counts in no column of the judge."""
    work = [case for case in cases(["dev"], variants=1)[:40] if case.fault in (HONEST, "claim added")]
    asked, path = [], tmp_path / "judged.jsonl"

    async def ask(messages, **_):
        asked.append(question(messages))
        raise CallFailed("only listening")

    async def listen():
        for case in work:
            with suppress(CallFailed):
                await Faithfulness()(case.pair.source, case.rewrite, "", ask, title=case.pair.title)

    asyncio.run(listen())
    fault = {"claim": "Not there.", "source_quote": "", "rewrite_quote": work[0].rewrite, "severity": "major"}
    answers = [{"unsupported": [], "missing": []} for _ in work]
    answers[0] = {"unsupported": [fault], "missing": []}
    rows = [{"question": key, "answer": answer} for key, answer in zip(asked, answers, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:-1]))
    table = tabulate(work, similarity=False, judge=partial(recorded_pairs, path=path))
    counted = [table.cell("dev", fault, "judge") for fault in (HONEST, "claim added")]
    assert sum(cell.refused for cell in counted) == 1
    assert sum(cell.total for cell in counted) == len(work) - 1


def test_the_recorded_answers_are_those_of_the_present_prompt():
    """The shipped answers were given to questions that the bench asks today."""
    of_whom = {row["paraphrase"] for row in map(json.loads, RECORDED.read_text("utf-8").splitlines())}
    work = [case for case in cases(HALVES, variants=1) if case.pair.id in of_whom]
    verdicts = recorded_pairs([(case.pair.source, case.rewrite, case.pair.title) for case in work])
    assert len(work) > 400
    assert None not in verdicts


def test_a_bad_flag_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["--variants", "0"])
    assert "--variants must be at least 1" in capsys.readouterr().err


def test_a_missing_test_half_is_said(capsys, monkeypatch):
    monkeypatch.setattr("tokenmill.bench.fidelity.__main__.pairs", lambda half=None: [])
    assert main(["--half", "test"]) == 2
    assert "no test half yet" in capsys.readouterr().out
