"""Every check that needs no model: does the answer have the form of a rewrite at all?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from tokenmill.judges.form.commentary import Commentary
from tokenmill.judges.form.copying import Copying
from tokenmill.judges.form.injection import Injection
from tokenmill.judges.form.language import UNDETERMINED, Language
from tokenmill.judges.form.length import Length
from tokenmill.judges.form.truncation import Truncation
from tokenmill.judges.form.words import release
from tokenmill.schemas.verdicts import Verdict


@dataclass(frozen=True)
class FormChecks:
    """The six checks of form with their thresholds. Deterministic, linear in the texts, about 0.1 ms for 60 words."""

    commentary: Commentary = field(default_factory=Commentary)
    truncation: Truncation = field(default_factory=Truncation)
    length: Length = field(default_factory=Length)
    language: Language = field(default_factory=Language)
    copying: Copying = field(default_factory=Copying)
    injection: Injection = field(default_factory=Injection)

    @cached_property
    def for_excerpts(self) -> FormChecks:
        """The same for texts that may leave out what they like: they have no least length."""
        return replace(self, length=replace(self.length, minimum=0.0))

    def __call__(
        self,
        source: str,
        rewrite: str,
        *,
        finish_reason: str = "stop",
        language: str = UNDETERMINED,
        context: str = "",
        prompt_text: str = "",
    ) -> list[Verdict]:
        """One verdict per check, in the order in which a reader would want to hear of them.

        Args:
            finish_reason: as the endpoint gave it; `length` and `content_filter` mean cut off.
            language: ISO 639-1 code of the source; `und` has it detected.
            context: what the writer saw besides the source: the title and what was already rewritten.
            prompt_text: our own wording around the document (the system part), to see it leak.
        """
        verdicts = [
            self.injection(source, rewrite, prompt_text),
            self.commentary(source, rewrite),
            self.language(source, rewrite, language),
            self.truncation(source, rewrite, finish_reason, context),
            self.length(source, rewrite),
            self.copying(source, rewrite),
        ]
        release()
        return verdicts
