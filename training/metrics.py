"""`metrics.jsonl`: one line an optimizer step; cut back when training resumes from an earlier step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = "metrics.jsonl"


class MetricsLog:
    """Appends, a line at a time. Lines behind `after_step`, and one torn by a kill, are removed first."""

    def __init__(self, folder: Path, after_step: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        kept = [line for line in read_metrics(folder) if line["step"] <= after_step]
        draft = path.with_suffix(".draft")
        draft.write_text("".join(json.dumps(line) + "\n" for line in kept))
        draft.replace(path)
        self._file = path.open("a", buffering=1)

    def write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        self._file.close()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Whole lines only."""
    path = folder / FILE
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]
