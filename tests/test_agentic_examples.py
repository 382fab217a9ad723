"""The examples of `examples/agentic`: accepted by the checks of the stages that would have written them, and run for real."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from tokenmill.bench.servers.agents import calling
from tokenmill.bench.servers.scripted import ScriptedServer, completion
from tokenmill.bench.servers.troupe import fenced, kept_rules, text_of
from tokenmill.judges.rubric.criteria import AnswerSpec, parse
from tokenmill.judges.rubric.grade import by_code
from tokenmill.pipelines.agentic.agents.dag import AGENT, system_prompt
from tokenmill.pipelines.agentic.trajectories.executable_worlds import ExecutableWorlds, find_engines
from tokenmill.pipelines.agentic.trajectories.worlds import SimulatedWorlds
from tokenmill.pipelines.tools.implement.dag import ImplementTools
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.rollout import Accepted
from tokenmill.schemas.agentic import DECLINE, LEVELS, RECOVERY, Agent, AgentTask, Domain, ReferenceCall
from tokenmill.schemas.engines import Engine, EngineTask
from tokenmill.schemas.tools import ToolSpec, dump
from tokenmill.tools_repo.agents.check import agent_faults
from tokenmill.tools_repo.agents.likeness import AgentLikeness
from tokenmill.tools_repo.agents.toolsets import Sampling, draw_toolsets
from tokenmill.tools_repo.tasks.check import TaskCheck
from tokenmill.tools_repo.tasks.form import Draft
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel
from tokenmill.tools_repo.world.executable import by_tool, functions_for
from tokenmill.tools_repo.world.outcomes import CERTAIN, RECOVERABLE
from tokenmill.tools_repo.world.patch import diff
from tokenmill.tools_repo.world.stateful import clock

from tests.fake_ask import FakeAsk
from tests.outputs import rows as kept
from tests.tools_repo.agentic_rows import reference_played
from tests.tools_repo.sandboxed import needs_sandbox
from tokenmill import prompts

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "agentic"
NOWHERE = "m@http://127.0.0.1:9/v1"
VIOLATIONS = {
    "library-desk/6": ("check_out_copy", {"copy_id": "C-3007", "member_id": "M-1043"}),
    "bicycle-workshop/6": ("cancel_repair_job", {"job_id": "J-601"}),
}
"""What a careless agent would do in the tasks to be declined."""


def rows(name, row_type):
    parser = RecordParser(row_type)
    lines = (FOLDER / f"{name}.jsonl").read_bytes().splitlines()
    return [parser(orjson.loads(line), name, number) for number, line in enumerate(lines)]


TOOLS, DOMAINS, ENGINES = rows("tools", ToolSpec), rows("domains", Domain), rows("engines", Engine)
AGENTS, TASKS = rows("agents", Agent), rows("tasks", AgentTask)
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.id}-{task.level}")


def worlds():
    pieces, _ = find_engines([str(FOLDER / "engines.jsonl")])
    return ExecutableWorlds(pieces, CERTAIN)


async def nobody(*_, **__):
    raise AssertionError("executable tools ask no model")


def played(task, calls):
    """The calls as an executable world runs them at the start of the task, and the state at the end."""

    async def go():
        world = worlds()(task, nobody, 0, task.id, 0)
        try:
            done = [await world.call(tool, arguments, number) for number, (tool, arguments) in enumerate(calls)]
            return done, world.state
        finally:
            await world.close()

    done, state = asyncio.run(go())
    made = [
        ReferenceCall(tool=tool, arguments=arguments, result=result.content, patch=result.patch)
        for (tool, arguments), result in zip(calls, done, strict=True)
    ]
    return done, made, state


# What the files hold


def test_tools_are_kept_by_curation_as_they_are(tmp_path, run):
    code, _, err = run("tools", "curate", "--input", FOLDER / "tools.jsonl", "--output", tmp_path / "out")
    assert code == 0, err
    assert {row["id"]: row["name"] for row in kept(tmp_path / "out")} == {tool.id: tool.name for tool in TOOLS}
    assert kept(tmp_path / "out", "rejected") == [] and len(TOOLS) == 18


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_a_domain_has_a_world_that_its_tools_speak_of(domain):
    model = EntityModel.parse(domain.entities)
    state, tools = orjson.loads(domain.state), [tool for tool in TOOLS if tool.domain == domain.path]
    assert model.check(state) == [] and state.keys() == model.kinds.keys()
    assert 7 <= len(tools) <= 9 and Checks(tools, model)
    assert {kind for tool in tools for kind in tool.semantics.reads + tool.semantics.writes} == model.kinds.keys()
    for tool in tools:
        assert tool.returns and tool.semantics.errors and tool.id == f"synthetic/{'/'.join(domain.path)}/{tool.name}"


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.id)
def test_an_agent_passes_the_checks_of_its_stage(agent):
    rules = system_prompt("", agent.policy, clock(agent.state))
    assert agent.system.endswith(rules)
    written, world = agent.system.removesuffix(rules), f"{agent.entities}\n{agent.state}"
    brief = prompts.load(AGENT).text
    assert list(agent_faults(agent.role, written, agent.policy, agent.tools, world=world, brief=brief)) == []
    domain = next(domain for domain in DOMAINS if "/".join(domain.path) in agent.domains)
    assert (agent.entities, agent.state) == (domain.entities, domain.state)
    assert sorted(agent.tools, key=lambda t: t.id) == sorted(
        (tool for tool in TOOLS if tool.domain == domain.path), key=lambda t: t.id
    )


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.id)
def test_the_world_has_the_time_that_the_agent_was_told(agent):
    """Whatever a task changes in the data at the start: the task was written for that time, too."""
    task = next(task for task in TASKS if task.agent.id == agent.id)
    later = task.state.replace('"2026-', '"2044-')
    world = SimulatedWorlds()(replace(task, state=later), None, 0)
    assert f"The current time is {world.now}." in agent.system
    assert clock(orjson.loads(later))[:4] == "2044" and world.now[:4] == "2026"


def test_the_agents_are_two():
    likeness = AgentLikeness()
    first, second = asyncio.run(likeness.fingerprints(AGENTS))
    assert likeness.score(first, second) == 0


def test_tool_sets_drawn_from_the_domains_keep_their_world_and_their_code():
    engines = by_tool(ENGINES)
    for toolset in draw_toolsets(TOOLS, 12, Sampling(), domains=DOMAINS):
        assert toolset.entities, toolset.id
        code = functions_for(toolset.tools, EntityModel.parse(toolset.entities), engines)
        assert code.keys() == {tool.name for tool in toolset.tools}


# Code


@needs_sandbox
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.id)
def test_the_code_passes_the_checks_of_its_stage(engine):
    number, domain = next((n, domain) for n, domain in enumerate(DOMAINS) if domain.id == engine.id)
    tools = [tool for tool in TOOLS if tool.domain == domain.path]

    def answer(body):
        asked = text_of(body)
        module = next(m for m in engine.modules if all(f"def {f}(state, args, now)" in asked for f in m.functions))
        return f"```python\n{module.code}```\n\n```python\n{module.tests}```\n"

    given = EngineTask(
        id=domain.id, number=number, title=domain.name, description=domain.description, entities=domain.entities,
        state=domain.state, tools=tools,
    )  # fmt: skip
    done = asyncio.run(ImplementTools("m", tries=1)(given, FakeAsk(answer)))
    assert isinstance(done, Accepted) and done.row.missing == []
    assert done.row.modules == engine.modules and done.row.entities == engine.entities
    assert sorted(id for module in engine.modules for id in module.tools) == sorted(tool.id for tool in tools)


# Tasks


def test_every_level_has_a_task_of_each_agent():
    for agent in AGENTS:
        mine = [task for task in TASKS if task.agent.id == agent.id]
        assert {task.level for task in mine} == set(LEVELS) and all(task.agent == agent for task in mine)
    assert len({task.id for task in TASKS}) == len(TASKS) == 14


def draft(task, violation=()):
    """The task as its writer gave it, whose title is no column of the row."""
    changes = diff(orjson.loads(task.agent.state), orjson.loads(task.state))
    return Draft(
        task.level, task.id, task.situation, task.goal, task.opening, task.facts, dump(changes), task.solution,
        task.reply, task.rubric, list(violation),
    )  # fmt: skip


@needs_sandbox
@each_task
def test_a_task_passes_the_checks_of_its_stage(task):
    violation = ()
    if task.level == DECLINE:
        tool, arguments = VIOLATIONS[task.id]
        (done,), violation, _ = played(task, [(tool, dump(arguments))])
        assert not done.error, "the world lets it happen: it is the policy that forbids it"
    siblings = [draft(other) for other in TASKS if other.agent.id == task.agent.id and other.id != task.id]
    assert TaskCheck(draft(task, violation), task.agent, siblings, task.threshold)() == []


@needs_sandbox
@each_task
def test_the_reference_runs_in_the_executable_world_and_meets_the_rubric(task):
    done, made, state = played(task, [(call.tool, call.arguments) for call in task.solution])
    assert made == task.solution
    assert [result.engine for result in done if not result.error] == ["executable"] * sum(not r.error for r in done)
    assert [result.error in RECOVERABLE for result in done] == [
        task.level == RECOVERY and number == 0 for number in range(len(done))
    ]
    evidence = reference_played(task)
    assert evidence.state_after == state
    judged = {c.id for c in task.rubric if isinstance(spec := parse(c), AnswerSpec) and spec.judged}
    verdicts = by_code(task, evidence)
    assert {name for name, verdict in verdicts.items() if verdict is None} == judged
    missed = {c.id: v.detail for c in task.rubric if (v := verdicts[c.id]) is not None and not v.passed}
    assert missed == {}
    assert bool(judged) == (task.level == DECLINE)


# Commands


class Reference:
    """Plays every task as its reference does: a server for all roles."""

    def __init__(self, tasks):
        self.by_opening = {self.first(task.opening, self.listed(task, True)): task for task in tasks}
        assert len(self.by_opening) == len(tasks)

    @staticmethod
    def listed(task, volunteered):
        return [f"{fact.name}: {fact.value}" for fact in task.facts if fact.volunteered == volunteered]

    @staticmethod
    def first(opening, told):
        return f"{opening} {'; '.join(told)}."

    def __call__(self, body):
        if "response_format" not in body:
            return self.agent(body)
        asked = body["response_format"]["json_schema"]["schema"]["properties"]
        return json.dumps(self.user(text_of(body)) if "helped" in asked else self.judge(body, text_of(body)))

    def agent(self, body):
        heard = next(m["content"] for m in body["messages"] if m["role"] == "user")
        task = self.by_opening[heard]
        turns = [message for message in reference_played(task).messages if message.role == "assistant"]
        turn = turns[sum(message["role"] == "assistant" for message in body["messages"])]
        if turn.tool_calls:
            return calling([(call.function.name, call.function.arguments) for call in turn.tool_calls])
        return completion("What do I need to know for that?" if turn.content == "?" else turn.content)

    def user(self, asked):
        def lines(label):
            return [line.removeprefix("- ") for text in fenced(label, asked) for line in text.splitlines()]

        heard = fenced("assistant", asked)
        if not heard:
            message, status = self.first(fenced("opening", asked)[0], lines("told")), "go_on"
        elif heard[-1].endswith("?"):
            message, status = "; ".join(lines("facts")), "go_on"
        else:
            message, status = "Thank you.", "done"
        return {"helped": True, "message": message, "status": status}

    def judge(self, body, asked):
        schema = body["response_format"]["json_schema"]["schema"]["properties"]
        names = schema["verdicts"]["items"]["properties"]["criterion"].get("enum", [])
        transcript = fenced("transcript", asked)[-1]
        reply = next(task.reply for task in self.by_opening.values() if task.reply in transcript)
        before = transcript[: transcript.index(reply)]
        at = int(before.rpartition("\n[")[2].partition("]")[0])
        quotes = [{"message": at, "text": reply}]
        verdicts = [{"criterion": name, "quotes": quotes, "why": "It says so.", "met": True} for name in names]
        return {"verdicts": verdicts, "rules": kept_rules(body), "claims": []}


@needs_sandbox
def test_the_references_played_by_a_server_are_kept_all_of_them(tmp_path, run):
    out = tmp_path / "out"
    flags = ("--engine", "executable", "--engines", FOLDER / "engines.jsonl", "--outcomes", "success=1", "--votes", 1)
    with ScriptedServer(Reference(TASKS)) as server:
        argv = ("agentic", "trajectories", "--tasks", FOLDER / "tasks.jsonl", "--output", out, "--llm", server.spec)
        code, _, err = run(*argv, *flags)
    assert code == 0, err
    told = json.loads((out / "manifest.json").read_text())
    assert told["counts"]["accepted"] == told["counts"]["tasks"] == len(TASKS), (told["reasons"], told["errors"])
    by_id = {task.id: task for task in TASKS}
    for row in kept(out):
        task = by_id[row["task_id"]]
        made = [(call["tool"], call["result"], call["patch"]) for call in row["calls"]]
        assert made == [(call.tool, call.result, call.patch) for call in task.solution]
        assert row["engine"] == "executable" and row["tool_model"] == "" and row["score"] == 1.0


@pytest.mark.parametrize(
    "argv",
    [
        ("agentic", "tasks", "--agents", FOLDER / "agents.jsonl"),
        ("agentic", "trajectories", "--tasks", FOLDER / "tasks.jsonl"),
        ("agentic", "agents", "--tools", FOLDER / "tools.jsonl", "--domains", FOLDER / "domains.jsonl",
         "--embedding-model", "none"),
    ],
    ids=lambda argv: argv[1],
)  # fmt: skip
def test_the_stages_read_the_files_as_they_stand(argv, run):
    code, out, err = run(*argv, "--llm", NOWHERE, "--estimate")
    assert code == 0 and err == "" and "writer" in out, err
