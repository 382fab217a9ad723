"""MathML, as web pages carry it, to the LaTeX that the rest of this package reads."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from tokenmill.judges.math.numerals import bounded

_ISLAND = re.compile(r"<math\b[^<>]{0,300}>(?:(?!<math\b).){0,20000}?</math>", re.DOTALL | re.IGNORECASE)
_MAX_DEPTH = 60


class _Builder(HTMLParser):
    """Builds LaTeX bottom-up on a stack of open elements, each with its children's LaTeX."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, list[str]]] = [("math", [])]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if len(self.stack) < _MAX_DEPTH:
            self.stack.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        if len(self.stack) > 1 and self.stack[-1][0] == tag:
            name, parts = self.stack.pop()
            self.stack[-1][1].append(_latex(name, parts))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.stack[-1][1].append(data.strip())


def _latex(tag: str, parts: list[str]) -> str:
    if tag == "mfrac" and len(parts) == 2:
        return f"\\frac{{{parts[0]}}}{{{parts[1]}}}"
    if tag == "msup" and len(parts) == 2:
        return f"{parts[0]}^{{{parts[1]}}}"
    if tag == "msub" and len(parts) == 2:
        return f"{parts[0]}_{{{parts[1]}}}"
    if tag == "mroot" and len(parts) == 2:
        return f"\\sqrt[{parts[1]}]{{{parts[0]}}}"
    inside = " ".join(parts)
    if tag == "msqrt":
        return f"\\sqrt{{{inside}}}"
    if tag == "mtext":
        return f"\\text{{{inside}}}"
    if tag == "mfenced":
        return f"({','.join(parts)})"
    if tag in ("annotation", "annotation-xml"):
        return ""
    # The invisible times and function application of MathML.
    return inside.replace("\u2062", "").replace("\u2061", "")


def from_mathml(text: str) -> str:
    """`text` with every `<math>` element replaced by `$LaTeX$`; unchanged if there is none.

    Raises:
        ValueError: the text is longer than `numerals.MAX_TEXT`.
    """
    if "<math" not in bounded(text).lower():
        return text

    def convert(match: re.Match[str]) -> str:
        builder = _Builder()
        builder.feed(match[0])
        builder.close()
        while len(builder.stack) > 1:
            name, parts = builder.stack.pop()
            builder.stack[-1][1].append(_latex(name, parts))
        return f"${' '.join(builder.stack[0][1]).strip()}$"

    return _ISLAND.sub(convert, text)
