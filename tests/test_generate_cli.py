"""A task of the user's own, with his prompt, his schema and his checks, from the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tokenmill.bench.servers.batches import BatchServer
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer

from tests.outputs import manifest, rows

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
    "additionalProperties": False,
}
CHECK = """
from tokenmill.schemas.verdicts import Finding, Verdict

class Polite:
    def __call__(self, source, text, *, answer):
        if "rude" in answer["question"]:
            return Verdict("polite", False, 0.0, "rude", (Finding("rude", "Be polite."),))

def no_towers(source, text):
    yield Verdict("towers", "tower" not in text, 1.0, "tower" if "tower" in text else "")

def wrong(source, text):
    return 0.5
"""


@pytest.fixture
def folder(tmp_path):
    made = [{"id": f"row-{i}", "text": f"Fact {i}.\nIt is long." * 9, "level": "easy"} for i in range(6)]
    (tmp_path / "in.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [*made, {"id": "x", "text": "no level"}])
    )
    (tmp_path / "ask.md").write_text("# system\nYou ask.\n# user\nAsk something {{level}} about:\n{{text}}\n")
    (tmp_path / "answer.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "mine.py").write_text(CHECK)
    return tmp_path


def run(folder, spec, *more, job="generate", out="out"):
    argv = [sys.executable, str(ROOT / "beam_runner.py"), job, "--input", "in.jsonl", "--output", out]
    argv += ["--llm", spec, "--cache", "answers.sqlite", *more]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    return done.returncode, done.stdout, done.stderr


OWN = ("--prompt", "ask.md", "--schema", "answer.json", "--check", "mine:Polite")


def answer(body):
    """Rude at first; to fact 3 always, and to fact 4 nothing that meets the schema."""
    said = str(body["messages"])
    if "Fact 4." in said:
        return "{}"
    rude = "it was refused for this" not in said or "Fact 3." in said
    return json.dumps({"question": "a rude one" if rude else "a kind one", "answer": "yes"})


@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_answered_checked_mended_refused_or_failed(folder, workers):
    mode = "multi_processing" if workers > 1 else "in_memory"
    with ScriptedServer(answer) as server:
        flags = (*OWN, f"--direct_running_mode={mode}", f"--direct_num_workers={workers}")
        code, said, errors = run(folder, server.spec, *flags)
        assert code == 0, errors
        assert "4 kept, 1 refused, 2 failed of 7 rows read" in said
        asked = server.log.requests
        assert run(folder, server.spec, *flags)[0] == 0 and server.log.requests == asked
    kept, refused, failed = (rows(folder / "out", kind) for kind in ("data", "rejected", "failed"))
    assert [row["id"] for row in refused] == ["row-3"] and refused[0]["reason"] == "rude"
    assert {row["id"]: row["error"] for row in failed} == {"row-4": "StructuredAnswerInvalid", "x": "no_text"}
    first = next(row for row in kept if row["id"] == "row-0")
    assert json.loads(first["answer"]) == {"question": "a kind one", "answer": "yes"} and first["attempts"] == 2
    assert [(v["check"], v["passed"]) for v in first["verdicts"]] == [("polite", False), ("complete", True)]
    told = manifest(folder / "out")
    assert [one["check"] for one in told["config"]["checks"]] == ["mine:Polite"]
    assert "Ask something {{level}}" in next(p["text"] for p in told["prompts"] if p["name"].startswith("own/ask-"))
    body = next(orjson_body for orjson_body in map(json.loads, server.log.bodies) if "Fact 0." in str(orjson_body))
    system, user = body["messages"][:2]
    assert system["content"] == "You ask." and "Ask something easy about:\n<text-" in user["content"]


def test_another_prompt_or_check_is_another_run(folder):
    with ScriptedServer(lambda body: "fine") as server:
        plain = ("--prompt", "ask.md")
        assert run(folder, server.spec, *plain)[0] == 0
        (folder / "mine.py").write_text(CHECK + "\n# changed\n")
        for more in (("--check", "mine.py:no_towers"), ("--answer-tokens", "9")):
            code, _, errors = run(folder, server.spec, *plain, *more)
            assert code == 2 and "other settings" in errors
        (folder / "ask.md").write_text("Now {{text}}?")
        assert "other settings" in run(folder, server.spec, *plain)[2]


def test_it_is_estimated_previewed_and_asked_in_batches_like_any_job(folder):
    with BatchServer(lambda body: "A fine answer.", working=0.1) as server:
        code, said, _ = run(folder, f"{server.spec}?batch&poll=0.1", "--prompt", "ask.md", "--estimate")
        assert code == 0 and "1 batches one after the other" in said and server.log.requests == 0
        code, said, _ = run(folder, server.spec, "--prompt", "ask.md", "--preview", "2")
        assert code == 0 and "2 kept" in said
        code, _, errors = run(folder, f"{server.spec}?batch&poll=0.1", "--prompt", "ask.md")
        assert code == 0, errors
        assert sum(server.books.sent.values()) == 4 and server.log.requests == 2
    assert {row["text"] for row in rows(folder / "out")} == {"A fine answer."}


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ((), "--prompt FILE is required"),
        (("--prompt", "none.md"), "none.md cannot be read"),
        (("--prompt", "mine.py"), "it has no {{column}}"),
        (("--prompt", "ask.md", "--schema", "mine.py"), "--schema mine.py"),
        (("--prompt", "ask.md", "--check", "mine:Nothing"), "there is no Nothing in mine"),
        (("--prompt", "ask.md", "--check", "nobody:X"), "No module named 'nobody'"),
        (("--prompt", "ask.md", "--check", "unheard-of"), "write module:Class or FILE.py:Class"),
        (("--prompt", "other.md"), "no column 'subject'"),
    ],
)
def test_what_is_wrong_is_one_line_before_anything_is_asked(folder, more, hint):
    (folder / "other.md").write_text("{{subject}}")
    with ScriptedServer(answer) as server:
        code, _, errors = run(folder, server.spec, *more)
        assert code == 2 and hint in errors and errors.count("\n") == 1, errors
        assert server.log.requests == 0


def test_a_check_that_returns_no_verdict_fails_its_rows_by_name(folder):
    with ScriptedServer(lambda body: "fine") as server:
        run(folder, server.spec, "--prompt", "ask.md", "--check", "mine:wrong")
    (message,) = {row["message"] for row in rows(folder / "out", "failed") if row["step"] == "rollout"}
    assert message == "check mine:wrong returned float, not a Verdict, several, or None"


def test_knowledge_takes_the_same_checks(folder):
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(8)))
    with ScriptedServer(Writer()) as server:
        flags = ("--no-judge", "--no-similarity", "--rephrasings", "1", "--repairs", "0", "--check", "mine:no_towers")
        code, _, errors = run(folder, server.spec, *flags, job="knowledge")
        assert code == 0, errors
    kept, refused = rows(folder / "out"), rows(folder / "out", "rejected")
    assert kept and refused and len(kept) + len(refused) == 8
    assert {row["reason"] for row in refused} == {"tower"} and all("tower" in row["refused_text"] for row in refused)
    assert not any("tower" in row["text"] for row in kept)
