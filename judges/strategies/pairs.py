"""Do questions and answers alternate, each question with its answer and asked once?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tokenmill.judges.form.words import words
from tokenmill.schemas.verdicts import Finding, Verdict

CHECK = "pairs"
_LABELLED = re.compile(r"\s*(?:\*\*)?([^\W\d][^:：\n]{0,24})[:：](?:\*\*)?\s*(\S.*)")


@dataclass(frozen=True)
class Pairs:
    """Refuses with `pairs_broken`: the text is not lines of question and answer in turn, each behind its label ("Question:",
    "Answer:", or the words for these in the text's language), or a question comes twice."""

    spares: ClassVar[frozenset[str]] = frozenset()

    def fits(self, source: str, language: str) -> bool:
        return bool(source.strip())

    def stated(self, text: str) -> str:
        return text

    def __call__(self, source: str, text: str, context: str, language: str) -> Verdict:
        lines = [line for line in text.splitlines() if line.strip()]
        problem, quote = self._problem(lines)
        if not problem:
            return Verdict(CHECK, True, 1.0)
        return Verdict(CHECK, False, 0.0, "pairs_broken", (Finding("pairs_broken", problem, "", quote[:200]),))

    def _problem(self, lines: list[str]) -> tuple[str, str]:
        """What is wrong, as an order to the writer, and where; empty where nothing is."""
        if len(lines) < 2:
            return 'Write at least one pair: a line "Question: …" and under it a line "Answer: …".', "\n".join(lines)
        first = (_LABELLED.match(lines[0]), _LABELLED.match(lines[1]))
        labels = [match[1] if match else "" for match in first]
        if not all(labels) or labels[0] == labels[1]:
            return 'Begin with a line "Question: …" and under it a line "Answer: …".', lines[0]
        asked: set[tuple[str, ...]] = set()
        for number, line in enumerate(lines):
            match = _LABELLED.match(line)
            if match is None or match[1] != labels[number % 2]:
                return f'This line should be one that begins with "{labels[number % 2]}:".', line
            if number % 2 == 0:
                question = tuple(words(match[2]))
                if question in asked:
                    return "Ask this once only.", line
                asked.add(question)
        return ("Give the last question its answer.", lines[-1]) if len(lines) % 2 else ("", "")
