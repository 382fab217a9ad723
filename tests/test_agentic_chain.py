"""`beam_runner.py agentic` as users give it: from tools to trajectories in one command, one server playing everybody."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tokenmill.bench.servers.agents import calling, results
from tokenmill.bench.servers.scripted import ScriptedServer, completion
from tokenmill.bench.servers.troupe import Troupe, fenced, kept_rules, text_of
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.tools import ToolSpec

from tests.outputs import manifest, rows
from tests.servers.agency import Agency, parcel_tools
from tokenmill import cli

ROOT = Path(__file__).resolve().parents[1]
_PARCEL = re.compile(r"P-\d+")


class Everybody(Agency):
    """The writers of agents and tasks, and all who play in a trajectory: ask for the weight of a parcel, look it up, tell."""

    def __call__(self, body):
        if "response_format" not in body:
            return self.agent(body)
        asked = body["response_format"]["json_schema"]["schema"]["properties"]
        for key, play in (("helped", self.user), ("error_code", self.tools), ("verdicts", self.judge)):
            if key in asked:
                return play(body)
        return self.answer(body)

    def agent(self, body):
        parcel = _PARCEL.search(body["messages"][1]["content"])[0]
        seen = results(body)
        if not seen:
            return calling([("get_parcel", {"parcel_id": parcel})])
        return completion(f"Parcel {parcel} weighs {json.loads(seen[-1])['weight_kg']} kg.")

    def user(self, body):
        asked = text_of(body)
        parcel = _PARCEL.search(fenced("goal", asked)[0])[0]
        if not fenced("assistant", asked):
            return json.dumps({"helped": True, "message": f"How heavy is {parcel}?", "status": "go_on"})
        return json.dumps({"helped": True, "message": "", "status": "done"})

    def tools(self, body):
        asked = text_of(body)
        call, held = json.loads(fenced("call", asked)[-1]), json.loads(fenced("state", asked)[-1])
        return Troupe.simulated(held["Parcel"][call["arguments"]["parcel_id"]], [])

    def judge(self, body):
        return json.dumps({"verdicts": [], "rules": kept_rules(body), "claims": []})


@pytest.fixture
def tools(tmp_path):
    rows = [tool for name in ("parcels", "letters") for tool in parcel_tools(("logistics", name))]
    write_parquet(to_table(rows, ToolSpec), str(tmp_path / "tools.parquet"))
    return tmp_path / "tools.parquet"


def chain(tools, out, server, *more):
    argv = ("agentic", "--tools", tools, "--output", out, "--llm", server.spec, "--agents", 2, "--tasks-per-agent", 2)
    shape = (
        "--levels",
        "one_call=1",
        "--embedding-model",
        "none",
        "--within",
        1,
        "--toolset-size",
        "5-5",
        "--distracted",
        0,
    )
    return (*argv, *shape, "--votes", 1, "--outcomes", "success=1", *more)


def test_tools_become_trajectories_and_nothing_finished_is_repeated(tools, tmp_path, run):
    out = tmp_path / "out[1]"  # no pattern: a folder's name
    with ScriptedServer(Everybody()) as server:
        argv = chain(tools, out, server, "--samples", 2)
        code, stdout, err = run(*argv)
        assert code == 0, err
        assert [line.split()[2] for line in stdout.splitlines() if line.startswith("──")] == [
            *("agents:", "tasks:", "trajectories:")
        ]
        assert max(server.log.bodies.values()) == 1
        answered = server.log.answered
        stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
        assert run(*argv)[0] == 0 and server.log.answered == answered
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == stamps
        alone = ("agentic", "trajectories", "--tasks", out / "stages" / "tasks", "--llm", server.spec, "--samples", 2)
        alone = (*alone, "--votes", 1, "--outcomes", "success=1", "--output", tmp_path / "alone")
        assert run(*alone)[0] == 0 and server.log.answered == answered, "a stage run alone asks the same"
    assert manifest(out / "stages" / "agents")["counts"]["accepted"] == 2
    assert manifest(out / "stages" / "tasks")["counts"]["accepted"] == 4
    counts = manifest(out)["counts"]
    assert counts["tasks"] == 8 and counts["accepted"] == 8, manifest(out)["reasons"]
    assert [(stage["name"], stage["counts"]["accepted"]) for stage in manifest(out)["stages"]] == [
        *(("agents", 2), ("tasks", 4))
    ]
    assert (
        "Stages of the chain" in (out / "report.html").read_text()
        and "| `tasks` | 4 | 4 |" in (out / "README.md").read_text()
    )
    spent = [manifest(folder)["spent"] for folder in (out / "stages" / "agents", out / "stages" / "tasks", out)]
    assert all(stage["shared"] for stage in spent) and not manifest(tmp_path / "alone")["spent"]["shared"]
    assert 0 < spent[0]["tokens"] < spent[1]["tokens"] < spent[2]["tokens"] == server.log.tokens
    assert (
        f"{server.log.tokens:,} tokens were billed for this stage and those before it."
        in (out / "README.md").read_text()
    )
    assert rows(out) == rows(tmp_path / "alone")
    row = rows(out)[0]
    assert row["domains"] and row["level"] == "one_call" and "weighs" in row["messages"][-1]["content"]


def test_a_killed_chain_of_several_processes_goes_on_where_it_was(tools, tmp_path):
    with ScriptedServer(Everybody(), latency=0.03) as server:
        calm = [
            *map(str, chain(tools, tmp_path / "calm", server, "--samples", 2)),
            "--cache",
            str(tmp_path / "calm.sqlite"),
        ]
        assert cli.main(calm) == 0
        undisturbed = server.log.answered
        server.log.bodies.clear()
        server.log.answered = 0
        argv = [sys.executable, str(ROOT / "beam_runner.py"), *map(str, chain(tools, tmp_path / "out", server))]
        argv += ["--samples", "2", "--cache", str(tmp_path / "killed.sqlite"), "--max-concurrency", "2"]
        argv += ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while server.log.answered < 0.7 * undisturbed and time.monotonic() < end:
            time.sleep(0.002)
        family = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        _, left = psutil.wait_procs(family, timeout=60)
        assert not left and not (tmp_path / "out" / "manifest.json").exists()
        subprocess.run(argv, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
        assert len(server.log.bodies) == undisturbed
        # Nothing that the kill interrupted; but two processes that ask for the same thing at the same moment both pay.
        assert sum(count - 1 for count in server.log.bodies.values()) <= 2 * 2 * 2
    for path in (tmp_path / "calm").rglob("train-*.parquet"):
        assert path.read_bytes() == (tmp_path / "out" / path.relative_to(tmp_path / "calm")).read_bytes()


def test_one_budget_holds_for_all_stages(tools, tmp_path, run):
    with ScriptedServer(Everybody()) as server:
        argv = chain(tools, tmp_path / "out", server, "--max-concurrency", 1)
        tokens, code = 6_000, 3
        stopped = 0
        while code == 3 and stopped < 30:
            tokens += 3_000
            code, _, err = run(*argv, "--max-tokens", tokens)
            stopped += code == 3
            assert server.log.tokens <= tokens
        assert code == 0 and stopped >= 2, err
        assert max(server.log.bodies.values()) == 1


def test_a_stage_that_keeps_nothing_ends_the_chain_with_one_line_and_a_report(tools, tmp_path, run):
    def same_call(kind, value, body):
        return {**value, "rubric": []} if kind == "task" else value

    with ScriptedServer(Everybody(change=same_call)) as server:
        code, stdout, err = run(*chain(tools, tmp_path / "out", server))
    assert code == 1 and "── 3/3" not in stdout
    (line,) = [line for line in err.splitlines() if "kept nothing" in line]
    assert "stage tasks" in line and "4 " in line and str(tmp_path / "out" / "report.html") in line
    assert not (tmp_path / "out" / "manifest.json").exists()
    counts = manifest(tmp_path / "out" / "stages" / "tasks")["counts"]
    assert (counts["accepted"], counts["rejected"], counts["failed"]) == (0, 0, 4)
    report = (tmp_path / "out" / "report.html").read_text()
    table = re.search(r"Stages of the chain</h2>(.*?)</section>", report, re.DOTALL)[1]
    assert re.findall(r"<tr><td>([\w ]+)</td><td>(\d+)</td><td>(\d+)</td>", table) == [
        *(("agents", "2", "2"), ("agentic tasks", "4", "0"))
    ]


def test_a_stage_that_honestly_refused_everything_is_a_result(tools, tmp_path, run):
    def terse(kind, value, body):
        return {**value, "system": "You serve."} if kind == "agent" else value

    with ScriptedServer(Everybody(change=terse)) as server:
        for again in range(2):
            code, stdout, err = run(*chain(tools, tmp_path / "out", server))
            assert code == 0 and "── 2/3" not in stdout and "stage agents" in err, err
            assert ("finished already" in err) == bool(again)
    counts = manifest(tmp_path / "out" / "stages" / "agents")["counts"]
    assert (counts["accepted"], counts["rejected"], counts["failed"]) == (0, 2, 0)
    assert (tmp_path / "out" / "report.html").exists()


def test_an_output_of_someone_else_is_refused_before_the_first_stage(tools, tmp_path, run):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("mine")
    with ScriptedServer(Everybody()) as server:
        code, _, err = run(*chain(tools, tmp_path / "out", server))
        assert code == 2 and "README.md is there" in err and server.log.requests == 0


def test_estimate_and_preview_of_the_chain_write_nothing(tools, tmp_path, run):
    out = tmp_path / "out"
    with ScriptedServer(Everybody()) as server:
        code, stdout, err = run(*chain(tools, out, server, "--estimate"))
        assert code == 0 and server.log.requests == 0, err
        assert all(word in stdout for word in ("agents", "tasks", "trajectories", "judge", "at most"))
        code, stdout, err = run(*chain(tools, out, server, "--preview", 1))
        assert code == 0 and "functions.get_parcel:0" in stdout and "Nothing was written" in stdout, err
    assert not out.exists()


def test_what_is_missing_or_wrong_is_one_line_before_any_call(tools, tmp_path, run):
    with ScriptedServer(Everybody()) as server:
        for argv, told in (
            (("agentic", "--output", tmp_path / "o"), "required: --tools"),
            (("agentic", "--tools", tools), "--output DIR is required"),
            (chain(tools, tmp_path / "o", server, "--votes", 2), "--votes 2"),
            (chain(tools, tmp_path / "o", server, "--levels", "hard=1"), "--levels hard=1"),
            (chain(tmp_path / "none", tmp_path / "o", server), "no such file"),
            (chain(tools, "nosuch://x/o", server), "--output nosuch://x/o: cannot be read"),
            (("agentic", "agents", "--tools", tools, "--output", "nosuch://x/o"), "nosuch://x/o: cannot be read"),
        ):
            code, _, err = run(*argv)
            assert code == 2 and told in err and len(err.strip().splitlines()) == 1, (argv, err)
        assert server.log.requests == 0
