"""Tokenmill from Python: rows of many kinds in, runs out, the checks and rollouts by themselves."""

import asyncio
import inspect
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import apache_beam as beam
import datasets
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer

import tokenmill as tm
from tests.outputs import manifest, rows
from tokenmill import cli

ROWS = list(documents(4, 6))
FAST = {"no_similarity": True, "quiet": True}


@pytest.fixture
def cache(tmp_path):
    return str(tmp_path / "answers.sqlite")


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_importing_it_imports_next_to_nothing():
    code = "import sys; before = set(sys.modules); import tokenmill as tm; dir(tm); print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert not [
        name for name in done.stdout.split() if name.split(".")[0] not in sys.stdlib_module_names | {"tokenmill"}
    ]
    assert "tokenmill.api" not in done.stdout.split()


def test_every_public_name_is_there_and_typed():
    stub = Path(tm.__file__).with_suffix(".pyi").read_text()
    assert set(re.findall(r" as (\w+)$", stub, re.MULTILINE)) == set(tm.PUBLIC)
    assert all(getattr(tm, name) is not None for name in tm.PUBLIC)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tm.nothing  # noqa: B018


def test_a_cell_does_what_the_command_does(corpus, tmp_path, cache):
    with ScriptedServer(Writer()) as server:
        run = tm.knowledge(
            str(corpus),
            output=tmp_path / "cell",
            llm=server.spec,
            cache=cache,
            **FAST,
        )
        command = ["knowledge", "--input", str(corpus), "--output", str(tmp_path / "command"), "--llm", server.spec]
        assert cli.main([*command, "--no-similarity", "--cache", cache]) == 0
    assert rows(tmp_path / "cell") == rows(tmp_path / "command")
    assert manifest(tmp_path / "cell")["fingerprint"] == manifest(tmp_path / "command")["fingerprint"]
    assert manifest(tmp_path / "cell")["files"] == manifest(tmp_path / "command")["files"]
    assert run.data.num_rows == run.counts["accepted"] == 8 and run.rejected.num_rows == run.failed.num_rows == 0
    assert "8 kept, 0 refused, 0 failed of 4 read" in repr(run)
    assert tm.Run(run.path).data.equals(run.data)


def polars_like(table):
    """As polars hands its columns over: through the Arrow C stream, texts as views."""
    return pa.table(
        {name: column.cast(pa.string_view()) for name, column in zip(table.column_names, table.columns, strict=True)}
    )


