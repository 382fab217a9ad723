"""Shards: the same bytes in any order, whole or not there, as the Hub likes them."""

import dataclasses
import hashlib
import random
import tempfile
from pathlib import Path

import apache_beam as beam
import orjson
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.inference.errors import RunStopped
from tokenmill.pipelines.runs.errors import RunFailed
from tokenmill.pipelines.runs.folder import OutputFolder, check_sum
from tokenmill.pipelines.transforms import sinks
from tokenmill.pipelines.transforms.sinks import (
    Together,
    WriteShards,
    _WriteRuns,
    _WriteShard,
    read_rows,
    write_parquet,
    write_shard,
)
from tokenmill.schemas.columns import column, to_table
from tokenmill.schemas.documents import Document
from tokenmill.schemas.verdicts import Finding, Judgement

from tests.disks import small_disk
from tests.pipelines.direct import collect


def stored(documents, row_type, folder):
    """Rows written and read back."""
    write_parquet(read_rows(as_json(documents), row_type), str(folder / "a.parquet"))
    return pq.read_table(folder / "a.parquet")


def as_json(documents):
    return b"".join(orjson.dumps(d, option=orjson.OPT_APPEND_NEWLINE) for d in documents)


def rows(count):
    return [Document(f"id{i}", f"T{i}", f"text {i} " * 20, "en", "mit", f"f{i % 3}.jsonl", i) for i in range(count)]


def write(folder, documents, shards, processes=0, **how):
    (folder / "data").mkdir(parents=True)

    def build(root):
        return {
            "paths": root
            | beam.Create(documents)
            | beam.Reshuffle()
            | WriteShards(str(folder / "data"), Document, shards, **how)
        }

    collect(build, processes=processes)
    return {p.name: p.read_bytes() for p in sorted((folder / "data").glob("*.parquet"))}


@pytest.mark.parametrize("shards", [1, 7])
def test_bytes_do_not_depend_on_order_or_workers(tmp_path, shards):
    documents = rows(300)
    first = write(tmp_path / "a", documents, shards)
    mixed = random.Random(1).sample(documents, len(documents))
    assert write(tmp_path / "b", mixed, shards) == first
    assert write(tmp_path / "c", mixed, shards, processes=2) == first
    assert write(tmp_path / "d", mixed, shards, processes=2, shuffled=True) == first
    assert not list((tmp_path / "d" / "data").glob("run-*"))
    assert len(first) == shards and not list((tmp_path / "a" / "data").glob("*part*"))
    found = [row["id"] for p in (tmp_path / "a" / "data").glob("*.parquet") for row in pq.read_table(p).to_pylist()]
    assert sorted(found) == sorted(d.id for d in documents)


def test_a_bundle_writes_one_file_however_many_shards_there_are(tmp_path):
    writing, parts = _WriteRuns(str(tmp_path), 2000), {}
    writing.start_bundle()
    for row in rows(6000):
        assert writing.process(row) is None
    assert not list(tmp_path.iterdir())
    for value in writing.finish_bundle():
        shard, part = value.value
        parts.setdefault(shard, []).append(part)
    assert len(list(tmp_path.iterdir())) == 1 and len(parts) > 1800
    assembling = _WriteShard(str(tmp_path), Document)
    paths = [path for shard in parts.items() for path in assembling.process(shard)]
    assert sum(pq.ParquetFile(path).metadata.num_rows for path in paths) == 6000


def test_what_a_bundle_holds_is_bounded_and_the_bytes_are_the_same(tmp_path, monkeypatch):
    documents = rows(300)
    whole = write(tmp_path / "a", documents, 5)
    monkeypatch.setattr(sinks, "HELD_BYTES", 5000)
    assert write(tmp_path / "b", documents, 5) == whole
    files = list((tmp_path / "b" / "data").glob("run-*"))
    held = [
        len(zstandard.ZstdDecompressor().stream_reader(p.read_bytes(), read_across_frames=True).read()) for p in files
    ]
    assert len(files) > 10 and max(held) < 6000


def test_rows_of_a_shard_are_in_input_order(tmp_path):
    documents = rows(2500)
    table = stored(random.Random(2).sample(documents, 2500), Document, tmp_path)
    order = list(zip(table["source_file"].to_pylist(), table["source_row"].to_pylist(), strict=True))
    assert order == sorted(order) and table.num_rows == 2500


