"""`tools implement` as users give it."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tokenmill.bench.agentic.shop import ENTITIES, STATE, TOOLS
from tokenmill.bench.agentic.shop_program import answer, with_cancel
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.engines import Engine
from tokenmill.schemas.tools import ToolSpec

from tests.tools_repo.sandboxed import needs_sandbox
from tokenmill import cli

pytestmark = needs_sandbox


def domain(name, **fields):
    values = {
        "id": f"trade/{name}", "category": "trade", "path": ["trade", name], "name": name, "description": f"The {name}.",
        "operator": "seed", "entities": ENTITIES.text, "state": json.dumps(STATE),
    }  # fmt: skip
    return Domain(**values | fields)


def tools_of(name):
    return [replace(spec, id=f"synthetic/trade/{name}/{spec.name}", domain=["trade", name]) for spec in TOOLS]


DOMAINS = [domain("good"), domain("half"), domain("bad"), domain("empty"), domain("blank", entities="", state="")]
STRAY = replace(TOOLS[0], id="synthetic/elsewhere/get_order", domain=["elsewhere"])
SPECS = [spec for name in ("good", "half", "bad", "blank") for spec in tools_of(name)] + [STRAY]


def writes(body):
    """A model that writes a good engine for one domain, half of one for another, and nothing for the third."""
    prompt = body["messages"][1]["content"]
    if "The good." in prompt:
        return answer() if len(body["messages"]) > 2 else answer(with_cancel("return {}"))
    return answer(with_cancel("return {}")) if "The half." in prompt else "I would rather not."


@pytest.fixture
def given(tmp_path):
    write_parquet(to_table(DOMAINS, Domain), str(tmp_path / "domains.parquet"))
    write_parquet(to_table(SPECS, ToolSpec), str(tmp_path / "tools.parquet"))
    return ["--domains", tmp_path / "domains.parquet", "--tools", tmp_path / "tools.parquet"]


@pytest.fixture
def implement(tmp_path, capfd, given):
    def command(*argv, cache="answers.sqlite"):
        code = cli.main(["tools", "implement", *map(str, [*given, *argv, "--cache", tmp_path / cache])])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def rows(out, kind):
    return {row["id"]: row for p in sorted(Path(out, kind).glob("*.parquet")) for row in pq.read_table(p).to_pylist()}


def test_each_domain_ends_with_code_or_with_the_reason_why_not(implement, tmp_path):
    out = tmp_path / "out"
    with ScriptedServer(writes) as server:
        code, _, stderr = implement("--output", out, "--llm", server.spec)
        assert code == 0, stderr
        paid = server.log.requests
        assert implement("--output", out, "--llm", server.spec)[0] == 0 and server.log.requests == paid
    kept, refused = rows(out, "data"), rows(out, "rejected")
    assert set(kept) == {"trade/good", "trade/half"} and not rows(out, "failed")
    assert {id: row["reason"] for id, row in refused.items()} == {
        "trade/bad": "no_code",
        "trade/empty": "no_tools",
        "trade/blank": "no_world",
    }
    good, half = (RecordParser(Engine)(kept[f"trade/{name}"], "", 0) for name in ("good", "half"))
    assert good.modules[0].tries == 2 and good.missing == [] and good.model_calls == 2 and good.prompt_tokens > 0
    assert [fault.tool for fault in half.missing] == ["synthetic/trade/half/cancel_order"] and half.model_calls == 3
    assert good.function_of("synthetic/trade/good/cancel_order")[1] == "cancel_order"
    assert good.model == "scripted" and "world/engine@2" in good.prompts
    assert "1 tools belong to none of the domains" in stderr
    counts = json.loads((out / "manifest.json").read_text())["counts"]
    assert counts["accepted"] == 2 and counts["rejected"] == 3 and counts["tasks"] == 5


def test_the_rows_are_the_same_on_several_workers(implement, tmp_path):
    made = []
    with ScriptedServer(writes) as server:
        for flags in ((), ("--direct_running_mode=multi_processing", "--direct_num_workers=2")):
            out = tmp_path / f"out{len(flags)}"
            code, _, stderr = implement("--output", out, "--llm", server.spec, *flags, cache=f"{len(flags)}.sqlite")
            assert code == 0, stderr
            made.append({p.name: p.read_bytes() for p in (out / "data").glob("*.parquet")})
    assert made[0] == made[1]


def test_an_estimate_and_a_preview_write_nothing(implement, tmp_path):
    out = tmp_path / "out"
    with ScriptedServer(writes) as server:
        code, stdout, stderr = implement("--output", out, "--llm", server.spec, "--estimate")
        assert code == 0 and server.log.requests == 0, stderr
        code, stdout, stderr = implement("--output", out, "--llm", server.spec, "--preview", 5)
        assert code == 0 and "def cancel_order" in stdout and not out.exists(), stderr


@pytest.mark.parametrize(
    "flags, line",
    [
        (("--repairs", -1), "--repairs -1: must be at least 0"),
        (("--domains", "/nowhere/*.parquet"), "no such file"),
        (("--llm", "nonsense:"), "nonsense"),
    ],
)
def test_what_cannot_be_done_is_one_line_before_any_money(implement, tmp_path, flags, line):
    code, _, stderr = implement("--output", tmp_path / "out", "--llm", "m@http://127.0.0.1:9/v1", *flags)
    assert code == 2 and line in stderr and "Traceback" not in stderr
