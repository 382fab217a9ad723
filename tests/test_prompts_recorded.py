"""Every prompt that a run loads stands in its manifest, and so in what tells a finished run from one to be repeated."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

import pytest
from tokenmill.bench.servers.evolver import Evolver
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.bench.servers.troupe import MODELS, Troupe, task
from tokenmill.pipelines.runs import manifest as manifest_module
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import AgentTask, Domain
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.tools import ToolSpec

from tests import test_agentic_chain, test_code_cli
from tests.outputs import manifest
from tests.pipelines.tools.curate import test_cli as test_tools_curate
from tests.pipelines.tools.implement import test_dag as test_implement
from tests.servers.agency import parcel_tools
from tests.servers.maths import Teacher, document, problem
from tests.tools_repo.sandboxed import needs_sandbox
from tokenmill import prompts


class Clumsy:
    """Of each kind of JSON answer, the first is none, and the second quotes what is not there; then all is as scripted."""

    def __init__(self, answer):
        self.answer, self.asked = answer, Counter()

    def __call__(self, body):
        if "response_format" not in body:
            return self.answer(body)
        kind = ",".join(body["response_format"]["json_schema"]["schema"].get("properties", ("turn",)))
        self.asked[kind] += 1
        if self.asked[kind] == 1:
            return "I would rather talk."
        answer = self.answer(body)
        return misquoting(answer) if self.asked[kind] == 2 and isinstance(answer, str) else answer


def misquoting(answer):
    value = json.loads(answer)
    nowhere = {"claim": "c", "source_quote": "quoth the raven", "rewrite_quote": "quoth the raven", "severity": "major"}
    if "unsupported" in value:
        value["unsupported"] = [nowhere]
    elif "faults" in value:
        value["faults"] = [{**nowhere, "kind": "false_step"}]
    elif "claims" in value:
        value["claims"] = [{"message": 2, "quote": "quoth the raven", "why": "w"}]
    return json.dumps(value)


@pytest.fixture
def recorded(run, monkeypatch):
    """Run a command and compare what each of its stages loaded with the manifest of that stage; gives all it loaded."""
    loaded: list[tuple[float, str]] = []
    load = prompts.load

    def recording(name):
        if sys._getframe(1).f_globals["__name__"] != manifest_module.__name__:  # which loads them only to describe them
            loaded.append((time.time(), name))
        return load(name)

    monkeypatch.setattr(prompts, "load", recording)

    def command(out, *argv, stages=()):
        loaded.clear()
        code, _, err = run(*argv, "--output", out, "--direct_running_mode=in_memory")
        assert code == 0, err
        begun = 0.0
        for folder in (*(out / "stages" / name for name in stages), out):
            ended = (folder / "manifest.json").stat().st_mtime
            seen = {name for at, name in loaded if begun <= at < ended}
            told = {prompt["name"] for prompt in manifest(folder)["prompts"]}
            assert seen and seen <= told, f"{folder}: not in the manifest: {sorted(seen - told)}"
            begun = ended
        return {name for _, name in loaded}

    return command


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_knowledge(tmp_path, recorded):
    corpus = lines(tmp_path / "a.jsonl", documents(2, 6))
    with ScriptedServer(Clumsy(Writer())) as server:
        seen = recorded(tmp_path / "out", "knowledge", "--input", corpus, "--llm", server.spec, "--no-similarity")
    assert {"judges/faithfulness", "judges/faithfulness_requote", "structured/repair"} <= seen


def test_math(tmp_path, recorded):
    wrong = problem(7, worked=False)
    wrong["answer"] = str(int(wrong["answer"]) + 40)
    rows = [problem(1), problem(2, german=True), document(3, 5), wrong]
    dispute = {"working": "w", "answer": "1", "stated_is_right": True, "fault": "", "quote": ""}
    corpus = lines(tmp_path / "a.jsonl", rows)
    with ScriptedServer(Clumsy(Teacher(dispute=lambda body: dispute))) as server:
        seen = recorded(tmp_path / "out", "math", "--input", corpus, "--llm", server.spec)
    requotes = {"math/judge_requote", "judges/faithfulness_requote", "structured/repair"}
    assert {"math/note", "math/passage", "math/translate", "math/dispute"} | requotes <= seen


def test_the_stages_of_trajectories(tmp_path, recorded):
    write_parquet(to_table(parcel_tools(), ToolSpec), str(tmp_path / "tools.parquet"))
    with ScriptedServer(Clumsy(test_agentic_chain.Everybody())) as server:
        llm = ("--llm", server.spec)
        flags = ("--agents", 1, "--embedding-model", "none", "--within", 1, "--toolset-size", "5-5", "--distracted", 0)
        seen = recorded(tmp_path / "a", "agentic", "agents", "--tools", tmp_path / "tools.parquet", *flags, *llm)
        assert {"agentic/agent", "world/entities", "structured/repair"} <= seen
        flags = ("--tasks-per-agent", 2, "--levels", "one_call=1")
        seen = recorded(tmp_path / "t", "agentic", "tasks", "--agents", tmp_path / "a", *flags, *llm)
        assert {"agentic/task", "structured/repair"} <= seen
        flags = ("--samples", 1, "--votes", 1, "--outcomes", "success=1")
        seen = recorded(tmp_path / "j", "agentic", "trajectories", "--tasks", tmp_path / "t", *flags, *llm)
        assert {"agentic/user", "world/simulate", "judges/rubric", "judges/rubric_requote", "structured/repair"} <= seen


def test_trajectories_by_json(tmp_path, recorded):
    write_parquet(to_table([task(1, "one_call"), task(2, "one_call")], AgentTask), str(tmp_path / "tasks.parquet"))
    with ScriptedServer(Clumsy(Troupe({})), models=MODELS) as server:
        names = zip(("--llm", "--user-llm", "--tool-llm", "--judge-llm"), MODELS, strict=True)
        roles = [word for flag, model in names for word in (flag, f"{model}@{server.url}")]
        flags = ("--tasks", tmp_path / "tasks.parquet", "--agent-protocol", "json", "--votes", 1)
        seen = recorded(tmp_path / "out", "agentic", "trajectories", *flags, "--outcomes", "success=1", *roles)
    assert {"trajectory/json_agent", "trajectory/results", "structured/repair"} <= seen


@needs_sandbox
def test_code_by_json(tmp_path, recorded):
    tasks = lines(tmp_path / "tasks.jsonl", [test_code_cli.task(1)])

    def coder(body):
        if body["messages"][-1]["content"].startswith("Your last answer"):
            return json.dumps({"reply": "The function now adds 1."})
        return "Certainly!"

    with ScriptedServer(coder) as server:
        flags = ("--agent-protocol", "json", "--llm", server.spec)
        seen = recorded(tmp_path / "out", "agentic", "code", "--input", tasks, *flags)
    assert {"trajectory/code_agent", "trajectory/json_agent", "structured/repair"} <= seen


def test_evolved_tools(tmp_path, recorded):
    def answer(body):
        problems = "problems" in body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps({"problems": []}) if problems else evolver(body)

    evolver = Evolver()
    flags = ("--categories", 1, "--domains", 2, "--tools", 3, "--embedding-model", "none")
    with ScriptedServer(Clumsy(answer)) as server:
        llm = ("--llm", server.spec, "--judge-llm", server.spec)
        seen = recorded(tmp_path / "out", "tools", "evolve", *flags, *llm, stages=("domains",))
    assert {"evolve/seed", "world/entities", "evolve/tools_again", "judges/tool", "structured/repair"} <= seen


def test_curated_tools(tmp_path, recorded):
    tools = [spec for spec in parcel_tools() if "parcel" in spec.name]
    write_parquet(to_table(tools, ToolSpec), str(tmp_path / "tools.parquet"))
    flags = ("--input", tmp_path / "tools.parquet", "--embedding-model", "none")
    with ScriptedServer(Clumsy(test_tools_curate.judge)) as server:
        seen = recorded(tmp_path / "out", "tools", "curate", *flags, "--judge-llm", server.spec)
    assert seen >= {"judges/tool", "structured/repair"}


@needs_sandbox
def test_tools_written_as_code(tmp_path, recorded):
    write_parquet(to_table(test_implement.DOMAINS[:2], Domain), str(tmp_path / "domains.parquet"))
    write_parquet(to_table(test_implement.SPECS, ToolSpec), str(tmp_path / "tools.parquet"))
    flags = ("--domains", tmp_path / "domains.parquet", "--tools", tmp_path / "tools.parquet")
    with ScriptedServer(test_implement.writes) as server:
        seen = recorded(tmp_path / "out", "tools", "implement", *flags, "--llm", server.spec)
    assert {"world/engine", "world/engine_repair"} <= seen
