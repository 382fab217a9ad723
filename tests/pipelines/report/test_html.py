"""The report: one offline page that says what came of a run, and that hostile rows cannot take over."""

from __future__ import annotations

import base64
import hashlib
import html
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.pipelines.report import charts, formatting
from tokenmill.pipelines.report.highlight import marked, quoted
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.report.survey import survey_run
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.verdicts import Finding, Judgement

from tests.pipelines.report import finished_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Elements of a page in order, and the text of each class asked for."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if self._open and self._open[-1] in ("script", "style"):
            self.contents.setdefault(self._open[-1], []).append(data)
        else:
            self.text += data

    def of(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        names = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [a for t, a in self.elements if t == tag and all(a.get(k) == v for k, v in names.items())]


def made(out: Path, **arguments) -> Page:
    manifest = finished_run.build(out, **arguments)
    return Page(write_report(out, manifest).read_text())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return made(tmp_path_factory.mktemp("report") / "run", accepted=60, rejected=28, broken=5)


class TestOffline:
    def test_names_no_address_outside_the_page(self, page):
        for tag, attributes in page.elements:
            for name in ("src", "href", "action", "data", "poster", "srcset", "formaction", "background"):
                if name in attributes:
                    assert (tag, attributes[name]) == ("link", "data:,")
            assert "style" not in attributes and not [a for a in attributes if a.startswith("on")]
        assert "url(" not in page.contents["style"][0] and "@import" not in page.contents["style"][0]

    def test_the_policy_admits_our_style_and_script_alone(self, page):
        (policy,) = page.of("meta", http_equiv="Content-Security-Policy")
        rules = dict(rule.split(" ", 1) for rule in policy["content"].split("; "))
        assert rules["default-src"] == "'none'"
        for tag in ("style", "script"):
            (content,) = page.contents[tag]
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


class TestHostileRows:
    @pytest.fixture
    def hostile(self, tmp_path):
        text, rng = finished_run.HOSTILE, random.Random(0)
        changes = {"title": text, "text": text, "style": text, "model": text}
        bad = Judgement(text, 0, 0, False, 0.1, text, [Finding(text, text, text, text)])
        return tmp_path / "run", {
            "accepted": 0,
            "rejected": 0,
            "broken": 0,
            "edit": {
                "data": [finished_run.rephrasing(0, rng, id='"><script>', **changes)],
                "rejected": [
                    finished_run.refused(
                        1, rng, reason=text, refused_text=text, refused_source=text, verdicts=[bad], **changes
                    )
                ],
            },
            "title": text,
            "reasons": {text: 1},
            "errors": {text: 1},
            "config": {text: text},
            "command": [text],
            "prompts": [{"name": text, "version": 1, "sha256": "0", "text": text}],
            "inputs": [{"file": text, "bytes": 1, "rows": 1}],
        }

    def test_stay_text(self, hostile):
        out, run = hostile
        page = made(out, **run)
        assert len(page.of("script")) == len(page.of("style")) == 1
        assert not page.of("img") and not page.of("a")
        assert "<img src=x onerror=alert(2)>" in page.text
        assert "{{ 7*7 }}" in page.text
        assert not set(page.text) & {"\x00", "\x1b", "\u202e"}

    @pytest.mark.skipif(not CHROMIUM, reason="no Chromium here")
    def test_in_a_browser_the_filters_work_and_nothing_else_runs(self, hostile, tmp_path):
        out, run = hostile
        made(out, **run)
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'chromium'}"]
        ended = subprocess.run(
            [*command, "--virtual-time-budget=1000", "--dump-dom", (out / "report.html").as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
        )
        page = Page(ended.stdout)
        assert page.of("html", class_="js"), ended.stderr[-500:]
        (toolbar,) = page.of("div", id="toolbar")
        assert "hidden" not in toolbar
        assert len(page.of("article")) == 2
        assert len(page.of("script")) == 1 and not page.of("img")


class TestGlance:
    def test_outcome_tokens_cost_and_models(self, page):
        assert "60 of 93 rows kept (64.5\u00a0%)." in page.text
        assert "168k" in page.text  # 80,412 + 31,007 + 50,100 + 6,020 tokens
        assert "$0.0713" in page.text
        assert "Qwen/Qwen3-8B" in page.text and "Qwen/Qwen3-32B" in page.text
        assert page.of("header", class_="top good")

    def test_reasons_are_explained(self, page):
        explained = [span["title"] for span in page.of("span", class_="name") if "title" in span]
        assert any("number that the source does not have" in text for text in explained)

    def test_an_unpriced_model_has_no_price(self, tmp_path):
        calls = {"writer": {"paid": 3, "cached": 0, "prompt_tokens": 10, "completion_tokens": 5, "usd": None}}
        assert "no price is known" in made(tmp_path / "run", calls=calls).text

    def test_a_run_from_the_cache_cost_nothing(self, tmp_path):
        calls = {"writer": {"paid": 0, "cached": 9, "prompt_tokens": 0, "completion_tokens": 0, "usd": None}}
        assert "every answer came from the cache" in made(tmp_path / "run", calls=calls).text

    def test_what_earlier_invocations_and_useless_answers_cost_is_told(self, tmp_path):
        calls = {
            "writer": {"paid": 3, "prompt_tokens": 1_000, "completion_tokens": 50, "wasted_tokens": 420, "usd": 0.5},
        }
        page = made(tmp_path / "run", calls=calls, spent={"tokens": 98_765, "shared": False}).text
        assert "420 for answers that could not be used" in page
        assert "98.8k over all invocations" in page and "$0.5" in page and "3 paid calls in the last invocation" in page
        assert "Over all invocations of the command, interrupted ones included, 98,765 tokens were billed." in page
        page = made(tmp_path / "stage", calls=calls, spent={"tokens": 98_765, "shared": True}).text
        assert "98.8k over all stages and invocations" in page
        assert "98,765 tokens were billed for this stage and those before it." in page

    def test_a_run_in_one_go_names_no_other_invocations(self, page, tmp_path):
        calls = {"writer": {"paid": 3, "prompt_tokens": 1_000, "completion_tokens": 50, "usd": 0.5}}
        once = made(tmp_path / "run", calls=calls, spent={"tokens": 1_050, "shared": False}).text
        assert "over all invocations" not in once and "in the last invocation" not in once
        assert "could not be used" not in once
        assert "Over all invocations" not in page.text, "no ledger, no sum"

    def test_nothing_kept(self, tmp_path):
        page = made(tmp_path / "run", accepted=0)
        assert page.of("header", class_="top bad")
        assert "None of 17 rows was kept." in page.text

    def test_no_rows(self, tmp_path):
        page = made(tmp_path / "run", accepted=0, rejected=0, broken=0)
        assert "The run made no rows." in page.text and not page.of("article")


class TestSamples:
    def test_twenty_of_a_class_spread_over_reasons_and_styles(self, page):
        shown = {f: page.of("article", data_folder=f) for f in ("data", "rejected", "failed")}
        assert {f: len(s) for f, s in shown.items()} == {"data": 20, "rejected": 20, "failed": 5}
        assert {s["data-reason"] for s in shown["rejected"]} == set(finished_run.FAULTS)
        assert {s["data-reason"] for s in shown["failed"]} == {"empty_text", "CallRefused"}
        assert {s["data-style"] for s in shown["data"]} == set(finished_run.STYLES)
        assert {s["data-repaired"] for s in shown["data"]} == {"yes", "no"}

    def test_source_and_rewrite_stand_side_by_side_with_differing_facts_marked(self, tmp_path):
        rng = random.Random(0)
        row = finished_run.rephrasing(
            2, rng, source_text="The mill opened in 1786.", text="The mill opened in 1876.", title="Mill"
        )
        source = write_report(tmp_path, finished_run.build(tmp_path, 0, 0, 0, edit={"data": [row]})).read_text()
        assert re.search(r'opened in <mark class="lost" title="[^"]+">1786</mark>\.', source)
        assert re.search(r'opened in <mark class="added" title="[^"]+">1876</mark>\.', source)

    def test_a_quotation_of_the_refusing_verdict_is_marked_where_it_stands(self, tmp_path):
        rng = random.Random(0)
        finding = Finding("unsupported_claim", "Remove it.", "a mill", "built by <giants>")
        row = finished_run.refused(
            0,
            rng,
            refused_source="There was a mill here.",
            refused_text="A mill built by <giants> was here.",
            verdicts=[Judgement("judge", 0, 1, False, 0.2, "unsupported_claim", [finding])],
        )
        source = write_report(tmp_path, finished_run.build(tmp_path, 0, 0, 0, edit={"rejected": [row]})).read_text()
        marks = re.findall(r'<mark class="[^"]*quote" title="[^"]*">([^<]*)</mark>', source)
        assert "a mill" in marks and "built by &lt;giants&gt;" in marks

    def test_a_repaired_row_shows_its_history(self, tmp_path):
        rng = random.Random(0)
        lost = Finding("number_lost", "Keep the number 1786.", "1786", "")
        verdicts = [
            Judgement("coverage", 1, 0, False, 0.4, "number_lost", [lost]),
            Judgement("coverage", 1, 1, True, 0.99, "", []),
        ]
        row = finished_run.rephrasing(0, rng, verdicts=verdicts)
        page = made(tmp_path / "run", accepted=0, rejected=0, broken=0, edit={"data": [row]})
        shown = page.text[page.text.index("First answer") :]
        order = [shown.index(s) for s in ("First answer", "number lost", "Keep the number 1786.", "Repair 1", "0.99")]
        assert order == sorted(order)
        assert page.of("article", data_repaired="yes")

    def test_rows_of_another_job_are_shown_too(self, tmp_path):
        import pyarrow as pa

        out = tmp_path / "run"
        manifest = finished_run.build(out, 0, 0, 0, reasons={}, errors={})
        (out / "data").mkdir()
        dialogue = '[{"role": "user", "content": "What is <b>2+2</b>?"}, {"role": "assistant", "content": "Four."}]'
        table = pa.table({"id": ["t0", None], "messages": [dialogue, "not JSON"], "score": [0.5, None]})
        pq.write_table(table, out / "data/train-00000-of-00001.parquet")
        page = Page(write_report(out, manifest).read_text())
        assert len(page.of("article")) == 2
        assert "What is <b>2+2</b>?" in page.text and "Four." in page.text


class TestBounds:
    def test_size_does_not_grow_with_rows_or_texts(self, tmp_path):
        rng = random.Random(0)
        long = "The mill of Saltby turned slowly & surely. " * 3_000
        rows = [finished_run.rephrasing(i, rng, text=long, source_text=long) for i in range(400)]
        manifest = finished_run.build(tmp_path / "run", 0, 0, 0, edit={"data": rows})
        page = write_report(tmp_path / "run", manifest)
        assert page.stat().st_size < 2_000_000
        assert "more characters in the shard" in page.read_text()

    def test_rows_are_streamed(self, tmp_path):
        import pyarrow as pa

        rng = random.Random(0)
        (tmp_path / "data").mkdir()
        text = "".join(rng.choices("abcdefgh ", k=20_000))
        with pq.ParquetWriter(tmp_path / "data/train-00000-of-00001.parquet", to_table([], _ROW).schema) as shard:
            for group in range(12):
                rows = [finished_run.rephrasing(group * 250 + i, rng, text=text[i:] + text[:i]) for i in range(250)]
                shard.write_table(to_table(rows, _ROW))
                del rows
        before = pa.total_allocated_bytes()
        pool = pa.system_memory_pool()
        previous = pa.default_memory_pool()
        pa.set_memory_pool(pool)
        try:
            peak_before = pool.max_memory()
            survey = survey_run(tmp_path)
            peak = pool.max_memory() - peak_before
        finally:
            pa.set_memory_pool(previous)
        assert survey.data.count == 3000 and survey.data.characters == 3000 * 20_000
        assert 1_000_000 < peak < 30_000_000, "half of the 60 MB that the texts take"
        assert pa.total_allocated_bytes() - before < 2_000_000


_ROW = finished_run.Rephrasing


@st.composite
def text_with_spans(draw):
    text = draw(st.text(alphabet=st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=60))
    place = st.integers(-3, len(text) + 3)
    spans = st.lists(st.tuples(place, place, st.sampled_from(["number_lost", '"><b>'])), max_size=5)
    return text, {"lost": draw(spans), "quote": draw(spans)}


class TestMarks:
    @given(text_with_spans(), st.integers(0, 70))
    @settings(max_examples=300, deadline=None)
    def test_marks_change_no_character(self, given_, limit):
        text, layers = given_
        shown = str(marked(text, layers, limit))
        assert html.unescape(re.sub(r"</?mark[^>]*>", "", shown)) == formatting.visible(text[:limit])

    def test_overlapping_spans_carry_both_classes(self):
        shown = marked("abcdef", {"lost": [(0, 4, "name_lost")], "quote": [(2, 6, "quoted")]}, 100)
        assert shown == (
            '<mark class="lost" title="name lost">ab</mark><mark class="lost quote" title="name lost; quoted">cd</mark>'
            '<mark class="quote" title="quoted">ef</mark>'
        )

    def test_only_what_stands_there_is_quoted(self):
        assert quoted("one two", ["two", "three", "", " "], "q") == [(4, 7, "q")]


class TestCharts:
    def test_a_small_part_is_still_seen(self):
        bar = charts.stacked_bar([("kept", 999_999, "kept"), ("failed", 1, "failed")])
        assert 'class="failed" x="99.6" y="0" width="0.4"' in bar and "failed: 1<" in bar

    def test_bars_have_the_heights_of_their_counts(self):
        svg = charts.histogram([("kept", "passed", np.array([0, 10, 40]))], 0, 3)
        heights = [float(h) for h in re.findall(r'class="kept"[^>]*height="([\d.]+)"', svg)]
        assert heights == [20, 80]
        assert "1.00 to 2.00: 10 passed" in svg

    @pytest.mark.parametrize(
        ("part", "whole", "said"),
        [
            (1, 3, "33.3 %"),
            (0, 5, "0 %"),
            (5, 5, "100 %"),
            (1, 10**6, "< 0.1 %"),
            (10**6 - 1, 10**6, "> 99.9 %"),
            (0, 0, "–"),
        ],
    )
    def test_shares_never_round_something_to_nothing(self, part, whole, said):
        assert formatting.share(part, whole) == said

    @pytest.mark.parametrize(
        ("n", "said"), [(0, "0"), (999, "999"), (1000, "1k"), (999_700, "1M"), (12_345, "12.3k"), (4.56e9, "4.56B")]
    )
    def test_compact(self, n, said):
        assert formatting.compact(n) == said
