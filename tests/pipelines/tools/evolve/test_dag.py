"""`tools evolve` as users give it: both stages, resumed, on several workers, within a budget, with nothing kept."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from tokenmill.bench.servers.evolver import SHARED, Evolver
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.tools import ToolSpec
from tokenmill.tools_repo.specs.validate import validate
from tokenmill.tools_repo.world.entities import EntityModel

from tests.outputs import manifest
from tokenmill import cli

ROOT = Path(__file__).resolve().parents[4]
SMALL = ("--categories", 2, "--domains", 2, "--tools", 7, "--embedding-model", "none")


@pytest.fixture
def evolve(tmp_path, capfd):
    def command(*argv, cache="answers.sqlite"):
        code = cli.main(["tools", "evolve", *map(str, argv), "--cache", str(tmp_path / cache)])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def rows(out, kind):
    return {row["id"]: row for p in sorted(Path(out, kind).glob("*.parquet")) for row in pq.read_table(p).to_pylist()}


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(Path(out).rglob("*.parquet"))}


def adds_up(counts, per_task):
    return counts["accepted"] + counts["rejected"] + counts["failed"] == counts["tasks"] * per_task


def test_both_stages_make_rows_that_fit_together(evolve, tmp_path):
    out = tmp_path / "out"
    evolver = Evolver(domains=0.3, siblings=0.05, across=0.2, broken=0.05)
    with ScriptedServer(evolver) as server:
        argv = ("--categories", 2, "--domains", 3, "--tools", 12, "--embedding-model", "none", "--llm", server.spec)
        code, stdout, stderr = evolve(*argv, "--output", out)
        assert code == 0, stderr
        paid = server.log.requests
        assert evolve(*argv, "--output", out)[0] == 0 and server.log.requests == paid
    domains, tools, refused = rows(out / "stages/domains", "data"), rows(out, "data"), rows(out, "rejected")
    first, second = manifest(out / "stages/domains"), manifest(out)
    assert len(domains) == 6 and adds_up(first["counts"], 3) and first["counts"]["tasks"] == 2
    assert adds_up(second["counts"], 12) and second["counts"]["tasks"] == 6 and second["counts"]["failed"] == 0
    assert len(tools) + len(refused) == 72 and len(tools) >= 55
    assert first["calls"]["writer"]["paid"] + second["calls"]["writer"]["paid"] == paid
    paths = {tuple(row["path"]): RecordParser(Domain)(row, "", 0) for row in domains.values()}
    assert {row["category"] for row in domains.values()} == {"financial trading", "software applications"}
    for row in tools.values():
        spec = RecordParser(ToolSpec)(row, "", 0)
        kinds = EntityModel.parse(paths[tuple(spec.domain)].entities).kinds
        assert {*spec.semantics.reads, *spec.semantics.writes} <= set(kinds)
        assert validate(spec).passed and spec.origin == "synthetic" and spec.output_schema
    shared = {name for name, _ in SHARED.values()}
    duplicates = [row for row in refused.values() if row["reason"] == "near_duplicate"]
    assert evolver.planted["across"] > len(shared)
    planted = evolver.planted["across"] - len({row["name"] for row in tools.values()} & shared)
    found = [row for row in duplicates if row["original_name"] in shared]
    assert len(found) == planted and all(row["duplicate_of"] in tools for row in found)
    assert "near_duplicate" in stdout and Path(out, "report.html").exists()
    assert "out of 6 attempted" in Path(out, "stages/domains/README.md").read_text()
    page = Path(out, "stages/domains/report.html").read_text()
    assert all(row["name"] in page and row["description"][:60] in page for row in domains.values())


@pytest.mark.slow
def test_the_rows_do_not_depend_on_the_number_of_workers(evolve, tmp_path):
    made = {}
    with ScriptedServer(Evolver(domains=0.2, siblings=0.1, reworded=0.2, across=0.6)) as server:
        for name, mode in (
            ("one", ("--direct_running_mode=in_memory", "--direct_num_workers=1")),
            ("two", ("--direct_running_mode=multi_processing", "--direct_num_workers=2")),
        ):
            argv = (*SMALL, "--output", tmp_path / name, "--llm", server.spec, *mode)
            code, _, stderr = evolve(*argv, cache=f"{name}.sqlite")
            assert code == 0, stderr
            made[name] = shards(tmp_path / name)
    assert made["one"] == made["two"] and len(made["one"]) >= 3


def test_killed_runs_resume_and_pay_once(evolve, tmp_path):
    evolver = Evolver(siblings=0.1)
    with ScriptedServer(evolver, latency=0.05) as server:
        argv = (*SMALL, "--llm", server.spec, "--max-concurrency", 4)
        assert evolve(*argv, "--output", tmp_path / "calm", cache="calm.sqlite")[0] == 0
        undisturbed = server.log.answered
        server.log.bodies.clear()
        server.log.answered = 0
        argv = (*argv, "--output", tmp_path / "out")
        command = [sys.executable, str(ROOT / "beam_runner.py"), "tools", "evolve", *map(str, argv)]
        command += ["--cache", str(tmp_path / "killed.sqlite")]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 120
        while server.log.answered < undisturbed * 0.7 and time.monotonic() < end:
            time.sleep(0.005)
        family = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not psutil.wait_procs(family, timeout=20)[1]
        # The first stage is finished and stays as it is; the second one was cut off.
        assert (tmp_path / "out/stages/domains/manifest.json").exists() and not (
            tmp_path / "out/manifest.json"
        ).exists()
        assert evolve(*argv, cache="killed.sqlite")[0] == 0
        again = sum(count - 1 for count in server.log.bodies.values())
        # What was on the wire at the moment of a kill may come twice.
        assert again <= 4 and len(server.log.bodies) == undisturbed
    assert shards(tmp_path / "out") == shards(tmp_path / "calm")


def test_raising_the_numbers_pays_for_what_is_new(evolve, tmp_path):
    with ScriptedServer(Evolver()) as server:
        few = ("--domains", 3, "--tools", 10, "--embedding-model", "none", "--llm", server.spec)
        assert evolve("--categories", 1, *few, "--output", tmp_path / "a")[0] == 0
        paid = server.log.requests
        more = ("--domains", 4, "--tools", 15, "--embedding-model", "none", "--llm", server.spec)
        assert evolve("--categories", 2, *more, "--output", tmp_path / "b")[0] == 0
        assert len(server.log.bodies) == server.log.requests  # nothing twice
        new = manifest(tmp_path / "b/stages/domains")["calls"]["writer"]
    assert new["cached"] == 3 * 3 and paid == 3 * 3 + 3 * 2
    first, second, refused = (
        rows(tmp_path / "a", "data"),
        rows(tmp_path / "b", "data"),
        rows(tmp_path / "b", "rejected"),
    )
    assert set(first) <= set(second) | set(refused) and len(second) > len(first)


def test_a_judge_refuses_what_is_unclear(evolve, tmp_path):
    def judge(body):
        text = body["messages"][-1]["content"]
        quote = "This cannot be undone"
        problem = {"kind": "vague", "quote": quote, "why": "Say what.", "severity": "major"}
        return json.dumps({"problems": [problem] if quote in text else []})

    out = tmp_path / "out"
    with ScriptedServer(Evolver()) as writer, ScriptedServer(judge, models=("judge",)) as server:
        argv = ("--categories", 1, "--domains", 2, "--tools", 6, "--embedding-model", "none", "--output", out)
        code, _, stderr = evolve(*argv, "--llm", writer.spec, "--judge-llm", server.spec)
        assert code == 0, stderr
    told = manifest(out)
    assert told["reasons"] == {"vague": 2} and told["counts"]["accepted"] == 10 and told["calls"]["judge"]["paid"] == 12
    assert adds_up(told["counts"], 6) and "judges/tool" in {prompt["name"] for prompt in told["prompts"]}


def test_a_preview_shows_tools_and_writes_nothing(evolve, tmp_path):
    with ScriptedServer(Evolver()) as server:
        argv = ("--domains", 3, "--tools", 6, "--embedding-model", "none", "--llm", server.spec)
        code, stdout, stderr = evolve("--categories", 2, *argv, "--preview", 1, "--output", tmp_path / "out")
        assert code == 0, stderr
        assert "type find_" in stdout and "writes: " in stdout and "7 kept" in stdout
        assert not (tmp_path / "out").exists()
        paid = server.log.requests
        assert evolve("--categories", 1, *argv, "--output", tmp_path / "out")[0] == 0
        assert server.log.requests == 3 * 3 + 3 * 2 == len(server.log.bodies) and paid == 5


def test_an_estimate_counts_both_stages_and_makes_no_call(evolve):
    argv = ("--categories", 4, "--domains", 5, "--tools", 20, "--llm", "gpt-x@http://127.0.0.1:9/v1")
    code, stdout, _ = evolve(*argv, "--estimate")
    # per domain: itself, entities, state, and four calls of five tools each
    assert code == 0 and "No call was made" in stdout and f"{4 * 5 * (3 + 4)}" in stdout


def test_a_limit_writes_tools_for_a_few_domains(evolve, tmp_path):
    with ScriptedServer(Evolver()) as server:
        code, _, stderr = evolve(*SMALL, "--output", tmp_path / "out", "--llm", server.spec, "--limit", 2)
    assert code == 0, stderr
    assert manifest(tmp_path / "out/stages/domains")["counts"]["accepted"] == 4
    assert manifest(tmp_path / "out")["counts"]["tasks"] == 2


def test_the_budget_is_one_for_both_stages(evolve, tmp_path):
    out = tmp_path / "out"
    with ScriptedServer(Evolver()) as server:
        argv = ("--categories", 1, "--domains", 2, "--tools", 15, "--embedding-model", "none", "--llm", server.spec)
        argv = (*argv, "--max-concurrency", 1, "--output", out)
        budget = 17_000  # enough for the first stage, not for the second
        code, _, stderr = evolve(*argv, "--max-tokens", budget)
        assert code == 3 and "stopped" in stderr and "17,000" in stderr
        spent = manifest(out / "stages/domains")["calls"]["writer"]
        assert not (out / "manifest.json").exists()
        assert spent["prompt_tokens"] + spent["completion_tokens"] < server.log.tokens <= budget
        assert evolve(*argv, "--max-tokens", 10 * budget)[0] == 0
        assert len(server.log.bodies) == server.log.requests


def test_nothing_kept_is_told_in_one_line(evolve, tmp_path):
    out = tmp_path / "out"
    with ScriptedServer(lambda body: "no JSON here") as server:
        code, _, stderr = evolve("--categories", 2, "--domains", 3, "--embedding-model", "none", "--llm", server.spec,
                                 "--output", out)  # fmt: skip
    assert code == 1 and "no domain was kept" in stderr and "Traceback" not in stderr
    assert Counter(row["error"] for row in rows(out / "stages/domains", "failed").values()) == {
        "StructuredAnswerInvalid": 6
    }
    assert Path(out, "stages/domains/report.html").exists() and not (out / "manifest.json").exists()


def test_categories_of_ones_own(evolve, tmp_path):
    mine = tmp_path / "mine.jsonl"
    lines = [
        {"name": f"field {i}", "description": "A field of work.", "examples": [f"case {i}", "other"]} for i in (1, 2, 3)
    ]
    mine.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with ScriptedServer(Evolver()) as server:
        argv = ("--domains", 2, "--tools", 3, "--embedding-model", "none", "--llm", server.spec)
        code, _, stderr = evolve(*argv, "--categories-file", mine, "--only", "Field 3", "--output", tmp_path / "out")
        assert code == 0, stderr
    domains = rows(tmp_path / "out/stages/domains", "data").values()
    assert {row["category"] for row in domains} == {"field 3"}
    assert domains and {parent for row in domains for parent in row["parents"]} == {"field-3/case-3", "field-3/other"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--only", "alchemy", "--output", "x"), "--only alchemy: no such category"),
        (("--categories", "999", "--output", "x"), "there are only"),
        (("--categories-file", "/nowhere.jsonl", "--output", "x"), "--categories-file /nowhere.jsonl"),
        (("--repairs", "-1"), "--repairs -1: must be at least 0"),
        (("--llm", "nonsense"), "nonsense"),
        ((), "--output DIR is required"),
        (("--judge-llm", "a@http://127.0.0.1:9/v1", "--votes", "2", "--output", "x"), "--votes 2"),
        (("--output", "/proc/none/x"), "--output /proc/none/x"),
    ],
)
def test_wrong_flags_are_one_line(evolve, argv, said):
    given = argv if "--llm" in argv else ("--llm", "m@http://127.0.0.1:9/v1", *argv)
    code, _, stderr = evolve(*given)
    assert code == 2 and said in stderr and "Traceback" not in stderr


def test_a_finished_run_of_other_numbers_is_not_touched(evolve, tmp_path):
    out = tmp_path / "out"
    with ScriptedServer(Evolver()) as server:
        argv = ("--categories", 1, "--tools", 3, "--embedding-model", "none", "--llm", server.spec, "--output", out)
        assert evolve(*argv, "--domains", 1)[0] == 0
        before = shards(out)
        code, _, stderr = evolve(*argv, "--domains", 2)
        assert code == 2 and "--overwrite" in stderr and shards(out) == before
        assert evolve(*argv, "--domains", 2, "--overwrite")[0] == 0 and len(rows(out, "data")) == 6
