"""Guest: runs one command in a workspace and tells what it printed and what it changed."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tokenmill.tools_repo.code.guests.common import (  # ours, sent along
    adopt,
    collect,
    end_children,
    hide,
    lay_out,
    open_channel,
    read_line,
    write_all,
)


def follow(process: subprocess.Popen[bytes], seconds: float, keep: int) -> tuple[bytes, bytes, int, bool]:
    """Read what a process prints until it ends; (beginning, end, bytes left out between, whether time ran out)."""
    head, tail, omitted, late = b"", b"", 0, False
    end = time.monotonic() + seconds
    ended = None
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if now > end:
                late = process.poll() is None
                break
            if ended is None and process.poll() is not None:
                ended = now  # others may hold the pipe for ever; what was written is there already
            if selector.select(0.0 if ended else min(0.05, end - now)):
                block = os.read(process.stdout.fileno(), 1 << 16)
                if not block:
                    break
                room = keep - len(head)
                head, tail = head + block[:room], tail + block[room:]
                if len(tail) > 2 * keep:
                    omitted, tail = omitted + len(tail) - keep, tail[-keep:]
            elif ended:
                break
    if len(tail) > keep:
        omitted, tail = omitted + len(tail) - keep, tail[-keep:]
    return head, tail, omitted, late


def main() -> None:
    hide()
    adopt()
    lines, channel = open_channel()
    job = json.loads(read_line(lines))
    root = Path(os.environ["HOME"], "workspace")
    lay_out(root, job["files"])
    with tempfile.TemporaryFile() as given:
        given.write(job["stdin"].encode())
        given.seek(0)
        process = subprocess.Popen(
            job["argv"],
            cwd=root,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PWD": str(root)},
        )
    head, tail, omitted, late = follow(process, job["seconds"], job["keep"])
    if late:
        process.send_signal(signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    end_children()
    before = {row[0]: row for row in job["files"]}
    after: dict[str, list[str]] | None
    try:
        after = collect(root, job["max_files"], job["max_bytes"])
    except FileNotFoundError:
        after = {}  # the workspace's folder itself is gone
    except OSError:
        after = None
    told = {
        "exit_code": process.returncode,
        "late": late,
        "head": head.decode("utf-8", "replace"),
        "tail": tail.decode("utf-8", "replace"),
        "omitted": omitted,
        "full": after is None,
        "changed": [row for path, row in (after or {}).items() if before.get(path) != row],
        "removed": [] if after is None else [path for path in before if path not in after],
    }
    write_all(channel, json.dumps(told).encode())


main()
