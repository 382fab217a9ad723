"""The study of worth: fair arms, known scores, and a run from files to table."""

from __future__ import annotations

import json
import math

import pytest
import torch
from tokenmill.bench.training.people import VALUES, facts_of, name_of, questions_of, raw_text, rephrasing_text, write
from tokenmill.training.data.rows import InputError
from tokenmill.training.model import Model, preset
from tokenmill.training.questions import PROMPT, Question, log_likelihoods, normalized, read_questions, score
from tokenmill.training.tokenizer import Tokenizer
from tokenmill.training.utility import ARMS, main, read_corpus, summarize


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    write(folder, people=8, background=20)
    return folder


def test_every_rephrasing_tells_every_fact_in_its_own_wording():
    for number in range(20):
        tellings = [rephrasing_text(number, r) for r in range(10)]
        for text in [raw_text(number), *tellings]:
            assert all(value in text for value in facts_of(number).values())
            others = {v for kind, values in VALUES.items() for v in values if v != facts_of(number)[kind]}
            assert not any(f" {value}" in text for value in others)
            assert text.count(name_of(number)) == 4
        sentences = [sentence for text in [raw_text(number), *tellings] for sentence in text.split(". ")]
        assert len({sentence.rstrip(".") for sentence in sentences}) == 44
    assert len({name_of(number) for number in range(5000)}) == 5000
    for row in questions_of(3):
        assert row["answer"] in raw_text(3) and row["answer"] not in row["alternatives"]


def test_arms_hold_the_same_documents(people):
    corpus = read_corpus(people / "raw.jsonl", people / "rephrased", 10)
    assert len(corpus.raw) == 8 and corpus.left_out == 0
    raw, one, many = (corpus.rows(arm, 10, seed=0) for arm in ARMS)
    assert (len(raw), len(one), len(many)) == (8, 8, 80)
    assert {row["text"] for row in one} < {row["text"] for row in many}
    assert not {row["text"] for row in raw} & {row["text"] for row in many}
    assert one != corpus.rows("one rephrasing", 10, seed=1), "the seed draws which rephrasing is the one"


def test_documents_without_enough_rephrasings_are_in_no_arm(people, tmp_path):
    import pyarrow.parquet as pq

    table = pq.read_table(next((people / "rephrased/data").iterdir()))
    (tmp_path / "data").mkdir()
    pq.write_table(table.slice(3), tmp_path / "data/a.parquet")
    corpus = read_corpus(people / "raw.jsonl", tmp_path, 10)
    assert "0" not in corpus.raw and len(corpus.raw) == 7 and corpus.left_out == 1
    with pytest.raises(InputError, match="11 rephrasings"):
        read_corpus(people / "raw.jsonl", people / "rephrased", 11)


def test_likelihood_is_that_of_the_model():
    torch.manual_seed(0)
    model = Model(preset("tiny")).eval()
    pairs = [([1, 2, 3], [4, 5]), ([7], [8, 9, 10, 11]), ([1, 2], [3])]
    for (prompt, rest), value in zip(pairs, log_likelihoods(model, pairs), strict=True):
        logits = model(torch.tensor([prompt + rest])).logits[0].log_softmax(-1)
        expected = sum(logits[len(prompt) - 1 + i, token].item() for i, token in enumerate(rest))
        assert value == pytest.approx(expected, rel=1e-4)


def test_scores_of_a_model_that_knows_and_of_one_that_does_not():
    questions = [Question(f"What is {n}?", answer, (other, "none")) for n, answer, other in
                 [("a", "Oslo", "Rome"), ("b", "Rome", "Oslo"), ("c", "Oslo", "Rome")]]  # fmt: skip
    told = [f"{PROMPT.format(question=q.question)} {q.answer}" for q in questions]
    tokenizer = Tokenizer.train(told * 5, 400)
    torch.manual_seed(0)
    model = Model(preset("tiny").replace(vocab_size=448))
    ignorant = score(model, tokenizer, questions)
    assert ignorant.exact_match == 0 and ignorant.answer_loss > math.log(20)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(40):
        for text in told:
            tokens = torch.tensor([[tokenizer.bos, *tokenizer.encode(text), tokenizer.eos]])
            optimizer.zero_grad()
            model(tokens[:, :-1], targets=tokens[:, 1:]).loss.backward()
            optimizer.step()
    known = score(model, tokenizer, questions)
    assert known.exact_match == known.choice_accuracy == 1.0 and known.answer_loss < 0.2
    assert model.training
    swapped = [Question(q.question, q.alternatives[0], (q.answer,)) for q in questions]
    assert score(model, tokenizer, swapped).choice_accuracy == 0.0


