"""Is a text what it looks like? An answer may not earn a reward by letters that a reader does not see, or takes for others.

All tasks of the gym's own are in English, so whatever belongs to another script, looks like another character, or looks like
nothing is refused as a whole: telling look-alikes apart one by one has no end.
"""

from __future__ import annotations

import unicodedata

_PUNCTUATION = frozenset("“”‘’‚„–—‑…•·«»‹›§¶°′″€£¥¢©®™×÷−±√∞≈≠≤≥→←↑↓∙⋅⁄∕")
_BLANKS = frozenset(" \n\t\r\u00a0\u202f")
_PICTURES = ("So", "Sk")


def disguised(text: str) -> str:
    """The first character that is not plainly itself, described; empty where there is none.

    >>> disguised("It was c\\u200bold."), disguised("It was cold.")
    ('U+200B ZERO WIDTH SPACE', '')
    """
    if text.isascii() and text.isprintable():
        return ""
    for char in text:
        if not _plain(char):
            return f"U+{ord(char):04X} {unicodedata.name(char, 'without a name')}"
    return ""


def _plain(char: str) -> bool:
    if char in _BLANKS or char in _PUNCTUATION:
        return True
    if char.isascii():
        return char.isprintable()
    if unicodedata.normalize("NFKC", char) != char:  # full-width, circled, superscript: another character in disguise
        return False
    kind = unicodedata.category(char)
    if kind[0] == "L":
        return unicodedata.name(char, "").startswith("LATIN ")
    # Pictures, and accents that stand on the letter before; U+2800 is a picture of nothing.
    return (kind in _PICTURES and char != "\u2800") or (kind == "Mn" and "COMBINING" in unicodedata.name(char, ""))
