"""The fidelity bench: its data, its faults, its count; and that code does no worse than the bench reports."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import astuple
from pathlib import Path

import pytest
from tokenmill.bench.fidelity import ask, faults, judged
from tokenmill.bench.fidelity.__main__ import main, targets_missed
from tokenmill.bench.fidelity.cases import FAULTY, HONEST, Case, foreign_cases, planted_cases
from tokenmill.bench.fidelity.cuts import COLUMN, cut_cases, cut_table
from tokenmill.bench.fidelity.data import HALVES, foreign, pairs
from tokenmill.bench.fidelity.measure import RAISED, REFUSED, Outcome, foreign_table, measure, planted_table
from tokenmill.bench.fidelity.pointing import pointing, raised_by_fault
from tokenmill.bench.fidelity.table import Cell, Table
from tokenmill.bench.fidelity.tokens import Spent, documents, spent
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.schemas.verdicts import Question, Verdict

HONEST_REFUSED = {"foreign": 0.01, "planted": 0.005}
"""Guards, close to what code alone does on the development halves today: it refuses none of 105 honest versions and none of 825
paraphrases. Who makes the check better makes the guard tighter."""
ASKED, RAISED_SLIPS = 0.59, 0.41
"""It asks about the sentence of 64 of 105 natural slips (61 %), and raises 45 (43 %);"""
RAISED_FACTS = {"number changed": 0.945, "date shifted": 0.96, "name swapped": 0.975}
"""and of these planted faults it raises 95 %, 97 % and 98 %."""
CUTS_REFUSED = 0.68
"""Of answers cut off with no word of it from the endpoint, at least so many are seen; it is 70 % and 73 %."""
NOTHING = {"answers": [], "unsupported": [], "missing": [], "form_kept": True, "form_fault": ""}
CASE = Case(
    "a", FAULTY, "dev", "", "en",
    "The mill was built in 1911. It burnt down in 1931, and perhaps nobody was hurt.",
    "It may be that nobody was hurt when it burnt down in 1931. The mill was built in 1912.",
    "It may be that nobody was hurt when it burnt down in 1931. The mill was built in 1911.",
)  # fmt: skip


def test_the_planted_data_are_as_described():
    every = pairs()
    assert len(pairs("dev")) >= 800 and len(pairs("test")) >= 300
    assert len(pairs("dev")) + len(pairs("test")) == len(every)
    assert not {p.source for p in pairs("dev")} & {p.source for p in pairs("test")}
    assert len({pair.id for pair in every}) == len(every)
    for pair in every:
        assert 40 <= len(pair.rewrite.split()) <= 200
        assert pair.rewrite != pair.source
        assert all(name in pair.source for names in pair.names.values() for name in names)


def test_the_foreign_data_are_as_described():
    every = foreign()
    assert len(every) == len({p.id for p in every}) == 209
    assert [len(foreign(half)) for half in HALVES] == [105, 104]
    assert {p.language for p in every} == {"en", "de", "fr", "es", "ru", "zh", "ja", "ko"}
    assert len({p.kind for p in every}) == 13 and min(Counter(p.kind for p in every).values()) >= 14
    for p in every:
        assert p.source.strip() and p.title is not None and p.form and p.slip
        assert p.honest != p.faulty and p.source not in (p.honest, p.faulty)
        assert set(p.second_reader) == {HONEST, FAULTY} and set(p.second_reader.values()) <= {"faithful", "unfaithful"}
    assert sum(p.second_reader[HONEST] == "faithful" for p in every) == 208
    assert sum(p.second_reader[FAULTY] == "unfaithful" for p in every) == 207


def test_every_licence_is_explained():
    folder = Path(faults.__file__).parent / "data"
    rows = [json.loads(line) for line in (folder / "foreign_passages.jsonl").read_text("utf-8").splitlines()]
    explained = (folder / "LICENSE.md").read_text("utf-8")
    for license, count in Counter(row["license"] for row in rows).items():
        assert f"| `{license}` | {count} |" in explained
    assert all(row["source"] for row in rows)
    of_document = {(row["doc"], row["half"]) for row in rows}
    assert len(of_document) == len({doc for doc, _ in of_document}), "a document in both halves"


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
    table = Table("text", [RAISED])
    for caught in (True, False):
        table.count("number changed", {RAISED: caught})
    table.count("date shifted", {RAISED: True})
    assert targets_missed(table) == ["number changed: 1/2 = 50.0% (9.5% to 90.5%), the target is 95%"]
    assert "| number changed | 1/2 = 50.0%" in table.markdown()


def test_a_question_points_at_the_fault_when_its_words_stand_there():
    year = Question(
        "number_added",
        'The rewrite has "1912" in "The mill was built in 1912". Does …?',
        "",
        "1931. The mill was built in 1912.",
    )
    lost = Question(
        "number_lost", 'The source has "1911" in "…". Does the rewrite keep it?', "was built in 1911. It burnt down", ""
    )
    beside = Question(
        "number_added",
        'The rewrite has "1931" in "…". Does the source say so?',
        "",
        "burnt down in 1931. The mill was built",
    )
    hedge = Question(
        "hedge_changed",
        'The source says "perhaps" in "…". Does the other text, too?',
        "It burnt down in 1931, and perhaps …",
        "",
    )
    asked = [year, lost, beside, hedge]
    assert pointing(asked, CASE) == [year, lost]
    assert raised_by_fault(asked, [lost, beside], CASE) == [year]


def test_verdicts_are_counted_by_what_a_case_is():
    refusal = Verdict("facts", False, 0.5, "number_added")
    honest = Case("a", HONEST, "dev", "", "en", "s", "r", "r", kind="negation")
    slip = Case("a", FAULTY, "dev", "", "en", "s", "q", "r", kind="negation")
    other = Case("b", FAULTY, "dev", "", "de", "s", "q", "r", kind="wrong total")
    outcomes = [
        Outcome(honest, None, 1, judged=Verdict("faithfulness", True, 1.0)),
        Outcome(slip, refusal, 2, pointed=True, raised=True, judged=Verdict("faithfulness", True, 1.0)),
        Outcome(other, None, 0, judged=None),
    ]
    table = foreign_table(outcomes, "kind")
    assert [str(table.cell("negation", f"{what} refused: code"))[:3] for what in ("honest", "slips")] == ["0/1", "1/1"]
    assert (
        table.cell("wrong total", "slips asked about").refused,
        table.cell("wrong total", "slips raised").total,
    ) == (0, 1)
    assert table.cell("negation", "slips refused: judge") == Cell(0, 1)
    assert table.cell("negation", "slips refused: code and judge") == Cell(1, 1)
    assert table.cell("wrong total", "slips refused: judge").total == 0, "undecided is not counted"
    assert foreign_table(outcomes, "language").cell("en", "slips refused: code") == Cell(1, 1)


def test_code_alone_on_the_foreign_set():
    """A regression guard on the development half; the bench itself reports the other, too."""
    table = foreign_table(measure(foreign_cases("dev"), form=True))
    honest, asked, raised = (
        table.cell("all", name) for name in ("honest refused: code", "slips asked about", "slips raised")
    )
    assert honest.refused <= HONEST_REFUSED["foreign"] * honest.total
    assert asked.refused >= ASKED * asked.total
    assert raised.refused >= RAISED_SLIPS * raised.total and raised.total == 105


def test_code_alone_on_the_planted_set():
    table = planted_table(measure(planted_cases("dev", paraphrases=200), form=False))
    honest = table.cell(HONEST, REFUSED)
    assert honest.refused <= HONEST_REFUSED["planted"] * honest.total
    for fault, share in RAISED_FACTS.items():
        cell = table.cell(fault, RAISED)
        assert cell.refused >= share * cell.total > 80, fault


def test_the_judge_fills_its_columns(tmp_path):
    """A real client and a scripted judge that knows the sentences which `claim added` plants, and nothing else."""

    def answer(body: dict) -> str:
        prompt = body["messages"][-1]["content"]
        planted = [claim for claim in faults.CLAIMS if claim in prompt]
        reported = [
            {"claim": "Not in the source.", "source_quote": "", "rewrite_quote": claim, "severity": "major"}
            for claim in planted
        ]
        return json.dumps({**NOTHING, "unsupported": reported})

    work = [case for case in planted_cases("dev")[:80] if case.kind in ("", "claim added")]
    with ScriptedServer(answer) as server:
        verdicts = judged.judge_cases(server.spec, work, cache=tmp_path / "answers.sqlite")
    table = planted_table(measure(work, form=False, judged=verdicts))
    assert table.cell("claim added", "refused by the judge").refused == sum(case.faulty for case in work) >= 5
    assert table.cell(HONEST, "refused by the judge").refused == 0 < table.cell(HONEST, "refused by the judge").total


def test_prompts_are_written_and_answers_put_on_record(tmp_path):
    """What is asked says nothing of the version; an answer counts with the questions that it was given to."""
    prompts, keys, out = tmp_path / "asked.jsonl", tmp_path / "keys.json", tmp_path / "judged.jsonl"
    assert main_of_ask("--half", "dev", "--out", prompts, "--keys", keys) == 0
    rows = [json.loads(line) for line in prompts.read_text("utf-8").splitlines()]
    about = json.loads(keys.read_text("utf-8"))
    assert len(rows) == len(about) == 210 and all(set(row) == {"key", "messages"} for row in rows)
    assert not any(word in row["key"] for row in rows for word in (HONEST, FAULTY))
    ids = [about[row["key"]]["id"] for row in rows]
    assert len(set(ids[:105])) == len(set(ids[105:])) == 105
    first = Counter(about[row["key"]]["version"] for row in rows[:105])
    assert 30 < first[HONEST] < 75

    cases = {(case.id, case.version): case for case in foreign_cases("dev")}
    answers = []
    for row in rows[:-1]:
        case = cases[about[row["key"]]["id"], about[row["key"]]["version"]]
        questions = about[row["key"]]["questions"]
        said = [{"question": len(questions), "verdict": "changed"}] if case.faulty and questions else []
        quoted = {"claim": "No.", "source_quote": "", "rewrite_quote": "words that stand nowhere", "severity": "major"}
        answer = {**NOTHING, "answers": said, "unsupported": [quoted] if case.faulty and not questions else []}
        answers.append({"key": row["key"], "answer": json.dumps(answer) if said else answer})
    given = tmp_path / "answers.jsonl"
    given.write_text("".join(json.dumps(row) + "\n" for row in answers))
    assert main_of_ask("--record", given, "--out", out, "--keys", keys) == 0

    work = list(cases.values())
    verdicts = judged.recorded_cases(out, work)
    unasked = about[rows[-1]["key"]]
    for case, verdict in zip(work, verdicts, strict=True):
        questions = judged.asked(case)
        if (case.id, case.version) == (unasked["id"], unasked["version"]) or (case.faulty and not questions):
            assert verdict is None, "not on record, or nothing but a quotation that stands nowhere"
        else:
            assert verdict.passed != case.faulty
    assert judged.outdated(out, work) == 0

    changed = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    changed[0]["questions"] = [list(astuple(Question("kind", "Another?", "", "")))]
    out.write_text("".join(json.dumps(row) + "\n" for row in changed))
    assert judged.outdated(out, work) == 1


def main_of_ask(*argv: object) -> int:
    return ask.main([str(arg) for arg in argv])


def test_the_command_prints_every_table(capsys):
    assert main(["--half", "dev"]) == 0
    printed = capsys.readouterr().out
    for head in (
        "### foreign, dev half",
        "| all |",
        "| language |",
        "| genre |",
        "| kind |",
        "Code refuses honest texts for:",
    ):
        assert head in printed


def test_a_bad_flag_is_one_line(capsys):
    with pytest.raises(SystemExit):
        main(["--variants", "0"])
    assert "--variants must be at least 1" in capsys.readouterr().err


def test_an_empty_half_is_said(capsys, monkeypatch):
    monkeypatch.setattr("tokenmill.bench.fidelity.cases.pairs", lambda half=None: [])
    assert main(["--set", "planted", "--half", "test"]) == 0
    assert "The test half of the planted set is empty." in capsys.readouterr().out


def test_cut_texts_are_seen_and_whole_ones_left_alone():
    cases = list(cut_cases("dev"))
    assert cases == list(cut_cases("dev"))
    whole = [case for case in cases if case.version == HONEST]
    assert len(cases) == 5 * len(whole) > 4_000
    assert all(case.honest.startswith(case.rewrite) and case.rewrite != case.honest for case in cases if case.faulty)
    table = cut_table(cases)
    for name in ("foreign", "planted"):
        cut, left = table.cell(f"{name}, cut", COLUMN), table.cell(f"{name}, whole", COLUMN)
        assert cut.refused >= CUTS_REFUSED * cut.total
        assert left.refused <= 0.002 * left.total


def test_tokens_of_judging_are_counted_by_kind():
    cases = foreign_cases("dev")
    alone, joined = [sum(map(spent, documents(cases, n)), Spent()) for n in (1, 10)]
    assert alone.kept <= joined.kept < 1.01 * alone.kept
    assert joined.instructions < alone.instructions / 3  # read once for several passages
    costs = joined.per_kept()
    assert costs[-1] == pytest.approx(sum(costs[:-1])) and costs[-1] < 4
    assert {len(document) for document in documents(cases, 10)} >= {10}
    assert len({case.language for case in next(documents(cases, 10))}) == 1
