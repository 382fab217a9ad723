"""Domains that somebody has already: read as folders, run in the real sandbox, made agents and tasks of."""

import asyncio
import dataclasses
import enum
import json
from typing import Annotated, Literal, TypedDict

import pytest
from tokenmill.judges.rubric.end_state import differences
from tokenmill.judges.rubric.feasible import enact
from tokenmill.tools_repo.domains import guest
from tokenmill.tools_repo.domains.entities import inferred, sampled
from tokenmill.tools_repo.domains.folder import DomainFolder, DomainInvalid
from tokenmill.tools_repo.domains.host import Host, HostBroken
from tokenmill.tools_repo.domains.imports import TaskInvalid, agent_of, task_of, tasks_in
from tokenmill.tools_repo.domains.world import DomainWorld
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.world.entities import EntityModel
from tokenmill.tools_repo.world.state_view import span

from tests.tools_repo.domains.desk import DATA, POLICY, TASKS, action, scenario, write_domain
from tests.tools_repo.sandboxed import needs_sandbox


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Size:
    width: int
    height: int = 1


class Named(TypedDict):
    name: str


# Signatures and docstrings


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int | None, {"type": ["integer", "null"]}),
        (list[str] | None, {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Colour, {"type": "string", "enum": ["red"]}),
        (Annotated[int, "How many."], {"type": "integer", "description": "How many."}),
        (Named, {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
        (
            Size,
            {
                "type": "object",
                "properties": {"width": {"type": "integer"}, "height": {"type": "integer"}},
                "required": ["width"],
            },
        ),
    ],
)
def test_annotations_become_schemas(annotation, schema):
    assert guest.schema_of(annotation, {}) == schema


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    a: The first,\n        and more.\n    b (int): The second.\n\nReturns:\n    c: nothing",
        "Do it.\n\n:param a: The first,\n    and more.\n:param int b: The second.\n:returns: nothing",
        "Do it.\n\nParameters\n---\na : str\n    The first,\n    and more.\nb : int\n    The second.\n\nReturns\n---\nc",
    ],
    ids=["google", "sphinx", "numpy"],
)
def test_docstrings_say_what_parameters_are(text):
    does, told = guest.docstring(text)
    assert does == "Do it."
    assert told["a"].endswith("The first, and more.") and told["b"].endswith("The second.") and set(told) == {"a", "b"}


def test_arguments_arrive_as_the_types_that_the_tool_declares():
    assert guest.typed("red", Colour) is Colour.RED and guest.typed({"width": 2}, Size | None) == Size(2)
    assert guest.plain([Size(2), {Colour.RED}]) == [{"width": 2, "height": 1}, ["red"]]


# Folders


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "tools.py").unlink(), "there is no tools.py"),
        (lambda folder: (folder / "domain.json").write_text('{"tool": "x"}'), "unknown key 'tool'"),
        (lambda folder: (folder / "domain.json").write_text('{"policy": "rules.md"}'), "there is no file rules.md"),
        (lambda folder: (folder / "domain.json").write_text('{"packages": "venv"}'), "there is no folder"),
        (lambda folder: (folder / "domain.json").write_text("{"), "domain.json"),
    ],
)
def test_a_folder_that_is_no_domain_is_told_so(change, words, tmp_path):
    folder = write_domain(tmp_path / "desk")
    change(folder)
    with pytest.raises(DomainInvalid, match=words) as raised:
        DomainFolder.read(folder)
    assert "\n" not in str(raised.value)


def test_a_database_that_is_no_object_is_told_so(tmp_path):
    folder = write_domain(tmp_path / "desk")
    (folder / "db.json").write_text("[1]")
    with pytest.raises(DomainInvalid, match="object of kinds"):
        DomainFolder.read(folder).setup()


# In the sandbox


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return DomainFolder.read(write_domain(tmp_path_factory.mktemp("domains") / "desk", user=True))


def with_host(folder, ask, seconds=20):
    async def go():
        host = Host(folder, Bubblewrap(), 1, seconds)
        try:
            return await ask(host, await host.describe())
        finally:
            await host.close()

    return asyncio.run(go())