@dataclasses.dataclass(frozen=True)
class Trial:
    id: str = column("identifier")
    source_row: int = column("row")
    note: str | None = column("perhaps a note")
    prompts: list[str] = column("names")
    verdicts: list[Judgement] = column("verdicts")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
FINDING = st.builds(Finding, TEXT, TEXT, TEXT, TEXT)
JUDGEMENT = st.builds(
    Judgement,
    TEXT,
    st.integers(-1, 9),
    st.integers(0, 9),
    st.booleans(),
    st.floats(0, 1),
    TEXT,
    st.lists(FINDING, max_size=2),
)


ROW = st.builds(
    Trial, TEXT, st.integers(0, 2**40), st.none() | TEXT, st.lists(TEXT, max_size=2), st.lists(JUDGEMENT, max_size=3)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=5))
def test_nothing_is_lost_on_the_way_through_json(rows):
    direct = to_table(rows, Trial).sort_by([("source_row", "ascending"), ("id", "ascending")])
    with tempfile.TemporaryDirectory() as folder:
        assert stored(rows, Trial, Path(folder)).to_pylist() == direct.to_pylist()


def test_a_row_longer_than_a_block_is_written(tmp_path):
    (row,) = rows(1)
    long = dataclasses.replace(row, text="x" * 5_000_000)
    assert stored([row, long], Document, tmp_path).num_rows == 2


def test_files_are_as_the_hub_likes_them(tmp_path):
    write_parquet(read_rows(as_json(rows(2500)), Document), str(tmp_path / "a.parquet"))
    metadata = pq.ParquetFile(tmp_path / "a.parquet").metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [1000, 1000, 500]
    column = metadata.row_group(0).column(0)
    assert column.compression == "ZSTD" and column.has_offset_index and column.has_column_index


def test_publishing_numbers_the_shards_and_describes_them(tmp_path):
    out = OutputFolder(str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    out.begin()
    for number in (0, 4, 9):
        write_shard(
            read_rows(as_json(rows(10 + number)), Document),
            f"{out.path}/.unfinished/data/shard-{number:05d}.parquet",
        )
    files = out.publish()
    assert [f["file"] for f in files] == [f"data/train-{i:05d}-of-00003.parquet" for i in range(3)]
    assert [f["rows"] for f in files] == [10, 14, 19]
    contents = [(tmp_path / "out" / f["file"]).read_bytes() for f in files]
    assert [(len(content), hashlib.sha256(content).hexdigest()) for content in contents] == [
        (f["bytes"], f["sha256"]) for f in files
    ]


def test_a_sum_that_does_not_hold_is_an_error():
    good = {"read": 10, "unreadable": 1, "tasks": 18, "accepted": 10, "rejected": 7, "failed": 2}
    check_sum(good, 2)
    for wrong in ({"accepted": 9}, {"read": 11}, {"failed": 3}, {"tasks": 17}):
        with pytest.raises(RunFailed, match="do not add up"):
            check_sum({**good, **wrong}, 2)


def test_a_full_disk_leaves_nothing_that_looks_finished(tmp_path):
    disk = tmp_path / "disk"
    noise = random.Random(3)
    big = [Document(str(i), "", noise.randbytes(400).hex(), "en", "", "f", i) for i in range(2000)]
    with small_disk(disk, 65536):
        with pytest.raises(RunStopped, match=f"{disk} is full"):
            write_parquet(read_rows(as_json(big), Document), str(disk / "a.parquet"))
        assert not (disk / "a.parquet").exists()


def _numbered(table):
    """Rows of one shard, told how many others are of their file."""
    files = table["source_file"].to_pylist()
    return table.set_column(table.schema.get_field_index("title"), "title", [[str(files.count(f)) for f in files]])


def test_rows_of_one_key_are_in_one_shard_and_filled_in_together(tmp_path):
    made = rows(60)
    write = WriteShards(str(tmp_path), Document, 8, Together("source_file", _numbered))
    collect(lambda root: {"paths": root | beam.Create(made) | write})
    shards = [pq.read_table(path).to_pylist() for path in sorted(tmp_path.glob("shard-*.parquet"))]
    assert sorted(row["id"] for shard in shards for row in shard) == sorted(row.id for row in made)
    files = [{row["source_file"] for row in shard} for shard in shards]
    assert sum(map(len, files)) == len(set().union(*files)) == 3
    assert {row["title"] for shard in shards for row in shard} == {"20"}
