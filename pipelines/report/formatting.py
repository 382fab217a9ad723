"""Figures and untrusted text as a person reads them: counts, shares, sizes, and Markdown that cannot break out."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_BIDI = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C], "\ufffd")


def count(n: int) -> str:
    """`12,345`."""
    return f"{n:,}"


def by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The most frequent first, equals by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def compact(n: float) -> str:
    """`950`, `12.3k`, `4.56M`, `7.8B`."""
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(n) >= limit * 0.9995:
            return f"{n / limit:.3g}{unit}"
    return f"{n:,.0f}"


def share(part: float, whole: float) -> str:
    """`75.5 %`; never rounds something to nothing or nearly all to all."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.0f} %" if percent in (0, 100) else f"{percent:.1f} %"


def size(n: int) -> str:
    """`512 B`, `1.2 MB` (powers of 1000, as the Hub shows them)."""
    value = float(n)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


def duration(seconds: float) -> str:
    """`8.4 s`, `12 min 5 s`, `3 h 20 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def words(name: str) -> str:
    """A machine-readable name for reading: `number_lost` as `number lost`."""
    return name.replace("_", " ")


def visible(text: str) -> str:
    """`text` without invisible trickery: control characters and direction overrides become U+FFFD."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) != "Cc" else "\ufffd"
        for c in text.replace("\r\n", "\n").replace("\r", "\n").translate(_BIDI)
    )


def one_line(text: Any, limit: int = 200) -> str:
    """`text` on one line, at most `limit` characters."""
    line = " ".join(visible(str(text)).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def fenced(text: str, language: str = "") -> str:
    """A Markdown code block that `text` cannot close, whatever it holds."""
    body = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


def code(text: Any, limit: int = 200) -> str:
    """A Markdown code span on one line, safe in a table cell."""
    body = one_line(text, limit)
    if not body:
        return ""
    longest = max((len(run) for run in re.findall(r"`+", body)), default=0)
    tick = "`" * (longest + 1)
    pad = " " if body.startswith("`") or body.endswith("`") else ""
    return tick + pad + body.replace("|", "\\|") + pad + tick


def prose(text: Any, limit: int = 400) -> str:
    """One line of Markdown prose, not at a line's start, in which nothing of `text` is markup or a link."""
    return _escaped(one_line(text, limit))


def documentation(text: str) -> str:
    """One line of Markdown prose in which `code spans` stay code spans."""
    parts = re.split(r"(`[^`]+`)", one_line(text, 1000))
    return "".join(code(part[1:-1]) if part.startswith("`") and len(part) > 2 else _escaped(part) for part in parts)


def _escaped(line: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]<>!|~&$])", r"\\\1", line)
    return re.sub(r"(?i)(://|\bwww\.)", lambda m: m[1].replace("/", "\\/").replace(".", "\\."), escaped)


def json_plain(value: Any) -> str:
    """Indented JSON, for a code block (not for HTML)."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


FILTERS = {
    filter.__name__: filter
    for filter in (
        *(by_count, count, compact, size, duration, words, visible, one_line),
        *(fenced, code, prose, documentation, json_plain),
    )
}
