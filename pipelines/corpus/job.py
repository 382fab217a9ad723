"""Assemble a pre-training corpus: text extracted, filtered by published rules, personal data masked, every row accounted for."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.judges.corpus.learnt import LearntQuality, read_model
from tokenmill.judges.corpus.personal import Personal
from tokenmill.judges.corpus.plain import Languages, Toxicity, word_list
from tokenmill.judges.form.language import UNDETERMINED, code
from tokenmill.pipelines.corpus import Corpus, build
from tokenmill.pipelines.corpus.deciding import Deciding, DecidingOptions
from tokenmill.pipelines.corpus.funnel import funnel
from tokenmill.pipelines.corpus.inputs import find_sources
from tokenmill.pipelines.corpus.licences import POLICIES, Licenses
from tokenmill.pipelines.corpus.mixing import MixingOptions, mix
from tokenmill.pipelines.corpus.parse import CorpusParser, FoundDocument
from tokenmill.pipelines.corpus.screen import LookAtDocument, Screen
from tokenmill.pipelines.corpus.weigh import strata
from tokenmill.pipelines.runs.benchmarks import Benchmarks, benchmarks
from tokenmill.pipelines.runs.exit import OK
from tokenmill.pipelines.runs.job import PACKAGES, Job, Plan
from tokenmill.pipelines.runs.launch import Command, launch
from tokenmill.pipelines.runs.options import of_checking, of_data
from tokenmill.schemas.flags import UsageError, checked, more_than_zero, shaping


def language_codes(text: str) -> tuple[str, ...]:
    """`en,de` as sorted ISO 639-1 codes.

    Raises:
        ValueError: an entry is no such code.
    """
    listed = [part.strip() for part in text.split(",") if part.strip()]
    for part in listed:
        if code(part) == UNDETERMINED:
            raise ValueError(f"{part} is none; write ISO 639-1 codes, such as en,de,zh")
    return tuple(sorted({code(part) for part in listed}))


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(MixingOptions, DecidingOptions):
    """What `corpus` may be given."""

    input: tuple[str, ...] = of_data(
        name="--source",
        metavar="DOMAIN=GLOB",
        help="what is read, and of which domain (web, code, math, knowledge): .warc, .warc.gz, .html, Parquet or JSONL with a "
        "column `text` or `html`, .txt, .md, finished runs' folders, hf://datasets/…; may be given several times",
    )
    licenses: str = of_checking(
        "any",
        choices=tuple(POLICIES),
        shapes=True,
        help="licences taken: of permissive and by, rows that state none are refused",
    )
    languages: str = of_checking(
        "", metavar="LIST", parse=checked(language_codes), help="take only texts in these, such as en,de (default: all)"
    )
    toxic_words: str = of_checking(
        "",
        metavar="FILE",
        help="a word or phrase a line: texts in which they are frequent are refused (default: no such check)",
    )
    quality: str = of_checking(
        "", metavar="FILE:LEAST", help="refuse what a model of `corpus label` scores lower: out/labels/quality.npz:0.6"
    )
    keep_personal: bool = of_checking(
        False, shapes=True, help="leave e-mail addresses, telephone numbers and the like unmasked"
    )
    page_seconds: float = of_checking(
        5.0,
        metavar="S",
        parse=more_than_zero,
        help="longest time for the text of one page; a page that takes longer fails",
    )


def screen_of(options: CorpusOptions, kept_out: Benchmarks | None) -> Screen:
    """What is asked of each document.

    Raises:
        UsageError: a file cannot be used.
    """
    languages = language_codes(options.languages)
    return Screen(
        licenses=Licenses(options.licenses),
        languages=Languages(languages) if languages else None,
        toxicity=_toxicity(options.toxic_words) if options.toxic_words else None,
        quality=_quality(options.quality) if options.quality else None,
        benchmarks=kept_out,
        personal=None if options.keep_personal else Personal(),
        page_seconds=options.page_seconds,
    )


def _toxicity(path: str) -> Toxicity:
    try:
        return Toxicity(word_list(Path(path).read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError) as error:
        raise UsageError(f"--toxic-words {path}: {getattr(error, 'strerror', None) or error}") from None


def _quality(given: str) -> LearntQuality:
    path, _, least = given.rpartition(":")
    try:
        return LearntQuality(read_model(Path(path).read_bytes()), float(least))
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or error
        raise UsageError(f"--quality {given}: {told}; write FILE:LEAST, such as quality.npz:0.6") from None


def job(options: CorpusOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: there is nothing to read, or a file cannot be used.
    """
    kept_out = benchmarks(options.decontaminate)
    screen, deciding = screen_of(options, kept_out), Deciding.of(options)
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
        config={**shaping(options), **_config(screen), **(deciding.config if deciding else {})},
        benchmarks=kept_out,
        measured=lambda counters: {"strata": strata(counters), **funnel(counters)},
        found=find_sources(options.input, limit=options.limit),
        packages=(*PACKAGES, "resiliparse", "fastwarc", "google-re2", "numpy"),
    )


def _config(screen: Screen) -> dict[str, Any]:
    """Every threshold, for the manifest and its fingerprint."""
    toxicity, quality = screen.toxicity, screen.quality
    learnt = hashlib.sha256(quality.model.weights.tobytes()).hexdigest() if quality else ""
    return {
        "quality": {"model": learnt, "least": quality.least} if quality else {},
        "languages": list(screen.languages.wanted) if screen.languages else [],
        "toxic_words": hashlib.sha256("\n".join(toxicity.listed).encode()).hexdigest() if toxicity else "",
        "checks": {
            domain: {type(check).__name__: dataclasses.asdict(check) for check in checks}  # type: ignore[call-overload]
            for domain, checks in screen.checks.items()
        },
    }


def begin(options: CorpusOptions, beam_args: Sequence[str]) -> int:
    """Assemble the corpus, then say what a training run reads of it; the exit code."""
    code = launch(job(options), options, beam_args)
    return mix(options) if code == OK and options.mixture and not (options.estimate or options.preview) else code


COMMAND = Command("corpus run", CorpusOptions, begin)


def estimate(found: FoundDocument) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """No model is asked."""
    return {}, {}
