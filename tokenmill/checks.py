"""The checks of the knowledge job as plain functions, for any text and any pipeline.

    for verdict in tm.checks.verdicts(source, rewrite, title="The lighthouse"):
        print(verdict.check, verdict.passed, verdict.reason, [finding.detail for finding in verdict.findings])

    rows | beam.Filter(lambda row: tm.checks.passed(row["source"], row["rewrite"]))

They need no judge model, no key and no network, and give the same verdicts wherever they run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.check import FactCheck
from tokenmill.judges.facts.check import questions as _questions
from tokenmill.judges.form.checks import FormChecks
from tokenmill.judges.strategies.fitting import CHECKS as _FITTING
from tokenmill.schemas.verdicts import Finding, Question, Verdict

__all__ = ["Finding", "Question", "Verdict", "of_form", "passed", "questions", "verdicts"]

T = TypeVar("T")


def verdicts(
    source: str, rewrite: str, title: str = "", language: str = "en", *, similarity: bool = True
) -> list[Verdict]:
    """What every check that needs no judge model says of a rewrite: form (instructions obeyed, commentary, language,
    truncation, length, copied words), facts (numbers, dates, units, names, code), and closeness of meaning.

    Each verdict has `check`, `passed`, `score`, `reason` (empty when passed) and `findings`, whose `detail` says what to
    mend and whose `source` and `rewrite` quote both texts.

    Args:
        title: the source's title; what stands in it is no addition.
        language: ISO 639-1 code of the source; `und` has it detected.
        similarity: whether to compare embeddings (packaged MiniLM), which takes most of the time.
    """
    found = FormChecks()(source, rewrite, language=language, context=title)
    found.append(FactCheck()(source, rewrite, title, language))
    if similarity:
        found.append(_waited(_similarity()(source, rewrite)))
    return found


def passed(source: str, rewrite: str, title: str = "", language: str = "en", *, similarity: bool = True) -> bool:
    """Whether all of `verdicts` pass."""
    return all(one.passed for one in verdicts(source, rewrite, title, language, similarity=similarity))


def of_form(form: str, source: str, text: str, title: str = "", language: str = "en") -> Verdict:
    """What the check of a strategy's form says of a text: `tables`, `word_problems`, `verbatim`, `cleaned` or `pairs`.

    Raises:
        ValueError: there is no such check; or a word problem is longer than the symbolic checks read.
    """
    if form not in _FITTING:
        raise ValueError(f"there is no check {form!r}; there are {', '.join(_FITTING)}")
    return _FITTING[form](source, text, title, language)


def questions(source: str, rewrite: str, title: str = "", language: str = "en") -> list[Question]:
    """What code finds unmatched between two texts but may not decide: questions for a reader or a judge model."""
    return _questions(source, rewrite, title, language)


@cache
def _similarity() -> Similarity:
    return Similarity()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """An event loop on a thread of its own: callers may have one that runs already, as notebooks do."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="tokenmill-checks", daemon=True).start()
    return loop


def _waited(coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result()
