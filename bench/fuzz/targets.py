"""What is fuzzed: the places where bytes of strangers become values. Each target takes bytes and may raise only what its
callers expect."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import zstandard
from tokenmill.inference.call import Answer, Call, MalformedAnswer
from tokenmill.inference.redaction import redacted_json
from tokenmill.inference.structured import candidates
from tokenmill.judges.math.answer_forms import read_answer
from tokenmill.pipelines.agentic.trajectories.agent_turn import _native
from tokenmill.pipelines.transforms.bounded import parquet_values, unpacked
from tokenmill.pipelines.transforms.documents import DocumentParser
from tokenmill.pipelines.transforms.sources import RowUnreadable, _json_object
from tokenmill.prompts.fence import defuse, fence
from tokenmill.tools_repo.code.guests.values import Unsendable, decode
from tokenmill.tools_repo.world.patch import PatchInvalid, apply

CALL = Call("m", ({"role": "user", "content": "x"},), {"max_tokens": 100})
TOOLS = [{"type": "function", "function": {"name": "find_room", "parameters": {"type": "object"}}}]
STATE: dict[str, Any] = {"rooms": {"r1": {"name": "Blue", "beds": 2}}, "guests": {}}
PARSER = DocumentParser()


@dataclass(frozen=True)
class Target:
    """One harness."""

    run: Callable[[bytes], Any]
    expected: tuple[type[BaseException], ...]
    """What its callers handle; anything else is a finding, and so is silence for `bench.fuzz` to notice."""


def answer(data: bytes) -> None:
    """The body of an endpoint's answer, and the JSON that a model writes into its text."""
    told = Answer.parse(redacted_json(data), call=CALL)
    assert isinstance(told.text, str) and isinstance(told.finish_reason, str) and told.usage.total >= 0
    for value in candidates(told.text):
        assert not isinstance(value, float) or value == value


def tool_calls(data: bytes) -> None:
    """The tool calls of an agent's turn, as an endpoint sends them."""
    turn = _native(Answer.parse(data, call=CALL), TOOLS, 1)
    for call in turn.message.tool_calls or ():
        assert isinstance(orjson.loads(call.function.arguments), dict)


def rows(data: bytes) -> None:
    """A line of JSON Lines to a document, and a document to a prompt."""
    values = _json_object(data)
    if isinstance(values, RowUnreadable):
        raise values
    document = PARSER(values, "f", 0)
    document.text.encode()
    fenced = fence(document.text, "document")
    assert fenced.count(fenced.rpartition("\n")[2]) == 1 and defuse(fenced) == fenced


def files(data: bytes) -> None:
    """A file: Parquet, or compressed lines, by its first byte."""
    if data[:1] == b"P":
        for _ in parquet_values(io.BytesIO(data), None, ("id", "text"), 100_000):
            pass
        return
    file = unpacked(io.BytesIO(data), "gz" if data[:1] == b"\x1f" else "zst")
    while file.read(1 << 16):
        pass


def mathematics(data: bytes) -> None:
    """A final answer, as notes state it."""
    read_answer(data.decode("utf-8", "replace")[:2000])


def wire(data: bytes) -> None:
    """A value that a sandboxed program sends."""
    decode(orjson.loads(data))


def patch(data: bytes) -> None:
    """A JSON Patch that a model writes for a world."""
    before = orjson.dumps(STATE)
    after = apply(STATE, orjson.loads(data))
    assert orjson.dumps(STATE) == before and len(orjson.dumps(after)) < 1_000_000


def _expected(*more: type[BaseException]) -> tuple[type[BaseException], ...]:
    return (orjson.JSONDecodeError, *more)


TARGETS = {
    "answer": Target(answer, _expected(MalformedAnswer)),
    "tool_calls": Target(tool_calls, _expected(MalformedAnswer)),
    "rows": Target(rows, _expected(RowUnreadable)),
    "files": Target(
        files, _expected(ValueError, OSError, EOFError, pa.ArrowException, zlib.error, zstandard.ZstdError)
    ),
    "mathematics": Target(mathematics, ()),
    # What comes of the wire is read by code that takes any exception of it for a broken guest.
    "wire": Target(wire, _expected(Unsendable, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)),
    "patch": Target(patch, _expected(PatchInvalid)),
}
