"""The fuzzer's harnesses take their corpus and some hundred variations of it; and it sees what it is there to see."""

import contextlib
import time

import pytest
from tokenmill.bench.fuzz import __main__ as fuzzing
from tokenmill.bench.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_its_variations_find_nothing(name):
    assert fuzzing.seeds(name)
    count, data, problem = fuzzing.fuzz(name, 1.5, seed=5)
    assert not problem, f"{problem} by {data[:300]!r}"
    assert count > 20


def test_what_nobody_expects_is_a_finding():
    def broken(data):
        raise KeyError("surprise")

    assert fuzzing.tried(Target(broken, (ValueError,)), b"") == "KeyError: 'surprise'"
    assert fuzzing.tried(Target(broken, (KeyError,)), b"") == ""


def test_what_is_tried_outlives_the_process(tmp_path, monkeypatch):
    seen = []
    last = tmp_path / "last"

    def tried(target, data):
        stored = last.read_bytes()
        seen.append(stored[4 : 4 + int.from_bytes(stored[:4], "big")] == data)

    monkeypatch.setattr(fuzzing, "tried", tried)
    fuzzing.fuzz("patch", 0.05, 1, last)
    assert len(seen) > 5 and all(seen)


def test_the_corpus_grows_by_what_reaches_more():
    corpus = fuzzing.seeds("patch")
    assert fuzzing.grown("patch", corpus) == []
    assert all(fuzzing.reached(TARGETS["patch"], data) for data in corpus)
    found = [b'[{"op":"test","path":"/rooms","value":', b"[]"]
    assert len(fuzzing.grown("patch", [*found, *found])) <= 2


def test_a_hang_is_a_finding(monkeypatch):
    monkeypatch.setattr(fuzzing, "HANG", 0.2)

    def spin(data):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(Exception):
                sum(range(1000))

    assert fuzzing.tried(Target(spin, ()), b"").startswith("Hung")
