"""From Markdown with LaTeX, MathML or plain notation to tokens that keep their place in the text.

A working copy of the same length hides what is not mathematics (code blocks, delimiters, emphasis, list markers), so
every token can be quoted verbatim. One pass, linear in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from typing import NamedTuple

from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.numerals import DIGITS, NUMBER, bounded, comma_decimal


class Token(NamedTuple):
    """`kind` is one of num, sym, word, op, rel, open, close, money, func, frac, comma, stop, line, bad, vulgar (`½`, "half of"
    before a number) and multiple ("twice" before one)."""

    kind: str
    text: str
    """Canonical: `*` for every multiplication sign, `<=` for every such relation, lower case for words."""
    start: int
    end: int
    math: bool
    """Inside LaTeX delimiters, where spaces mean nothing."""
    glued: bool
    """No space between this token and the one before."""


_CHARS = DIGITS | str.maketrans("−–‐‑×✕✖⋅·∙∗÷∕⁄＋－＝％（）：，", "----*******///+-=%():,")
_BLANK = re.compile(
    r"```.*?(?:```|\Z)|<!--.*?-->"
    r"|(?:(?<![\d)\]}*])\*\*(?!\*)|\*\*(?![\d(*\[{\\]))"
    r"|\\begin\{[A-Za-z]{1,12}\*?\}(?:\{[lcr|@ ]{0,20}\})?|\\end\{[A-Za-z]{1,12}\*?\}"
    r"|(?m:^[ \t>]{0,12}(?:[-*+•][ \t]+|\#{1,6}[ \t]+"
    r"|(?:step|part|case|problem|question|q|no\.?)[ \t]*\d{1,3}[ \t]*[-–—:.)]"
    r"|\(?\d{1,3}[.)](?=[ \t])|\(?[a-z]\)(?=[ \t])))",
    re.DOTALL | re.IGNORECASE,
)
_ENVIRONMENT = re.compile(r"\\begin\{(?:align|equation|gather|split|cases|eqnarray)")
_DELIMITERS = re.compile(r"\\\[|\\\]|\\\(|\\\)|\$\$|(?<!\\)\$")
_NO_PROSE = re.compile(r"\\[A-Za-z]+|`[^`\n]*`|https?://\S+|\b\w*\d\w*\b|\b[A-Za-z]\b", re.ASCII)
_PROSE = re.compile(r"(?<![\\A-Za-z{])[A-Za-z]{2,} +[A-Za-z]{2,}")
_RELATIONS = {
    "=": "=", "==": "=", "≡": "=", "≈": "≈", "≃": "≈", "≅": "≈", "~=": "≈", "≤": "<=", "≥": ">=", "<=": "<=",
    ">=": ">=", "<": "<", ">": ">", "≠": "!=", "!=": "!=", "⩽": "<=", "⩾": ">=",
}  # fmt: skip
_FUNCTIONS = vocabulary("sqrt sin cos tan ln log exp arcsin arccos arctan sinh cosh tanh")
_STOPS = "implies Rightarrow rightarrow to iff therefore because quad qquad Longrightarrow Leftrightarrow text mid"
_LETTERS = "alpha beta gamma delta epsilon theta lambda mu nu rho sigma tau phi varphi omega pi eta kappa xi zeta"
_COMMANDS: dict[str, tuple[str, str]] = (
    {f"\\{c}": ("op", "*") for c in ("times", "cdot", "ast", "bullet")}
    | {f"\\{c}": ("rel", "<=") for c in ("le", "leq", "leqslant")}
    | {f"\\{c}": ("rel", ">=") for c in ("ge", "geq", "geqslant")}
    | {f"\\{c}": ("rel", "≈") for c in ("approx", "simeq", "sim", "doteq")}
    | {f"\\{c}": ("frac", "/") for c in ("frac", "dfrac", "tfrac", "cfrac")}
    | {f"\\{c}": ("stop", c) for c in vocabulary(_STOPS)}
    | {f"\\{c}": ("func", c) for c in (*_FUNCTIONS, "binom")}
    | {f"\\{c}": ("sym", c) for c in vocabulary(_LETTERS)}
    | {"\\div": ("op", "/"), "\\%": ("op", "%"), "\\$": ("money", "$"), "\\dbinom": ("func", "binom")}
    | {"\\lt": ("rel", "<"), "\\gt": ("rel", ">"), "\\ne": ("rel", "!="), "\\neq": ("rel", "!=")}
    | {"\\{": ("open", "{"), "\\}": ("close", "}"), "\\lbrace": ("open", "{"), "\\rbrace": ("close", "}")}
)
_LAYOUT = "left right displaystyle textstyle big Big bigl bigr Bigl Bigr limits boxed mathbf bf boldsymbol color"
_SKIPPED = {f"\\{c}" for c in (*",;:!> ", *vocabulary(_LAYOUT))}
_OPERATOR_WORDS = {"times": "*", "plus": "+", "minus": "-"}
_BEFORE_OPERAND = re.compile(r"[ \t]+[$€£]?[\d(.\\]")
_GREEK = {"π": "pi", "θ": "theta", "α": "alpha", "β": "beta", "λ": "lambda", "φ": "phi"}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_VULGAR = {"½": "1/2", "⅓": "1/3", "⅔": "2/3", "¼": "1/4", "¾": "3/4", "⅕": "1/5", "⅖": "2/5", "⅗": "3/5", "⅘": "4/5",
           "⅙": "1/6", "⅛": "1/8", "⅜": "3/8", "⅝": "5/8", "⅞": "7/8"}  # fmt: skip
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_MANY = {"one": 1, "a": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_MULTIPLES = {"twice": "2", "double": "2", "thrice": "3", "triple": "3"}


@cache
def _lexer(comma: bool) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<skip>[ \t\u00a0\u2009\u202f\u200c\r&~]+)"
        rf"|(?P<line>\n|\\\\(?:\[[^\]\n]{{0,8}}\])?)|(?P<num>{NUMBER[comma]})"
        r"|(?P<words>\\(?:text|mathrm|textbf|textit|operatorname|mbox|textrm|mathit)\*?\s?\{(?P<inner>[^{}]{0,80})\})"
        r"|(?P<command>\\(?:[A-Za-z]+|.))"
        r"|(?P<sup>[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<vulgar>[½⅓⅔¼¾⅕⅖⅗⅘⅙⅛⅜⅝⅞])"
        rf"|(?P<share>\b(?i:(?:(?:{'|'.join(_MANY)})[ -])?(?:{'|'.join(_PARTS)})s?)\b(?=\s+of\s+(?:[a-z]{{2,7}}\s+)?[$€£]?\d))"
        rf"|(?P<multiple>\b(?i:{'|'.join(_MULTIPLES)})\b(?=\s+[$€£]?\d))"
        r"|(?P<says>\b(?:is equal to|is the same as|equals?|is approximately(?: equal to)?|is about)\b"
        r"(?=\s*[$€£]?[\d(]))"
        r"|(?P<word>[^\W\d_]{2,}(?:['’][^\W\d_]+)?)"
        r"|(?P<sym>[^\W\d_](?:_(?:\{[A-Za-z0-9]{1,12}\}|[A-Za-z0-9]))?)"
        r"|(?P<rel><=|>=|==|!=|~=|[=≈≃≅≤≥≠≡<>⩽⩾])|(?P<arrow>[⇒→⟹↔]|[-=]>)|(?P<op>\*\*|[+\-*/^!%])"
        r"|(?P<open>[({\[])|(?P<close>[)}\]])|(?P<money>[$€£¥₹¢])"
        r"|(?P<root>√)|(?P<comma>,)|(?P<degree>°)|(?P<colon>:)|(?P<bar>\|)|(?P<other>.)",
        re.DOTALL,
    )


def hide(text: str) -> tuple[str, list[int]]:
    """A copy of equal length with non-mathematics blanked, and the sorted edges (open, close, ...) of LaTeX regions.

    `$` is a delimiter only where Pandoc would read it so and the inside is no sentence: "$5 and $6" is money.
    """
    copy = _BLANK.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text.translate(_CHARS))
    chars: list[str] | None = None
    edges: list[int] = []
    pending: tuple[str, int] | None = None
    closer = {"\\[": "\\]", "\\(": "\\)", "$$": "$$", "$": "$"}
    for match in _DELIMITERS.finditer(copy):
        mark, start, end = match[0], *match.span()
        if pending and mark == closer[pending[0]]:
            opener, begin = pending
            inside = copy[begin + len(opener) : start]
            if opener != "$" or (
                inside and not inside[-1].isspace() and not copy[end : end + 1].isdigit()
                and "\n\n" not in inside and not _PROSE.search(inside)
            ):  # fmt: skip
                if chars is None:
                    chars = list(copy)
                chars[begin : begin + len(opener)] = " " * len(opener)
                chars[start:end] = " " * len(mark)
                edges += (begin, end)
                pending = None
                continue
            pending = None
        if mark in closer and (mark != "$" or not copy[end : end + 1].isspace()) and (not pending or pending[0] == "$"):
            pending = (mark, start)
    last = 0
    for match in _ENVIRONMENT.finditer(text) if "\\begin{" in text else ():
        if match.start() < last or bisect_right(edges, match.start()) % 2:
            continue
        last = text.find("\\end{", match.end())
        if last < 0:
            break
        at = bisect_right(edges, match.start())
        if at == len(edges) or edges[at] >= last:
            edges[at:at] = [match.start(), last]
    return "".join(chars) if chars else copy, edges


def prose(text: str) -> str:
    """The words of `text` on one line: its LaTeX regions, code and layout left out.

    Raises:
        ValueError: longer than `numerals.MAX_TEXT`.
    """
    shown, edges = hide(bounded(text))
    chars = list(shown)
    for start, end in zip(edges[::2], edges[1::2], strict=False):
        chars[start:end] = " " * (end - start)
    return " ".join(_NO_PROSE.sub(" ", "".join(chars)).split())


def tokenize(text: str, language: str = "en", math: bool = False) -> list[Token]:
    """Tokens of `text` in order.

    `math` reads all of it as if inside LaTeX delimiters.

    Raises:
        ValueError: longer than `numerals.MAX_TEXT`.
    """
    copy, edges = hide(bounded(text))
    tokens: list[Token] = []
    add = tokens.append
    last_end = -1
    for match in _lexer(comma_decimal(language)).finditer(copy):
        kind = match.lastgroup or "other"
        if kind == "inner":
            kind = "words"
        if kind == "skip":
            continue
        start, end = match.span()
        raw = match[0]
        inside = math or (bool(edges) and bisect_right(edges, start) % 2 == 1)
        glued = start == last_end
        last_end = end
        if kind == "command":
            if raw in _SKIPPED:
                last_end = end if glued else -1
                continue
            name = _COMMANDS.get(raw)
            add(Token(*(name or ("bad", raw)), start, end, True, glued))
        elif kind == "words":
            for word in re.findall(r"[^\W\d_]+|[^\w\s]", match["inner"]) or [""]:
                if word.isalpha():
                    add(Token("word", word.lower(), start, end, False, glued))
        elif kind == "word":
            if raw in _FUNCTIONS:
                add(Token("func", raw, start, end, inside, glued))
            elif raw in ("pi", "Pi"):
                add(Token("sym", "pi", start, end, inside, glued))
            elif raw in _OPERATOR_WORDS and not inside and _BEFORE_OPERAND.match(copy, end):
                add(Token("op", _OPERATOR_WORDS[raw], start, end, inside, False))
            else:
                add(Token("word", raw.lower(), start, end, inside, glued))
        elif kind == "sym":
            add(Token("sym", _GREEK.get(raw, raw.replace("{", "").replace("}", "")), start, end, inside, glued))
        elif kind == "rel":
            add(Token("rel", _RELATIONS[raw], start, end, inside, glued))
        elif kind == "says":
            add(Token("rel", "≈" if "about" in raw or "approx" in raw else "=", start, end, inside, False))
        elif kind == "op":
            add(Token("op", "^" if raw == "**" else raw, start, end, inside, glued))
        elif kind == "sup":
            add(Token("op", "^", start, end, inside, glued))
            add(Token("num", raw.translate(_SUPERSCRIPTS), start, end, inside, True))
        elif kind == "num" and tokens and tokens[-1].kind == "frac" and len(raw) == 2 and raw.isdigit():
            add(Token("num", raw[0], start, start + 1, inside, True))  # \\frac12 is 1/2
            add(Token("num", raw[1], start + 1, end, inside, True))
        elif kind == "vulgar":
            add(Token("vulgar", _VULGAR[raw], start, end, inside, glued))
        elif kind == "share":
            *many, part = re.split("[ -]", raw.lower())
            add(
                Token(
                    "vulgar", f"{_MANY[many[0]] if many else 1}/{_PARTS[part.rstrip('s')]}", start, end, inside, glued
                )
            )
        elif kind == "multiple":
            add(Token("multiple", _MULTIPLES[raw.lower()], start, end, inside, glued))
        elif kind == "root":
            add(Token("func", "sqrt", start, end, inside, glued))
        elif kind == "arrow":
            add(Token("stop", raw, start, end, inside, glued))
        elif kind == "degree":
            add(Token("word", "degree", start, end, inside, glued))
        elif kind == "other":
            add(Token("bad" if raw in "_∑∫∏√∞∂" else "stop", raw, start, end, inside, glued))
        else:
            add(Token(kind, raw, start, end, inside, glued))
    return tokens
