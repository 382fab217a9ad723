"""The job that flags make, and what of it is in the fingerprint."""

import json

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.inference.roles import Role
from tokenmill.pipelines.knowledge.job import KnowledgeOptions, job
from tokenmill.pipelines.runs.manifest import described_models
from tokenmill.schemas.flags import UsageError

from tests.judges.entailment import tiny


def made(**given):
    return job(
        KnowledgeOptions(input="a.jsonl", output="out", llm="m@http://localhost:1/v1", no_similarity=True, **given)
    )


def test_the_judge_tolerates_what_the_flag_says_and_the_run_is_another():
    assert made().step.checks.judge.tolerated_minor == 1 == made().config["tolerated_minor"]
    assert (
        made(tolerated_minor=3).step.checks.judge.tolerated_minor
        == 3
        == made(tolerated_minor=3).config["tolerated_minor"]
    )
    with pytest.raises(UsageError, match=r"--tolerated-minor -1: must be at least 0"):
        made(tolerated_minor=-1)


def test_the_entailment_model_is_off_unless_named_and_looked_at_before_anything_costs(tmp_path):
    assert made().step.checks.entailment is None and made().config["entailment_model"] is None
    good = str(tiny.save(tmp_path / "nli"))
    assert (
        made(entailment_model=good).step.checks.entailment.model
        == good
        == made(entailment_model=good).config["entailment_model"]
    )
    other = str(tiny.save(tmp_path / "ranker", ("good", "bad")))
    with pytest.raises(UsageError, match=r"--entailment-model .*ranker: not a model for natural-language inference"):
        made(entailment_model=other)
    assert made(entailment_model=other, estimate=True).step.checks.entailment, "an estimate goes without it"


def test_the_sampling_that_is_sent_is_described():
    assert made().sampling == {
        "writer": {"temperature": 0.7, "top_p": 0.95},
        "judge": {"temperature": 0.0, "max_tokens": 1500},
    }
    assert made(votes=3).sampling["judge"]["temperature"] == 0.7 and "judge" not in made(no_judge=True).sampling
    role = Role("m@http://localhost:1/v1", {"top_p": None, "top_k": 5})
    (writer,) = described_models({"writer": role}, made().sampling)
    assert writer["params"] == {"temperature": 0.7, "top_p": None, "top_k": 5}


def test_what_is_told_of_sampling_is_what_arrives(tmp_path, run):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(2, 6)))
    arrived = []

    def answer(body):
        arrived.append({name: body.get(name) for name in ("temperature", "top_p", "response_format")})
        return Writer()(body)

    flags = ("--no-similarity", "--sampling", '{"top_p": null}', "--direct_running_mode=in_memory")
    model = str(tiny.save(tmp_path / "nli", favoured="neutral"))
    with ScriptedServer(answer) as server:
        argv = ("knowledge", "--input", tmp_path / "a.jsonl", "--llm", server.spec, "--entailment-model", model, *flags)
        code, _, err = run(*argv, "--output", tmp_path / "out")
    assert code == 0, err
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    params = {one["role"]: one["params"] for one in manifest["models"]}
    for body in arrived:
        told = params["judge" if body["response_format"] else "writer"]
        assert body["temperature"] == told["temperature"] and body["top_p"] == told.get("top_p")
    card = (tmp_path / "out/README.md").read_text()
    assert "`temperature=0.7` `top_p=the endpoint's default`" in card
    assert manifest["config"]["entailment_model"] == model
    assert "Each sentence was compared with its source by the model" in card and "| `entailment` |" in card
