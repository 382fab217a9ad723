"""What is shipped to be tried: the notebook, and the script of the demo."""

import ast
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer

import tokenmill
from tests.outputs import manifest, rows

EXAMPLES = Path(tokenmill.IMPORT_ROOT, "examples")
RECORDED = 'LLM = "recorded:recordings/knowledge.jsonl"'


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A model that is no writer: all that it writes is refused."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ScriptedServer(lambda body: "Nothing of this is so, and nobody has ever said it.") as server:
        yield server


def shown(cell, names):
    """Run a cell; the value of its last line, as a notebook shows it."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell["id"], "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)


@pytest.mark.skipif(
    not (EXAMPLES / "recordings" / "knowledge.jsonl").exists(),
    reason="the recordings are not made yet: python examples/demo.py --record --llm SPEC --judge-llm SPEC",
)
def test_the_notebook_runs(monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLES)
    cells = [cell for cell in json.loads(Path("notebook.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    assert RECORDED in "".join(cells[0]["source"])
    names = {}
    values = {cell["id"]: shown(cell, names) for cell in cells}
    counts = values["run"].counts
    assert counts["read"] == 10 == counts["accepted"] + counts["rejected"] and counts["accepted"]
    assert len(values["kept"]) == counts["accepted"] and len(values["refused"]) == counts["rejected"]
    assert values["report"]._repr_html_().startswith("<iframe")
    printed = capsys.readouterr().out
    assert "facts date_added" in printed and "No call was made" in printed and "to send:" in printed
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells), (
        "a notebook is kept without its outputs"
    )


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """The demo's script, with recordings of its own: its exit code."""
    spec = importlib.util.spec_from_file_location("demo", EXAMPLES / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RECORDINGS", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def main(*words):
        monkeypatch.setattr(sys, "argv", ["demo.py", "--no-browser", "--output", str(tmp_path / "out"), *words])
        return module.main()

    return main


def test_the_demo_is_recorded_and_replayed_by_one_script(demo, model, tmp_path, capsys):
    assert demo("--only", "knowledge", "--record", "--llm", model.spec) == 0
    asked = model.log.answered
    before = rows(tmp_path / "out" / "knowledge", "rejected")
    assert len(before) == 10
    assert demo("--only", "knowledge") == 0 and model.log.answered == asked
    assert [row["text"] for row in rows(tmp_path / "out" / "knowledge", "rejected")] == [row["text"] for row in before]
    assert manifest(tmp_path / "out" / "knowledge")["counts"]["read"] == 10
    assert "report.html" in capsys.readouterr().out


def test_a_demo_whose_recording_is_stale_says_how_to_make_it_anew(demo, tmp_path, capsys):
    (tmp_path / "knowledge.jsonl").write_text('{"tokenmill_recording": 1, "note": ""}\n')
    assert demo("--only", "knowledge") == 1
    told = capsys.readouterr().err
    assert "has no answer to a request of the writer" in told
    assert "python examples/demo.py --record --llm SPEC --judge-llm SPEC --only knowledge" in told


def test_a_live_demo_wants_a_model(demo, capsys):
    with pytest.raises(SystemExit):
        demo("--live")
    assert "name a model" in capsys.readouterr().err
