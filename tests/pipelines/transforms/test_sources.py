"""Reading: every row of every format ends as a document or as a row of `failed`, with its reason."""

import gzip
import json

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.transforms.documents import DocumentParser
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.sources import ReadRows, raw_rows
from tokenmill.schemas.tools import ToolSpec

from tests.pipelines.direct import collect

PARSER = DocumentParser()


def read(tmp_path, pattern="*", *, limit=None, max_bytes=5_000_000, parser=PARSER):
    found = inputs.find([str(tmp_path / pattern)], limit=limit)

    def build(root):
        rows, failed = root | ReadRows(found.pieces, parser, max_bytes=max_bytes)
        return {"rows": rows, "failed": failed}

    outcome = collect(build)
    rows = sorted(outcome["rows"], key=lambda d: (d.source_file, d.source_row))
    return rows, sorted(outcome["failed"], key=lambda f: (f.source_file, f.source_row)), found


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


ROW = {"id": "a", "title": "A", "text": "Text of a.", "language": "en", "license": "mit"}


def test_every_format_gives_the_same_document(tmp_path):
    line = (json.dumps(ROW) + "\n").encode()
    (tmp_path / "1.jsonl").write_bytes(line)
    (tmp_path / "2.jsonl.gz").write_bytes(gzip.compress(line))
    (tmp_path / "3.jsonl.zst").write_bytes(zstandard.compress(line))
    pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / "4.parquet")
    for number in range(1, 5):
        rows, failed, _ = read(tmp_path, f"{number}.*")
        assert [(d.id, d.title, d.text, d.language, d.license) for d in rows] == [("a", "A", "Text of a.", "en", "mit")]
        assert not failed


@pytest.mark.parametrize("name", ["A.JSONL", "A.NDJSON", "A.JSONL.GZ", "A.jsonl.ZST", "A.Parquet", "A.TXT"])
def test_names_may_be_in_capitals(tmp_path, name):
    line = (json.dumps(ROW) + "\n").encode()
    if name.endswith("Parquet"):
        pq.write_table(pa.Table.from_pylist([ROW]), tmp_path / name)
    else:
        pack = {"GZ": gzip.compress, "ZST": zstandard.compress, "TXT": lambda _: b"Text of a."}
        (tmp_path / name).write_bytes(pack.get(name.rpartition(".")[2], bytes)(line))
    rows, failed, found = read(tmp_path, name)
    assert [d.text for d in rows] == ["Text of a."] and not failed
    inputs.check_columns(found, PARSER)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path, pack):
    suffix = {bytes: "", gzip.compress: ".gz", zstandard.compress: ".zst"}[pack]
    more = "".join(json.dumps({"id": i, "text": f"text {i} " + "x" * 200}) + "\n" for i in range(600))
    (tmp_path / f"a.jsonl{suffix}").write_bytes(pack(b"\xef\xbb\xbf" + (json.dumps(ROW) + "\n" + more).encode()))
    rows, failed, found = read(tmp_path)
    assert len(rows) == 601 and rows[0].id == "a" and not failed
    assert found.rows in (601, None)


def test_ids_of_many_digits_stay_as_they_stand(tmp_path):
    ids = [
        *("123456789012345678901234567890", "123456789012345678901234567891", "-9223372036854775809"),
        *("-9223372036854775808", "18446744073709551615", "18446744073709551616", "5"),
    ]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"id": {id}, "text": "a text", "score": 1e30}}\n' for id in ids))
    rows, failed, _ = read(tmp_path)
    assert [d.id for d in rows] == ids and not failed


