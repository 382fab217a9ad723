"""`beam_runner.py agentic trajectories` as users give it: flags, files, figures, exit codes, workers, kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import datasets
import psutil
import pytest
from tokenmill.bench.servers.scripted import ScriptedServer, completion
from tokenmill.bench.servers.troupe import MODELS, Troupe, engine, task
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.engines import Engine

from tests.outputs import manifest, rows
from tests.tools_repo.sandboxed import needs_sandbox

ROOT = Path(__file__).resolve().parents[1]


def play(**faults):
    return ScriptedServer(Troupe(faults), models=MODELS, latency=0.005)


def roles(server):
    flags = zip(("--llm", "--user-llm", "--tool-llm", "--judge-llm"), MODELS, strict=True)
    return [word for flag, model in flags for word in (flag, f"{model}@{server.url}")]


@pytest.fixture
def tasks(tmp_path):
    rows = [task(n, "one_call" if n % 2 else "dependent_calls") for n in range(1, 7)]
    write_parquet(to_table(rows, AgentTask), str(tmp_path / "tasks.parquet"))
    return tmp_path / "tasks.parquet"


def trajectories(tasks, out, server, *more):
    return ("agentic", "trajectories", "--tasks", tasks, "--output", out, *roles(server), "--votes", 1, *more)


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(Path(out).glob("*/*.parquet"))}


def idle_on_evens(body):
    """An agent that does nothing on even orders."""
    number = int(body["messages"][1]["content"].split("ORD-")[1].split()[0])
    return completion(f"Your order ORD-{number} is cancelled.") if number % 2 == 0 else None


def test_trajectories_figures_card_and_report(tasks, tmp_path, run):
    out = tmp_path / "out"
    with play(agent=idle_on_evens) as server:
        argv = trajectories(tasks, out, server, "--samples", 2, "--outcomes", "success=1")
        code, _, err = run(*argv)
        assert code == 0, err
        assert max(server.log.bodies.values()) == 1
        answered = server.log.answered
        assert run(*argv)[0] == 0 and server.log.answered == answered, "a finished run is left alone"
    told = manifest(out)
    assert told["counts"] == {"read": 6, "unreadable": 0, "tasks": 12, "accepted": 6, "rejected": 6, "failed": 0}
    assert {row["task_id"] for row in rows(out)} == {"shop/1", "shop/3", "shop/5"}
    figures = told["trajectories"]
    assert figures["levels"]["one_call"]["pass_at"] == {"1": 1.0, "2": 1.0}
    assert figures["levels"]["dependent_calls"]["pass_hat"] == {"1": 0.0, "2": 0.0}
    assert figures["all"]["pass_rate"] == 0.5 and figures["endings"] == {"user_done": 12}
    calls = sum(row["model_calls"] for kind in ("data", "rejected") for row in rows(out, kind))
    assert figures["model_calls"] == calls and figures["model_calls_per_kept"] == calls / 6
    card, report = (out / "README.md").read_text(), (out / "report.html").read_text()
    assert "pass@2" in card and "pass^2" in card and "| one call | 3 | 6 | 6 |" in card
    assert "pass@2" in report and "functions.cancel_order:2" in report and "Tasks and tries" in report
    loaded = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "hf"))["train"]
    assert loaded[0]["tools"][0]["function"]["name"] == "get_order"
    assert "dtype: json" in card.split("---")[1], "who loads it from the Hub has objects, too"
    asked = next(message for message in loaded[0]["messages"] if message["tool_calls"])
    assert asked["tool_calls"][0]["function"]["arguments"] == {"order_id": "ORD-1"} and asked["weight"] == 1


def test_workers_do_not_change_a_byte(tasks, tmp_path, run):
    with play(agent=idle_on_evens) as server:
        for name, flags in (
            ("one", ("--max-concurrency", 1)),
            ("processes", ("--direct_running_mode=multi_processing", "--direct_num_workers=2")),
        ):
            cache = ("--cache", tmp_path / f"{name}.sqlite", "--samples", 2)
            assert run(*trajectories(tasks, tmp_path / name, server, *flags, *cache))[0] == 0
    assert shards(tmp_path / "one") == shards(tmp_path / "processes")


def test_personas_of_ones_own_play_the_user_and_are_on_record(tasks, tmp_path, run):
    (tmp_path / "mine").mkdir()
    meta = "---\npatience: 4\nknowledge: Knows ships and harbours.\npreferences: Wants it short.\n---\n"
    (tmp_path / "mine" / "sailor.md").write_text(f"{meta}Swears like a sailor.\n")
    (tmp_path / "bare.md").write_text("Swears like a sailor.\n")
    with play() as server:
        code, _, errors = run(*trajectories(tasks, tmp_path / "bad", server, "--personas", f"{tmp_path}/bare.md"))
        assert code == 2 and "needs `patience`" in errors and server.log.requests == 0
        code, _, errors = run(*trajectories(tasks, tmp_path / "bad", server, "--personas", "nobody"))
        assert code == 2 and "shipped are anxious_newcomer" in errors
        flags = ("--personas", f"{tmp_path}/mine,terse_operator", "--limit", 4, "--samples", 2)
        code, _, errors = run(*trajectories(tasks, tmp_path / "out", server, *flags))
        assert code == 0, errors
        said = [body.decode() for body in server.log.bodies]
        (tmp_path / "mine" / "sailor.md").write_text(f"{meta}Whistles.\n")
        assert "other settings" in run(*trajectories(tasks, tmp_path / "out", server, *flags))[2]
    made = rows(tmp_path / "out")
    names = {row["persona"]["name"].partition("-")[0] for row in made}
    assert names == {"sailor", "terse_operator"}
    assert any("Swears like a sailor." in body for body in said)
    told = {prompt["name"].partition("-")[0] for prompt in manifest(tmp_path / "out")["prompts"]}
    assert {"own/sailor", "personas/terse_operator"} <= told and "personas/chatty_retiree" not in told
    assert all(any(name.startswith(("own/sailor", "personas/terse")) for name in row["prompts"]) for row in made)


def test_a_kill_in_the_middle_of_trajectories_resumes_from_their_calls(tasks, tmp_path):
    with play() as server:
        server.latency = 0.08
        argv = [sys.executable, str(ROOT / "beam_runner.py")]
        argv += [
            str(a) for a in trajectories(tasks, tmp_path / "out", server, "--samples", 3, "--outcomes", "success=1")
        ]
        argv += ["--max-concurrency", "4"]
        argv += ["--cache", str(tmp_path / "a.sqlite")]
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while server.log.answered < 40 and time.monotonic() < end:
            time.sleep(0.002)
        family = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        psutil.wait_procs(family, timeout=60)
        assert server.log.answered >= 40 and not (tmp_path / "out" / "manifest.json").exists()
        subprocess.run(argv, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
        again = sum(count - 1 for count in server.log.bodies.values())
        assert again <= 2 * 4, "at most what was on the wire or being written is asked for again"
        answered = server.log.answered
        calm = [*argv, "--cache", str(tmp_path / "b.sqlite"), "--output", str(tmp_path / "calm")]
        subprocess.run(calm, check=True, cwd=tmp_path, stdout=subprocess.DEVNULL)
        assert server.log.answered - answered + again == answered
    assert shards(tmp_path / "out") == shards(tmp_path / "calm") and len(rows(tmp_path / "out")) == 18


@needs_sandbox
def test_tools_written_as_code_run_without_a_model(tasks, tmp_path, run):
    write_parquet(to_table([engine()], Engine), str(tmp_path / "engines.parquet"))
    flags = ("--engine", "executable", "--engines", tmp_path / "engines.parquet", "--outcomes", "success=1")
    with play(tools=lambda body: "nobody may ask this") as server:
        argv = trajectories(tasks, tmp_path / "out", server, *flags)
        code, _, err = run(*argv)
        assert code == 0, err
        for wrong in (flags[:2], flags[2:4]):
            code, _, err = run(*trajectories(tasks, tmp_path / "wrong", server, *wrong))
            assert code == 2 and "go together" in err
    kept = rows(tmp_path / "out")
    assert (
        len(kept) == 6 and {row["engine"] for row in kept} == {"executable"} and {r["tool_model"] for r in kept} == {""}
    )
    assert {call["engine"] for row in kept for call in row["calls"]} == {"executable"}
    assert all(row["model_calls"] == 6 for row in kept) and manifest(tmp_path / "out")["calls"]["tools"]["paid"] == 0


def test_a_broken_simulator_fails_rows_and_the_sum_still_holds(tasks, tmp_path, run):
    def out_of_order(body):
        return "no JSON" if "ORD-3" in json.dumps(body) else None

    with play(tools=out_of_order) as server:
        code, stdout, _ = run(*trajectories(tasks, tmp_path / "out", server, "--outcomes", "success=1"))
    counts = manifest(tmp_path / "out")["counts"]
    assert code == 0 and (counts["accepted"], counts["failed"]) == (5, 1) and "SimulationFailed" in stdout
    assert rows(tmp_path / "out", "failed")[0]["id"] == "shop/3/0"


def test_when_nothing_passes_the_report_says_so(tasks, tmp_path, run):
    with play(agent=lambda body: completion("I would rather not.")) as server:
        code, stdout, _ = run(*trajectories(tasks, tmp_path / "out", server))
    assert code == 0 and "0 kept, 6 refused" in stdout, "all were honestly refused"
    told = manifest(tmp_path / "out")["trajectories"]
    assert told["all"]["pass_rate"] == 0 and told["tokens_per_kept"] is None
    report = (tmp_path / "out" / "report.html").read_text()
    assert "None of 6" in report and "none was kept" in report
    assert "No row was accepted" in (tmp_path / "out" / "README.md").read_text()


def test_preview_estimate_and_wrong_flags(tasks, tmp_path, run):
    out = tmp_path / "out"
    with play() as server:
        code, stdout, _ = run(*trajectories(tasks, out, server, "--estimate", "--samples", 4))
        assert code == 0 and "6 tasks" in stdout and server.log.requests == 0
        code, stdout, _ = run(*trajectories(tasks, out, server, "--preview", 1))
        assert code == 0 and "functions.cancel_order" in stdout and "1 kept" in stdout and not out.exists()
        for flags, told in (
            (("--votes", 2), "--votes 2"),
            (("--outcomes", "timeout=2"), "--outcomes timeout=2"),
            (("--outcomes", "flood=0.1"), "flood"),
        ):
            before = server.log.requests
            code, _, err = run(*trajectories(tasks, out, server, *flags))
            assert code == 2 and told in err and len(err.strip().splitlines()) == 1 and server.log.requests == before
    code, _, err = run("agentic", "trajectories", "--output", out)
    assert code == 2 and "required: --tasks" in err


def test_models_without_tool_calling_are_driven_by_json(tasks, tmp_path, run):
    def no_tools(body):
        assert "tools" not in body

    with play(agent=no_tools) as server:
        flags = ("--agent-protocol", "json", "--outcomes", "success=1", "--limit", 2)
        code, _, err = run(*trajectories(tasks, tmp_path / "out", server, *flags))
    assert code == 0, err
    kept = rows(tmp_path / "out")
    assert len(kept) == 2 and {call["id"] for call in kept[0]["calls"]} == {
        "functions.get_order:0",
        "functions.cancel_order:1",
    }
    assert (
        "trajectory/json_agent@1" in kept[0]["prompts"] and manifest(tmp_path / "out")["config"]["protocol"] == "json"
    )


def test_a_budget_stops_the_run_and_the_same_command_goes_on(tasks, tmp_path, run):
    with play() as server:
        argv = trajectories(tasks, tmp_path / "out", server, "--max-concurrency", 2)
        code, _, err = run(*argv, "--max-tokens", 6_000)
        assert code == 3 and "stopped" in err and server.log.answered
        assert run(*argv)[0] == 0 and max(server.log.bodies.values()) == 1


def test_pairs_are_a_config_of_their_own_and_what_is_kept_ends_a_task(tasks, tmp_path, run):
    def idle_at_first(body):
        """Does nothing in about half of the tries."""
        return completion("I cannot see your order ORD-0.") if body["seed"] % 2 else None

    out = tmp_path / "out"
    with play(agent=idle_at_first, user=lambda body: None) as server:
        flags = ("--samples", 6, "--keep-per-task", 2, "--pairs", "--outcomes", "success=1")
        code, _, err = run(*trajectories(tasks, out, server, *flags))
        assert code == 0, err
        for flags, told in (
            (("--keep-per-task", 3), "only --samples 1"),
            (("--pairs",), "--samples 2"),
            (("--samples", 3, "--give-up-after", 4), "only --samples 3"),
        ):
            code, _, err = run(*trajectories(tasks, tmp_path / "wrong", server, *flags))
            assert code == 2 and told in err
    kept, refused, pairs = (rows(out, kind) for kind in ("data", "rejected", "pairs"))
    by_task = Counter(row["task_id"] for row in kept)
    assert by_task and max(by_task.values()) == 2 and len(kept) + len(refused) < 36
    assert pairs and all(pair["prompt"][-1]["role"] == "user" for pair in pairs)
    assert {pair["chosen_id"] for pair in pairs} <= {row["id"] for row in kept}
    loaded = datasets.load_dataset(str(out), "pairs", cache_dir=str(tmp_path / "hf"))["train"]
    assert loaded[0]["tools"][0]["function"]["name"] == "get_order" and len(loaded) == len(pairs)
    dry = run("publish", out, "--repo-id", "me/shop", "--dry-run")
    assert dry[0] == 0 and "rows in pairs/" in dry[1]
    told = manifest(out)
    assert told["counts"]["tasks"] == len(kept) + len(refused) and "extra" not in told["counts"]
