"""Phrase lists in text files beside the judges: `[section]` lines, then one regular expression a line, `#` comments.

`NAME = words` lines before the first section define fragments that later lines insert as `<NAME>`.
"""

from __future__ import annotations

import re
from importlib import resources

_FRAGMENT = re.compile(r"([A-Z]+) = (.+)")
_INSERTED = re.compile(r"<([A-Z]+)>")


def load(package: str, name: str) -> dict[str, re.Pattern[str]]:
    """Section -> one case-insensitive alternation of its lines, from `NAME.txt` in a package.

    Raises:
        re.error: a line is no regular expression.
        KeyError: a fragment is used that is not defined.
    """
    fragments: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in resources.files(package).joinpath(f"{name}.txt").read_text(encoding="utf-8").splitlines():
        line = line.strip()
        if not line or line.startswith("# "):
            continue
        if line.startswith("[") and line.endswith("]") and line[1:-1].isidentifier():
            lines = sections.setdefault(line[1:-1], [])
        elif not sections and (fragment := _FRAGMENT.fullmatch(line)):
            fragments[fragment[1]] = f"(?:{fragment[2]})"
        else:
            lines.append(_INSERTED.sub(lambda m: fragments[m[1]], line))
    return {section: re.compile("|".join(lines), re.IGNORECASE) for section, lines in sections.items()}