def test_nan_is_no_id(tmp_path):
    table = pa.table(
        {"id": [float("nan"), float("nan"), 7.5], "text": ["one", "two", "three"], "title": [1.0, None, 2.0]}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows, failed, _ = read(tmp_path)
    assert len({d.id for d in rows}) == 3 and not failed
    assert "nan" not in {d.id for d in rows} and rows[2].id == "7.5"


def test_text_files_are_one_document_each(tmp_path):
    (tmp_path / "n.txt").write_text("\ufeffFirst line.\r\nSecond line.\n", encoding="utf-8")
    (tmp_path / "m.md").write_text("# River\n\nIt flows.")
    rows, _, found = read(tmp_path)
    assert [(d.source_file, d.text) for d in rows] == [
        ("m.md", "# River\n\nIt flows."),
        ("n.txt", "First line.\nSecond line."),
    ]
    assert found.rows == 2 and rows[0].id != rows[1].id


def test_what_cannot_be_read_is_in_failed_with_its_reason(tmp_path):
    good = json.dumps(ROW).encode()
    (tmp_path / "a.jsonl").write_bytes(
        b"\n".join(
            [
                good,
                b"not json",
                b"[1, 2]",
                b'{"id": "b"}',
                b'{"id": "c", "text": "  \\n "}',
                b'{"id": "d", "text": 7}',
                b'{"id": "e", "text": "caf\xe9"}',
                b'{"id": "a", "text": "again"}',
                b'{"id": "f", "text": "\\ud800"}',
                b'{"id": "g", "text": "' + b"x" * 20_000 + b'"}',
                b"",
                b'{"id": "h", "text": "last one"}',
            ]
        )
    )
    rows, failed, _ = read(tmp_path, max_bytes=10_000)
    assert [d.id for d in rows] == ["a", "h"]
    assert [(f.source_row, f.error) for f in failed] == [
        (1, "invalid_json"), (2, "not_an_object"), (3, "no_text"), (4, "empty_text"), (5, "not_text"),
        (6, "invalid_utf8"), (7, "duplicate_id"), (8, failed[7].error), (9, "too_long"),
    ]  # fmt: skip
    assert failed[7].error in ("invalid_utf8", "invalid_json")
    assert all(f.message and "\n" not in f.message for f in failed)
    assert "row 0" in failed[6].message


def test_a_ten_megabyte_line_does_not_stop_the_others(tmp_path):
    with (tmp_path / "a.jsonl").open("w") as file:
        file.write(json.dumps({"id": "big", "text": "word " * 2_100_000}) + "\n" + json.dumps(ROW) + "\n")
    rows, failed, _ = read(tmp_path)
    assert [d.id for d in rows] == ["a"]
    assert [(f.source_row, f.error) for f in failed] == [(0, "too_long")]
    assert len(failed[0].excerpt) <= 500


def test_a_cut_off_file_gives_its_rows_and_says_where_it_ends(tmp_path):
    content = gzip.compress(
        b"".join(
            json.dumps({"id": i, "text": f"text {i} " + str(hash(str(i))) * 20}).encode() + b"\n" for i in range(2000)
        )
    )
    (tmp_path / "a.jsonl.gz").write_bytes(content[: len(content) // 2])
    rows, failed, _ = read(tmp_path)
    assert rows and len(rows) < 2000
    assert [f.error for f in failed] == ["unreadable_file"] or [f.error for f in failed] == [
        "invalid_json",
        "unreadable_file",
    ]


def test_parquet_is_read_by_row_groups_and_numbers_its_rows(tmp_path):
    pq.write_table(
        pa.table({"id": range(25), "text": [f"text {i}" for i in range(25)]}), tmp_path / "a.parquet", row_group_size=10
    )
    rows, _, found = read(tmp_path)
    assert len(found.pieces) == 3 and found.rows == 25
    assert [(d.source_row, d.id) for d in rows] == [(i, str(i)) for i in range(25)]


@pytest.mark.parametrize("limit", [1, 7, 12, 100])
def test_a_limit_takes_the_first_rows_in_order(tmp_path, limit):
    lines(tmp_path / "a.jsonl", *({"id": f"a{i}", "text": "t"} for i in range(5)))
    pq.write_table(
        pa.table({"id": [f"b{i}" for i in range(6)], "text": ["t"] * 6}), tmp_path / "b.parquet", row_group_size=4
    )
    lines(tmp_path / "c.jsonl", *({"id": f"c{i}", "text": "t"} for i in range(5)))
    rows, _, found = read(tmp_path, limit=limit)
    every = [f"a{i}" for i in range(5)] + [f"b{i}" for i in range(6)] + [f"c{i}" for i in range(5)]
    assert [d.id for d in rows] == every[:limit]
    assert found.rows == min(limit, 16)


@pytest.mark.parametrize("limit", [None, 1, 1999, 2500])
def test_a_large_file_is_read_in_pieces_and_every_line_once(tmp_path, limit):
    with (tmp_path / "a.jsonl").open("w") as file:
        for i in range(3000):
            file.write(
                json.dumps({"id": str(i), "text": f"text {i} " + "x" * (i * 37 % 400)}) + "\n" + "\n" * (i % 97 == 0)
            )
    rows, failed, found = read(tmp_path, limit=limit)
    assert [d.id for d in rows] == [str(i) for i in range(3000)][:limit] and not failed
    assert limit == 1 or len(found.pieces) > 10
    lines = (tmp_path / "a.jsonl").read_text().split("\n")
    assert all(json.loads(lines[d.source_row])["id"] == d.id for d in rows)


def test_a_last_line_without_a_newline_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"id": str(i), "text": "t" * 400}) + "\n" for i in range(400))[:-1]
    )
    rows, failed, _ = read(tmp_path)
    assert len(rows) == 400 and not failed


