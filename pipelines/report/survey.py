"""One pass over the shards of a finished run: everything the card and the report say of its rows.

survey = survey_run(Path("out/wiki"))
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from tokenmill.pipelines.report.sample_draw import Sample, fetch
from tokenmill.pipelines.report.tally import CLASSES, Shards, Survey, tally_folder
from tokenmill.pipelines.report.views.registry import view_of_columns
from tokenmill.pipelines.transforms import PAIRS


def shards_under(out: Path) -> Shards:
    """The shards of a run on this machine."""
    return lambda folder: sorted(Path(out, folder).glob("*.parquet"))


def survey_run(out: Path, samples: int = 20, shards: Shards | None = None) -> Survey:
    """Read every shard of a run. Pictures that its rows' view draws go into `out`.

    Args:
        samples: rows to draw per folder, spread over styles, reasons or errors, by hash of their id: the same rows
            whatever the order of shards.
        shards: where they are; under `out` if not told.

    Raises:
        OSError, pyarrow.ArrowInvalid: a shard cannot be read, or a picture not written.
    """
    shards = shards or shards_under(out)
    survey = Survey(*(tally_folder(shards, folder, samples) for folder in CLASSES))
    survey.pairs = tally_folder(shards, PAIRS, 0)
    survey.rejected.samples = _with_twins(shards, survey.rejected.samples)
    survey.figures = view_of_columns(survey.schema).figures(out, shards)
    return survey


def _with_twins(shards: Shards, samples: list[Sample]) -> list[Sample]:
    """The samples, each with the row that it is a duplicate of."""
    wanted = {sample.row["duplicate_of"] for sample in samples if sample.row.get("duplicate_of")}
    if not wanted:
        return samples
    found: dict[str, Sample] = {}
    for path in (path for folder in ("data", "rejected") for path in shards(folder)):
        ids = pq.read_table(path, columns=["id"])["id"].to_pylist()
        places = [(path, i) for i, id_ in enumerate(ids) if id_ in wanted and id_ not in found]
        found |= {sample.row["id"]: sample for sample in fetch(places).values()}
    return [replace(sample, twin=found.get(sample.row.get("duplicate_of") or "")) for sample in samples]
