"""A mathematical text into English, formulas, numbers and code kept, verified and repaired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.judges.notes.translation import TranslationChecks
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.rollouts.progress import Progress, Refusal
from tokenmill.pipelines.rollouts.repair import corrections, write_text
from tokenmill.prompts.fence import fence
from tokenmill.schemas.math import Problem
from tokenmill.schemas.verdicts import Verdict, first_refusal

from tokenmill import prompts

TEMPLATE = "math/translate"


@dataclass(frozen=True)
class Translate:
    """Translates one text into English."""

    checks: TranslationChecks = field(default_factory=TranslationChecks)
    judge: Faithfulness | None = field(default_factory=lambda: Faithfulness(prompt="math/judge_translation"))
    """Looks for what is left out or changed; None switches it off."""
    repairs: int = 2
    """Further attempts at a translation that a check refused."""
    seed: int = 0
    temperature: float = 0.2
    top_p: float = 0.95

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of all prompts that a translation may use."""
        return (TEMPLATE,) if self.judge is None else (TEMPLATE, *self.judge.prompt_names)

    async def __call__(self, problem: Problem, text: str, index: int, progress: Progress) -> tuple[str, Refusal | None]:
        """`text` (of a problem, passage `index`) in English so that every check passes, or what the last attempt was
        refused for.

        Raises: tokenmill.inference.errors.RowError, when a model cannot be brought to answer.
        """
        language = problem.language

        async def verify(translation: str, finish_reason: str) -> list[Verdict]:
            verdicts = self.checks(text, translation, language, finish_reason, self._system)
            if self.judge is not None and first_refusal(verdicts) is None:
                verdicts.append(await self.judge(text, translation, "", progress, title=problem.title))
            return verdicts

        return await write_text(
            self,
            lambda verdicts, _: self.messages(text, language, verdicts),
            verify,
            progress,
            stage="translation",
            chunk=index,
            source=text,
            max_tokens=count_tokens(text) * 3 + 256,
        )

    def messages(self, text: str, language: str, refusals: Sequence[Verdict] = ()) -> list[dict[str, str]]:
        """The messages of one call."""
        return prompts.load(TEMPLATE).render(
            language=language, text=fence(text, "text"), findings=corrections(refusals)
        )

    @cached_property
    def _system(self) -> str:
        """Our own wording around the text, to see it leak."""
        return next(text for role, text in prompts.load(TEMPLATE).parts if role == "system")