@pytest.mark.parametrize(
    ("content", "count"),
    [('{"text": "a"}', 1), ('{"text": "a"}\n{"text": "b"}', 2), ('{"text": "a"}\n', 1), ("\n ", 1)],
)
def test_the_last_line_counts_without_a_newline(tmp_path, content, count):
    (tmp_path / "a.jsonl").write_text(content)
    assert inputs.find([str(tmp_path / "a.jsonl")]).rows == count


def test_a_line_longer_than_what_is_read_at_once_counts(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "t" * 3 * inputs.SMALLEST_PIECE}))
    assert inputs.find([str(tmp_path / "a.jsonl")]).rows == 1


def test_names_do_not_depend_on_how_paths_are_spelled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "sub/b.jsonl"):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        lines(tmp_path / "docs" / name, ROW)
    for spelled in (
        ["docs/**.jsonl"],
        ["./docs/**.jsonl"],
        ["docs//**.jsonl"],
        [f"../{tmp_path.name}/docs/**.jsonl"],
        [f"{tmp_path}/docs/**.jsonl"],
        ["docs/a.jsonl", "./docs/sub/b.jsonl"],
        ["docs/a.jsonl", f"{tmp_path}/docs/sub/b.jsonl"],
        ["docs/a.jsonl", "./docs/a.jsonl", f"{tmp_path}/docs/*.jsonl", "./docs/sub/*"],
    ):
        assert [f.name for f in inputs.find(spelled).files] == ["a.jsonl", "sub/b.jsonl"], spelled
    monkeypatch.chdir(tmp_path / "docs")
    assert [f.name for f in inputs.find(["*.jsonl"]).files] == ["a.jsonl"]


def test_what_is_there_under_its_very_name_is_no_pattern(tmp_path):
    run = tmp_path / "run[1]"
    (run / "data").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([ROW]), run / "data" / "train-00000-of-00001.parquet")
    (run / "manifest.json").write_text("{}")
    lines(tmp_path / "a[1].jsonl", ROW, ROW)
    lines(tmp_path / "a1.jsonl", ROW)
    assert inputs.find([str(run)]).rows == 1
    assert inputs.find([str(tmp_path / "a[1].jsonl")]).rows == 2


def test_a_large_compressed_file_is_spread_over_the_workers(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "LARGEST_PIECE", 1000)
    content = "".join(json.dumps({"id": str(i), "text": f"text {i}"}) + "\n" for i in range(500))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    rows, _, found = read(tmp_path)
    assert found.pieces[0].heavy and len(rows) == 500


