"""Report, card and pictures of a run whose rows are tools: what they cover, and each refused one beside the kept one."""

import base64
import re
from pathlib import Path

import datasets
import pytest
from markdown_it import MarkdownIt
from tokenmill.pipelines.report.card import write_card
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.pipelines.transforms.sinks import write_parquet
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.manifest import Manifest
from tokenmill.schemas.tools import MCP, SYNTHETIC, RefusedTool, ToolSpec, from_openai, refuse

from tests.pipelines.report.finished_run import HOSTILE
from tests.pipelines.report.test_html import Page

TOPICS = ("weather", "trains", "invoices", "patients")


def tool(index, origin, **more):
    topic = TOPICS[index % len(TOPICS)]
    where = {"server": f"{topic}-server"} if origin == MCP else {"domain": [topic, "more"]}
    properties = {"place": {"type": "string", "enum": ["here", "there"]}, "depth": {"type": "integer"}}
    function = {
        "name": f"tool_{index}_of_{topic}",
        "description": f"Reads entry {index} of the {topic}.",
        "parameters": {"type": "object", "properties": properties, "required": ["place"]},
    }
    return from_openai(function, origin=origin, category=topic, license="MIT", **where, **more)


def finished(out, kept, refused=(), failed=(), **counts):
    for folder, rows, row_type in (
        ("data", kept, ToolSpec),
        ("rejected", refused, RefusedTool),
        ("failed", failed, FailedRow),
    ):
        if rows:
            (out / folder).mkdir(parents=True, exist_ok=True)
            write_parquet(to_table(list(rows), row_type), str(out / folder / "train-00000-of-00001.parquet"))
    made = {"accepted": len(kept), "rejected": len(refused), "failed": len(failed)}
    return Manifest(
        job="tools curate",
        title="Tools",
        command=["python", "beam_runner.py", "tools", "curate"],
        config={"likeness": {"words": 0.7}},
        fingerprint="f",
        seed=0,
        started="2026-01-01T00:00:00+00:00",
        finished="2026-01-01T00:01:00+00:00",
        duration_s=60.0,
        versions={"python": "3.11"},
        models=[],
        prompts=[],
        inputs=[{"file": "a.parquet", "bytes": 10, "rows": None, "stamp": "s"}],
        counts={"read": sum(made.values()), "unreadable": 0, "tasks": sum(made.values()), **made, **counts},
        reasons={"near_duplicate": len(refused)} if refused else {},
        errors={},
        languages={},
        licenses={"MIT": len(kept)},
        calls={},
    )


def pages(out, manifest):
    survey = survey_run(out)
    return survey, Page(write_report(out, manifest, survey).read_text()), write_card(out, manifest, survey).read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("tools") / "out"
    kept = [tool(i, MCP if i % 2 else SYNTHETIC) for i in range(12)]
    twin = refuse(tool(100, SYNTHETIC), "near_duplicate", "nearly the same tool", duplicate_of=kept[1].id, score=0.9)
    lost = refuse(tool(101, SYNTHETIC), "near_duplicate", "the same tool", duplicate_of="mcp/gone/gone", score=1.0)
    return out, finished(out, kept, [twin, lost]), kept


def test_the_report_shows_declarations_pictures_and_numbers(run):
    out, manifest, kept = run
    survey, page, _ = pages(out, manifest)
    assert "12 of 14 tools kept (85.7\u00a0%)." in page.text
    assert f"type {kept[0].name} = (_: {{" in page.text and 'place: "here" | "there"' in page.text
    pictures = page.of("img")
    assert len(pictures) == 3 and len(survey.figures.pictures) == 3
    for shown, picture in zip(pictures, survey.figures.pictures, strict=True):
        assert (
            base64.b64decode(shown["src"].removeprefix("data:image/png;base64,")) == (out / picture.file).read_bytes()
        )
    (policy,) = page.of("meta", http_equiv="Content-Security-Policy")
    assert "img-src data:" in policy["content"]
    for words in ("Coverage of tool space", "Kept by origin", "a synthetic tool to the nearest real one", "enum"):
        assert words in page.text
    for words in ("Rewrite", "Pieces of work", "only in the source"):
        assert words not in re.sub(r"only in the source only in the rewrite", "", " ".join(page.text.split()))


