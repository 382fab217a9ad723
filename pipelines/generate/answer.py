"""One row, one prompt, one answer: asked for, checked, asked for again with what the checks found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from tokenmill.inference.call import Ask, Message
from tokenmill.inference.structured import ask_json, echo
from tokenmill.judges.own import OwnCheck
from tokenmill.pipelines.rollouts.candidates import ONE, Candidates
from tokenmill.pipelines.rollouts.progress import Progress, summary
from tokenmill.pipelines.rollouts.repair import corrections, write_and_repair
from tokenmill.pipelines.transforms.documents import clean, given_id, missing, plain
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.prompts.fence import defuse, fence
from tokenmill.prompts.own import OwnPrompt
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.generation import Generation, GenerationTask, RefusedGeneration
from tokenmill.schemas.verdicts import Finding, Verdict, first_refusal

from tokenmill import prompts

REPAIR = "generate/repair"
COMPLETE = "complete"
"""The one check of our own: that the answer came to its end."""
_INLINE = 100
"""Characters up to which a value stands in the prompt as it is; what is longer is fenced off as data."""


@dataclass(frozen=True)
class GenerationParser:
    """Reads the columns that a prompt names."""

    placeholders: tuple[str, ...]

    row_type = GenerationTask

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.placeholders, "id", "title", "language", "license")))

    @property
    def shown(self) -> tuple[str, ...]:
        """Columns that a prompt must be able to show."""
        return self.placeholders

    @property
    def required(self) -> tuple[str, ...]:
        return self.placeholders

    def key(self, values: dict[str, Any], file: str, row: int) -> str | None:
        """The row's own id, None where it has none.

        Raises:
            RowUnreadable: a placeholder has no value.
        """
        id = given_id(values.get("id"), file, row)
        self._filled(values, id)
        return id if id == str(values.get("id")) else None

    def __call__(self, values: dict[str, Any], file: str, row: int) -> GenerationTask:
        id = given_id(values.get("id"), file, row)
        filled = self._filled(values, id)
        return GenerationTask(
            id=id,
            text="\n\n".join(filled.values()),
            values=orjson.dumps(filled).decode(),
            title=plain(values.get("title")),
            language=plain(values.get("language")),
            license=plain(values.get("license")),
            source_file=file,
            source_row=row,
        )

    def _filled(self, values: dict[str, Any], id: str) -> dict[str, str]:
        return {name: _text(values.get(name), name, id) for name in self.placeholders}


def _text(value: Any, column: str, id: str) -> str:
    """A value as a prompt shows it: text as it is, everything else as JSON."""
    if isinstance(value, (str, bytes)) or missing(value):
        return clean(value, column, id)
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:
        raise RowUnreadable("not_text", f"column {column!r} holds {type(value).__name__}", id=id) from None


@dataclass(frozen=True)
class Answering:
    """The step of the generate pipeline."""

    model: str
    prompt: OwnPrompt
    schema: str = ""
    """JSON Schema of the answer; empty for text."""
    checks: tuple[OwnCheck, ...] = ()
    seed: int = 0
    repairs: int = 2
    answer_tokens: int = 1024
    temperature: float = 0.7
    top_p: float = 0.95
    candidates: Candidates = ONE

    row_type = Generation
    rejected_type = RefusedGeneration

    async def __call__(self, task: GenerationTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when the model cannot be brought to answer."""
        progress = Progress(ask)

        async def write(before: _Answer | None, verdicts: Sequence[Verdict], params: dict[str, Any]) -> _Answer:
            messages = self.messages(task)
            if before is not None:
                refused = [{"role": "assistant", "content": echo(before.raw)}]
                messages = [*messages, *refused, *prompts.load(REPAIR).render(findings=corrections(verdicts))]
            params["max_tokens"] = self.answer_tokens
            if not self.schema:
                progress.attempts += 1
                answer = await progress(messages, **params)
                return _Answer(answer.text.strip(), answer.text.strip(), None, answer.finish_reason)
            structured = await ask_json(progress, messages, self._schema, to="writer", tries=3, **params)
            progress.attempts += len(structured.answers)
            return _Answer.of(structured.value)

        async def verify(answer: _Answer) -> list[Verdict]:
            verdicts = [_complete(answer)]
            for check in self.checks:
                verdicts += check(
                    task.text, answer.text, title=task.title, language=task.language or "und", answer=answer.value
                )
            return verdicts

        answer, verdicts = await write_and_repair(self, write, verify, progress, 0, candidates=self.candidates)
        columns = self._columns(task, answer, progress)
        if refused := first_refusal(verdicts):
            return Rejected(RefusedGeneration(**columns, reason=refused.reason), refused.reason)
        return Accepted(Generation(**columns))

    def failed(self, task: GenerationTask, error: str, message: str) -> FailedRow:
        return failed_row(task.id, "rollout", error, message, task.text, task)

    def messages(self, task: GenerationTask) -> list[Message]:
        """What the model is asked; what comes from the row and is longer than a line is fenced."""
        filled = {name: _shown(name, value) for name, value in orjson.loads(task.values).items()}
        return list(prompts.load(self.prompt.name).render(**filled))

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return orjson.loads(self.schema)

    def _columns(self, task: GenerationTask, answer: _Answer, progress: Progress) -> dict[str, Any]:
        return {
            "id": task.id,
            "text": answer.text,
            "answer": "" if answer.value is None else answer.raw,
            "title": task.title,
            "language": task.language,
            "license": task.license,
            "source_id": task.id,
            "source_file": task.source_file,
            "source_row": task.source_row,
            "source_text": task.text,
            "attempts": progress.attempts,
            "verdicts": summary(progress.judgements),
            **progress.provenance(self.model, [self.prompt.name, REPAIR], self.seed),
        }


@dataclass(frozen=True)
class _Answer:
    text: str
    raw: str
    value: Any
    finish_reason: str = "stop"

    @classmethod
    def of(cls, value: Any) -> _Answer:
        raw = orjson.dumps(value).decode()
        text = value.get("text") if isinstance(value, dict) else None
        return cls(text if isinstance(text, str) else raw, raw, value)


def _complete(answer: _Answer) -> Verdict:
    if answer.finish_reason == "length":
        finding = Finding("cut_off", "Be shorter: the answer was longer than it may be, and broke off.")
        return Verdict(COMPLETE, False, 0.0, "answer_cut_off", (finding,))
    if not answer.text.strip():
        return Verdict(COMPLETE, False, 0.0, "answer_empty", (Finding("empty", "Give an answer: there was none."),))
    return Verdict(COMPLETE, True, 1.0)


def _shown(name: str, value: str) -> str:
    if "\n" not in value and len(value) <= _INLINE:
        return defuse(value)
    label = "".join(c if c.isascii() and c.isalpha() else "-" for c in name.lower()).strip("-") or "data"
    return fence(value, label)
