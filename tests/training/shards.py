"""Small shards and checkpoints to train on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenmill.bench.servers.mill import documents

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a place",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}


def write_rows(folder: Path, rows: Sequence[dict[str, Any]], *, files: int = 1, group: int = 10) -> Path:
    """Rows as Parquet shards under `folder`/data."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    share = -(-len(rows) // files)
    for index in range(files):
        table = pa.Table.from_pylist(rows[index * share : (index + 1) * share])
        pq.write_table(table, folder / f"data/train-{index:05d}-of-{files:05d}.parquet", row_group_size=group)
    return folder


def texts(folder: Path, count: int, **layout: int) -> Path:
    return write_rows(folder, [{"id": d["id"], "text": d["text"]} for d in documents(count)], **layout)


def conversation(number: int) -> dict[str, str]:
    """A call for the weather of one of two places, its result, and the answer; columns are JSON strings."""
    city, sky = ("Oslo", "rain") if number % 2 else ("Rome", "sun")
    call = {"id": "x", "type": "function", "function": {"name": "get_weather", "arguments": json.dumps({"city": city})}}
    messages = [
        {"role": "user", "content": f"Weather in {city}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": sky},
        {"role": "assistant", "content": f"In {city}: {sky}."},
    ]
    return {"messages": json.dumps(messages), "tools": json.dumps([WEATHER])}


def conversations(folder: Path, count: int, **layout: int) -> Path:
    return write_rows(folder, [conversation(number) for number in range(count)], **layout)
