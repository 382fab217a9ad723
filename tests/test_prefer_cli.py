"""Preference pairs from the command line."""

from __future__ import annotations

import json
import re

import pytest
from datasets import load_dataset
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.outputs import manifest, rows

BRAG = "This answer is complete and correct."


class Both:
    """Writes answers of a length that the seed says, and as the critic likes the longer one."""

    def __init__(self, answers=lambda prompt, number: f"{prompt} " + "wave " * number):
        self.answers = answers

    def __call__(self, body):
        user = body["messages"][-1]["content"]
        if "response_format" not in body:
            return self.answers(user, body["seed"] // 10_000)
        schema = body["response_format"]["json_schema"]["schema"]["properties"]
        first, second = (re.search(rf"<{side}-\w+>\n(.*?)\n</", user, re.DOTALL)[1] for side in ("first", "second"))
        better = "first" if len(first) > len(second) else "second" if len(second) > len(first) else "same"
        said = {"why": "it is longer", "better": better}
        if "rubrics" in schema:
            names = schema["rubrics"]["items"]["properties"]["rubric"]["enum"]
            said["rubrics"] = [{"rubric": name, "better": better} for name in names]
        if "musts" in schema:
            names = schema["musts"]["items"]["properties"]["rubric"]["enum"]
            said["musts"] = [{"rubric": name, "first_meets": True, "second_meets": True} for name in names]
        return json.dumps(said)


@pytest.fixture
def prompts(tmp_path):
    made = [
        {"id": "sea", "prompt": "A line about the sea", "system": "Be brief.", "rubrics": ["Names a colour."]},
        {"id": "hill", "prompt": "A line about a hill", "must": "Names a hill."},
        {"id": "sum", "prompt": "What is 2 + 2?", "answer": "4"},
        {"id": "none", "prompt": " "},
    ]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    return tmp_path / "prompts.jsonl"


def test_the_best_and_the_worst_are_a_pair_that_a_trainer_takes(tmp_path, run, prompts):
    with ScriptedServer(Both()) as server:
        code, _, err = run("prefer", "--input", prompts, "--output", tmp_path / "out", "--llm", server.spec)
    assert code == 0, err
    found = {row["id"]: row for row in rows(tmp_path / "out", "data")}
    assert set(found) == {"sea", "hill"}
    sea = found["sea"]
    assert [m["role"] for m in sea["prompt"]] == ["system", "user"] and sea["comparisons"] == 6 and sea["flipped"] == 0
    assert sea["chosen"] == [{"role": "assistant", "content": "A line about the sea wave wave wave"}]
    assert sea["rejected"] == [{"role": "assistant", "content": "A line about the sea"}] and sea["margin"] == 1.0
    assert [answer["rank"] for answer in sea["answers"]] == [4, 3, 2, 1]
    assert [round(answer["reward"], 3) for answer in sea["answers"]] == [0, 0.333, 0.667, 1]
    assert sea["rubrics"][-1] == "given_1" and found["hill"]["rubrics"][-1] == "must_1"
    failed = {row["source_id"]: row["error"] for row in rows(tmp_path / "out", "failed")}
    assert failed == {"sum": "verifiable", "none": "empty_text"}
    told = manifest(tmp_path / "out")
    assert told["calls"]["writer"]["paid"] == 8 and told["calls"]["judge"]["paid"] == 2 * 12
    assert "critic/prescriptive/no_opening_praise" in {prompt["name"] for prompt in told["prompts"]}
    loaded = load_dataset(str(tmp_path / "out"), split="train")
    assert {"prompt", "chosen", "rejected"} <= set(loaded.column_names) and len(loaded) == 2


def test_what_the_critic_cannot_tell_apart_is_no_pair(tmp_path, run, prompts):
    same = Both(lambda prompt, number: f"{prompt} {number}")
    with ScriptedServer(same) as server:
        flags = ("--input", prompts, "--llm", server.spec, "--limit", "1")
        assert run("prefer", *flags, "--output", tmp_path / "out")[0] == 0
        (row,) = rows(tmp_path / "out", "rejected")
        assert row["reason"] == "no_preference" and len(row["answers"]) == 4 and row["margin"] == 0
        alike = Both(lambda prompt, number: prompt)
    with ScriptedServer(alike, models=("other",)) as server:
        flags = ("--input", prompts, "--llm", server.spec, "--limit", "1")
        assert run("prefer", *flags, "--output", tmp_path / "alike")[0] == 0
        (row,) = rows(tmp_path / "alike", "rejected")
        assert row["reason"] == "too_few_answers" and server.log.answered == 4, "nothing to compare, nothing paid"


def test_an_answer_that_praises_itself_loses_by_the_prescriptive_rubrics(tmp_path, run, prompts):
    bragging = Both(lambda prompt, number: f"{prompt}. {BRAG}" if number == 2 else f"{prompt} {'x' * number}")
    with ScriptedServer(bragging) as server:
        flags = ("prefer", "--input", prompts, "--llm", server.spec, "--limit", "1")
        assert run(*flags, "--output", tmp_path / "strict")[0] == 0
        assert run(*flags, "--output", tmp_path / "lax", "--rubrics", "core")[0] == 0
    (strict,), (lax,) = rows(tmp_path / "strict", "data"), rows(tmp_path / "lax", "data")
    assert BRAG in lax["chosen"][0]["content"] and BRAG in strict["rejected"][0]["content"]
    assert strict["answers"][2]["broken"] == ["no_self_justification"]
    assert "This answer is complete" in strict["answers"][2]["evidence"]
    assert manifest(tmp_path / "lax")["fingerprint"] != manifest(tmp_path / "strict")["fingerprint"]


def test_the_estimate_counts_the_calls_that_are_made(tmp_path, run, prompts):
    with ScriptedServer(Both()) as server:
        flags = ("prefer", "--input", prompts, "--llm", server.spec, "--samples", "8", "--verifiable", "--limit", "3")
        code, out, _ = run(*flags, "--estimate")
        assert code == 0 and server.log.requests == 0
        run(*flags, "--output", tmp_path / "out")
    calls = manifest(tmp_path / "out")["calls"]
    assert calls["writer"]["paid"] == 24 and calls["judge"]["paid"] == 3 * 2 * 18
    assert re.search(r"expected +24 ", out) and re.search(r"expected +108 ", out), out


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (("--rubrics", "core,taste"), "--rubrics taste: known are core, prescriptive"),
        (("--samples", "1"), "--samples 1: must be at least 2"),
        (("--least-margin", "2"), "--least-margin 2: must be from 0 to 1"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, run, prompts, flags, line):
    code, _, err = run(
        "prefer", "--input", prompts, "--output", tmp_path / "out", "--llm", "m@http://127.0.0.1:9/v1", *flags
    )
    assert code == 2 and line in err and err.count("\n") == 1
