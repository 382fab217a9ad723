"""Have a model score a sample of documents, and learn from its scores to score all the others.

The sample is drawn from the documents that pass the filters of `corpus`; OUT/quality.npz is the model for `corpus --quality`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import ClassVar

import apache_beam as beam
import pyarrow.parquet as pq
from tokenmill.inference.call import Ask
from tokenmill.inference.spec import parse_spec
from tokenmill.judges.corpus.learnt import fitted
from tokenmill.judges.corpus.words import Words
from tokenmill.judges.model.document_quality import DocumentQuality
from tokenmill.pipelines.corpus.inputs import find_sources
from tokenmill.pipelines.corpus.parse import CorpusParser
from tokenmill.pipelines.corpus.portions import Candidate
from tokenmill.pipelines.corpus.screen import Screen
from tokenmill.pipelines.rollouts.progress import Progress
from tokenmill.pipelines.runs.exit import FAILED, OK, say
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, launch
from tokenmill.pipelines.runs.options import RunOptions, of_data, of_writing, roles
from tokenmill.pipelines.runs.prepared_input import made_input
from tokenmill.pipelines.runs.read_rows import parsed_rows
from tokenmill.pipelines.transforms.files import is_local
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout
from tokenmill.schemas.corpus import CorpusDocument, LabelledDocument, UnlabelledDocument
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.draws import digest
from tokenmill.schemas.flags import UsageError, positive, shaping

MODEL_FILE = "quality.npz"
_LOOKED_AT = 4
"""Rows that are looked at for each that is drawn of a piece of the input."""


@dataclass(frozen=True, kw_only=True)
class LabelOptions(RunOptions):
    """What `corpus label` may be given."""

    input: tuple[str, ...] = of_data(
        name="--source", metavar="DOMAIN=GLOB", help="where the sample is drawn from, as of `corpus`"
    )
    sample: int = of_writing(2000, metavar="N", parse=positive, shapes=True, help="documents that are scored")
    good: int = of_writing(3, metavar="N", parse=positive, shapes=True, help="least score, of 5, of a good one")


@dataclass(frozen=True)
class LabelDocument:
    """The rollout of one document."""

    quality: DocumentQuality
    model: str

    row_type: ClassVar[type] = LabelledDocument
    rejected_type: ClassVar[type] = UnlabelledDocument

    async def __call__(self, document: CorpusDocument, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when the model cannot be brought to answer."""
        progress = Progress(ask)
        score, why = await self.quality(document.text, progress)
        copied = ("id", "domain", "text", "language", "license", "source_file", "source_row")
        made = progress.provenance(self.model, [self.quality.prompt], self.quality.seed)
        row = {**{name: getattr(document, name) for name in copied}, **made, "score": score, "why": why}
        return Accepted(LabelledDocument(**row))

    def failed(self, document: CorpusDocument, error: str, message: str) -> FailedRow:
        return failed_row(document.id, "label", error, message, document.text, document)


def drawn(found: Inputs, options: LabelOptions) -> list[CorpusDocument]:
    """The sample, in order of ids: from every piece of the input its share, drawn by hash from the first rows that pass the
    filters.

    Raises:
        UsageError: no document passes.
    """
    parser, screen = CorpusParser(), Screen(personal=None)
    pieces = sorted(found.pieces, key=lambda piece: digest(options.seed, piece.name, piece.row_group, piece.offset))
    made: list[CorpusDocument] = []
    for number, piece in enumerate(pieces):
        share = -(-(options.sample - len(made)) // (len(pieces) - number))
        rows = parsed_rows([piece], parser, options.max_document_bytes)
        outcomes = (screen(row) for row in islice(rows, 2 * _LOOKED_AT * share))
        passed = [one.document for one in outcomes if isinstance(one, Candidate)]
        made += sorted(passed, key=lambda document: digest(options.seed, document.id))[:share]
        if len(made) >= options.sample:
            break
    if not made:
        raise UsageError(f"--source {' '.join(options.input)}: no document passes the filters")
    return sorted(made[: options.sample], key=lambda document: document.id)


def job(options: LabelOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is nothing to read.
    """
    step = LabelDocument(DocumentQuality(seed=options.seed), parse_spec(options.llm).model)
    sources = find_sources(options.input, limit=options.limit)
    shape = {"files": [[file.name, file.stamp] for file in sources.files], **shaping(options)}
    sample = made_input(options, ".sample", shape, lambda: drawn(sources, options), CorpusDocument, group=100)
    return Job(
        name="corpus label",
        title="A sample of documents, scored for what can be learnt from them",
        step=step,
        parser=RecordParser(CorpusDocument),
        roles=roles(options, "writer"),
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=(step.quality.prompt,),
        config={**shaping(options), "characters": step.quality.characters},
        found=sample,
    )


def build(step: LabelDocument, flow: Flow) -> None:
    """The whole job: the sample | score | data, rejected, failed."""
    documents, unreadable = flow.read()
    scored = documents | "Spread" >> beam.Reshuffle() | "Score" >> Rollout(step, flow.models)
    flow.write_rolled(scored, unreadable, LabelledDocument, UnlabelledDocument)


def estimate(step: LabelDocument, document: CorpusDocument) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """One call a document."""
    from tokenmill.pipelines.rollouts.chunking import count_tokens

    prompt = sum(count_tokens(str(message["content"])) + 4 for message in step.quality.messages(document.text))
    once = Plan(1, prompt, 60)
    return {"writer": once}, {"writer": once.with_tries(3)}


def label(options: LabelOptions, beam_args: Sequence[str]) -> int:
    """Score the sample, then fit the model; the exit code.

    Raises:
        UsageError: the output is not on this machine, where the model is fitted.
    """
    if options.output and not is_local(options.output):
        raise UsageError(f"--output {options.output}: the model is fitted on this machine; name a folder of it")
    code = launch(job(options), options, beam_args)
    if code != OK or options.estimate or options.preview:
        return code
    rows = list(_labelled(Path(options.folder)))
    try:
        model, area = fitted(
            [Words(text) for text, _ in rows], [score >= options.good for _, score in rows], options.seed
        )
    except ValueError as error:
        return say(f"no quality model: {error}", FAILED)
    path = Path(options.folder, MODEL_FILE)
    path.write_bytes(model.to_bytes())
    return say(
        f"model   {path}: from {len(rows):,} labels; area under the ROC curve {area:.3f} on those it had not seen", OK
    )


def _labelled(folder: Path) -> Iterator[tuple[str, int]]:
    for shard in sorted((folder / "data").glob("*.parquet")):
        table = pq.read_table(shard, columns=["text", "score"])
        yield from zip(table["text"].to_pylist(), table["score"].to_pylist(), strict=True)


COMMAND = Command("corpus label", LabelOptions, label)
