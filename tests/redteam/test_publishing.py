"""Folders that were tampered with before they are published, and output folders that are somebody else's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.report.card import write_card
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.runs import publish as publishing
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.finish import seal

from tests.disks import small_disk
from tests.pipelines.report import finished_run
from tokenmill import cli

TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A finished run."""
    out = tmp_path / "run"
    manifest = finished_run.build(out)
    write_card(out, manifest)
    write_report(out, manifest)
    (out / "coverage").mkdir()
    (out / "coverage" / "map.png").write_bytes(b"\x89PNG")
    seal(out, manifest)
    (out / "manifest.json").write_text(json.dumps(manifest.as_dict()))
    return out


@pytest.fixture
def refused(out, capsys):
    """Publish the folder: one line that says why not, in exit code 1."""

    def run(*flags: str) -> str:
        code = cli.main(["publish", str(out), "--repo-id", "org/name", "--dry-run", *flags])
        said = capsys.readouterr()
        assert code == 1 and said.out == "" and said.err.count("\n") == 1 and "Traceback" not in said.err
        assert len(said.err) < 700 and TOKEN not in said.err and "\x1b" not in said.err
        return said.err

    return run


def test_the_folder_as_it_was_written_goes(out):
    assert {name for name, _ in publishing.plan(out, "org/name").files} >= {"README.md", "coverage/map.png"}


def linked(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize("name", ["report.html", "README.md", "manifest.json", "coverage/map.png"])
def test_page_that_is_a_link_to_a_file_of_the_host(out, refused, tmp_path, name):
    """`report.html -> /etc/passwd` was uploaded."""
    secret = tmp_path / "secret"
    secret.write_bytes((out / name).read_bytes())  # even where the content is the same
    linked(out / name, secret)
    assert "link" in refused()


def test_page_that_is_a_link_to_another_page(out, refused):
    linked(out / "report.html", out / "README.md")
    assert "link" in refused()


def test_page_that_is_a_hard_link_to_a_file_of_the_host(out, refused, tmp_path):
    (tmp_path / "secret").write_text("root:x:0:0")
    (out / "report.html").unlink()
    os.link(tmp_path / "secret", out / "report.html")
    assert "not what the run wrote" in refused()


def test_page_that_is_a_pipe(out, refused):
    (out / "report.html").unlink()
    os.mkfifo(out / "report.html")
    assert "report.html" in refused()


def test_shard_that_is_a_link(out, refused, tmp_path):
    shard = next((out / "data").glob("*.parquet"))
    (tmp_path / "same.parquet").write_bytes(shard.read_bytes())
    linked(shard, tmp_path / "same.parquet")
    assert "not in the folder" in refused()


def test_folder_of_shards_that_is_a_link(out, refused, tmp_path):
    (out / "data").rename(tmp_path / "elsewhere")
    (out / "data").symlink_to(tmp_path / "elsewhere")
    assert "not in the folder" in refused()


def test_folder_of_pictures_that_is_a_link(out, refused, tmp_path):
    (out / "coverage").rename(tmp_path / "pictures")
    (out / "coverage").symlink_to(tmp_path / "pictures")
    assert "link" in refused()


def test_picture_that_no_run_made(out, refused):
    (out / "coverage" / "holiday.png").write_bytes(b"\x89PNG")
    assert "not part of this run" in refused()


@pytest.mark.parametrize("name", ["README.md", "report.html", "coverage/map.png"])
def test_page_changed_after_the_run(out, refused, name):
    with (out / name).open("ab") as file:
        file.write(b"\n<script>alert(1)</script>\n")
    assert "not what the run wrote" in refused()


def test_edited_card_goes_only_where_that_is_said(out, refused):
    with (out / "README.md").open("a") as file:
        file.write("\nA line of my own.\n")
    assert "--edited-card" in refused()
    assert publishing.plan(out, "org/name", edited_card=True).files


def test_edited_card_with_a_token(out, refused):
    with (out / "README.md").open("a") as file:
        file.write(f"\nUse {TOKEN}\n")
    assert "credential" in refused("--edited-card")


def test_edited_card_does_not_cover_an_edited_report(out, refused):
    (out / "report.html").write_text("mine")
    assert "report.html is not what the run wrote" in refused("--edited-card")


def test_edited_card_that_is_a_link(out, refused, tmp_path):
    (tmp_path / "card").write_bytes((out / "README.md").read_bytes())
    linked(out / "README.md", tmp_path / "card")
    assert "link" in refused("--edited-card")


def test_credential_in_the_rows_is_not_shown_by_the_pages(tmp_path):
    out = tmp_path / "run"
    row = finished_run.rephrasing(1, __import__("random").Random(1), id="x/0", text=f"Log in with {TOKEN} now.")
    manifest = finished_run.build(out, accepted=1, rejected=0, edit={"data": [row]})
    write_card(out, manifest)
    write_report(out, manifest)
    assert TOKEN in (out / "report.html").read_text()
    seal(out, manifest)
    assert TOKEN not in (out / "report.html").read_text() + (out / "README.md").read_text()


YAML = {
    "python tag": "!!python/object/apply:os.system ['touch owned']",
    "python name": "!!python/name:os.system",
    "no mapping": "- a\n- b",
    "unclosed": "license: [mit",
    "tab": "\tlicense: mit",
    "anchor without end": "a: &a [*a]",
    "unknown alias": "a: *nothing",
    "control character": "license: \x01",
    "laughs": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
    "deep": "a: " + "[" * 3000 + "]" * 3000,
    "date that is none": "a: 2024-13-45",
    "sixty digits of sexagesimal": "a: " + ":".join(["59"] * 3000),
}


@pytest.mark.parametrize("name", YAML)
def test_odd_metadata_in_a_card(out, capsys, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (out / "README.md").write_text(f"---\n{YAML[name]}\n---\nText.\n")
    begun = time.monotonic()
    code = cli.main(["publish", str(out), "--repo-id", "org/name", "--dry-run", "--edited-card"])
    said = capsys.readouterr()
    assert time.monotonic() - begun < 20 and "Traceback" not in said.err
    assert code == 0 or (code == 1 and said.err.count("\n") == 1)
    assert not (tmp_path / "owned").exists() and len(said.out) < 1_000_000


MANIFESTS = {
    "a list": lambda m: [m],
    "counts of texts": lambda m: m | {"counts": {"accepted": "many"}},
    "counts a list": lambda m: m | {"counts": [1]},
    "files a text": lambda m: m | {"files": "data"},
    "file without a name": lambda m: m | {"files": [{"rows": 1}]},
    "file with a number for a name": lambda m: m | {"files": [{"file": 7, "rows": 1, "bytes": 1, "sha256": ""}]},
    "file of text rows": lambda m: m | {"files": [{**m["files"][0], "rows": "all"}]},
    "absolute file": lambda m: m | {"files": [{**m["files"][0], "file": "/etc/passwd"}]},
    "file above": lambda m: m | {"files": [{**m["files"][0], "file": "data/../../data/x.parquet"}]},
    "page above": lambda m: m | {"pages": [*m["pages"], {"file": "../secret", "bytes": 6, "sha256": "0"}]},
    "page elsewhere": lambda m: m | {"pages": [*m["pages"], {"file": "/etc/passwd", "bytes": 6, "sha256": "0"}]},
    "no pages": lambda m: m | {"pages": []},
    "pages of null": lambda m: m | {"pages": [None]},
    "unknown field": lambda m: m | {"extra": 1},
    "seed a text": lambda m: m | {"seed": "7"},
    "a token": lambda m: m | {"title": TOKEN},
    "a token in a path": lambda m: m | {"command": ["x", f"--output=https://u:{TOKEN}@h/"]},
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_odd_manifest(out, refused, name, tmp_path):
    (tmp_path / "secret").write_text("secret")
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(MANIFESTS[name](manifest)))
    refused()


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe{", b'{"job": "\\ud800"}', b"9" * 10_000, b"NaN", b""],
    ids=["deep list", "deep object", "UTF-16", "surrogate", "number", "NaN", "empty"],
)
def test_manifest_that_is_none(out, refused, content):
    (out / "manifest.json").write_bytes(content)
    assert "no manifest of a run" in refused()


def test_manifest_of_a_gigabyte(out, refused):
    with (out / "manifest.json").open("wb") as file:
        file.truncate(1 << 30)
    assert "no manifest of a run" in refused()


def test_terminal_codes_in_the_card(out, capsys):
    (out / "README.md").write_text('---\nlicense: "\\e[2J\\e]0;owned\\a"\n---\n')
    cli.main(["publish", str(out), "--repo-id", "org/name", "--dry-run", "--edited-card"])
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err


# Output folders.


@pytest.fixture
def knowledge(tmp_path, run):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(2, 3)))

    def command(out: Path):
        with ScriptedServer(Writer()) as server:
            flags = ("--no-judge", "--no-similarity", "--rephrasings", 1)
            return run("knowledge", "--input", corpus, "--output", out, "--llm", server.spec, *flags)

    return command