def test_answers_are_compared_without_case_and_punctuation():
    assert normalized("  Port  Authority.\nand more") == normalized("port authority") != normalized("port")


def test_summary_has_means_spread_and_leads():
    runs = [{"arm": "start", "seed": None, "exact_match": 0.0, "choice_accuracy": 0.25, "answer_loss": 3.0}]
    for seed, (raw, many) in enumerate([(0.1, 0.3), (0.2, 0.5)]):
        for arm, value in zip(ARMS, (raw, raw, many), strict=True):
            runs.append({"arm": arm, "seed": seed, "exact_match": value, "choice_accuracy": 0.5, "answer_loss": 1.0})
    summary = summarize(runs)
    assert summary["raw"]["exact_match"]["mean"] == pytest.approx(0.15)
    assert summary["many rephrasings"]["exact_match"]["over_raw"] == {
        "mean": pytest.approx(0.25),
        "sd": pytest.approx(0.0707, abs=1e-3),
    }


def test_a_whole_study_resumes_and_its_arms_are_equal(people, tmp_path, capsys):
    out = tmp_path / "out"
    torch.set_num_threads(1)
    flags = ["--raw", str(people / "raw.jsonl"), "--rephrased", str(people / "rephrased"), "--config", "tiny"]
    flags += ["--questions", str(people / "questions.jsonl"), "--background", str(people / "background")]
    flags += ["--output", str(out), "--seeds", "2", "--start-tokens", "4096", "--device", "cpu"]
    main(flags)
    report = json.loads((out / "utility.json").read_text())
    assert report["documents"] == 8 and report["questions"] == 32 and report["guessing"] == 0.25
    runs = report["runs"]
    assert [(run["arm"], run["seed"]) for run in runs] == [("start", None)] + [(a, s) for s in (0, 1) for a in ARMS]
    budget = report["tokens_of_documents_each_arm"]
    assert budget <= min(report["tokens_once"].values()) < 1.2 * budget
    for arm in ARMS:
        last = json.loads((out / "arms" / f"{arm.replace(' ', '-')}-0" / "metrics.jsonl").read_text().splitlines()[-1])
        assert last["tokens"] == -(-2 * budget // 2048) * 2048, "whole batches, the same for all arms"
    full = {arm: next(run["epochs"] for run in runs if run["arm"] == arm) for arm in ARMS}
    assert 7 < full["raw"] <= 10.6 and 0.7 < full["many rephrasings"] <= 1.1
    table = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in table[2:]] == ["| start", *(f"| {arm}" for arm in ARMS)]
    assert (out / "utility.png").stat().st_size > 5000

    kept = (out / "arms" / "raw-0" / "result.json").stat().st_mtime_ns
    (out / "arms" / "many-rephrasings-1" / "result.json").unlink()
    main(flags)
    again = json.loads((out / "utility.json").read_text())
    assert again["runs"] == runs and (out / "arms" / "raw-0" / "result.json").stat().st_mtime_ns == kept
    with pytest.raises(SystemExit):
        main([*flags, "--replay", "0.3"])
    assert "other settings (study)" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 1"),
        ('{"question": "q", "answer": "a"}', "alternatives"),
        ('{"question": "q", "answer": "a", "alternatives": ["a"]}', "not among them"),
        ("", "holds no questions"),
    ],
)
def test_a_broken_question_is_named(tmp_path, line, said):
    (tmp_path / "q.jsonl").write_text(line)
    with pytest.raises(InputError, match=said):
        read_questions(tmp_path / "q.jsonl")


def test_one_clear_line_for_bad_flags(people, tmp_path, capsys):
    flags = ["--raw", str(people / "raw.jsonl"), "--rephrased", str(people / "rephrased"), "--output", str(tmp_path)]
    flags += ["--questions", str(people / "questions.jsonl"), "--background", str(people / "background")]
    for more, said in [
        (["--replay", "1"], "replay"),
        (["--epochs", "12"], "12 rephrasings"),
        (["--config", "x"], "'x'"),
    ]:
        with pytest.raises(SystemExit) as stop:
            main([*flags, *more])
        assert stop.value.code == 2 and said in capsys.readouterr().err.strip().splitlines()[-1]
