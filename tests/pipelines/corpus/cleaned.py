"""Documents as the first pass of a corpus leaves them: cleaned rows in files, their signatures as elements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.corpus.portions import BATCH, Candidate, clean_file, row_key
from tokenmill.pipelines.corpus.prints import Prints, SignDocuments
from tokenmill.schemas.columns import to_table
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.draws import digest


def document(
    id: str, text: str, *, domain: str = "web", url: str = "", synthetic: bool = False, lineage: str = ""
) -> CorpusDocument:
    blank = dict.fromkeys(("title", "date", "license", "source", "given_id", "source_id"), "")
    return CorpusDocument(
        id=id,
        domain=domain,
        text=text,
        url=url,
        language="en",
        source_file="web/a.jsonl",
        source_row=0,
        synthetic=synthetic,
        lineage=lineage or f"{digest(id):016x}" * 2,
        source_rows=1,
        tokens=len(text) // 4,
        masked=0,
        quality=None,
        verdicts=[],
        **blank,
    )


def cleaned(documents: Sequence[CorpusDocument], folder: Path, portion_rows: int = 100) -> list[Prints]:
    """Write the clean files of these documents, in portions of so many; their signatures."""
    (folder / "clean").mkdir(parents=True, exist_ok=True)
    prints: list[Prints] = []
    for portion, start in enumerate(range(0, len(documents), portion_rows)):
        rows = list(documents[start : start + portion_rows])
        pq.write_table(to_table(rows, CorpusDocument), clean_file(str(folder), portion))
        for first in range(0, len(rows), BATCH):
            batch = [Candidate(row, Words(row.text), "") for row in rows[first : first + BATCH]]
            keys = range(row_key(portion, first), row_key(portion, first + len(batch)))
            prints += SignDocuments()(keys, batch)
    return prints
