"""Answers kept in a file of their own, to be given again: `--record FILE` writes one, `--llm recorded:FILE` answers from it.

A recording is JSON lines: a head, then one answer each, sorted by role and address.

    {"tokenmill_recording": 1, "note": "who played whom"}
    {"role": "writer", "address": "9f8c…", "model": "Qwen3-30B-A3B", "date": "2026-11-22", "answer": {a chat completion}}

The address is the hash of what a step asks: messages, schema, tools, attempt, and the sampling that the step chose. Neither
the model nor what the user or a provider changes of the sampling is in it, so that a request finds its answer whoever
gave it and wherever. Beside `answer`, an endpoint's refusal (`status`, `refused`) and a call that was given up (`failed`)
are answers, too: a replay ends as the recorded run did.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from tokenmill.inference.call import Answer, Call
from tokenmill.inference.errors import CallFailed, CallRefused, NotRecorded
from tokenmill.inference.roles import Role
from tokenmill.inference.stats import RoleStats

HEAD = "tokenmill_recording"
VERSION = 1
PARTS = "recorded-*.jsonl"
"""What workers write into a run's state folder."""

Key = tuple[str, str]
"""Role and address."""


class NoRecording(ValueError):
    """A file is no recording, or cannot be read or written; one line that names it."""


class Recording:
    """A recording, read whole.

    Raises:
        NoRecording: there is no such file, or it is none.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            content = Path(path).expanduser().read_bytes()
        except OSError as error:
            raise NoRecording(f"the recording {path} cannot be read: {error.strerror}") from None
        self.sha256 = hashlib.sha256(content).hexdigest()
        head, *lines = content.splitlines() or [b""]
        self.note = str(_parsed(head, self.path, HEAD).get("note", ""))
        self.answers: dict[Key, dict[str, Any]] = {}
        for line in lines:
            if line.strip():
                one = _parsed(line, self.path, "address")
                self.answers[str(one.get("role", "")), str(one["address"])] = one

    def of(self, role: str) -> list[dict[str, Any]]:
        """The answers of one role."""
        return [one for (name, _), one in self.answers.items() if name == role]

    def described(self, role: str) -> dict[str, Any]:
        """Where the answers of a role come from, for the manifest."""
        mine = self.of(role)
        return {
            "file": self.path,
            "sha256": self.sha256,
            "answers": len(mine),
            "models": sorted({str(one.get("model", "")) for one in mine}),
            "dates": sorted({str(one.get("date", "")) for one in mine}),
            "note": self.note,
        }


def told(described: dict[str, Any]) -> str:
    """What `Recording.described` says, as a clause: `recorded of MODEL on DATE in FILE`."""
    dates = described["dates"]
    when = "" if not dates else f" on {dates[0]}" if len(dates) == 1 else f" from {dates[0]} to {dates[-1]}"
    return f"recorded of {', '.join(described['models']) or 'nobody'}{when} in {described['file']}"


def request_address(**asked: Any) -> str:
    """The address of what a step asks: the arguments of `inference.call.Ask`, without the role."""
    messages, schema, tools = asked.pop("messages"), asked.pop("schema", None), asked.pop("tools", None)
    attempt = asked.pop("attempt", 0)
    params = {name: value for name, value in asked.items() if value is not None}
    return Call("", tuple(messages), params, schema, tuple(tools) if tools else None, attempt).address


@dataclass
class RecordedPlayer:
    """A role whose answers come from a recording."""

    recording: Recording
    model: str
    """The name that rows carry."""
    role: Role
    stats: RoleStats = field(default_factory=RoleStats)

    @cached_property
    def described(self) -> str:
        return f"the recording {self.recording.path}"

    def answer(self, name: str, address: str, call: Call) -> Answer:
        """The recorded answer to a request of the role `name`.

        Raises:
            NotRecorded: there is none.
            CallRefused, CallFailed: the recorded call ended so.
        """
        one = self.recording.answers.get((name, address))
        if one is None:
            raise NotRecorded(
                f"{self.described} has no answer to a request of the {name} ({address[:12]}…): it was made with other input, "
                "flags, prompts or version of Tokenmill. Repeat the command that it was made with, or record anew with a "
                f"model: --llm SPEC --record {self.recording.path}"
            )
        if "refused" in one:
            self.stats.refused += 1
            raise CallRefused(int(one["status"]), str(one["refused"]).encode())
        if "failed" in one:
            raise CallFailed(str(one["failed"]))
        self.stats.recorded += 1
        return Answer.parse(orjson.dumps(one["answer"]), call=call, from_cache=True)


class Recorder:
    """Writes down, in one process, what its calls came to; `merge` makes a recording of what all processes wrote."""

    def __init__(self, state: str) -> None:
        part = Path(state, PARTS.replace("*", str(os.getpid())))
        self._file = part.open("ab", buffering=0)
        self._seen: set[Key] = set()

    def answered(self, role: str, address: str, model: str, answer: Answer) -> None:
        """An answer, be it new or from the cache."""
        body = orjson.loads(answer.raw)
        self._write(role, address, model, _date(body), answer=body)

    def turned_down(self, role: str, address: str, model: str, error: CallRefused) -> None:
        words = error.body.decode("utf-8", "replace")
        self._write(role, address, model, _date({}), status=error.status, refused=words)

    def given_up(self, role: str, address: str, model: str, error: CallFailed) -> None:
        self._write(role, address, model, _date({}), failed=str(error))

    def _write(self, role: str, address: str, model: str, date: str, **outcome: Any) -> None:
        if (role, address) not in self._seen:
            self._seen.add((role, address))
            line = {"role": role, "address": address, "model": model, "date": date, **outcome}
            self._file.write(orjson.dumps(line) + b"\n")

    def close(self) -> None:
        self._file.close()


def check_writable(path: str | Path) -> None:
    """
    Raises:
        NoRecording: a recording cannot be written there, or something else is.
    """
    path = Path(path).expanduser()
    if path.exists():
        Recording(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise NoRecording(f"--record {path}: the folder is not there or cannot be written")


def merge(state: str, path: str | Path) -> int:
    """Add what a run's processes wrote down to a recording, which is made where there is none; its answers in all.

    A new answer to a request replaces the old one; an equal one leaves the line, with its date, as it was.

    Raises:
        NoRecording: the file there is none, or cannot be written.
    """
    path = Path(path).expanduser()
    before = Recording(path) if path.exists() else None
    answers = dict(before.answers) if before else {}
    for part in sorted(Path(state).glob(PARTS)):
        for line in part.read_bytes().splitlines():
            try:
                one = orjson.loads(line)
            except ValueError:  # the process was killed as it wrote; the answer itself is in the cache
                continue
            key = (one["role"], one["address"])
            if _outcome(answers.get(key)) != _outcome(one):
                answers[key] = one
    _write_whole(path, {HEAD: VERSION, "note": before.note if before else ""}, answers)
    return len(answers)


def _outcome(one: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if one is None else {name: value for name, value in one.items() if name != "date"}


def _write_whole(path: Path, head: dict[str, Any], answers: dict[Key, dict[str, Any]]) -> None:
    lines: Iterable[dict[str, Any]] = (head, *(answers[key] for key in sorted(answers)))
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as part:
            part.write(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        Path(part.name).chmod(0o644)
        Path(part.name).replace(path)
    except OSError as error:
        raise NoRecording(f"--record {path}: {error.strerror}") from None


def _parsed(line: bytes, path: str, wanted: str) -> dict[str, Any]:
    try:
        one = orjson.loads(line)
    except ValueError:
        one = None
    if not isinstance(one, dict) or wanted not in one:
        raise NoRecording(f"{path} is no recording: --record FILE makes one")
    return one


def _date(body: dict[str, Any]) -> str:
    """The day of an answer: as its endpoint has it, or today."""
    created = body.get("created")
    if isinstance(created, (int, float)) and created > _FIRST:
        return datetime.fromtimestamp(created, UTC).date().isoformat()
    return datetime.now(UTC).date().isoformat()


_FIRST = 1_600_000_000
"""Seconds; servers that do not keep the time say 0 or 1."""
