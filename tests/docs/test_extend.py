"""The recipes of `docs/develop/extend.md`, followed to the letter in a copy of the code."""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer

import tokenmill
from tests.outputs import manifest, rows

ROOT = Path(tokenmill.IMPORT_ROOT)
PAGE = ROOT / "docs" / "develop" / "extend.md"
_BLOCK = re.compile(r'^( *)```\w+ title="([^"]+)"\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def blocks():
    return {name: textwrap.dedent(text) for _, name, text in _BLOCK.findall(PAGE.read_text())}


@pytest.fixture(scope="module")
def copied(tmp_path_factory, blocks):
    """The code with everything that the page adds. What it does not change is a link."""
    root = tmp_path_factory.mktemp("copy")
    new = {name for name in blocks if not (ROOT / name).exists()}
    changed = set(blocks) - new
    real = {parent for name in blocks for parent in Path(name).parents} | {Path("tokenmill")}
    for folder in sorted(real, key=lambda path: len(path.parts)):
        (root / folder).mkdir(exist_ok=True)
        for entry in (ROOT / folder).iterdir() if (ROOT / folder).is_dir() else ():
            relative = folder / entry.name
            if relative not in real and str(relative) not in changed and entry.name not in (".git", "__pycache__"):
                (root / relative).symlink_to(entry)
    for name in new:
        (root / name).write_text(blocks[name])
    for name, (before, after) in {
        "tokenmill/cli.py": ('    "publish": (', blocks["tokenmill/cli.py"] + '    "publish": ('),
        "pipelines/report/reasons.yaml": (
            "    copies_source:\n",
            textwrap.indent(blocks["pipelines/report/reasons.yaml"], "    ") + "    copies_source:\n",
        ),
    }.items():
        text = (ROOT / name).read_text()
        assert before in text
        (root / name).write_text(text.replace(before, after, 1))
    (root / "tokenmill/__init__.py").unlink()  # a link would lead back here
    (root / "tokenmill/__init__.py").write_text((ROOT / "tokenmill/__init__.py").read_text())
    (root / "pipelines/titles/__init__.py").touch()
    return root


def run(root, *argv):
    env = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        [sys.executable, "-P", *map(str, argv)], cwd=root, env=env, capture_output=True, text=True, timeout=240
    )


def test_the_page_has_every_recipe(blocks):
    assert {"prompts/styles/glossary.md", "prompts/titles/title.md", "judges/form/shouting.py"} <= set(blocks)
    assert {"schemas/titles.py", "pipelines/titles/dag.py", "pipelines/titles/job.py", "tokenmill/cli.py"} <= set(
        blocks
    )


def test_the_job_runs_and_its_rows_are_refused_repaired_and_counted(copied, tmp_path):
    corpus = tmp_path / "in.jsonl"
    texts = {"a": "The mill at Leeds was built in 1790.", "b": "A storm in 1820 destroyed the harbour of Oslo."}
    corpus.write_text("".join(json.dumps({"id": id, "text": text}) + "\n" for id, text in texts.items()))

    corrected = []

    def answer(body):
        asked = body["messages"][-1]["content"]
        corrected.append("<corrections" in asked)
        return "A mill" if "Leeds" in asked else "storm " * 100

    with ScriptedServer(answer) as server:
        command = ("titles", "--input", corpus, "--output", tmp_path / "out", "--llm", server.spec, "--repairs", 1)
        done = run(copied, "beam_runner.py", *command, "--cache", tmp_path / "answers.sqlite")
        assert done.returncode == 0, done.stderr
        estimated = run(copied, "beam_runner.py", *command, "--estimate")
    assert "2 tasks" in estimated.stdout and estimated.returncode == 0, estimated.stderr
    (kept,), (refused,) = rows(tmp_path / "out"), rows(tmp_path / "out", "rejected")
    assert kept["title"] == "A mill" and kept["prompts"] == ["titles/title@1"]
    assert refused["id"] == "b" and refused["reason"] == "balloons"
    assert sorted(corrected) == [False, False, True]
    told = manifest(tmp_path / "out")
    assert told["config"]["repairs"] == 1 and told["calls"]["writer"]["paid"] == 3


def test_the_check_refuses_and_its_reason_is_explained(copied):
    script = """
        from tokenmill.judges.form.shouting import Shouting
        from tokenmill.pipelines.report.reasons import meanings
        verdict = Shouting()("THE MILL AT LEEDS WAS BUILT IN 1790.")
        assert not verdict.passed and verdict.reason in meanings("rejected") and Shouting()("The mill at Leeds was built.").passed
    """
    done = run(copied, "-c", textwrap.dedent(script))
    assert done.returncode == 0, done.stderr


def test_the_style_is_drawn_and_meets_what_all_styles_must(copied):
    script = """
        from tokenmill.pipelines.knowledge.style_pairs import draw_pairs
        assert any(style == "styles/glossary" for id in range(200) for style, _ in draw_pairs(1, 0, str(id)))
    """
    done = run(copied, "-c", textwrap.dedent(script))
    assert done.returncode == 0, done.stderr
    done = run(
        copied, "-m", "pytest", "-p", "no:cacheprovider", "tests/prompts/test_knowledge_prompts.py", "-k", "glossary"
    )
    assert done.returncode == 0, done.stdout