def test_a_refused_tool_stands_beside_the_one_that_it_repeats(run):
    out, manifest, kept = run
    text = write_report(out, manifest).read_text()
    (article,) = [a for a in re.findall(r"<article.*?</article>", text, re.DOTALL) if "tool_100_of" in a]
    sides = re.findall(r'<section class="side tool">.*?</section>', article, re.DOTALL)
    assert len(sides) == 2 and "tool_100_of_weather" in sides[0] and kept[1].name in sides[1]
    assert ">Refused<" in sides[0] and ">Kept<" in sides[1] and "nearly the same tool" in article
    (alone,) = [a for a in re.findall(r"<article.*?</article>", text, re.DOTALL) if "tool_101_of" in a]
    assert alone.count('<section class="side tool">') == 1


def test_the_card_links_the_pictures_and_loads(run, tmp_path):
    out, manifest, _ = run
    survey, _, card = pages(out, manifest)
    linked = re.findall(r"!\[.*?\]\((.*?)\)", card)
    assert linked == [picture.file for picture in survey.figures.pictures] and all(
        Path(out, f).is_file() for f in linked
    )
    assert "6 mcp, 6 synthetic" in card and "| over categories | 2.00 of at most 2.00 |" in card
    assert "- machine-generated" in card and "- found" in card
    assert len(datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path))) == 12


def test_the_same_rows_give_the_same_numbers_and_pictures(run, tmp_path):
    out, _, kept = run
    other = tmp_path / "other"
    finished(other, kept[::-1])
    first, second = survey_run(out).figures, survey_run(other).figures
    assert first.as_dict() == second.as_dict()
    assert [p.content for p in first.pictures] == [p.content for p in second.pictures]


def test_a_few_tools_are_counted_and_not_drawn(tmp_path):
    manifest = finished(tmp_path, [tool(0, MCP), tool(1, MCP)])
    survey, page, card = pages(tmp_path, manifest)
    assert survey.figures.as_dict()["tools"] == {"mcp": 2} and survey.figures.pictures == ()
    assert not page.of("img") and "Coverage of tool space" in card and "![" not in card


def test_pictures_of_an_earlier_run_do_not_stay(run, tmp_path):
    stale = tmp_path / "coverage" / "coverage_all.png"
    stale.parent.mkdir()
    stale.write_bytes(b"old")
    survey_run_of = finished(tmp_path, [tool(0, MCP)])
    pages(tmp_path, survey_run_of)
    assert not stale.exists()


def test_hostile_tools_stay_text(tmp_path):
    bad = from_openai({"name": HOSTILE, "description": HOSTILE}, origin=MCP, server=HOSTILE, category=HOSTILE)
    worse = refuse(bad, HOSTILE, HOSTILE, duplicate_of=bad.id)
    broken = refuse(bad, "schema_invalid", "no", score=0.0)
    broken = type(broken)(**{**broken.__dict__, "id": "b", "input_schema": '{"type": 7, "properties": []}'})
    _, page, card = pages(tmp_path, finished(tmp_path, [bad], [type(worse)(**{**worse.__dict__, "id": "w"}), broken]))
    assert len(page.of("script")) == len(page.of("style")) == 1 and not page.of("img") and not page.of("a")
    html = [t for t in MarkdownIt("commonmark").enable("table").parse(card.split("\n---\n", 1)[1]) if "html" in t.type]
    assert all("script" not in token.content and "img" not in token.content for token in html)


def test_a_harvest_is_told_in_sources(tmp_path):
    failed = [failed_row("x", "start", "needs_credentials", "no key", "KEY", source_file="s.jsonl", source_row=3)]
    manifest = finished(tmp_path, [tool(0, MCP)], (), failed, read=2, servers=1, servers_failed=1, listed=1)
    _, page, card = pages(tmp_path, manifest)
    assert "1 of 1 tools kept (100\u00a0%) from 1 of 2 sources." in page.text
    assert "| sources tried | 2 |" in card and "1 tools of 1 sources" in card
