"""`corpus`: repetitions and benchmarks taken out over all documents, the same bytes whatever the workers and however often it is
killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tokenmill.training.data.mixture_file import read_mixture

from tests.outputs import manifest, rows
from tokenmill import cli

ROOT = Path(__file__).parents[1]
ITEM = "Zelda packs nine crates of green apples for every cart and sends four carts to the market on five mornings."
WORDS = tuple(
    [
        "river",
        "stone",
        "market",
        "letter",
        "garden",
        "winter",
        "bridge",
        "engine",
        "window",
        "captain",
        "village",
        "music",
        "paper",
        "forest",
        "island",
        "teacher",
        "station",
        "painting",
        "history",
        "weather",
        "mountain",
        "kitchen",
        "journey",
        "harvest",
        "library",
        "sailor",
        "theatre",
        "castle",
        "orchard",
        "lantern",
    ]
)


def page(number, sentences=25):
    """A page of its own that published filters take for prose."""
    draw = random.Random(number)

    def words():
        return " ".join(draw.choice(WORDS) for _ in range(draw.randrange(6, 10)))

    def sentence():
        return f"In {1500 + draw.randrange(500)} the {words()} was with {draw.randrange(9999)} of the {words()}."

    lines = [sentence() for _ in range(sentences)]
    return "\n\n".join(" ".join(lines[n : n + 5]) for n in range(0, sentences, 5))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Pages, of which one stands twice, one again with a word changed, one quotes a benchmark, one was made of another."""
    folder = tmp_path_factory.mktemp("sources")
    web = [{"text": page(n), "url": f"http://pages.org/{n}"} for n in range(60)]
    web += [{"text": web[3]["text"]}, {"text": web[4]["text"].replace(" river ", " brook ", 1)}]
    web += [{"text": f"{page(90)}\n\n{ITEM}"}]
    made = [{"text": page(91), "source_text": f"{page(92)} {ITEM}", "source_id": "s", "id": "m"}, {"text": page(93)}]
    for name, read in (("web", web), ("made", made)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in read))
    (folder / "quiz.jsonl").write_text(json.dumps({"question": ITEM, "id": 5}) + "\n")
    return folder


def command(sources, out, *more):
    return ("corpus", "--source", f"web={sources}/web.jsonl", f"knowledge={sources}/made.jsonl",
            "--decontaminate", f"{sources}/quiz.jsonl", "--output", str(out), *more)  # fmt: skip


def shards(out):
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(Path(out).glob("*/*.parquet"))}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_repetitions_and_items_of_benchmarks_are_refused_with_what_they_repeat(sources, tmp_path, run):
    code, _, err = run(*command(sources, tmp_path / "out"))
    assert code == 0, err
    told = manifest(tmp_path / "out")
    assert told["counts"]["read"] == 65 and told["counts"]["failed"] == 0
    assert told["counts"]["accepted"] + told["counts"]["rejected"] == 65
    assert {"exact_duplicate": 1, "near_duplicate": 1, "contaminated": 2}.items() <= told["reasons"].items()
    assert told["benchmarks"] == {"quiz": {"items": 1, "too_short": 0, "refused": 2}}
    kept = {row["id"]: row for row in rows(tmp_path / "out")}
    refused = {row["reason"]: row for row in rows(tmp_path / "out", "rejected")}
    same = refused["exact_duplicate"]
    assert kept[same["duplicate_of"]]["text"] == same["text"] and same["similarity"] == 1.0
    assert kept[refused["near_duplicate"]["duplicate_of"]]["text"].replace(" river ", " brook ", 1) and (
        0.75 <= refused["near_duplicate"]["similarity"] < 1
    )
    held = [row for row in rows(tmp_path / "out", "rejected") if row["reason"] == "contaminated"]
    assert all(
        "5 of quiz" in row["verdicts"][-1]["detail"] and "nine crates" in row["verdicts"][-1]["quote"] for row in held
    )
    assert {ITEM in row["text"] for row in held} == {True, False}, "by its own text, and by that which it was made of"
    assert "Decontamination" in (tmp_path / "out" / "README.md").read_text()


def test_duplicates_and_passages_can_be_kept(sources, tmp_path, run):
    assert run(*command(sources, tmp_path / "out", "--keep-duplicates"))[0] == 0
    assert set(manifest(tmp_path / "out")["reasons"]) == {"contaminated"}
    code, _, err = run(*command(sources, tmp_path / "bad", "--near-duplicate", "0.2"))
    assert code == 2 and "--near-duplicate" in err


@pytest.fixture(scope="module")
def alone(sources, tmp_path_factory):
    """What a run in one process writes."""
    out = tmp_path_factory.mktemp("alone") / "out"
    assert cli.main([*command(sources, out, "--direct_running_mode=in_memory")]) == 0
    return shards(out)


def test_a_mixture_is_written_for_the_loader_and_again_in_a_moment(sources, tmp_path, run):
    out = tmp_path / "out"
    shares = ("--mixture", "web=.75,knowledge=.25", "--exposures", 8)
    assert run(*command(sources, out, *shares, "--tokens", 4000))[0] == 0
    told = manifest(out)["strata"]
    kept = rows(out)
    for domain in ("web", "knowledge"):
        mine = [row["tokens"] for row in kept if row["domain"] == domain]
        assert sum(one["tokens"] for one in told if one["domain"] == domain) == sum(mine)
    found, tokens = read_mixture(out)
    assert tokens == 4000 and {source.name: source.weight for source in found} == {"web": 0.75, "knowledge": 0.25}
    assert sum(source.shards.rows for source in found) == len(kept)
    before = shards(out)
    assert run(*command(sources, out, "--mixture", "web=1", "--tokens", "1K"))[0] == 0 and shards(out) == before
    assert len(read_mixture(out)[0]) == 1
    code, _, err = run(*command(sources, out, *shares, "--tokens", "10M"))
    assert code == 2 and "web=0.75 of 10,000,000 tokens" in err.strip().splitlines()[-1]
    assert run(*command(sources, out, "--mixture", "web=1"))[0] == 2


TWO = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


def test_the_number_of_workers_does_not_change_a_byte(sources, alone, tmp_path, run):
    assert run(*command(sources, tmp_path / "two", *TWO))[0] == 0
    assert shards(tmp_path / "two") == alone


@pytest.mark.slow
def test_killed_at_random_moments_and_repeated_it_writes_the_same_bytes(sources, alone, tmp_path):
    argv = [sys.executable, str(ROOT / "beam_runner.py"), *command(sources, tmp_path / "killed", *TWO)]
    draw, killed = random.Random(7), 0
    while killed < 5:
        process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(draw.uniform(1, 8))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        elif not process.wait():
            shutil.rmtree(tmp_path / "killed")
        process.wait()
    finished = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert shards(tmp_path / "killed") == alone
