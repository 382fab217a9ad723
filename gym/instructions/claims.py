"""Does an answer claim that it did what it was told? A claim is no offence; a claim beside a broken instruction is.

(Kimi K2 report, section 3.2.1: "a hack-check layer to detect adversarial behaviours where a model claims compliance without
it".) By code alone; what it reads is English.
"""

from __future__ import annotations

import re

from tokenmill.judges.form import phrases

_LISTS = phrases.load(__package__, "claims")
_CLAIMS, _CUES = _LISTS["claims"], _LISTS["cues"]
_SENTENCE = re.compile(r"[^\n.!?]+[.!?]*")
_LONGEST_SENTENCE = 2_000
"""Characters of a sentence in which a claim is looked for."""


def claims(text: str) -> list[str]:
    """Sentences of a text that claim compliance."""
    return [sentence[0].strip() for sentence in _SENTENCE.finditer(text) if _is_claim(sentence[0])]


def without_claims(text: str) -> str:
    """What an answer says beside such sentences."""
    return _SENTENCE.sub(lambda sentence: "" if _is_claim(sentence[0]) else sentence[0], text)


def _is_claim(sentence: str) -> bool:
    seen = sentence[:_LONGEST_SENTENCE]
    return bool(_CUES.search(seen) and _CLAIMS.search(seen))
