"""`tools harvest` and `tools curate` as users give them: what repeats, what is unclear, and that everything adds up."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec, from_openai

from tests.outputs import manifest
from tokenmill import cli

WEATHER = "Get the weather of a city on a day, with temperature, wind and rain. Needs no account."
LISTED = {
    "meteo": [("get_weather", WEATHER), ("list_stations", "List the weather stations near a place.")],
    "skies": [
        ("getWeather", WEATHER + " Use it freely."),
        ("moon_phase", "Tell the phase of the moon at a date."),
        ("sunrise", "Tell when the sun rises at a place on a date."),
        ("do_it", "Handles things as needed."),
    ],
}
EVOLVED = [
    ("get_weather", WEATHER),
    ("book_seat", "Book a seat on a train for a passenger."),
    ("cancel_seat", "Cancel the seat that was booked under a number."),
]
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}, "day": {"type": "string", "format": "date"}}}


@pytest.fixture
def lists(tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    for server, tools in LISTED.items():
        listed = [{"name": name, "description": text, "inputSchema": SCHEMA} for name, text in tools]
        (folder / f"{server}.json").write_text(json.dumps({"tools": listed}))
    return folder


@pytest.fixture
def evolved(tmp_path):
    """Rows as an evolution writes them."""
    tools = [
        from_openai(
            {"name": name, "description": text, "parameters": SCHEMA},
            origin=SYNTHETIC,
            domain=["travel", "rail"],
            category="travel",
        )
        for name, text in EVOLVED
    ]
    path = tmp_path / "evolved" / "tools.parquet"
    path.parent.mkdir()
    write_parquet(to_table(tools, ToolSpec), str(path))
    return path


@pytest.fixture
def tools(tmp_path, capfd):
    def command(*argv):
        code = cli.main(["tools", *map(str, argv), "--cache", str(tmp_path / "answers.sqlite")])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def rows(out, kind):
    return {row["id"]: row for p in sorted(Path(out, kind).glob("*.parquet")) for row in pq.read_table(p).to_pylist()}


def judge(body):
    quote = "Handles things as needed"
    found = quote in body["messages"][-1]["content"]
    problem = {"kind": "vague", "quote": quote, "why": "Say what is handled.", "severity": "major"}
    return json.dumps({"problems": [problem] if found else []})


def test_a_harvest_refuses_what_repeats_and_what_is_unclear(tools, lists, tmp_path):
    out = tmp_path / "out"
    with ScriptedServer(judge) as server:
        code, stdout, stderr = tools("harvest", "--servers", lists, "--output", out, "--judge-llm", server.spec)
        assert (code, server.log.requests) == (0, 5), stderr
    kept, refused, told = rows(out, "data"), rows(out, "rejected"), manifest(out)
    assert len(kept) == 4 and "near_duplicate 1" in stdout
    assert {row["reason"] for row in refused.values()} == {"near_duplicate", "vague"} and len(refused) == 2
    (twin,) = [row for row in refused.values() if row["reason"] == "near_duplicate"]
    assert twin["duplicate_of"] in kept and 0.7 < twin["score"] < 1
    assert told["reasons"] == {"near_duplicate": 1, "vague": 1}
    assert (told["counts"]["listed"], told["counts"]["accepted"], told["counts"]["rejected"]) == (6, 4, 2)
    assert told["spent"] == {"tokens": server.log.tokens, "shared": False}
    assert told["calls"]["judge"]["paid"] == 5 and told["models"][0]["role"] == "judge"
    assert "judges/tool" in {prompt["name"] for prompt in told["prompts"]}


def test_a_harvest_may_keep_what_repeats_and_needs_no_model(tools, lists, tmp_path, capfd):
    out = tmp_path / "out"
    code, _, _ = tools("harvest", "--servers", lists, "--output", out, "--no-dedup")
    assert code == 0 and len(rows(out, "data")) == 6 and not rows(out, "rejected")
    assert manifest(out)["calls"] == {} and manifest(out)["spent"] == {"tokens": 0, "shared": False}
    assert manifest(out)["config"]["likeness"] is None
    covered = manifest(out)["coverage"]
    assert covered["tools"] == {"mcp": 6} and covered["compared"] == 6 and covered["features"]["real"]["format"] == 1.0
    assert all(Path(out, picture).is_file() for picture in covered["pictures"])
    assert cli.main(["publish", str(out), "--repo-id", "me/tools", "--dry-run"]) == 0
    shown = capfd.readouterr().out
    assert covered["pictures"] and all(picture in shown for picture in covered["pictures"])


def test_a_judge_that_does_not_answer_is_one_line_before_any_server_is_asked(tools, lists, tmp_path):
    code, _, stderr = tools(
        "harvest", "--servers", lists, "--output", tmp_path / "out", "--judge-llm", "nobody@http://127.0.0.1:9/v1"
    )
    assert code == 2 and "does not answer" in stderr and not (tmp_path / "out" / "data").exists()
    code, _, stderr = tools(
        "curate", "--input", lists, "--output", tmp_path / "out", "--judge-llm", "x@http://127.0.0.1:9/v1", "--votes", 2
    )
    assert code == 2 and "--votes 2" in stderr


def test_a_judge_that_may_not_cost_more_stops_a_harvest_and_more_ends_it(tools, lists, tmp_path):
    argv = ("harvest", "--servers", lists, "--output", tmp_path / "out")
    with ScriptedServer(judge) as server:
        argv = (*argv, "--judge-llm", server.spec)
        code, _, stderr = tools(*argv, "--max-tokens", 1)
        assert code == 3 and "tokenmill: stopped: " in stderr and "while running" not in stderr
        assert tools(*argv)[0] == 0
        assert manifest(tmp_path / "out")["spent"]["tokens"] == server.log.tokens
    assert manifest(tmp_path / "out")["counts"]["accepted"] == 4


@pytest.mark.parametrize("mode", [(), ("--direct_running_mode=multi_processing", "--direct_num_workers=2")])
def test_runs_are_merged_and_real_tools_win(tools, lists, evolved, tmp_path, mode):
    harvested, out = tmp_path / "harvested", tmp_path / "out"
    assert tools("harvest", "--servers", lists, "--output", harvested, "--no-dedup")[0] == 0
    with ScriptedServer(judge) as server:
        argv = ("curate", "--input", harvested, evolved, "--output", out, "--judge-llm", server.spec, *mode)
        code, _, stderr = tools(*argv)
        asked = server.log.requests
        assert code == 0, stderr
        assert "finished already" in tools(*argv)[2]
    kept, refused, told = rows(out, "data"), rows(out, "rejected"), manifest(out)
    assert {"synthetic/travel/rail/book_seat", "synthetic/travel/rail/cancel_seat"} < kept.keys() and len(kept) == 6
    assert refused["synthetic/travel/rail/get_weather"]["reason"] == "near_duplicate"
    assert refused["synthetic/travel/rail/get_weather"]["duplicate_of"].startswith("mcp/")
    assert told["reasons"] == {"near_duplicate": 2, "vague": 1} and asked == 7
    assert (told["counts"]["read"], told["counts"]["tasks"]) == (9, 9)


def test_the_same_tool_in_two_runs_is_kept_once(tools, lists, tmp_path):
    for name in ("one", "two"):
        assert tools("harvest", "--servers", lists, "--output", tmp_path / name, "--no-dedup")[0] == 0
    out = tmp_path / "out"
    code, _, _ = tools("curate", "--input", tmp_path / "one", tmp_path / "two", "--output", out, "--no-dedup")
    assert code == 0 and len(rows(out, "data")) == 6
    assert manifest(out)["reasons"] == {"same_id": 6} and manifest(out)["counts"]["failed"] == 0


def test_rows_that_are_no_tools_are_refused_or_fail_with_the_reason(tools, tmp_path):
    good = {"name": "find", "description": "Find a thing by its number.", "input_schema": SCHEMA, "origin": "synthetic"}
    lines = [
        good,
        {**good, "name": "lookup", "description": "Look a word up.", "input_schema": "{"},
        {**good, "name": "seek", "origin": "dream"},
        {**good, "name": 7},
        {**good, "name": "fetch", "input_schema": {"type": "object", "properties": {"a": {"type": "strnig"}}}},
        {**good, "name": "spot", "domain": "travel"},
    ]
    path = tmp_path / "tools.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "out"
    code, _, stderr = tools("curate", "--input", path, "--output", out, "--embedding-model", "none")
    assert code == 0, stderr
    assert [row["name"] for row in rows(out, "data").values()] == ["find"]
    assert [row["reason"] for row in rows(out, "rejected").values()] == ["schema_invalid"]
    failed = list(rows(out, "failed").values())
    assert len(failed) == 4 and {row["error"] for row in failed} == {"invalid_tool"}
    assert any("'dream'" in row["message"] for row in failed)


def test_an_estimate_counts_the_judges_calls_and_makes_none(tools, evolved):
    code, stdout, stderr = tools("curate", "--input", evolved, "--estimate", "--judge-llm", "m@http://127.0.0.1:9/v1")
    assert code == 0 and "tools curate" in stdout and " 3 " in stdout, stderr


def test_a_model_named_by_llm_judges_where_none_writes(tools, lists, evolved, tmp_path):
    with ScriptedServer(judge) as server:
        assert tools("harvest", "--servers", lists, "--output", tmp_path / "real", "--llm", server.spec)[0] == 0
        assert server.log.requests == 5 and [m["role"] for m in manifest(tmp_path / "real")["models"]] == ["judge"]
        assert tools("curate", "--input", evolved, "--output", tmp_path / "all", "--llm", server.spec)[0] == 0
        assert server.log.requests == 8


def test_a_harvest_can_be_previewed_and_estimated(tools, lists, tmp_path):
    out = tmp_path / "out"
    (lists / "broken.json").write_text("{")
    with ScriptedServer(judge) as server:
        argv = ("harvest", "--servers", lists, "--output", out, "--judge-llm", server.spec)
        code, stdout, stderr = tools(*argv, "--estimate")
        assert code == 0 and "3 servers in" in stdout and " 6 " in stdout, stderr
        code, stdout, stderr = tools(*argv, "--preview", 2)
        assert code == 0 and "get_weather" in stdout and "invalid_json" in stdout and "moon_phase" not in stdout, stderr
        assert server.log.requests == 0
    assert not out.exists()


def test_a_finished_harvest_is_repeated_where_that_is_asked_for(tools, lists, tmp_path):
    argv = ("harvest", "--servers", lists, "--output", tmp_path / "out", "--no-dedup")
    (lists / "broken.json").write_text("{")
    assert tools(*argv)[0] == 0 and manifest(tmp_path / "out")["counts"]["servers_failed"] == 1
    written = (tmp_path / "out" / "manifest.json").stat().st_mtime_ns
    assert "finished already" in tools(*argv)[2]
    code, _, stderr = tools(*argv, "--seed", 1)
    assert code == 2 and "--overwrite" in stderr
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns == written
    assert tools(*argv, "--retry-failed")[0] == 0, "servers that failed are asked again"
    assert (tmp_path / "out" / "manifest.json").stat().st_mtime_ns != written


def test_tools_can_be_previewed_before_they_are_curated(tools, evolved, tmp_path):
    with ScriptedServer(judge) as server:
        argv = ("curate", "--input", evolved, "--output", tmp_path / "out", "--judge-llm", server.spec)
        code, stdout, stderr = tools(*argv, "--preview", 2)
        assert code == 0 and "2 kept" in stdout and "book_seat" in stdout and server.log.requests == 2, stderr
        assert not (tmp_path / "out").exists()
        assert tools(*argv)[0] == 0 and server.log.requests == 3, "previewed answers are not paid for again"
