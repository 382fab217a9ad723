import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.knowledge.row_figures import copy_rate, figures_of, with_similarity

SOURCE = "The old mill by the river ground corn for six villages until it burned down one night."


def test_what_is_copied_is_a_share_of_five_word_pieces():
    assert copy_rate(SOURCE, SOURCE) == 1
    assert copy_rate(SOURCE, "Corn from six villages went to a mill, and that mill was lost to fire.") == 0
    half = "The old mill by the river was lost to a great fire."  # 2 of its 8 pieces
    assert copy_rate(SOURCE, half) == 0.25
    assert copy_rate(SOURCE, "Gone.") == 0
    assert copy_rate("橋は一九〇二年に開通した。", "橋は一九〇二年に完成した。") > 0


def test_figures():
    found = figures_of(SOURCE, SOURCE[:40])
    assert found["source_tokens"] > found["tokens"] > 5
    assert found["length_ratio"] == round(40 / len(SOURCE), 4) and found["sibling_similarity"] is None


def table(rows):
    ids, texts = zip(*rows, strict=True) if rows else ((), ())
    empty = pa.array([None] * len(ids), pa.float64())
    return pa.table({"source_id": list(ids), "sibling_similarity": empty, "text": list(texts)})


def test_siblings_are_compared_and_nobody_else():
    rows = [
        ("a", SOURCE),
        ("b", SOURCE),
        ("a", f"Once: {SOURCE}"),
        ("a", "Nothing in common at all with the other ones."),
    ]
    found = with_similarity(table(rows))["sibling_similarity"].to_pylist()
    assert found[1] is None and found[3] == 0
    assert found[0] == found[2] == round(13 / 14, 4)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xy z", max_size=40)), max_size=12), st.randoms())
def test_the_order_of_rows_does_not_matter(rows, draw):
    order = list(range(len(rows)))
    draw.shuffle(order)
    if not rows:
        return
    here = with_similarity(table(rows))["sibling_similarity"].to_pylist()
    there = with_similarity(table([rows[i] for i in order]))["sibling_similarity"].to_pylist()
    assert [here[i] for i in order] == there


def test_a_run_fills_it_in_and_carries_source_and_address(tmp_path, run):
    import json

    rows = [{**row, "source": "Mills", "href": f"https://example.org/{i}"} for i, row in enumerate(documents(6, 8))]
    random.Random(0).shuffle(rows)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with ScriptedServer(Writer()) as server:
        flags = ("--llm", server.spec, "--no-similarity", "--columns", "url=href", "--direct_running_mode=in_memory")
        code, _, err = run("knowledge", "--input", tmp_path / "a.jsonl", "--output", tmp_path / "out", *flags)
    assert code == 0, err
    kept = [row for path in (tmp_path / "out/data").glob("*.parquet") for row in pq.read_table(path).to_pylist()]
    assert len(kept) == 12
    assert {row["sibling_similarity"] for row in kept} == {1.0}, "this writer knows one wording"
    assert all(row["source"] == "Mills" and row["url"].startswith("https://example.org/") for row in kept)
    card = (tmp_path / "out/README.md").read_text()
    assert "`temperature=0.7` `top_p=0.95`" in card and "`temperature=0.0` `max_tokens=1500`" in card
    assert "### Diversity" in card and "median 1.00, 95 % of them up to 1.00" in card
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    assert manifest["config"]["tolerated_minor"] == 1 and manifest["config"]["entailment_model"] is None


def test_a_worker_that_compares_siblings_does_not_import_pandas():
    script = """
import sys
import pyarrow as pa
from tokenmill.pipelines.knowledge.row_figures import _column
assert _column([0.25, None, 1.0, None]).to_pylist() == [0.25, None, 1.0, None] and _column([]).to_pylist() == []
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
