"""`--candidates` and `--check` for `math`: what is drawn, priced, kept, refused and on record."""

import json
import re

import pytest
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.rollouts.candidates import APART

from tests.outputs import manifest, rows
from tests.servers.maths import Teacher, problem

CHECK = """from tokenmill.schemas.verdicts import Finding, Verdict


def no_totals(source, text, *, title=""):
    assert "boxes" in source and "#### " in source
    if "The total is" not in text:
        return None
    found = Finding("says_total", "Do not speak of a total.", "", "The total is")
    return Verdict("no_totals", False, 0.0, "says_total", (found,))
"""


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(json.dumps(problem(number)) + "\n" for number in range(6)))
    (tmp_path / "my.py").write_text(CHECK)
    return path


def odd(body):
    return re.search(r"has \d*[13579] boxes", body["messages"][-1]["content"]) is not None


def wrong_at_first(note, body):
    """Every first answer about an odd number of boxes is wrong; others, of other seeds, are right."""
    return {**note, "result": "So it is.", "answer": "1 pen"} if odd(body) and body["seed"] < APART else note


def math(corpus, out, server, *more):
    flags = ("--no-judge", "--repairs", "0", *more)
    return ("math", "--input", corpus, "--output", out, "--llm", server.spec, *flags)


def test_candidates_are_drawn_where_the_first_is_refused_and_priced(corpus, tmp_path, run):
    with ScriptedServer(Teacher(spoil=wrong_at_first)) as server:
        assert run(*math(corpus, tmp_path / "plain", server, "--cache", tmp_path / "plain.sqlite"))[0] == 0
        refused = len(rows(tmp_path / "plain", "rejected"))
        assert 0 < refused < 6 and {row["reason"] for row in rows(tmp_path / "plain", "rejected")} == {"wrong_answer"}
        code, said, errors = run(*math(corpus, tmp_path / "out", server, "--candidates", 3, "--estimate"))
        assert code == 0, errors
        assert " 6 " in said.split("expected")[1].split("at most")[0] and " 18 " in said.split("at most")[1], said
        always = run(*math(corpus, tmp_path / "a", server, "--candidates", 3, "--candidates-always", "--estimate"))[1]
        assert " 18 " in always.split("expected")[1].split("at most")[0], always
        server.log.requests = 0
        code, _, errors = run(*math(corpus, tmp_path / "out", server, "--candidates", 3))
        assert code == 0, errors
        assert server.log.requests == 6 + 2 * refused
    kept = rows(tmp_path / "out")
    assert len(kept) == 6 and {row["attempts"] for row in kept} == {1, 3}
    drawn = next(row for row in kept if row["attempts"] == 3)
    missed = {(v["reason"], v["attempt"]) for v in drawn["verdicts"] if not v["passed"]}
    assert ("wrong_answer", 0) in missed and {attempt for _, attempt in missed} == {0}


def test_a_check_of_ones_own_refuses_notes_and_is_on_record(corpus, tmp_path, run):
    with ScriptedServer(Teacher()) as server:
        flags = ("--check", f"{tmp_path}/my.py:no_totals")
        code, _, errors = run(*math(corpus, tmp_path / "out", server, *flags))
        assert code == 0, errors
        code, _, errors = run(*math(corpus, tmp_path / "out2", server, "--check", "my_missing:Nothing"))
        assert (code == 2 and errors.startswith("tokenmill: --check my_missing:Nothing")) or "--check" in errors
    refused = rows(tmp_path / "out", "rejected")
    assert len(refused) == 6 and {row["reason"] for row in refused} == {"says_total"}
    (told,) = manifest(tmp_path / "out")["config"]["checks"]
    assert told["check"].endswith("my.py:no_totals") and len(told["sha256"]) == 64
