"""Rows from the Hub, against a small one on a local port."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.hub_input import place_of

from tests.outputs import manifest, rows

ROOT = Path(__file__).resolve().parents[3]
SHA = "c" * 40


def parquet(rows):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


@contextmanager
def hub(converted, written):
    """A Hub with the data set me/docs: files on `refs/convert/parquet` (None for no such branch) and on `main`."""
    branches = {"main": written, "refs/convert/parquet": converted}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = unquote(urlsplit(self.path).path)
            if path.startswith("/api/datasets/me/docs/tree/"):
                files = branches.get(path.split("/tree/")[1])
                if files is None:
                    self.reply(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
                    return
                tree = [{"type": "file", "path": p, "size": len(b), "oid": SHA} for p, b in files.items()]
                self.reply(200, json.dumps(tree).encode())
            elif path.startswith("/datasets/me/docs/resolve/"):
                place = path.split("/resolve/")[1]
                files, name = next((f, place[len(b) + 1 :]) for b, f in branches.items() if place.startswith(b + "/"))
                headers = {"X-Repo-Commit": SHA, "ETag": f'"{len(files[name])}"', "Accept-Ranges": "none"}
                self.reply(200, files[name], headers)
            else:
                self.reply(404, b"{}", {"X-Error-Code": "RepoNotFound"})

        do_HEAD = do_GET

        def reply(self, status, body, headers=()):
            self.send_response(status)
            for name, value in {**dict(headers), "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def run(tmp_path, url, pattern, *more, job="knowledge"):
    env = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}
    argv = [sys.executable, str(ROOT / "beam_runner.py"), job, "--input", pattern, "--output", str(tmp_path / "out")]
    done = subprocess.run(
        [*argv, "--cache", str(tmp_path / "a.sqlite"), *more], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_a_data_set_of_the_hub_is_read_by_its_name(tmp_path):
    made = list(documents(6))
    files = {
        "default/train/0000.parquet": parquet(made[:4]),
        "default/train/0001.parquet": parquet(made[4:]),
        "default/test/0000.parquet": parquet(made[:1]),
    }
    with hub(files, {}) as url, ScriptedServer(Writer()) as server:
        more = ("--llm", server.spec, "--no-judge", "--no-similarity", "--rephrasings", "1")
        code, said = run(tmp_path, url, "hf://datasets/me/docs", *more)
        assert code == 0, said
    assert {row["source_id"] for row in rows(tmp_path / "out")} == {row["id"] for row in made}
    assert [file["file"] for file in manifest(tmp_path / "out")["inputs"]] == ["0000.parquet", "0001.parquet"]


def test_where_the_hub_has_no_copy_the_authors_files_are_read(tmp_path):
    lines = "".join(json.dumps(row) + "\n" for row in documents(2)).encode()
    with hub(None, {"data/test-00000.jsonl": lines, "README.md": b"x"}) as url, ScriptedServer(Writer()) as server:
        more = ("--llm", server.spec, "--no-judge", "--no-similarity", "--rephrasings", "1")
        code, said = run(tmp_path, url, "hf://datasets/me/docs:test", *more)
        assert code == 0, said
        assert len(rows(tmp_path / "out")) == 2
        code, said = run(tmp_path, url, "hf://datasets/me/docs:train", "--estimate")
        assert code == 2 and "no files of the split train; there are data/test-00000.jsonl" in said


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("hf://datasets/me/docs:valid", "no split valid; there are train"),
        ("hf://datasets/me/docs/de", "no such configuration; there are en, fr"),
        ("hf://datasets/me/docs", "name one of its configurations: en, fr"),
        ("hf://datasets/me/other", "HF_TOKEN"),
        ("hf://datasets/me/docs/en:train", "holds struct<bytes: binary, path: string>, not text"),
        ("hf://datasets/me/docs/fr:train", "holds list<element: string>, not text"),
    ],
)
def test_what_cannot_be_read_is_one_line(tmp_path, pattern, hint):
    pattern = pattern.replace("docs:valid", "docs/en:valid")
    files = {
        "en/train/0000.parquet": parquet([{"text": {"bytes": b"x", "path": "a.png"}}]),
        "fr/train/0000.parquet": parquet([{"text": ["a"]}]),
    }
    with hub(files, {}) as url:
        code, said = run(tmp_path, url, pattern, "--estimate")
    last = [line for line in said.splitlines() if line.startswith("tokenmill: --input")]
    assert code == 2 and len(last) == 1 and hint in last[0], said


def test_an_image_cannot_be_put_into_a_prompt(tmp_path):
    (tmp_path / "p.md").write_text("What is in {{picture}}?")
    files = {"default/train/0000.parquet": parquet([{"picture": {"bytes": b"x", "path": "a.png"}}])}
    with hub(files, {}) as url:
        code, said = run(tmp_path, url, "hf://datasets/me/docs", "--estimate", "--prompt", "p.md", job="generate")
    assert code == 2 and "cannot be put into a prompt" in said


def test_names_of_other_forms_are_refused():
    assert (place_of("hf://datasets/squad").repo, place_of("hf://datasets/a/b/c:test").split) == ("squad", "test")
    for wrong in ("hf://datasets/", "hf://datasets/a/b/c/d", "hf://datasets/a b", "hf://datasets/a/b:"):
        with pytest.raises(UsageError, match="write hf://datasets/NAME"):
            place_of(wrong)