def test_rows_without_an_id_get_one_that_stays(tmp_path):
    lines(tmp_path / "a.jsonl", {"text": "one"}, {"text": "two", "id": ""}, {"text": "three", "id": None})
    first, _, _ = read(tmp_path)
    again, _, _ = read(tmp_path)
    assert len({d.id for d in first}) == 3 and [d.id for d in first] == [d.id for d in again]


def test_columns_can_be_named_otherwise(tmp_path):
    lines(
        tmp_path / "a.jsonl",
        {"url": "u", "body": "Der Text ist auf Deutsch und wird nicht übersetzt, sondern gelesen."},
    )
    rows, _, found = read(tmp_path, parser=DocumentParser(text="body", id="url"))
    assert [(d.id, d.language) for d in rows] == [("u", "de")]
    inputs.check_columns(found, DocumentParser(text="body"))
    with pytest.raises(UsageError, match=r"no column 'text'.*body, url.*--columns"):
        inputs.check_columns(found, PARSER)
    with pytest.raises(UsageError, match="no column 'name'"):
        inputs.check_columns(found, DocumentParser(text="body", title="name"))


@pytest.mark.parametrize(
    ("value", "kind"), [(["a", "b"], "list<.*>"), ({"en": "a"}, "struct<en: string>"), (7, "int64"), (True, "bool")]
)
def test_a_column_that_cannot_hold_text_is_told_before_the_run(tmp_path, value, kind):
    row = {"id": "a", "alt": ["x"], "body": "Words.", "text": value}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    lines(tmp_path / "a.jsonl", row | {"text": None}, row)
    for name, told in (("a.parquet", kind), ("a.jsonl", type(value).__name__)):
        found = inputs.find([str(tmp_path / name)])
        with pytest.raises(UsageError, match=f"column 'text' holds {told}, not text.*--columns text=body$") as caught:
            inputs.check_columns(found, PARSER)
        assert "\n" not in str(caught.value)
        inputs.check_columns(found, DocumentParser(text="body"))
        with pytest.raises(UsageError, match=r"column 'alt' holds list.*--columns text=body$"):
            inputs.check_columns(found, DocumentParser(text="alt"))


@pytest.mark.parametrize("kind", [pa.large_string(), pa.binary(), pa.dictionary(pa.int32(), pa.string()), pa.null()])
def test_what_may_hold_text_passes_the_check(tmp_path, kind):
    values = [None] if kind == pa.null() else [b"words" if kind == pa.binary() else "words"]
    pq.write_table(pa.table({"text": pa.array(values, kind)}), tmp_path / "a.parquet")
    rows, failed, found = read(tmp_path)
    inputs.check_columns(found, PARSER)
    assert [d.text for d in rows] == ["words"] or [f.error for f in failed] == ["no_text"]


def test_advice_names_columns_of_text_and_the_flag_only_where_there_are_such(tmp_path):
    lines(tmp_path / "a.jsonl", {"id": "a", "alt": ["x"], "n": 3})
    with pytest.raises(
        UsageError, match=r"no column 'text'; its columns are alt, id, n\. No other column of it holds text$"
    ):
        inputs.check_columns(inputs.find([str(tmp_path / "a.jsonl")]), PARSER)
    with pytest.raises(UsageError, match=r"no column 'name'; its columns are alt, id, n\.$"):
        inputs.check_columns(inputs.find([str(tmp_path / "a.jsonl")]), RecordParser(ToolSpec))


def finished(folder):
    """A finished run with a row of each kind, as it is published."""
    for kind in ("data", "rejected", "failed"):
        (folder / kind).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([ROW | {"id": kind}]), folder / kind / "train-00000-of-00001.parquet")
    (folder / "manifest.json").write_text("{}")
    (folder / "README.md").write_text("# Card")


