"""Endpoints that mean harm: real servers that send whatever bytes an attack orders."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow.parquet as pq
from tokenmill.bench.servers.scripted import completion
from tokenmill.inference.cache.base import Codec

Attack = Callable[[bytes, bytes], Iterable[bytes]]
"""(head, body) of a request to the pieces that are sent back, after which the connection is closed."""


class Endpoint:
    """Runs on threads. `attack` answers a POST, `listing` a GET; the default list names the model `m`."""

    def __init__(self, attack: Attack, listing: Attack | None = None) -> None:
        self.attack = attack
        self.listing = listing or (lambda head, body: [reply(b'{"data": [{"id": "m"}]}')])
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Endpoint:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                data = b""
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(1 << 16)
                    if not piece:
                        return
                    data += piece
                head, _, body = data.partition(b"\r\n\r\n")
                low = head.lower()
                length = int(low.split(b"content-length:")[1].split()[0]) if b"content-length:" in low else 0
                while len(body) < length:
                    body += connection.recv(1 << 16)
                self.heads.append(head)
                for piece in (self.listing if head.startswith(b"GET") else self.attack)(head, body):
                    connection.sendall(piece)
            except OSError:
                return  # the other side has had enough


def reply(body: bytes, status: int = 200, headers: dict[str, str] | None = None, length: int | None = None) -> bytes:
    """A whole HTTP answer; `length` is what its header says."""
    told = {"Content-Type": "application/json", "Connection": "close", **(headers or {})}
    if "Transfer-Encoding" not in told:
        told["Content-Length"] = str(len(body) if length is None else length)
    lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode("utf-8", "surrogateescape") + body


def answer(text: str = "Fine.", **changes: object) -> bytes:
    """A chat completion's body, with fields of its choice (`finish_reason`, `tool_calls`, ...) or of its own replaced."""
    whole = completion(text, model="m")
    choice = whole["choices"][0]
    for name, value in changes.items():
        place = (
            choice if name in choice else choice["message"] if name in ("content", "tool_calls", "refusal") else whole
        )
        place[name] = value
    return json.dumps(whole).encode()


def key_of(head: bytes) -> str:
    """The bearer token of a request, as an endpoint reads it."""
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(":")
        if name.lower() == "authorization":
            return value.split()[-1]
    return ""


def everything_under(folder: Path) -> dict[str, bytes]:
    """All that a run left: every file's bytes, those of Parquet files and of the cache as their values, too."""
    found = {}
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.read_table(path).to_pylist()).encode("utf-8", "replace")
        elif "sqlite" in path.name:
            content += _unpacked(path)
        found[str(path.relative_to(folder))] = content
    return found


def _unpacked(path: Path) -> bytes:
    """The answers of a cache."""
    if path.name != "answers.sqlite":
        return b""
    with sqlite3.connect(path) as db:
        return b"".join(Codec().unpack(bytes(body)) for (body,) in db.execute("SELECT body FROM answers"))