class Stream:
    """Any other table of today: it knows the Arrow C stream and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make",
    [
        list,
        iter,
        pd.DataFrame,
        pa.Table.from_pylist,
        lambda listed: polars_like(pa.Table.from_pylist(listed)),
        lambda listed: Stream(pa.Table.from_pylist(listed)),
        datasets.Dataset.from_list,
        lambda listed: datasets.Dataset.from_list([{**listed[0], "text": "no"}, *listed]).select(
            range(1, len(listed) + 1)
        ),
    ],
    ids=["list", "generator", "pandas", "arrow", "views", "stream", "dataset", "selection"],
)
def test_rows_of_every_kind_make_the_same(make, cache):
    with ScriptedServer(Writer()) as server:
        run = tm.knowledge(make(ROWS), llm=server.spec, cache=cache, rephrasings=1, no_judge=True, **FAST)
    assert run.data["source_id"].to_pylist() == [row["id"] for row in ROWS]
    assert [row["source_text"] for row in run.data.to_pylist()] == [row["text"] for row in ROWS]


def test_columns_that_only_later_rows_have_are_kept(cache):
    listed = [{"text": ROWS[0]["text"]}, {"text": ROWS[1]["text"], "title": "Mills", "license": "cc0-1.0"}]
    with ScriptedServer(Writer()) as server:
        run = tm.knowledge(listed, llm=server.spec, cache=cache, rephrasings=1, no_judge=True, **FAST)
    assert run.data["title"].to_pylist() == ["", "Mills"]


def test_a_preview_takes_a_few_rows_and_leaves_the_output_alone(tmp_path, cache):
    with ScriptedServer(Writer()) as server:
        run = tm.knowledge(ROWS, llm=server.spec, cache=cache, output=tmp_path / "out", preview=2, **FAST)
    assert run.counts["read"] == 2 and run.data.num_rows == 4 and not (tmp_path / "out").exists()


def test_it_runs_where_an_event_loop_runs(cache):
    async def notebook():
        with ScriptedServer(Writer()) as server:
            return tm.knowledge(ROWS, llm=server.spec, cache=cache, **FAST)

    assert asyncio.run(notebook()).data.num_rows == 8


def test_a_temporary_folder_lives_as_long_as_its_run(cache):
    with ScriptedServer(Writer()) as server:
        run = tm.knowledge(ROWS[:1], llm=server.spec, cache=cache, **FAST)
    folder = Path(run.path)
    assert folder.exists()
    del run
    assert not folder.exists()


def test_the_report_is_shown_in_a_frame_that_may_do_nothing_but_its_script(cache):
    with ScriptedServer(Writer()) as server:
        report = tm.knowledge(ROWS[:1], llm=server.spec, cache=cache, **FAST).report()
    shown = report._repr_html_()
    assert "<h1>" in str(report) and shown.startswith("<iframe srcdoc=") and 'sandbox="allow-scripts"' in shown
    assert "<h1>" not in shown and "&lt;h1&gt;" in shown


def test_a_run_is_published_by_its_method(cache):
    with ScriptedServer(Writer()) as server:
        run = tm.knowledge(ROWS[:1], llm=server.spec, cache=cache, **FAST)
    publication = run.push_to_hub("me/mills", private=True, dry_run=True)
    assert publication.rows == {"data": 2, "rejected": 0} and publication.private


@pytest.mark.parametrize(
    ("rows", "settings", "line"),
    [
        (None, {}, "knowledge needs rows"),
        ([], {}, "the rows cannot be made a table: there are none"),
        (["a.jsonl", {"text": "b"}], {}, "a list of str is none of paths, a list of dicts"),
        (7, {}, "int is none of"),
        ([{"text": "a"}, {"text": 3}], {}, "the rows cannot be made a table"),
        ([{"body": "a"}], {}, "text"),
        (ROWS, {"rephrasing": 1}, "knowledge has no option rephrasing; it has input"),
        (ROWS, {"votes": 2}, "--votes 2: must be odd"),
        (ROWS, {"llm": "nobody"}, "no such form"),
        (ROWS, {"preview": -1}, "must be at least 1"),
        (ROWS, {"estimate": True}, "knowledge.estimate"),
        ("nowhere.jsonl", {}, "no such file"),
    ],
)
def test_what_is_wrong_is_an_exception_of_one_line(rows, settings, line, capsys):
    with pytest.raises(tm.UsageError, match=line) as raised:
        tm.knowledge(rows, **settings)
    assert "\n" not in str(raised.value) and capsys.readouterr().err == ""


def test_a_run_that_stops_says_so_and_goes_on(cache):
    with ScriptedServer(Writer()) as server:
        with pytest.raises(tm.RunStopped, match="budget of 300 tokens is spent"):
            tm.knowledge(ROWS, llm=server.spec, cache=cache, max_tokens=300, **FAST)
        asked = server.log.answered
        assert tm.knowledge(ROWS, llm=server.spec, cache=cache, **FAST).data.num_rows == 8
    assert max(server.log.bodies.values()) == 1 and server.log.answered >= asked


def test_an_estimate_makes_no_call(capsys):
    tm.knowledge.estimate(ROWS, llm="m@http://127.0.0.1:9/v1")
    assert "No call was made" in capsys.readouterr().out


def test_quiet_prints_nothing(cache, capsys):
    with ScriptedServer(Writer()) as server:
        tm.knowledge(ROWS[:1], llm=server.spec, cache=cache, **FAST)
        assert capsys.readouterr() == ("", "")
        tm.knowledge(ROWS[:1], llm=server.spec, cache=cache, no_similarity=True)
    assert "2 kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("job", "own"),
    [
        (lambda: tm.knowledge, "rephrasings"),
        (lambda: tm.math, "notes"),
        (lambda: tm.agentic, "agents"),
        (lambda: tm.agentic.trajectories, "samples"),
        (lambda: tm.agentic.code, "samples"),
        (lambda: tm.generate, "schema"),
        (lambda: tm.tools.harvest, "only"),
        (lambda: tm.tools.evolve, "categories"),
        (lambda: tm.tools.curate, "judge_llm"),
        (lambda: tm.tools.implement, "repairs"),
    ],
)
def test_every_job_tells_its_options(job, own):
    signature = inspect.signature(job())
    assert own in signature.parameters and signature.return_annotation is tm.Run
    assert {"rows", "output", "preview", "llm", "seed"} <= set(signature.parameters)
    assert "Raises:" in job().__doc__


def test_the_checks_are_functions():
    source = "The mill at Leeds burned down in 1812 and was rebuilt by 40 workers in 1815, to the relief of the town."
    honest = "Fire destroyed the mill in Leeds in 1812; forty workers put it up again in 1815, which relieved the townspeople."
    assert tm.checks.passed(source, honest)
    found = {verdict.check: verdict for verdict in tm.checks.verdicts(source, honest.replace("1815", "1851"), "Mills")}
    facts = found["facts"]
    assert not facts.passed and facts.reason == "date_added" and "1851" in facts.findings[0].rewrite
    assert found["similarity"].passed and {"language", "truncation", "length", "copying"} <= found.keys()
    assert "similarity" not in {v.check for v in tm.checks.verdicts(source, honest, similarity=False)}


def test_a_task_of_ones_own_is_a_function(tmp_path, cache):
    (tmp_path / "my.md").write_text("Give a title for this text, and nothing else.\n\n{{text}}\n")
    rows = [{"id": str(n), "text": f"The mill of Harrow made {n} sacks a day."} for n in range(3)]
    with ScriptedServer(lambda body: "The Mill of Harrow") as server:
        run = tm.generate(rows, prompt=str(tmp_path / "my.md"), llm=server.spec, cache=cache, quiet=True)
    assert run.data["text"].to_pylist() == ["The Mill of Harrow"] * 3 and run.rejected.num_rows == 0


def test_the_check_of_a_form_is_a_function():
    table = "| Mill | Opened |\n|---|---|\n| Harrow | 1906 |"
    assert tm.checks.of_form("tables", "The mill at Harrow opened in 1906.", table).passed
    refused = tm.checks.of_form("tables", "The mill at Harrow opened in 1908.", table)
    assert (refused.reason, refused.findings[0].rewrite) == ("cell_unsupported", "1906")
    with pytest.raises(ValueError, match="there are cleaned, pairs"):
        tm.checks.of_form("sonnets", "a", "b")


def test_the_checks_work_where_an_event_loop_runs_and_in_a_pipeline():
    pair = {"source": "It rained on 12 May 1903.", "rewrite": "Rain fell on 12 May 1904."}

    async def notebook():
        return tm.checks.verdicts(**pair)

    assert not all(verdict.passed for verdict in asyncio.run(notebook()))
    with beam.Pipeline() as pipeline:
        kept = pipeline | beam.Create([pair]) | beam.Filter(lambda row: tm.checks.passed(**row, similarity=False))
        assert_that(kept, equal_to([]))


@dataclass(frozen=True)
class Shout:
    """Somebody's own step: a word in, an answer out, short ones refused."""

    row_type = str
    rejected_type = str

    async def __call__(self, row, ask):
        answer = await ask([{"role": "user", "content": row}], max_tokens=9)
        if answer.text == "BROKEN":
            raise ValueError("no use")
        return tm.Accepted(answer.text) if len(row) > 2 else tm.Rejected(answer.text, "short")

    def failed(self, row, error, message):
        where = {"id": "", "source_id": "", "source_file": "", "source_row": 0, "step": "rollout"}
        return tm.FailedRow(**where, error=error, message=message, excerpt=row[:500])


def test_a_rollout_works_in_a_pipeline_of_ones_own(cache):
    with ScriptedServer(lambda body: body["messages"][0]["content"].upper()) as server:
        models = tm.models(writer=server.spec, cache=cache)
        with beam.Pipeline() as pipeline:
            done = pipeline | beam.Create(["hello", "no", "there", "broken"]) | tm.Rollout(Shout(), models)
            errors = done.failed | beam.Map(lambda row: (row.error, row.message, row.excerpt))
            assert_that(done.data, equal_to(["HELLO", "THERE"]), label="data")
            assert_that(done.rejected, equal_to(["NO"]), label="rejected")
            assert_that(errors, equal_to([("ValueError", "no use", "broken")]), label="failed")


def test_models_of_a_pipeline_are_looked_at():
    with pytest.raises(tm.UsageError, match="name a model for each role"):
        tm.models()
    with pytest.raises(tm.UsageError, match="judge: model spec 'x'"):
        tm.models(judge="x")