def test_a_finished_run_means_its_data(tmp_path, capsys):
    finished(tmp_path / "runs" / "one")
    for pattern in ("runs/one", "runs/one/", "runs/one/**.parquet", "runs/*/*/*.parquet", "**.parquet"):
        rows, _, _ = read(tmp_path, pattern)
        assert [d.id for d in rows] == ["data"], pattern
        said = capsys.readouterr().err
        assert ("left out" in said and "/rejected" in said and "/failed" in said) == ("*" in pattern)
    rows, _, _ = read(tmp_path, "runs/one/rejected/*.parquet")
    assert [d.id for d in rows] == ["rejected"] and not capsys.readouterr().err
    (tmp_path / "runs/one/data/train-00000-of-00001.parquet").unlink()
    with pytest.raises(UsageError, match="a finished run that kept no rows"):
        inputs.find([str(tmp_path / "runs" / "one")])


def test_what_is_wrong_with_the_input_is_one_clear_line(tmp_path):
    (tmp_path / "a.csv").write_text("x")
    (tmp_path / "b.parquet").write_text("not parquet")
    (tmp_path / "c.jsonl").write_text("garbage\n")
    (tmp_path / "d.jsonl.zst").write_text("not zstd")
    for pattern, message in [
        ("nothing*", "no such file"),
        ("a.csv", "unknown format"),
        ("b.parquet", "not readable as Parquet"),
        ("", "is a folder"),
    ]:
        with pytest.raises(UsageError, match=message) as caught:
            inputs.find([str(tmp_path / pattern) if pattern else str(tmp_path)])
        assert "\n" not in str(caught.value)
    for name, message in [("c.jsonl", "not JSON"), ("d.jsonl.zst", "cannot be read")]:
        with pytest.raises(UsageError, match=message):
            inputs.check_columns(inputs.find([str(tmp_path / name)]), PARSER)


def test_unicode_is_normalised_and_newlines_are_one_kind(tmp_path):
    lines(tmp_path / "a.jsonl", {"id": "a", "text": "Cafe\u0301\r\nau lait\0", "title": " Two \n lines "})
    ((row,), _, _) = read(tmp_path)
    assert row.text == "Caf\u00e9\nau lait" and row.title == "Two lines"


def test_reading_pickles_into_another_process(tmp_path):
    lines(tmp_path / "a.jsonl", *({"id": str(i), "text": f"text {i}"} for i in range(10)), {"id": "3", "text": "again"})
    found = inputs.find([str(tmp_path / "*")])

    def build(root: beam.Pipeline):
        rows, failed = root | ReadRows(found.pieces, PARSER)
        return {"rows": rows, "failed": failed}

    outcome = collect(build, processes=2)
    assert sorted(int(d.id) for d in outcome["rows"]) == list(range(10))
    assert [f.error for f in outcome["failed"]] == ["duplicate_id"]


@pytest.fixture(scope="module")
def one_group(tmp_path_factory):
    """A file whose 3,000 rows stand in one row group of some megabytes."""
    path = tmp_path_factory.mktemp("group") / "a.parquet"
    rows = [{"id": f"{n}", "text": f"Text {n}. " + "word " * 300} for n in range(3000)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=3000)
    return path


@pytest.mark.parametrize("limit", [None, 1, 187, 188, 2999])
def test_a_large_row_group_is_read_in_pieces_and_its_rows_keep_their_numbers(one_group, limit):
    found = inputs.find([str(one_group)], limit=limit)
    rows = [(n, values["id"]) for piece in found.pieces for n, values in raw_rows(piece, ("id",), 5_000_000)]
    assert rows == [(n, f"{n}") for n in range(limit or 3000)] and found.rows == len(rows)
    if limit is None:
        assert len(found.pieces) == inputs.GROUP_PIECES
        assert max(piece.rows for piece in found.pieces) - min(piece.rows for piece in found.pieces) <= 15


def test_a_small_row_group_is_one_piece(tmp_path):
    pq.write_table(pa.Table.from_pylist([ROW] * 50), tmp_path / "a.parquet", row_group_size=10)
    assert [piece.rows for piece in inputs.find([str(tmp_path / "a.parquet")]).pieces] == [10] * 5
