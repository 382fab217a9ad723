"""Rows of WARC archives and HTML files."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path

import pytest
from tokenmill.pipelines.corpus.pages import rows_of
from tokenmill.pipelines.transforms.sources import Piece, RowUnreadable

from tests.pipelines.corpus.archives import archive, record

PAGE = b"<html><title>T</title><p>Text.</p></html>"


def read(path: Path, max_bytes: int = 1_000_000, rows: int = -1):
    return [values for _, values in rows_of(Piece(str(path), path.name, rows=rows), None, max_bytes)]


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz", "A.WARC.GZ"])
def test_responses_and_resources_are_rows_and_requests_are_none(tmp_path, name):
    records = [
        record(b"software: test", kind="warcinfo"),
        record(b"GET / HTTP/1.1\r\n\r\n", kind="request"),
        record(PAGE, url="http://a.example/1"),
        record(b"Plain words.", kind="conversion", url="http://a.example/2"),
    ]
    page, text = read(archive(tmp_path / name, records))
    assert page["html"] == PAGE and page["url"] == "http://a.example/1" and page["charset"] == "utf-8"
    assert page["date"] == "2024-05-01T12:00:00Z" and page["id"].startswith("<urn:uuid:")
    assert text["text"] == "Plain words."


def test_compressed_bodies_are_unpacked(tmp_path):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
    (page,) = read(archive(tmp_path / "a.warc.gz", [record(gzip.compress(PAGE), head=head)]))
    assert page["html"] == PAGE


def test_what_is_no_page_says_so_and_is_not_lost(tmp_path):
    gone = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n"
    image = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"
    rows = read(archive(tmp_path / "a.warc", [record(PAGE, head=gone), record(b"\x89PNG", head=image), record(PAGE)]))
    assert [getattr(row, "error", "") for row in rows] == ["no_page", "no_page", ""]
    assert "404" in str(rows[0]) and "image/png" in str(rows[1])


def test_a_truncated_archive_gives_what_there_is_and_one_row_that_says_so(tmp_path):
    pages = [b"<p>" + random.Random(n).randbytes(3000).hex().encode() for n in range(9)]
    records = [record(page, url=f"http://a.example/{n}") for n, page in enumerate(pages)]
    for name, short in (("a.warc.gz", 60), ("a.warc.gz", 2500), ("a.warc", 60)):
        path = archive(tmp_path / name, records)
        path.write_bytes(path.read_bytes()[:-short])
        *rows, last = read(path)
        assert [row["html"] for row in rows] == pages[:8], (name, short)
        assert isinstance(last, RowUnreadable) and last.error == "unreadable_file"


def test_a_page_that_is_too_long_or_does_not_end_is_one_row(tmp_path):
    bomb = zlib.compress(b"<p>" + b"a" * 30_000_000, 9)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: deflate\r\n"
    rows = read(archive(tmp_path / "a.warc.gz", [record(b"x" * 2_000_000), record(bomb, head=head), record(PAGE)]))
    assert [getattr(row, "error", "") for row in rows] == ["too_long", "too_long", ""]


def test_an_archive_that_unpacks_out_of_proportion_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.pipelines.transforms.bounded.FREE", 1 << 20)
    path = archive(tmp_path / "a.warc.gz", [record(PAGE), record(b"\0" * 50_000_000)])
    rows = read(path)
    assert rows[0]["html"] == PAGE and rows[-1].error in ("unreadable_file", "too_long")


def test_what_is_no_archive_is_one_row(tmp_path):
    (tmp_path / "a.warc").write_bytes(b"\x00\xffnot an archive" * 1000)
    (tmp_path / "b.warc.gz").write_bytes(b"\x1f\x8bnot gzip at all")
    for name in ("a.warc", "b.warc.gz"):
        assert [row.error for row in read(tmp_path / name)] == ["unreadable_file"], name


def test_an_html_file_is_one_row(tmp_path):
    (tmp_path / "a.html").write_bytes(PAGE)
    assert read(tmp_path / "a.html") == [{"html": PAGE}]
    assert read(tmp_path / "a.html", max_bytes=10)[0].error == "too_long"
