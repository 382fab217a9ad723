"""The checks of a mathematical text's translation that need no model, put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from tokenmill.judges.form.commentary import Commentary
from tokenmill.judges.form.injection import Injection
from tokenmill.judges.form.language import Language
from tokenmill.judges.form.truncation import Truncation
from tokenmill.judges.math import FormulasKept
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.notation import prose
from tokenmill.schemas.verdicts import Finding, Verdict


@dataclass(frozen=True)
class TranslationChecks:
    """Everything about a translation that needs no model."""

    kept: FormulasKept = field(default_factory=FormulasKept)
    # Its last resort, that a rewrite shares hardly a word with its source, says nothing of a translation.
    injection: Injection = field(default_factory=lambda: Injection(min_kept=0.0))
    commentary: Commentary = field(default_factory=Commentary)
    truncation: Truncation = field(default_factory=Truncation)
    language: Language = field(default_factory=Language)

    def __call__(
        self, source: str, translation: str, language: str, finish_reason: str = "stop", prompt_text: str = ""
    ) -> list[Verdict]:
        """Judge the English `translation` of a `source` in `language`."""
        return [
            self.injection(source, translation, prompt_text),
            self.commentary(source, translation),
            self._english(translation),
            self.truncation(source, translation, finish_reason),
            self.kept(source, translation, language),
        ]

    def _english(self, translation: str) -> Verdict:
        verdict = self.language("", prose(from_mathml(translation)), "en")
        if verdict.passed:
            return verdict
        quote = verdict.findings[0].rewrite
        told = Finding("not_english", "Translate the whole text into English.", "", quote)
        return Verdict(verdict.check, False, verdict.score, "not_english", (told,))
