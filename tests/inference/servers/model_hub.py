"""A small Hub on a local port that has model repositories: what it lists, files by byte ranges, and faults on order."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "c0ffee" + "0" * 34


@dataclass
class ModelHub:
    repo: str
    files: dict[str, bytes]
    url: str = ""
    cut: int = 0
    """Bytes after which the next answer to a download breaks off."""
    etag: str = ""
    """What the Hub says a file's hash is; its true one where empty."""
    status: int = 200
    code: str = ""
    """Of the Hub's errors: `RepoNotFound`, `GatedRepo`."""
    ranges: list[int] = field(default_factory=list)
    """Where each download began."""
    asked: list[str] = field(default_factory=list)


@contextmanager
def model_hub(monkeypatch, repo: str, files: dict[str, bytes]) -> Iterator[ModelHub]:
    """Serve a repository, and have huggingface_hub ask there."""
    hub = ModelHub(repo, files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _say(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            hub.asked.append(f"{self.command} {path}")
            if hub.status != 200:
                self._say(hub.status, b"{}", {"X-Error-Code": hub.code})
            elif path.startswith(f"/api/models/{hub.repo}"):
                siblings = [{"rfilename": name} for name in ("README.md", *hub.files)]
                told = {"_id": "1", "id": hub.repo, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []}
                self._say(200, json.dumps(told).encode(), {"Content-Type": "application/json"})
            elif match := re.fullmatch(rf"/{hub.repo}/resolve/{COMMIT}/(.+)", path):
                self._file(match[1])
            else:
                self._say(404, b"{}", {"X-Error-Code": "EntryNotFound"})

        def _file(self, name: str) -> None:
            content = hub.files[name]
            etag = hub.etag or hashlib.sha256(content).hexdigest()
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
            start = int(match[1]) if (match := re.match(r"bytes=(\d+)-", self.headers.get("Range") or "")) else 0
            rest = content[start:]
            if self.command == "GET":
                hub.ranges.append(start)
                if hub.cut and len(rest) > hub.cut:
                    self._say(206 if start else 200, rest[: hub.cut], headers, len(rest))
                    hub.cut = 0
                    self.close_connection = True
                    return
            if start:
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._say(206 if start else 200, rest, headers, len(rest))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
