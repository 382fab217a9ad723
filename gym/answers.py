"""Where an answer says what it answers: one line `Answer: …`, the last of the text."""

from __future__ import annotations

import re

LINE = "End with one line that begins with `Answer:` and holds nothing but the answer."
BLOCK = "End with a line `Answer:` and below it nothing but the answer."
LONGEST_LINE = 400
"""Characters of an answer on one line; nothing that is asked for here needs more."""

_MARK = re.compile(r"^[ \t>#*_`]*(?:final[ \t]+)?answer[ \t*_`]*[:：][ \t*_`]*(.*)$", re.IGNORECASE | re.MULTILINE)
_TRIM = " \t\r\n`*_$"


def stated(text: str, full_stop: bool = False) -> str:
    """What follows the last `Answer:`; empty where there is none, where there are several that differ, where something
    follows the line, or where it is too long. A full stop at its end is cut off but where it may be part of an answer."""
    found = list(_MARK.finditer(text))
    if not found or len(found) > 20:
        return ""
    said = [one[1].strip(_TRIM) if full_stop else _plain(one[1]) for one in found]
    after = text[found[-1].end() :].strip(_TRIM)
    if len({one.casefold() for one in said}) > 1 or after or len(said[-1]) > LONGEST_LINE:
        return ""
    return said[-1]


def stated_block(text: str, longest: int = 2000) -> str:
    """The lines below the only `Answer:`; empty where there is none, or several."""
    found = list(_MARK.finditer(text))
    if len(found) != 1:
        return ""
    block = f"{found[0][1]}\n{text[found[0].end() :]}".strip(_TRIM)
    return block if len(block) <= longest else ""


def _plain(line: str) -> str:
    return line.strip(_TRIM).removesuffix(".").strip(_TRIM)
