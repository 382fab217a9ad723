"""A mathematical text into English, formulas, numbers and code kept, verified and repaired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tokenmill.inference.call import Answer, Ask
from tokenmill.judges.memory import recalled
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.judges.notes.translation import TranslationChecks
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.rollouts.progress import Progress, Refusal, corrections
from tokenmill.prompts.fence import fence
from tokenmill.schemas.verdicts import Verdict

from tokenmill import prompts

TEMPLATE = "math/translate"


@dataclass(frozen=True)
class Translate:
    """Translates one text into English."""

    checks: TranslationChecks = field(default_factory=TranslationChecks)
    judge: Faithfulness | None = field(default_factory=lambda: Faithfulness(prompt="math/judge_translation"))
    """Looks for what is left out or changed; None switches it off."""
    repairs: int = 2
    seed: int = 0
    temperature: float = 0.2
    top_p: float = 0.95

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of all prompts that a translation may use."""
        return (TEMPLATE,) if self.judge is None else (TEMPLATE, *self.judge.prompt_names)

    async def __call__(
        self, text: str, language: str, title: str, index: int, progress: Progress, ask: Ask
    ) -> tuple[str, Refusal | None]:
        """`text` (passage `index` of its source) in English so that every check passes, or what the last try was
        refused for.

        Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer.
        """
        verdicts: list[Verdict] = []
        translation = ""
        for attempt in range(self.repairs + 1):
            answer = await ask(
                self.messages(text, language, verdicts),
                attempt=attempt,
                temperature=self.temperature,
                top_p=self.top_p,
                seed=self.seed + attempt,
                max_tokens=count_tokens(text) * 3 + 256,
            )
            progress.attempts += 1
            progress.usage += answer.usage
            translation = answer.text.strip()
            verdicts = await self._verdicts(text, translation, language, answer)
            if self.judge is not None and all(v.passed for v in verdicts):
                verdict, usage = await self.judge(text, translation, "", ask, title=title)
                progress.usage += usage
                verdicts.append(verdict)
            progress.add(verdicts, index, attempt)
            if all(v.passed for v in verdicts):
                return translation, None
        refused = next(v for v in verdicts if not v.passed)
        return translation, Refusal("translation", index, text, translation, refused)

    async def _verdicts(self, text: str, translation: str, language: str, answer: Answer) -> list[Verdict]:
        """What the checks say, or said in an earlier run that had the same answer."""
        judged = (text, translation, language, answer.finish_reason, self._system)

        async def judge() -> list[Verdict]:
            return self.checks(*judged)

        return await recalled(answer, self.checks.fingerprint, judged, judge)

    def messages(self, text: str, language: str, refusals: Sequence[Verdict] = ()) -> list[dict[str, str]]:
        """The messages of one call."""
        return prompts.load(TEMPLATE).render(
            language=language, text=fence(text, "text"), findings=corrections(refusals)
        )

    @cached_property
    def _system(self) -> str:
        """Our own wording around the text, to see it leak."""
        return next(text for role, text in prompts.load(TEMPLATE).parts if role == "system")
