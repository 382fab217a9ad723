"""Does the source entail each sentence of the rewrite? A local middle tier between rules and a judge model.

    doubts = await Entailment("cross-encoder/nli-deberta-v3-small")(source, rewrite)
    doubts.verdict      # refuses for clear contradictions alone
    doubts.questions    # what a judge model is asked instead

Each sentence is compared with the sentence of the source that shares most words with it, and with the few that do together
(sentence pairs, as in SummaC, Laban et al. 2022). The model is the user's to choose; in a language that it was not trained on its
doubts mean little.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.judges.entailment.loading import labels_of
from tokenmill.judges.entailment.scoring import Scored, scored
from tokenmill.judges.entailment.sentences import Statement, statements
from tokenmill.schemas.verdicts import Finding, Question, Verdict

CHECK = "entailment"
REASON = "contradicts_source"
MAX_QUESTIONS = 4
"""Asked of one text, the gravest first."""
_SHOWN = 300
"""Characters shown of a sentence."""


@dataclass(frozen=True)
class Doubts:
    """What the model makes of a rewrite."""

    verdict: Verdict
    """Its score is the mean probability with which a sentence is entailed."""
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Entailment:
    """Refuses with `contradicts_source`. Sentences that are neither entailed nor contradicted refuse nothing: they are
    questions to a judge."""

    model: str
    """Name or folder of a cross-encoder with the labels entailment, contradiction and mostly neutral."""
    contradicted: float = 0.95
    """Least probability of a contradiction that is clear."""
    entailed: float = 0.2
    """A sentence of which this is not even the probability of being entailed is a question to a judge."""
    batch_tokens: int = 2048
    """Tokens in a forward pass, padding included; a larger number suits an accelerator."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("Entailment.model is empty; give the name or the folder of an NLI cross-encoder")
        if not (0.5 < self.contradicted <= 1 and 0 <= self.entailed < 0.5):
            raise ValueError("Entailment needs 0.5 < contradicted <= 1 and 0 <= entailed < 0.5")
        if self.batch_tokens < 1:
            raise ValueError("Entailment.batch_tokens must be positive")

    def find(self) -> None:
        """Make sure, without loading it, that there is such a model and that its labels will do.

        Raises:
            OSError: one line.
        """
        labels_of(self.model)

    async def __call__(self, source: str, rewrite: str, context: str = "") -> Doubts:
        """Judge `rewrite`; `context` (title, the source before) entails, too.

        Raises:
            OSError: no such model, or not of this kind.
        """
        found = statements(source, rewrite, context)
        if not found:
            return Doubts(Verdict(CHECK, True, 1.0), ())
        pairs = [(premise, one.text) for one in found for premise in (one.nearest, one.around)]
        results = await scored(self.model, self.batch_tokens, pairs)
        # The one of its two premises that supports a sentence more speaks for it, the fuller one against it.
        support = [max(a.entailment, b.entailment) for a, b in zip(results[::2], results[1::2], strict=True)]
        against = [self._against(near, full) for near, full in zip(results[::2], results[1::2], strict=True)]
        clear = [one for one, wrong in zip(found, against, strict=True) if wrong]
        weak = sorted(
            (value, place) for place, value in enumerate(support) if value < self.entailed and not against[place]
        )
        asked = [*map(_contradiction, clear), *(_unsupported(found[place]) for _, place in weak)]
        score = round(sum(support) / len(support), 4)
        reason = REASON if clear else ""
        verdict = Verdict(CHECK, not clear, score, reason, tuple(map(_finding, clear[:8])))
        return Doubts(verdict, tuple(asked[:MAX_QUESTIONS]))

    def _against(self, nearest: Scored, around: Scored) -> bool:
        supported = max(nearest.entailment, around.entailment) >= 1 - self.contradicted
        return around.contradiction >= self.contradicted and not supported


def _finding(one: Statement) -> Finding:
    return Finding(REASON, "Say what the source says: the two contradict each other.", one.nearest, one.text)


def _contradiction(one: Statement) -> Question:
    line = f'The source says "{_short(one.nearest)}", the rewrite "{_short(one.text)}". Do the two agree?'
    return Question("contradiction", line, one.nearest, one.text)


def _unsupported(one: Statement) -> Question:
    return Question("unsupported", f'The rewrite says "{_short(one.text)}". Does the source say so?', "", one.text)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[:_SHOWN].rsplit(" ", 1)[0] + " …"
