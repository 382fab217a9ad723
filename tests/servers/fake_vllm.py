"""A stand-in for the `vllm` program: a real HTTP server in a process tree of vLLM's shape, with faults on demand.

It takes the flags of `vllm serve` that vLLM's documentation lists and refuses others as vLLM does. What it should do is
told by environment variables:

    FAKE_VLLM_DIR         where it notes `start PID` and `end PID`, its child's PID, and the names in its environment
    FAKE_VLLM_DELAY       seconds before it listens
    FAKE_VLLM_FAIL        `oom`, `bad_model` or `port_once`: words of the real failure, exit 1
    FAKE_VLLM_LIFE        seconds after which it crashes
    FAKE_VLLM_SLOW_STOP   seconds from SIGTERM to its end

`GET /crash` ends it at once; `GET /die` lets its engine die under a living front end (503 from then on).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WORDS = {
    "oom": "(EngineCore_DP0 pid=7) ERROR 09-28 15:47:24 [core.py:718] ValueError: Free memory on device (3.2/4.0 GiB) "
    "on startup is less than desired GPU memory utilization (0.9, 3.6 GiB). Decrease GPU memory utilization.",
    "bad_model": "OSError: no/such is not a local folder and is not a valid model identifier listed on "
    "'https://huggingface.co/models' (token hf_abcdefghijklmnopqrstuv was sent)",
    "port_once": "OSError: [Errno 98] Address already in use",
}
LAST = "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above."


def install(folder: Path) -> None:
    """Put an executable named `vllm` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "vllm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" "$@"\n')
    program.chmod(0o755)


def note(line: str) -> None:
    with (Path(os.environ["FAKE_VLLM_DIR"]) / "events").open("a") as events:
        events.write(line + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="vllm", allow_abbrev=False)
    serve = parser.add_subparsers(required=True).add_parser("serve", allow_abbrev=False)
    serve.add_argument("model_tag")
    serve.add_argument("--host")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--served-model-name")
    serve.add_argument("--disable-uvicorn-access-log", action="store_true")
    serve.add_argument("--tensor-parallel-size", "-tp", type=int)
    serve.add_argument("--max-model-len", type=int)
    serve.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction)
    options = parser.parse_args()

    note(f"start {os.getpid()}")
    (Path(os.environ["FAKE_VLLM_DIR"]) / "environment").write_text("\n".join(os.environ))
    engine = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note(f"engine {engine.pid}")
    time.sleep(float(os.environ.get("FAKE_VLLM_DELAY", "0")))
    fail = os.environ.get("FAKE_VLLM_FAIL")
    if fail and (fail != "port_once" or _starts() == 1):
        print(WORDS[fail] + "\n" + LAST, file=sys.stderr, flush=True)
        os._exit(1)
    dead = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/crash":
                os._exit(3)
            if self.path == "/die":
                dead.set()
            models = {"object": "list", "data": [{"id": options.served_model_name or options.model_tag}]}
            body = json.dumps({**models, "pid": os.getpid()} if self.path == "/v1/models" else {}).encode()
            self.send_response(503 if dead.is_set() else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    def stop(*_: object) -> None:
        time.sleep(float(os.environ.get("FAKE_VLLM_SLOW_STOP", "0")))
        note(f"end {os.getpid()}")
        os._exit(0)

    signal.signal(signal.SIGTERM, stop)
    if life := os.environ.get("FAKE_VLLM_LIFE"):
        threading.Timer(float(life), os._exit, [3]).start()
    ThreadingHTTPServer((options.host or "0.0.0.0", options.port), Handler).serve_forever()


def _starts() -> int:
    return (Path(os.environ["FAKE_VLLM_DIR"]) / "events").read_text().count("start ")


if __name__ == "__main__":
    main()
