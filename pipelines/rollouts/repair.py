"""Write, verify, repair: a writer is asked again with what the checks found, until they pass or its attempts are used up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from tokenmill.inference.call import Answer, Message
from tokenmill.inference.structured import StructuredAnswerInvalid
from tokenmill.pipelines.rollouts.candidates import ONE, Candidates, best
from tokenmill.pipelines.rollouts.progress import Progress, Refusal
from tokenmill.prompts.fence import fence
from tokenmill.schemas.verdicts import Finding, Verdict, first_refusal

T = TypeVar("T")

_SHOWN = 12
"""Findings shown to the writer at once."""


class Writer(Protocol):
    """How often a writer is asked, and how its answers are drawn."""

    @property
    def repairs(self) -> int:
        """Further attempts at what a check refused."""

    @property
    def seed(self) -> int: ...

    @property
    def temperature(self) -> float: ...

    @property
    def top_p(self) -> float: ...


async def write_and_repair(
    writer: Writer,
    write: Callable[[T | None, Sequence[Verdict], dict[str, Any]], Awaitable[T]],
    verify: Callable[[T], Awaitable[list[Verdict]]],
    progress: Progress,
    chunk: int,
    unrepairable: Callable[[Sequence[Verdict]], bool] = lambda verdicts: False,
    candidates: Candidates = ONE,
) -> tuple[T, list[Verdict]]:
    """The first text that every check passes, or the last one, and the verdicts on it.

    Args:
        write: makes a text from the one before (None at first), the verdicts on that, and the attempt's sampling
            parameters. A later attempt that comes to no readable answer leaves the text before it standing.
        chunk: what the verdicts are about, an index or `WHOLE`.
        unrepairable: whether, after these verdicts, no further attempt can help.
        candidates: of the first attempt.

    Raises:
        StructuredAnswerInvalid: the first attempt came to no readable answer.
        tokenmill.inference.errors.RowError: a model cannot be brought to answer.
    """
    written: T | None = None
    verdicts: list[Verdict] = []
    drawn = 0
    for attempt in range(writer.repairs + 1):
        # Each attempt has a seed of its own, or a server that honours it would give the same answer to the same findings.
        params: dict[str, Any] = {"attempt": attempt, "seed": writer.seed + attempt}
        params |= {"temperature": writer.temperature, "top_p": writer.top_p}
        try:
            answer = written = await write(written, verdicts, params)
        except StructuredAnswerInvalid:
            if written is None:
                raise
            break
        verdicts = await verify(written)
        progress.add(verdicts, chunk, attempt + drawn)
        if attempt == 0 and candidates.number > 1 and not unrepairable(verdicts):
            chosen, answer, verdicts = await best(
                partial(write, None, ()), verify, answer, verdicts, params, candidates
            )
            written, drawn = answer, candidates.number - 1
            if chosen:
                progress.add(verdicts, chunk, chosen)
        if first_refusal(verdicts) is None or unrepairable(verdicts):
            break
    assert written is not None
    return written, verdicts


async def write_text(
    writer: Writer,
    messages: Callable[[Sequence[Verdict], str], list[Message]],
    verify: Callable[[str, str], Awaitable[list[Verdict]]],
    progress: Progress,
    *,
    stage: str,
    chunk: int,
    source: str,
    max_tokens: int,
    candidates: Candidates = ONE,
) -> tuple[str, Refusal | None]:
    """`source` written anew as plain text so that every check passes, or what the last attempt was refused for.

    Args:
        messages: of a call, after these verdicts on the text of the attempt before.
        verify: judges the text; it is told why the model stopped (`finish_reason`), too.
    """

    async def write(before: Answer | None, verdicts: Sequence[Verdict], params: dict[str, Any]) -> Answer:
        progress.attempts += 1
        return await progress(
            messages(verdicts, before.text.strip() if before else ""), max_tokens=max_tokens, **params
        )

    async def judge(answer: Answer) -> list[Verdict]:
        return await verify(answer.text.strip(), answer.finish_reason)

    answer, verdicts = await write_and_repair(writer, write, judge, progress, chunk, candidates=candidates)
    text, refused = answer.text.strip(), first_refusal(verdicts)
    return text, Refusal(stage, chunk, source, text, refused) if refused else None


def corrections(verdicts: Sequence[Verdict], *, quoting: bool = False) -> str:
    """What the refusing verdicts found, as a fenced list for the writer; empty when nothing was refused.

    Args:
        quoting: whether to show the words of both texts beside each finding.
    """
    found = [
        f"{f.detail or f.kind}{_quoted(f) if quoting else ''}" for v in verdicts if not v.passed for f in v.findings
    ]
    found += [v.reason.replace("_", " ") for v in verdicts if not v.passed and not v.findings]
    return fence("\n".join(f"- {line}" for line in found[:_SHOWN]), "corrections") if found else ""


def _quoted(finding: Finding) -> str:
    sides = (("the source", finding.source), ("your text", finding.rewrite))
    return "".join(f' ({who}: "{" ".join(words.split())}")' for who, words in sides if words.strip())