@needs_sandbox
def test_a_domain_is_described_by_its_own_code(desk):
    async def ask(host, described):
        return described

    described = with_host(desk, ask)
    tools = {tool["name"]: tool for tool in described.tools["agent"]}
    assert set(tools) == {"get_parcel", "redirect_parcel", "peek", "stall"}
    assert {tool["name"] for tool in described.tools["user"]} == {"toggle_silent", "check_silent"}
    assert tools["get_parcel"]["annotations"] == {"readOnlyHint": True}
    schema = tools["redirect_parcel"]["inputSchema"]
    assert schema["required"] == ["parcel_id", "place"] and "db" not in schema["properties"]
    assert schema["properties"]["place"]["enum"] == ["shop", "neighbour"]
    assert schema["properties"]["place"]["description"] == "Where it is to be left."
    assert described.state["parcels"] == DATA["parcels"]
    assert described.state["log"] == {"E-1": {"event_id": "E-1", "parcel": "P-2"}}
    assert described.state["opening_hours"] == {"it": {"value": "9 to 5"}}
    assert described.state["user_device"] == {"it": {"silent": True, "battery": 80}}


@needs_sandbox
def test_calls_change_the_worlds_own_state_and_no_other(desk):
    async def ask(host, described):
        agent = agent_of(desk, described)
        worlds = [DomainWorld(host, described, agent.tools, {}, user_tools=agent.user_tools) for _ in range(2)]
        first, second = worlds
        told = [
            await first.call("redirect_parcel", '{"parcel_id": "P-1", "place": "shop"}', 0),
            await first.call("get_parcel", '{"parcel_id": "P-1"}', 1),
            await first.call("get_parcel", '{"parcel_id": "P-9"}', 2),
            await first.call("redirect_parcel", '{"parcel_id": "P-2", "place": "roof"}', 3),
            await first.act("toggle_silent", "{}"),
            await first.call("toggle_silent", "{}", 4),
            await second.call("get_parcel", '{"parcel_id": "P-1"}', 0),
        ]
        return first, told

    world, told = with_host(desk, ask)
    assert json.loads(told[0].patch) == [
        {"op": "replace", "path": "/parcels/P-1/place", "value": "shop"},
        {"op": "add", "path": "/log/E-2", "value": {"event_id": "E-2", "parcel": "P-1"}},
    ]
    assert json.loads(told[1].content)["place"] == "shop" and json.loads(told[6].content)["place"] == "door"
    assert told[2].error == "lookup_error" and "P-9 not found" in told[2].content
    assert told[3].error == "invalid_arguments"
    assert told[4].content == "silent: False" and told[5].error == "unknown_tool", (
        "the user's tools are not the agent's"
    )
    assert world.state["user_device"] == {"it": {"silent": False, "battery": 80}}


