"""The rules of C4 (Raffel et al. 2020, section 2.2), as FineWeb applies them: lines need no full stop at their end."""

from __future__ import annotations

import re
from dataclasses import dataclass

import re2
from tokenmill.judges.corpus.saying import passed, refusal
from tokenmill.judges.corpus.words import Words
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.verdicts import Verdict

CHECK = "c4"
_POLICY = re2.compile(
    r"(?i)javascript|terms of use|privacy policy|cookie policy|uses cookies|use of cookies|use cookies"
)
_CITATION = re.compile(r"\[\d*]|\[edit]|\[citation needed]")
_ENDS = (".", "?", "!", '"', "'")
_SENTENCE = re.compile(r"""[.!?…。！？]+["'”’)\]]*(?=\s|$)|[。！？]""")


@dataclass(frozen=True)
class C4:
    """A page of five sentences and more, without code and filler text. Lines of fewer than three words, with a word of more than
    1,000 characters, or about cookies, policies and JavaScript do not count."""

    min_sentences: int = 5
    """Sentences in the lines that count."""
    min_line_words: int = 3
    """Words of a line that counts."""
    max_word: int = 1000
    """Characters of the longest word in a line that counts."""
    full_stops: bool = False
    """Whether only lines with a full stop at their end count, as in C4 itself."""

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        text, sentences = document.text, 0
        braces, filler = "{" in text, "lorem ipsum" in text.lower()
        for raw in text.splitlines():
            line = raw.strip()
            parts = line.split()
            if len(line) > self.max_word and any(len(part) > self.max_word for part in parts):
                continue
            line = _CITATION.sub("", line) if "[" in line else line
            if self.full_stops and (not line.endswith(_ENDS) or line.endswith("...")):
                continue
            if len(parts) < self.min_line_words:
                continue
            if filler and "lorem ipsum" in line.lower():
                return refusal(CHECK, "filler_text", "it holds `lorem ipsum`", line)
            if _POLICY.search(line):
                continue
            if braces and "{" in line:
                return refusal(CHECK, "curly_bracket", "it holds a curly bracket, as programs do", line)
            if sentences < self.min_sentences or braces or filler:
                sentences += _sentences(line)
        if sentences < self.min_sentences:
            detail = f"{sentences} sentences in lines of text, fewer than {self.min_sentences}"
            return refusal(CHECK, "too_few_sentences", detail, text)
        return passed(CHECK)


def _sentences(line: str) -> int:
    """Sentences of a line; what follows the last full stop is one, too."""
    ends = [found.end() for found in _SENTENCE.finditer(line)]
    return len(ends) + (line[ends[-1] :].strip() != "" if ends else line != "")
