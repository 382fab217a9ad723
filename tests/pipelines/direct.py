"""Run a pipeline on this machine and get its PCollections back as lists."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner


class _Keep(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def setup(self) -> None:
        handle, _ = tempfile.mkstemp(dir=self.folder)
        self.file = os.fdopen(handle, "wb", buffering=0)

    def process(self, element: Any):
        self.file.write(pickle.dumps(element))

    def teardown(self) -> None:
        self.file.close()


def collect(
    build: Callable[[beam.Pipeline], dict[str, beam.PCollection]], *, processes: int = 0
) -> dict[str, list[Any]]:
    """All elements of the PCollections that `build` returns; `processes` > 0 runs them in separate worker processes."""
    flags = []
    if processes:
        root = str(Path(__file__).resolve().parents[2])
        os.environ["PYTHONPATH"] = root
        flags = ["--direct_running_mode=multi_processing", f"--direct_num_workers={processes}"]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(flags))
        outputs = build(pipeline)
        for name, rows in outputs.items():
            Path(folder, name).mkdir()
            _ = rows | f"Keep {name}" >> beam.ParDo(_Keep(str(Path(folder, name))))
        pipeline.run().wait_until_finish()
        kept: dict[str, list[Any]] = {}
        for name in outputs:
            kept[name] = []
            for path in sorted(Path(folder, name).iterdir()):
                with path.open("rb") as file:
                    while path.stat().st_size > file.tell():
                        kept[name].append(pickle.load(file))
        return kept
