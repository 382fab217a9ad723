"""The demo that is shipped: three whole runs from recordings, in the time that a newcomer grants."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tokenmill
from tests.outputs import manifest, rows

ROOT = Path(tokenmill.IMPORT_ROOT)
RECORDINGS = ROOT / "examples" / "recordings"
NAMES = ("knowledge", "math", "trajectories")
pytestmark = pytest.mark.skipif(
    not all((RECORDINGS / f"{name}.jsonl").exists() for name in NAMES),
    reason="the recordings are not made yet: python examples/demo.py --record --llm SPEC --judge-llm SPEC",
)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Where the demo wrote to, and the CPU seconds that it took."""
    out = tmp_path_factory.mktemp("demo")
    words = [sys.executable, str(ROOT / "examples" / "demo.py"), "--no-browser", "--output", str(out)]
    begun = time.monotonic()
    done = subprocess.run(words, cwd=out, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return out, time.monotonic() - begun, done.stdout


@pytest.mark.timeout(300)
def test_the_recordings_answer_every_request_of_today(demo):
    out, _, stdout = demo
    assert "Done in" in stdout
    for name in NAMES:
        told = manifest(out / name)
        assert told["counts"]["failed"] == 0 and told["counts"]["accepted"] > 0
        assert all(role["paid"] == role["cached"] == 0 for role in told["calls"].values())
        assert "no model was asked in this run" in (out / name / "report.html").read_text()


@pytest.mark.timeout(300)
def test_kept_and_refused_rows_are_shown(demo):
    out, _, _ = demo
    assert sum(len(rows(out / name, "rejected")) for name in NAMES) > 0
    assert any(
        row["attempts"] > row["chunks"] for kind in ("data", "rejected") for row in rows(out / "knowledge", kind)
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_says_who_played_and_text_and_verdict_are_of_different_hands(name):
    head, *lines = map(json.loads, (RECORDINGS / f"{name}.jsonl").read_text().splitlines())
    assert "played" in head["note"] and len(head["note"]) > 60
    models = {role: {line["model"] for line in lines if line["role"] == role} for role in ("writer", "judge")}
    assert models["writer"] and models["judge"] and not models["writer"] & models["judge"]
    assert (RECORDINGS / f"{name}.jsonl").stat().st_size < 400_000
