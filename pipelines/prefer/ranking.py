"""One prompt, several answers, and what a critic says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tokenmill.inference.call import Ask, Message
from tokenmill.inference.gather import together
from tokenmill.judges.critic.compare import PROMPT, REPAIR
from tokenmill.judges.critic.rank import Critic, Ranked, Ranking
from tokenmill.judges.critic.rubrics import Rubric, written
from tokenmill.pipelines.rollouts.candidates import APART
from tokenmill.pipelines.rollouts.progress import Progress, summary
from tokenmill.pipelines.transforms.documents import clean, given_id, missing, plain
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.prompts.fence import defuse
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.preferences import Preference, PreferenceTask, RankedAnswer, RefusedPreference, Said
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "critic"
VERIFIABLE = ("answer", "reference", "test", "tests", "solution")
"""Columns that say that a program can decide: such prompts are the gym's."""
_LISTS = ("rubrics", "must")


@dataclass(frozen=True)
class PromptParser:
    """Reads prompts: `prompt`, and `system`, `rubrics` and `must` where there are such columns."""

    verifiable: bool = False
    """Whether prompts are taken whose answer a program could check."""

    row_type: ClassVar[type] = PreferenceTask
    columns: ClassVar[tuple[str, ...]] = (
        *("prompt", "system", "rubrics", "must", "id", "title", "language", "license"),
        *VERIFIABLE,
    )
    required: ClassVar[tuple[str, ...]] = ("prompt",)
    texts: ClassVar[tuple[str, ...]] = ("prompt",)

    def key(self, values: dict[str, Any], file: str, row: int) -> str | None:
        """The row's own id, None where it has none.

        Raises:
            RowUnreadable: there is no prompt.
        """
        id = given_id(values.get("id"), file, row)
        clean(values.get("prompt"), "prompt", id)
        return id if id == str(values.get("id")) else None

    def __call__(self, values: dict[str, Any], file: str, row: int) -> PreferenceTask:
        id = given_id(values.get("id"), file, row)
        text = clean(values.get("prompt"), "prompt", id)
        told = next((name for name in VERIFIABLE if not missing(values.get(name))), None)
        if told and not self.verifiable:
            message = f"column {told!r} says what is right, so a program can decide; use `gym`, or add --verifiable"
            raise RowUnreadable("verifiable", message, text, id)
        return PreferenceTask(
            id=id,
            text=text,
            system=clean(values["system"], "system", id) if not missing(values.get("system")) else "",
            **{name: _texts(values.get(name), name, id) for name in _LISTS},
            title=plain(values.get("title")),
            language=plain(values.get("language")),
            license=plain(values.get("license")),
            source_file=file,
            source_row=row,
        )


def _texts(value: Any, column: str, id: str) -> list[str]:
    """A column that holds one text or several."""
    if missing(value):
        return []
    return [clean(one, column, id) for one in (value if isinstance(value, (list, tuple)) else [value])]


@dataclass(frozen=True)
class Prefer:
    """The step: draw answers, have them ranked, keep the best and the worst as a pair."""

    model: str
    samples: int = 4
    rubrics: tuple[Rubric, ...] = ()
    """Of every prompt; those of a row are added."""
    seed: int = 0
    answer_tokens: int = 1024
    temperature: float = 1.0
    top_p: float = 0.95
    least: float = 0.25
    """Margin from which the best and the worst answer are a pair."""

    row_type: ClassVar[type] = Preference
    rejected_type: ClassVar[type] = RefusedPreference

    async def __call__(self, task: PreferenceTask, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer."""
        progress = Progress(ask)
        drawn = await together([self._answer(task, number, progress) for number in range(self.samples)])
        answers = list(dict.fromkeys(answer for answer in drawn if answer))
        critic = Critic((*self.rubrics, *written(task.rubrics, task.must)), self.seed)
        ranking = await critic(task.text, answers, progress) if len(answers) > 1 else Ranking(())
        verdict = self._verdict(ranking)
        progress.attempts = self.samples
        progress.add([verdict], 0, 0)
        columns = self._columns(task, ranking, critic, progress)
        if not verdict.passed:
            return Rejected(RefusedPreference(**columns, reason=verdict.reason), verdict.reason)
        return Accepted(Preference(**columns))

    async def _answer(self, task: PreferenceTask, number: int, ask: Ask) -> str:
        """One answer; empty where it did not come to its end."""
        params: dict[str, Any] = {
            "max_tokens": self.answer_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
        }
        answer = await ask(messages_of(task), attempt=number, seed=self.seed + APART * number, **params)
        return "" if answer.finish_reason == "length" else answer.text.strip()

    def _verdict(self, ranking: Ranking) -> Verdict:
        if len(ranking.answers) < 2:
            return _refused("too_few_answers", "fewer than two different answers came to their end")
        best, _ = _ends(ranking)
        if best.broken:
            return _refused("all_break_a_rubric", f"every answer breaks a mandatory rubric; the best: {best.evidence}")
        if _margin(ranking) < self.least:
            return _refused("no_preference", "the critic cannot tell the best answer from the worst")
        return Verdict(CHECK, True, _margin(ranking))

    def _columns(self, task: PreferenceTask, ranking: Ranking, critic: Critic, progress: Progress) -> dict[str, Any]:
        paired = len(ranking.answers) > 1
        best, worst = _ends(ranking) if paired else (None, None)
        rows = [
            RankedAnswer(one.text, one.score, one.rank, reward, list(one.broken), one.evidence)
            for one, reward in zip(ranking.answers, ranking.reward, strict=True)
        ]
        return {
            "id": task.id,
            "prompt": [Said(str(one["role"]), str(one["content"])) for one in messages_of(task)],
            "chosen": [Said("assistant", best.text)] if best else [],
            "rejected": [Said("assistant", worst.text)] if worst else [],
            "margin": _margin(ranking) if paired else 0.0,
            "answers": rows,
            "comparisons": ranking.comparisons,
            "flipped": ranking.flipped,
            "rubrics": [rubric.name for rubric in critic.rubrics],
            "text": task.text,
            "title": task.title,
            "language": task.language,
            "license": task.license,
            "source_id": task.id,
            "source_file": task.source_file,
            "source_row": task.source_row,
            "attempts": progress.attempts,
            "verdicts": summary(progress.judgements),
            **progress.provenance(self.model, (PROMPT, REPAIR), self.seed),
        }

    def failed(self, task: PreferenceTask, error: str, message: str) -> FailedRow:
        return failed_row(task.id, "rollout", error, message, task.text, task)


def messages_of(task: PreferenceTask) -> list[Message]:
    """What is asked."""
    system: list[Message] = [{"role": "system", "content": defuse(task.system)}] if task.system else []
    return [*system, {"role": "user", "content": defuse(task.text)}]


def _ends(ranking: Ranking) -> tuple[Ranked, Ranked]:
    """The best and the worst answer; of equals the one drawn first, and last."""
    best = min(ranking.answers, key=lambda one: one.rank)
    worst = max(reversed(ranking.answers), key=lambda one: one.rank)
    return best, worst


def _margin(ranking: Ranking) -> float:
    best, worst = _ends(ranking)
    return 1.0 if worst.broken and not best.broken else best.score - worst.score


def _refused(reason: str, detail: str) -> Verdict:
    return Verdict(CHECK, False, 0.0, reason, (Finding(reason, detail),))