@needs_sandbox
def test_the_tools_see_neither_our_environment_nor_root(desk, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2-hunter2")

    async def ask(host, described):
        return await host.call("agent", "peek", {}, {})

    seen = with_host(desk, ask)["result"]
    assert "OPENAI_API_KEY" not in seen and seen[-1] == "False"


@needs_sandbox
def test_a_call_that_does_not_end_is_no_result(desk):
    async def ask(host, described):
        with pytest.raises(HostBroken, match="stall"):
            await host.call("agent", "stall", {}, {})
        return await host.call("agent", "get_parcel", {"parcel_id": "P-2"}, {})

    assert with_host(desk, ask, seconds=1)["result"]["status"] == "delivered"


@needs_sandbox
def test_code_that_does_not_load_says_why(tmp_path):
    folder = write_domain(tmp_path / "desk")
    (folder / "tools.py").write_text("import a_package_that_is_not_there")
    with pytest.raises(HostBroken, match="No module named 'a_package_that_is_not_there'"):
        with_host(DomainFolder.read(folder), None)


# Agents and tasks


@needs_sandbox
def test_a_task_is_imported_with_its_solution_played_and_the_end_state_decides(desk):
    async def ask(host, described):
        agent = agent_of(desk, described)
        return agent, await task_of(agent, TASKS[0], 0, host, described)

    agent, task = with_host(desk, ask)
    assert agent.system == POLICY and [t.name for t in agent.user_tools] == ["check_silent", "toggle_silent"]
    assert EntityModel.parse(agent.entities).check(json.loads(agent.state)) == []
    assert task.id == "desk/redirect" and task.level == "dependent_calls"
    assert task.facts[0].value == "Your parcel is P-1." and "Be brief." in task.goal
    wanted = {(c["path"], c["value"]) for line in task.rubric for c in json.loads(line.spec)["conditions"]}
    assert ("/parcels/P-1/place", "shop") in wanted and ("/log/E-2/parcel", "P-1") in wanted
    state = json.loads(task.state)

    def ending(calls):
        return enact(task.rubric, tools=agent.tools, state=state, solution=calls, reply="Done.")

    assert differences(task, ending(task.solution)) == []
    other = dataclasses.replace(
        task.solution[1], patch='[{"op": "replace", "path": "/parcels/P-2/place", "value": "shop"}]'
    )
    assert [d.path for d in differences(task, ending([*task.solution, other]))] == ["/parcels/P-2/place"]


@needs_sandbox
@pytest.mark.parametrize(
    ("task", "reason", "words"),
    [
        (TASKS[1], "unsolvable", "Only parcels on their way"),
        (TASKS[2], "not_a_task", "user_scenario"),
        (scenario("x", action("fly")), "unsolvable", "calls 'fly'"),
        (3, "not_a_task", "JSON object"),
    ],
    ids=["fails", "empty", "unknown", "number"],
)
def test_a_task_that_cannot_be_set_is_refused_and_told(task, reason, words, desk):
    async def ask(host, described):
        with pytest.raises(TaskInvalid, match=words) as raised:
            await task_of(agent_of(desk, described), task, 0, host, described)
        return raised.value.reason

    assert with_host(desk, ask) == reason


@needs_sandbox
def test_what_happens_before_a_task_and_the_users_own_calls_count(desk):
    task = scenario(
        "Your telephone is silent.",
        action("toggle_silent", "user"),
        initial_state={
            "initialization_data": {"agent_data": {"parcels": {"P-1": {"place": "desk"}}}},
            "initialization_actions": [{"env_type": "user", "func_name": "toggle_silent", "arguments": {}}],
        },
    )

    async def ask(host, described):
        return await task_of(agent_of(desk, described), task, 7, host, described)

    made = with_host(desk, ask)
    state = json.loads(made.state)
    assert made.id == "desk/7" and made.solution[0].by == "user"
    assert state["user_device"]["it"]["silent"] is False and state["parcels"]["P-1"]["place"] == "desk"
    assert state["parcels"]["P-1"]["weight"] == 2.5


def test_of_a_large_domain_rows_hold_the_records_that_matter(tmp_path):
    many = {f"P-{n}": {"parcel_id": f"P-{n}", "owner": f"U-{n % 7}", "text": "x" * 400} for n in range(2_000)}
    users = {f"U-{n}": {"name": "N"} for n in range(7)}
    before = {"parcels": many, "users": users}
    after = {**before, "parcels": {**many, "P-5": {**many["P-5"], "text": "y"}}}
    shown = sampled(before)
    assert len(json.dumps(shown)) < 80_000 and set(shown["users"]) == set(users)
    assert EntityModel.parse(inferred(before)).kinds["parcels"].identifier == "parcel_id"
    start, end = span(before, after, {"users": {"U-1": {}}})
    assert start == {"users": {"U-1": {"name": "N"}}, "parcels": {"P-5": many["P-5"]}}
    assert end["parcels"]["P-5"]["text"] == "y" and end["users"] == start["users"]
    assert span(users and {"users": users}, {"users": users}, {}) == ({"users": users}, {"users": users})


def test_tasks_are_read_bare_or_under_a_key(tmp_path):
    folder = write_domain(tmp_path / "desk")
    assert len(tasks_in(DomainFolder.read(folder))) == 3
    (folder / "tasks.json").write_text(json.dumps({"tasks": TASKS[:1]}))
    assert tasks_in(DomainFolder.read(folder)) == TASKS[:1]
