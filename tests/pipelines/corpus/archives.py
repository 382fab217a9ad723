"""WARC archives of given pages, as crawlers write them."""

from __future__ import annotations

import gzip
from pathlib import Path


def record(body: bytes, *, url: str = "http://a.example/", kind: str = "response", head: bytes | None = None) -> bytes:
    """One record; of a response with the server's `head`, a page in UTF-8 if not told."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n" if head is None else head
    content = http + b"Content-Length: %d\r\n\r\n" % len(body) + body if kind == "response" else body
    lines = [
        "WARC/1.0",
        f"WARC-Type: {kind}",
        f"WARC-Target-URI: {url}",
        "WARC-Date: 2024-05-01T12:00:00Z",
        f"WARC-Record-ID: <urn:uuid:{abs(hash(url)):032x}>",
        "Content-Type: " + ("application/http; msgtype=response" if kind == "response" else "text/plain"),
        f"Content-Length: {len(content)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content + b"\r\n\r\n"


def archive(path: Path, records: list[bytes]) -> Path:
    """The records in a file; compressed one by one where its name says so."""
    packed = map(gzip.compress, records) if path.name.lower().endswith(".gz") else records
    path.write_bytes(b"".join(packed))
    return path
