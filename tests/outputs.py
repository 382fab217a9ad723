"""Reading what a run wrote."""

import json
from pathlib import Path

import pyarrow.parquet as pq


def rows(out, kind="data"):
    """The rows of one output, in shard order."""
    return [row for path in sorted(Path(out, kind).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]


def manifest(out):
    return json.loads(Path(out, "manifest.json").read_text())
