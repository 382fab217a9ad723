"""A small Hub on a local port: enough of its HTTP interface to create a dataset repository and commit files to it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import yaml

SHA = "a" * 40


@dataclass
class FakeHub:
    url: str = ""
    token: str = "hf_test"
    private: bool = False
    """Of the repository as it exists."""
    exists: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    created: dict[str, Any] = field(default_factory=dict)
    branches: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    broken: str = ""
    """Path fragment that answers 413, which the client does not try again."""

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any]:
        self.calls.append((method, path))
        if self.broken and self.broken in path:
            return 413, {"error": "payload too large"}
        if path == "/api/validate-yaml":
            content = json.loads(body)["content"]
            metadata = yaml.safe_load(content.split("---\n")[1])
            return (200, {}) if isinstance(metadata, dict) and metadata.get("license") else (400, "no license")
        if token != self.token:
            return 401, {"error": "Invalid credentials in Authorization header"}
        if path == "/api/repos/create":
            asked = json.loads(body)
            repo = f"{asked['organization'] or 'me'}/{asked['name']}"
            if asked["organization"] == "foreign":
                return 403, {"error": "You don't have the rights to create a dataset under this namespace"}
            if self.exists:
                return 409, {"error": "You already created this repo", "url": f"{self.url}/datasets/{repo}"}
            self.created, self.exists = asked, True
            self.private = asked.get("visibility") == "private" or bool(asked.get("private"))
            return 200, {"url": f"{self.url}/datasets/{repo}"}
        if "/tree/" in path:
            tree = [{"type": "file", "path": p, "size": len(b), "oid": SHA} for p, b in self.files.items()]
            return 200, tree
        if "/branch/" in path:
            self.branches.append(path.rsplit("/", 1)[1])
            return 200, {}
        if "/preupload/" in path:
            asked = json.loads(body)["files"]
            return 200, {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "deletedFile":
                    self.deleted.append(value["path"])
                    self.files.pop(value["path"], None)
            return 200, {
                "commitUrl": f"{self.url}/datasets/{_repo(path)}/commit/{SHA}",
                "commitOid": SHA,
                "success": True,
            }
        if path.startswith("/api/datasets/"):
            if not self.exists:
                return 404, {"error": "Repository not found"}
            return 200, {"_id": "1", "id": _repo(path), "private": self.private, "sha": SHA, "siblings": []}
        return 404, {"error": f"no such route: {path}"}


def _repo(path: str) -> str:
    return "/".join(path.split("/")[3:5])


@contextmanager
def serve(hub: FakeHub) -> Iterator[FakeHub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
            status, answer = hub.answer(self.command, urlsplit(self.path).path, body, token)
            payload = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
            self.send_header("Content-Length", str(len(payload)))
            if isinstance(answer, dict) and "error" in answer:
                self.send_header("X-Error-Message", answer["error"])
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_HEAD = _handle

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
