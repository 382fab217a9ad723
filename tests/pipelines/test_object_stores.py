"""Output in object stores, which know no folders: nothing old is counted, left or overwritten unasked."""

import json
import tempfile

import orjson
import pyarrow.parquet as pq
import pytest
from apache_beam.io.aws import s3io
from apache_beam.io.aws.clients.s3.fake_client import FakeS3Client
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.finish import finish
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.transforms.sinks import read_rows, write_parquet, write_shard
from tokenmill.schemas.documents import Document

from tests.objectstore import Bucket
from tests.outputs import rows as rows_of
from tests.pipelines.report import finished_run
from tests.pipelines.transforms.test_sinks import as_json, rows


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setattr(Bucket, "objects", {})
    return "bucket://shelf/out"


@pytest.fixture(params=["bucket", "s3"])
def out(request, bucket, monkeypatch):
    """An output folder in a store of either kind."""
    if request.param == "bucket":
        return OutputFolder(bucket)
    client = FakeS3Client()
    client.known_buckets.add("shelf")
    monkeypatch.setattr(s3io.boto3_client, "Client", lambda options: client)
    monkeypatch.setattr(FileSystems, "_pipeline_options", PipelineOptions([]))
    return OutputFolder("s3://shelf/out")


def put(path, count=3):
    write = write_shard if "/.unfinished/" in path else write_parquet
    write(read_rows(as_json(rows(count)), Document), path)


def names(out):
    (found,) = FileSystems.match([out.at("**")])
    return sorted(file.path.removeprefix(f"{out.path}/") for file in found.metadata_list)


def content(out, name):
    with FileSystems.open(out.at(name), compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return file.read()


def test_what_an_earlier_try_left_is_not_counted(out):
    out.begin()
    for number in range(3):
        put(out.at(".unfinished", "data", f"shard-{number:05d}.parquet"))
    out.write(".unfinished/data/run-0.jsonl.zst", b"rows")
    out.begin()
    assert names(out) == [".unfinished/tokenmill.json"]
    put(out.at(".unfinished", "data", "shard-00000.parquet"))
    assert out.unfinished("data") == [out.at(".unfinished", "data", "shard-00000.parquet")]


def test_a_new_run_replaces_every_shard_and_leaves_no_work_behind(out):
    for number in range(3):
        put(out.at("data", f"train-{number:05d}-of-00003.parquet"))
    put(out.at("rejected", "train-00000-of-00001.parquet"))
    counts = {"accepted": 1, "rejected": 0, "failed": 0}
    out.write("manifest.json", orjson.dumps({"counts": counts}))
    out.begin()
    put(out.at(".unfinished", "data", "shard-00004.parquet"), 5)
    out.write(".unfinished/data/run-0.jsonl.zst", b"rows")
    (described,) = out.publish()
    assert (described["file"], described["rows"]) == ("data/train-00000-of-00001.parquet", 5)
    out.write("manifest.json", orjson.dumps({"job": "x", "counts": counts}))
    out.end()
    assert names(out) == ["data/train-00000-of-00001.parquet", "manifest.json"] and out.manifest()["job"] == "x"


def test_data_that_no_run_made_is_left_alone(out):
    put(out.at("data", "precious.parquet"))
    with pytest.raises(UsageError, match="no manifest of ours"):
        out.begin()
    assert names(out) == ["data/precious.parquet"]


def test_what_a_store_does_not_delete_is_not_taken_for_gone(bucket, monkeypatch):
    out = OutputFolder(bucket)
    out.begin()
    put(out.at(".unfinished", "data", "shard-00000.parquet"))
    monkeypatch.setattr(
        Bucket, "delete", lambda self, paths: None
    )  # Beam logs what Google's store refuses, and goes on
    with pytest.raises(UsageError, match="cannot be written"):
        out.begin()


def test_a_url_that_a_store_would_take_for_a_pattern_is_refused():
    with pytest.raises(UsageError, match="without"):
        OutputFolder("gs://bucket/run[1]")


def test_a_store_that_is_not_to_be_had_is_one_line(tmp_path, run):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "A text."}) + "\n")
    code, _, err = run(
        "knowledge", "--input", tmp_path / "a.jsonl", "--output", "nosuch://x/out", "--llm", "m@http://localhost:1/v1"
    )
    assert code == 2 and err.startswith("tokenmill: --output nosuch://x/out: cannot be read") and err.count("\n") == 1


def test_a_run_is_the_same_as_on_this_machine(tmp_path, run, out, monkeypatch):
    monkeypatch.setattr(FileSystems, "_pipeline_options", None)  # as in a process that has just begun
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(6, 5)))
    with ScriptedServer(Writer(faults={"Oslo": lambda text: text})) as server:
        flags = ("knowledge", "--input", corpus, "--llm", server.spec, "--no-judge", "--no-similarity")
        assert run(*flags, "--output", out.path)[0] == run(*flags, "--output", tmp_path / "out")[0] == 0
        here = {str(p.relative_to(tmp_path / "out")): p for p in (tmp_path / "out").rglob("*") if p.is_file()}
        assert set(names(out)) == set(here) - {".lock"}
        shards = [name for name in here if name.endswith(".parquet")]
        assert shards and all(content(out, name) == here[name].read_bytes() for name in shards)
        assert "finished already" in run(*flags, "--output", out.path)[2]
        assert run(*flags, "--output", out.path, "--limit", 2, "--overwrite")[0] == 0
    counts = out.manifest()["counts"]
    assert counts["read"] == 2
    assert inputs.find([out.path]).rows == counts["accepted"], "a finished run stands for its data, and for no older"


def test_shards_are_fetched_one_at_a_time_for_card_and_report(tmp_path, bucket, monkeypatch):
    manifest = finished_run.build(tmp_path / "run")
    out, here = OutputFolder(bucket), tmp_path / "here"
    out.begin()
    for kind in ("data", "rejected"):
        for number, path in enumerate(sorted((tmp_path / "run" / kind).glob("*.parquet"))):
            write_shard(pq.read_table(path), out.at(".unfinished", kind, f"shard-{number:05d}.parquet"))
    here.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    copies = []
    monkeypatch.setattr(Bucket, "opened", lambda self, path: copies.append((path, len(list(here.rglob("*.parquet"))))))
    finish(out, manifest)
    fetched = [found for path, found in copies if "/train-" in path]
    assert len(fetched) >= 3 and not any(fetched), "no copy is kept while the next one is fetched"
    assert not list(here.iterdir())
    report = Bucket.objects[out.at("report.html")].decode()
    assert rows_of(tmp_path / "run", "rejected")[0]["id"] in report
