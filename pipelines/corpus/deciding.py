"""What is asked of the documents of a corpus together: that none repeats another, and none holds an item of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from tokenmill.judges.corpus import signatures
from tokenmill.pipelines.corpus.duplicates import DecideDuplicates
from tokenmill.pipelines.corpus.near import THRESHOLD
from tokenmill.pipelines.corpus.prints import SignDocuments
from tokenmill.pipelines.runs.benchmarks import decontaminate_flag
from tokenmill.pipelines.runs.options import RunOptions
from tokenmill.schemas.flags import flag, must, not_negative

_kept = partial(flag, group="what is kept")


@dataclass(frozen=True, kw_only=True)
class DecidingOptions(RunOptions):
    """Of the job that decides over documents together."""

    keep_duplicates: bool = _kept(False, shapes=True, help="keep documents that repeat others, and repeated passages")
    near_duplicate: float = _kept(
        THRESHOLD,
        metavar="S",
        parse=must("from 0.5 to 1: below, no pair would be found", lambda value: 0.5 <= value <= 1),
        shapes=True,
        help="Jaccard similarity of runs of 5 words from which two documents count as one",
    )
    passage_copies: int = _kept(
        1,
        metavar="N",
        parse=not_negative,
        shapes=True,
        help="documents of web and knowledge in which a passage of 50 words may stand before it is taken out of the others; "
        "0 for any number",
    )
    decontaminate: tuple[str, ...] = decontaminate_flag()


@dataclass(frozen=True)
class Deciding:
    """How it is decided over the documents together."""

    near_duplicate: float = THRESHOLD
    passage_copies: int = 1

    @classmethod
    def of(cls, options: DecidingOptions) -> Deciding | None:
        """None where duplicates are kept."""
        return None if options.keep_duplicates else cls(options.near_duplicate, options.passage_copies)

    @property
    def sign(self) -> SignDocuments:
        return SignDocuments()

    @property
    def config(self) -> dict[str, Any]:
        """What shapes the decisions beside the options."""
        return {"signatures": signatures.VERSION, "bands": [signatures.BANDS, signatures.ROWS]}

    def decide(self, folder: str) -> beam.PTransform[Any, Any]:
        """Prints -> decisions; `folder` is where the clean files are."""
        return DecideDuplicates(folder, self.near_duplicate, self.passage_copies)
