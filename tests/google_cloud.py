"""A stand-in for what a submission to Dataflow speaks to: Cloud Storage's JSON API and Dataflow's REST API, on one port."""

from __future__ import annotations

import base64
import json
import threading
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class GoogleCloud:
    """Objects by `bucket/name` under `objects`; jobs, as they were asked for, under `jobs`."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.jobs: list[dict[str, Any]] = []
        self.unknown: list[str] = []
        outer = self

        class Handler(_Handler):
            cloud = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://localhost:{self._server.server_port}"

    def __enter__(self) -> GoogleCloud:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    cloud: GoogleCloud
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path, query = self._asked()
        match path:
            case ["storage", "v1", "b", bucket]:
                self._answer({"kind": "storage#bucket", "name": bucket, "id": bucket})
            case ["storage", "v1", "b", bucket, "o"]:
                prefix = f"{bucket}/{query.get('prefix', [''])[0]}"
                self._answer(
                    {"items": [self._about(key) for key in sorted(self.cloud.objects) if key.startswith(prefix)]}
                )
            case [*kind, "storage", "v1", "b", bucket, "o", name]:
                key = f"{bucket}/{name}"
                if key not in self.cloud.objects:
                    self._answer({"error": {"code": 404, "message": "No such object"}}, 404)
                elif kind == ["download"] or query.get("alt") == ["media"]:
                    self._content(self.cloud.objects[key])
                else:
                    self._answer(self._about(key))
            case ["v1b3", "projects", _, "locations", _, "jobs", job]:
                self._answer({**self.cloud.jobs[int(job)], "id": job, "currentState": "JOB_STATE_RUNNING"})
            case _:
                self._lost()

    def do_POST(self) -> None:
        path, query = self._asked()
        body = self._body()
        match path:
            case ["upload", "storage", "v1", "b", bucket, "o"] if query["uploadType"] == ["multipart"]:
                kind = self.headers["Content-Type"].encode()
                about, content = BytesParser().parsebytes(b"Content-Type: " + kind + b"\r\n\r\n" + body).get_payload()
                name = json.loads(about.get_payload(decode=True))["name"]
                self._store(f"{bucket}/{name}", content.get_payload(decode=True))
            case ["upload", "storage", "v1", "b", bucket, "o"]:
                name = query["name"][0] if "name" in query else json.loads(body)["name"]
                self._answer({}, location=f"{self.cloud.url}/resumed/{bucket}?name={name}")
            case ["batch", "storage", "v1"]:
                self._content(self._batch(body), kind='multipart/mixed; boundary="parts"')
            case ["v1b3", "projects", _, "locations", region, "jobs"]:
                self.cloud.jobs.append(json.loads(body))
                self._answer({**json.loads(body), "id": str(len(self.cloud.jobs) - 1), "location": region})
            case _:
                self._lost()

    def do_PUT(self) -> None:
        path, query = self._asked()
        body = self._body()
        match path:
            case ["resumed", bucket]:
                self._store(f"{bucket}/{query['name'][0]}", body)
            case _:
                self._lost()

    def do_DELETE(self) -> None:
        path, _ = self._asked()
        self.cloud.objects.pop(f"{path[3]}/{path[5]}", None)
        self._content(b"", 204)

    def _batch(self, body: bytes) -> bytes:
        """Several copies and deletions in one request."""
        kind = self.headers["Content-Type"].encode()
        answers = b""
        for part in BytesParser().parsebytes(b"Content-Type: " + kind + b"\r\n\r\n" + body).get_payload():
            method, url, *_ = part.get_payload(decode=True).decode().split()
            match method, [unquote(word) for word in urlsplit(url).path.strip("/").split("/")]:
                case "POST", [_, _, _, bucket, "o", name, "copyTo", _, other, "o", new]:
                    found = self.cloud.objects.get(f"{bucket}/{name}")
                    if found is not None:
                        self.cloud.objects[f"{other}/{new}"] = found
                case "DELETE", [_, _, _, bucket, "o", name]:
                    found = self.cloud.objects.pop(f"{bucket}/{name}", None)
                case _:
                    self.cloud.unknown.append(f"{method} {url}")
                    found = None
            answers += b"--parts\r\nContent-Type: application/http\r\n\r\n"
            answers += b"HTTP/1.1 404 Not Found" if found is None else b"HTTP/1.1 200 OK"
            answers += b"\r\nContent-Type: application/json\r\n\r\n{}\r\n"
        return answers + b"--parts--"

    def _asked(self) -> tuple[list[str], dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return [unquote(part) for part in parts.path.strip("/").split("/")], parse_qs(parts.query)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _store(self, key: str, content: bytes) -> None:
        self.cloud.objects[key] = content
        self._answer(self._about(key))

    def _about(self, key: str) -> dict[str, Any]:
        bucket, _, name = key.partition("/")
        when = "2026-01-01T00:00:00.000Z"
        content = self.cloud.objects[key]
        about = {"bucket": bucket, "name": name, "generation": "1", "updated": when, "timeCreated": when}
        return {**about, "size": str(len(content)), "crc32c": _crc32c(content)}

    def _answer(self, value: dict[str, Any], status: int = 200, location: str = "") -> None:
        self._content(json.dumps(value).encode(), status, location)

    def _content(self, content: bytes, status: int = 200, location: str = "", kind: str = "application/json") -> None:
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        if wanted and status == 200:
            first, _, last = wanted.partition("-")
            begin, end = int(first), min(int(last or len(content)), len(content) - 1)
            status, whole, content = 206, len(content), content[begin : end + 1]
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {begin}-{end}/{whole}")
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _lost(self) -> None:
        self.cloud.unknown.append(f"{self.command} {self.path}")
        self._answer({"error": {"code": 404, "message": f"{self.command} {self.path}"}}, 404)


def _crc32c(content: bytes) -> str:
    import google_crc32c  # with the client of Cloud Storage

    return base64.b64encode(google_crc32c.value(content).to_bytes(4, "big")).decode()
