"""Assemble a pre-training corpus: text extracted, filtered by published rules, personal data masked, every row accounted for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tokenmill.pipelines.corpus import Corpus, build
from tokenmill.pipelines.corpus.deciding import Deciding, DecidingOptions
from tokenmill.pipelines.corpus.inputs import by_domain, find_sources
from tokenmill.pipelines.corpus.parse import CorpusParser, FoundDocument
from tokenmill.pipelines.corpus.screen import LookAtDocument, Screen
from tokenmill.pipelines.runs.benchmarks import benchmarks
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import of_data
from tokenmill.schemas.flags import checked, shaping


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(DecidingOptions):
    """What `corpus` may be given."""

    input: tuple[str, ...] = of_data(
        name="--source",
        metavar="DOMAIN=GLOB",
        parse=checked(by_domain),
        echo=False,
        help="what is read, and of which domain (web, code, math, knowledge): Parquet or JSONL with a column `text` or `html`, "
        ".txt, .md, finished runs' folders, hf://datasets/…; may be given several times",
    )


def job(options: CorpusOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is nothing to read, or a benchmark cannot be read.
    """
    kept_out = benchmarks(options.decontaminate)
    screen, deciding = Screen(benchmarks=kept_out), Deciding.of(options)
    return Job(
        name="corpus",
        title="A pre-training corpus, every row accounted for",
        step=LookAtDocument(screen),
        parser=CorpusParser(),
        roles={},
        dag=partial(build, Corpus(screen, deciding)),
        max_row_bytes=options.max_document_bytes,
        estimate=estimate,
        prompts=(),
        config={**shaping(options), **(deciding.config if deciding else {})},
        benchmarks=kept_out,
        found=find_sources(options.input, limit=options.limit),
    )


COMMAND = Command("corpus", CorpusOptions, one(job))


def estimate(found: FoundDocument) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """No model is asked."""
    return {}, {}
