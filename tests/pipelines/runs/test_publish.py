"""Publishing a finished run: what is refused before anything is sent, what goes, and what a Hub is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tokenmill.pipelines.report.card import write_card
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.runs import publish as publishing
from tokenmill.pipelines.runs.errors import RunFailed, UsageError
from tokenmill.pipelines.runs.finish import seal

from tests.pipelines.report import finished_run
from tests.pipelines.runs.fake_hub import FakeHub, serve
from tokenmill import cli

REPO = "my-org/articles"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    out = tmp_path / "run"
    manifest = finished_run.build(out)
    write_card(out, manifest)
    write_report(out, manifest)
    seal(out, manifest)
    (out / "manifest.json").write_text(json.dumps(manifest.as_dict()))
    return out


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch):
    import huggingface_hub.constants as constants

    with serve(FakeHub()) as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield hub


def edit_manifest(out: Path, change) -> None:
    path = out / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def run(*argv: str) -> int:
    return cli.main(["publish", *argv])


class TestDryRun:
    def test_shows_exactly_what_would_go_without_network(self, out, capsys, monkeypatch):
        monkeypatch.setattr("socket.socket.connect", lambda *a: pytest.fail("a dry run opened a connection"))
        (out / "cache.sqlite").write_bytes(b"x" * 10)
        assert run(str(out), "--repo-id", REPO, "--private", "--dry-run") == 0
        said = capsys.readouterr().out
        assert "dataset my-org/articles, private" in said
        shards = [p for p in out.glob("*/*.parquet") if p.parent.name != "failed"]
        for path in [*shards, *(out / page for page in publishing.PAGES)]:
            assert f"{path.stat().st_size:>15,}  {path.relative_to(out)}" in said
        home = said.split("stays home:")[1].split("card metadata:")[0]
        assert "failed/" in home and "cache.sqlite" in home and "data/" not in home
        assert "license_details" in said and "config_name: rejected" in said

    def test_counts_rows_from_the_manifest(self, out):
        planned = publishing.plan(out, REPO)
        assert planned.rows == {"data": 40, "rejected": 14}
        assert planned.bytes == sum((out / name).stat().st_size for name, _ in planned.files)


class TestRefuses:
    @pytest.mark.parametrize("repo_id", ["a/b/c", "bad name", "org/x--y", "-org/x"])
    def test_a_bad_repository_name(self, out, repo_id):
        with pytest.raises(UsageError, match="--repo-id"):
            publishing.plan(out, repo_id)

    def test_an_unfinished_run(self, out):
        (out / "manifest.json").unlink()
        with pytest.raises(UsageError, match="no finished run"):
            publishing.plan(out, REPO)

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(UsageError, match="no such folder"):
            publishing.plan(tmp_path / "nothing", REPO)

    @pytest.mark.parametrize("content", ["{", "[]", '{"job": "x"}', "\x00"])
    def test_something_that_is_no_manifest(self, out, content):
        (out / "manifest.json").write_text(content)
        with pytest.raises(UsageError, match="no manifest of a run"):
            publishing.plan(out, REPO)

    def test_a_shard_changed_after_the_run(self, out):
        shard = next((out / "data").glob("*.parquet"))
        pq.write_table(pq.read_table(shard).slice(1), shard)
        with pytest.raises(UsageError, match="SHA-256 differs"):
            publishing.plan(out, REPO)

    def test_one_flipped_byte(self, out):
        shard = next((out / "rejected").glob("*.parquet"))
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        with pytest.raises(UsageError, match="SHA-256 differs"):
            publishing.plan(out, REPO)

    def test_a_lost_shard(self, out):
        next((out / "data").glob("*.parquet")).unlink()
        with pytest.raises(UsageError, match="not in the folder"):
            publishing.plan(out, REPO)

    def test_a_shard_of_another_run(self, out):
        shard = next((out / "data").glob("*.parquet"))
        shard.with_name("train-00009-of-00010.parquet").write_bytes(shard.read_bytes())
        with pytest.raises(UsageError, match="not part of this run"):
            publishing.plan(out, REPO)

    def test_a_wrong_row_count(self, out):
        edit_manifest(out, lambda m: m["files"][0].update(rows=m["files"][0]["rows"] + 1))
        with pytest.raises(UsageError, match="rows where the manifest says"):
            publishing.plan(out, REPO)

    def test_a_path_out_of_the_folder(self, out):
        (out.parent / "secret.parquet").write_bytes(b"x")
        stray = {"file": "../secret.parquet", "rows": 0, "bytes": 1, "sha256": ""}
        edit_manifest(out, lambda m: m["files"].append(stray))
        with pytest.raises(UsageError, match="not in the folder"):
            publishing.plan(out, REPO)

    def test_a_manifest_with_a_key_in_it(self, out):
        edit_manifest(out, lambda m: m["config"].update(endpoint="http://me:pa55word@host/v1"))
        with pytest.raises(UsageError, match=r"config\.endpoint looks like a credential") as refused:
            publishing.plan(out, REPO)
        assert "pa55word" not in str(refused.value)

    def test_a_run_without_its_card(self, out):
        (out / "README.md").unlink()
        with pytest.raises(UsageError, match=r"no README\.md"):
            publishing.plan(out, REPO)

    def test_no_token(self, out, monkeypatch, tmp_path, hub):
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
        with pytest.raises(UsageError, match="no Hugging Face token"):
            publishing.publish(out, REPO)
        assert not hub.calls


class TestUpload:
    def test_sends_every_listed_file_and_nothing_else(self, out, hub):
        (out / "cache.sqlite").write_bytes(b"x")
        done = publishing.publish(out, REPO, private=True, token=hub.token)
        assert hub.created["name"] == "articles" and hub.created["organization"] == "my-org"
        assert hub.created["type"] == "dataset" and hub.private
        assert hub.files == {name: (out / name).read_bytes() for name, _ in done.files}
        assert set(publishing.PAGES) < hub.files.keys()
        assert not any(name.startswith("failed") or name == "cache.sqlite" for name in hub.files)
        assert done.url == f"{hub.url}/datasets/{REPO}/commit/{'a' * 40}"

    def test_the_hub_checks_the_card_before_a_repository_is_made(self, out, hub):
        publishing.publish(out, REPO, token=hub.token)
        paths = [path for _, path in hub.calls]
        assert paths.index("/api/validate-yaml") < paths.index("/api/repos/create")

    def test_a_card_that_the_hub_does_not_accept(self, out, hub):
        card = out / "README.md"
        card.write_text(card.read_text().replace("license:", "licence:", 1))
        with pytest.raises(RunFailed, match="does not accept the card: no license"):
            publishing.publish(out, REPO, token=hub.token, edited_card=True)
        assert not hub.exists

    def test_replaces_shards_of_an_earlier_run(self, out, hub):
        hub.exists, stale = True, "data/train-00007-of-00008.parquet"
        hub.files = {stale: b"old", "data/train-00000-of-00002.parquet": b"old", "notes.md": b"mine"}
        publishing.publish(out, REPO, token=hub.token)
        assert hub.deleted == [stale]
        assert hub.files["notes.md"] == b"mine"
        assert hub.files["data/train-00000-of-00002.parquet"] != b"old"

    def test_private_rows_never_go_to_a_public_repository(self, out, hub):
        hub.exists, hub.private = True, False
        with pytest.raises(UsageError, match="exists and is public"):
            publishing.publish(out, REPO, private=True, token=hub.token)
        assert not hub.files

    def test_commits_to_a_branch(self, out, hub):
        publishing.publish(out, REPO, token=hub.token, revision="v2")
        assert hub.branches == ["v2"]
        assert any(path.endswith("/commit/v2") for _, path in hub.calls)

    @pytest.mark.parametrize(
        ("repo", "token", "said"),
        [(REPO, "hf_wrong", "does not accept the token"), ("foreign/articles", "hf_test", "may not write to foreign/")],
    )
    def test_a_refusal_is_one_line(self, out, hub, repo, token, said):
        with pytest.raises(RunFailed, match=said) as failed:
            publishing.publish(out, repo, token=token)
        assert "\n" not in str(failed.value) and "hf_wrong" not in str(failed.value)

    def test_a_broken_transfer_is_one_line(self, out, hub):
        hub.broken = "/commit/"
        with pytest.raises(RunFailed, match="HTTP 413: payload too large") as failed:
            publishing.publish(out, REPO, token=hub.token)
        assert "\n" not in str(failed.value)

    def test_no_network_is_one_line(self, out, monkeypatch):
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        with pytest.raises(RunFailed, match="cannot be reached") as failed:
            publishing.publish(out, REPO, token="hf_test")
        assert "\n" not in str(failed.value)


def test_the_command_as_a_process_against_a_hub(out, tmp_path):
    """Everything from the environment, nothing patched."""
    with serve(FakeHub()) as hub:
        env = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "HF_TOKEN")}
        env |= {"HF_ENDPOINT": hub.url, "HF_TOKEN": hub.token, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}
        command = [sys.executable, "-m", "tokenmill", "publish", str(out), "--repo-id", REPO]
        root = Path(__file__).parents[3]
        ended = subprocess.run(command, env=env, cwd=root, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "sent: " in ended.stdout and hub.url in ended.stdout
    assert sorted(hub.files) == sorted(
        [*publishing.PAGES, *(p.relative_to(out).as_posix() for f in ("data", "rejected") for p in (out / f).iterdir())]
    )


def test_a_refusal_on_the_command_line(out, capsys):
    (out / "manifest.json").unlink()
    assert run(str(out), "--repo-id", REPO) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.startswith("publish: ")
