"""Write, verify, repair: what the writer is told, when it is asked again, what is kept of it all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from tokenmill.inference.structured import StructuredAnswerInvalid
from tokenmill.pipelines.rollouts.progress import Progress
from tokenmill.pipelines.rollouts.repair import corrections, write_and_repair, write_text
from tokenmill.schemas.verdicts import Finding, Verdict

from tests.fake_ask import FakeAsk

PASSED = Verdict("form", True, 1.0)


@dataclass(frozen=True)
class Writer:
    repairs: int = 2
    seed: int = 7
    temperature: float = 0.4
    top_p: float = 0.9


def refusal(text):
    return Verdict("coverage", False, 0.0, "number_lost", (Finding("number_lost", f"Keep the number of {text}."),))


def run(answers, good, **config):
    """(text, refusal), what was asked and what was gathered of a writer whose `answers` come in turn."""
    left, seen = list(answers), []

    async def verify(text, finish_reason):
        seen.append((text, finish_reason))
        return [PASSED, PASSED if text == good else refusal(text)]

    def messages(verdicts, _):
        return [{"role": "user", "content": f"Write. {corrections(verdicts)}"}]

    ask = FakeAsk(lambda body: left.pop(0))
    progress = Progress(ask)
    outcome = asyncio.run(
        write_text(
            Writer(**config), messages, verify, progress, stage="rewrite", chunk=3, source="source", max_tokens=50
        )
    )
    assert [text for text, _ in seen] == [answer.strip() for answer in answers[: len(seen)]]
    return outcome, ask, progress


def test_a_text_is_written_again_with_the_findings_until_it_passes():
    (text, refused), ask, progress = run(["one", " two\n", "three"], "two")
    assert (text, refused) == ("two", None)
    first, second = ask.asked
    assert "corrections" not in first["messages"][0]["content"]
    assert "Keep the number of one." in second["messages"][0]["content"]
    sampled = [(asked["attempt"], asked["seed"], asked["temperature"], asked["top_p"]) for asked in ask.asked]
    assert sampled == [(0, 7, 0.4, 0.9), (1, 8, 0.4, 0.9)] and first["max_tokens"] == 50
    assert (progress.attempts, progress.calls, progress.usage.total) == (2, 2, 30)
    assert [(j.check, j.chunk, j.attempt, j.passed) for j in progress.judgements] == [
        ("form", 3, 0, True), ("coverage", 3, 0, False), ("form", 3, 1, True), ("form", 3, 1, True),
    ]  # fmt: skip


def test_a_text_that_never_passes_is_refused_by_its_last_verdict():
    (text, refused), ask, progress = run(["one", "two", "three"], "none")
    assert text == refused.text == "three" and len(ask.asked) == 3
    assert (refused.stage, refused.chunk, refused.source) == ("rewrite", 3, "source")
    assert refused.verdict == refusal("three")
    assert sum(not j.passed for j in progress.judgements) == 3
    assert len(run(["one"], "none", repairs=0)[1].asked) == 1


def attempts(outcomes, unrepairable=lambda verdicts: False):
    """(what was written, its verdicts) where each of `outcomes` is a text, or the error that an attempt raises."""
    left, given = list(outcomes), []

    async def write(earlier, verdicts, params):
        given.append(earlier)
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def verify(text):
        return [refusal(text)]

    done = asyncio.run(write_and_repair(Writer(), write, verify, Progress(FakeAsk(str)), 0, unrepairable))
    return done, given


def test_an_unreadable_answer_leaves_the_attempt_before_it_standing():
    unreadable = StructuredAnswerInvalid("no JSON")
    (text, verdicts), given = attempts(["one", unreadable, "three"])
    assert text == "one" and verdicts == [refusal("one")] and given == [None, "one"]
    with pytest.raises(StructuredAnswerInvalid):
        attempts([unreadable])


def test_no_attempt_is_made_that_cannot_help():
    (text, _), given = attempts(["one", "two", "three"], lambda verdicts: verdicts == [refusal("two")])
    assert text == "two" and given == [None, "one"]