def test_somebody_else_s_folder_of_that_name(tmp_path, knowledge):
    """A README.md beside an `.unfinished/` of another program was overwritten."""
    out = tmp_path / "theirs"
    (out / ".unfinished").mkdir(parents=True)
    (out / ".unfinished" / "draft.txt").write_text("my draft")
    (out / "README.md").write_text("my project")
    code, _, err = knowledge(out)
    assert code == 2 and ".unfinished/ is there but no run of ours made it" in err
    assert (out / "README.md").read_text() == "my project" and (out / ".unfinished" / "draft.txt").exists()


def test_run_that_was_cut_short_is_ours(tmp_path, knowledge):
    from tokenmill.pipelines.runs.folder import OutputFolder

    out = tmp_path / "out"
    OutputFolder(str(out)).begin()
    (out / "README.md").write_text("half a card")
    assert knowledge(out)[0] == 0 and not (out / ".unfinished").exists()


def test_temporary_folder_that_is_full(tmp_path, knowledge, monkeypatch):
    import tempfile

    with small_disk(tmp_path / "small", 65536):
        (tmp_path / "small" / "fill").write_bytes(b"x" * 60_000)
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "small"))
        code, _, err = knowledge(tmp_path / "out")
    assert code == 2 and "TMPDIR" in err and "No space left on device" in err and err.count("\n") == 1


def test_temporary_folder_that_fills_up_later():
    from tokenmill.pipelines.runs.runner import _stopped

    for error in (OSError(28, os.strerror(28)), RuntimeError("worker: OSError: [Errno 28] No space left on device")):
        line = str(_stopped(error, ""))
        assert "is full" in line and "TMPDIR" in line


def test_manifest_of_another_program_in_the_output(tmp_path, knowledge):
    out = tmp_path / "theirs"
    out.mkdir()
    (out / "manifest.json").write_text('{"name": "webapp"}')
    assert knowledge(out)[0] == 2 and (out / "manifest.json").read_text() == '{"name": "webapp"}'


def test_refused_folder_says_so_to_callers(out):
    (out / "report.html").write_text("x")
    with pytest.raises(UsageError, match="not what the run wrote"):
        publishing.publish(out, "org/name", dry_run=True)
