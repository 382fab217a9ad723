"""Find every chain of stated relations in a text: `a = b = c`, `10/3 ≈ 3.33`, over line breaks of aligned LaTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenmill.judges.math.expressions import Node, Op, Quantity, literal, symbols
from tokenmill.judges.math.lexicon import vocabulary
from tokenmill.judges.math.notation import Token, tokenize
from tokenmill.judges.math.numerals import comma_decimal
from tokenmill.judges.math.parser import NestedTooDeeply, NotAnExpression, Parser
from tokenmill.judges.math.quantity_reader import CLAUSE

_STARTERS = vocabulary("num sym open money frac func vulgar bar multiple")
_BROKEN = frozenset(("bad", "func", "frac", "bar"))
_ANNOTATION = re.compile(r"<<([^<>\n]{1,300})>>")
_BEFORE_SIGN = frozenset(("line", "stop", "comma", "colon", "op", "rel", "open"))
# What these words do to the expression after them is not read: "half of 20 - 4 = 6", "multiplied by 5 = 20".
_LEADING = vocabulary("twice double triple half thrice than times plus minus another")
_OPERATIONS = vocabulary(
    "half third quarter sum difference product quotient multiplied divided multiply divide percent subtract "
    "subtracting adding multiplying dividing ratio square root"
)
_PREPOSITIONS = frozenset(("of", "by", "and", "from", "with", "to"))
_CHANGING = vocabulary("remainder rem r mod dozen pairs of")
"""Behind a number they make it another: "17 / 5 = 3 remainder 2"."""
_VERBS = vocabulary("is are gives makes leaves yields")
"""Verbs that state the result of a calculation: "14 percent of 50 is 7"."""
_ABOUT = vocabulary("about approximately roughly around nearly almost")


@dataclass(frozen=True, slots=True)
class Member:
    """One side of a relation."""

    node: Node
    start: int
    end: int
    whole: bool
    """False when the text has more than was read ("5 - the rest"), so nothing may be concluded from its value."""


@dataclass(frozen=True, slots=True)
class Chain:
    """`members[i] relations[i] members[i + 1]`; positions are in the text searched."""

    members: tuple[Member, ...]
    relations: tuple[str, ...]
    listed: bool = False
    """More values follow the last ("x = 3 or 5")."""
    spoken: bool = False
    """Stated by a verb, whose sentence may go on in words that are not read."""


def find_chains(text: str, language: str = "en") -> list[Chain]:
    """Every chain of two or more readable members, in order of place; calculator annotations `<<48/2=24>>` among them.

    Raises:
        ValueError: the text is longer than `numerals.MAX_TEXT`.
    """
    chains: list[Chain] = []
    if "<<" in text:
        for match in _ANNOTATION.finditer(text):
            chains += _scan(tokenize(match[1], "en", math=True), False, match.start(1))
        text = _ANNOTATION.sub(lambda m: " " * len(m[0]), text)
    chains += _scan(tokenize(text, language), comma_decimal(language), 0)
    return sorted(chains, key=lambda chain: chain.members[0].start)


def _scan(tokens: list[Token], comma: bool, offset: int) -> list[Chain]:
    parser = Parser(tokens, comma)
    chains: list[Chain] = []
    i, n = 0, len(tokens)
    while i < n:
        token = tokens[i]
        if token.kind == "bad":
            i = _after_unreadable(tokens, i)
            continue
        if token.kind == "rel":
            # Words stand on the left ("Total = 3 * 4 = 12"), or nothing that can be read.
            i = _chain(parser, None, i, offset, chains)
            continue
        letters = token.kind == "word" and token.math and len(token.text) <= 3
        if token.kind not in _STARTERS and not letters and not (token.kind == "op" and token.text in "+-"):
            i += 1
            continue
        if token.kind == "op" and not _is_sign(tokens, i):
            i += 1
            continue
        try:
            node, j = parser.parse(i)
        except NestedTooDeeply:
            i = max(parser.pos, i + 1)
            continue
        except (NotAnExpression, RecursionError):
            i += 1
            continue
        continued = j + 1 < n and tokens[j].kind == "line" and tokens[j + 1].kind == "rel"
        if continued or _relation(tokens, j, node)[0]:
            whole = not _cut_left(tokens, i, node, tokens[j].kind == "word")
            member = Member(node, offset + token.start, offset + tokens[j - 1].end, whole)
            i = _chain(parser, member, j + continued, offset, chains)
        else:
            i = max(j, i + 1)
    return chains


def _is_sign(tokens: list[Token], i: int) -> bool:
    """Whether the + or - at token `i` is a sign: "is -5 + 3", but not "the bonus + 3" or "profit - 5"."""
    before = tokens[i - 1].kind if i else "line"
    if before == "word":
        return not tokens[i].glued and i + 1 < len(tokens) and tokens[i + 1].glued
    return before in _BEFORE_SIGN


def _relation(tokens: list[Token], at: int, left: Node | None) -> tuple[str, int]:
    """The relation that stands at token `at` and how many tokens it takes; ("", 0) for none.

    A verb is one between a calculation (`left`) and a number, and "= about" is an approximation.
    """
    if at >= len(tokens):
        return "", 0
    token = tokens[at]
    about = at + 2 < len(tokens) and tokens[at + 1].text in _ABOUT and tokens[at + 2].kind in ("num", "money")
    if token.kind == "rel":
        return ("≈", 2) if about and token.text in "=≈" else (token.text, 1)
    if token.kind != "word" or token.math or token.text not in _VERBS or left is None or not _calculates(left):
        return "", 0
    if about:
        return "≈", 2
    return ("=", 1) if at + 1 < len(tokens) and tokens[at + 1].kind in ("num", "money") else ("", 0)


def _calculates(node: Node) -> bool:
    return (
        literal(node) is None
        and isinstance(node.body if isinstance(node, Quantity) else node, Op)
        and not symbols(node)
    )


def _chain(parser: Parser, first: Member | None, at: int, offset: int, chains: list[Chain]) -> int:
    """Read relations and members from the relation at token `at`; return the first token not consumed."""
    tokens, n = parser.tokens, len(parser.tokens)
    members: list[Member] = [first] if first else []
    relations: list[str] = []
    spoken = tokens[at].kind == "word"
    while True:
        relation, width = _relation(tokens, at, first.node if first and not relations else None)
        if not relation:
            break
        start = at + width
        if start < n and tokens[start].kind == "line":
            start += 1
        try:
            node, end = parser.parse(start)
        except NestedTooDeeply:
            at = max(parser.pos, start)
            break
        except (NotAnExpression, RecursionError):
            at = start
            break
        whole = not _cut_right(tokens, end, spoken) and not (spoken and literal(node) is None)
        if members:
            relations.append(relation)
        members.append(Member(node, offset + tokens[start].start, offset + tokens[end - 1].end, whole))
        at = end
        if not whole:
            break
        if at + 1 < n and tokens[at].kind == "line" and tokens[at + 1].kind == "rel":
            at += 1
    if relations:
        chains.append(Chain(tuple(members), tuple(relations), _is_list(tokens, at), spoken))
    return at


def _after_unreadable(tokens: list[Token], i: int) -> int:
    """Skip a formula that holds something unreadable (a sum sign, an unknown macro), up to the clause's end."""
    math = tokens[i].math
    while i < len(tokens):
        token = tokens[i]
        if (
            token.kind == "line"
            or (not math and token.kind == "stop")
            or (math and not token.math and token.kind != "close")
        ):
            return i
        i += 1
    return i


def _cut_left(tokens: list[Token], i: int, node: Node, spoken: bool) -> bool:
    """Whether something before token `i` belongs to the expression that starts there but could not be read."""
    in_words = tokens[i].kind == "multiple" or (tokens[i].kind == "vulgar" and tokens[i].end - tokens[i].start > 1)
    if in_words and isinstance(node, Op) and node.op in "+-":
        return True  # "half of 20 - 4": of which?
    if spoken and any(token.text in _OPERATIONS | _LEADING for token in tokens[max(0, i - 8) : i]):
        return True
    if i == 0:
        return False
    before = tokens[i - 1]
    if before.kind == "op":
        return not (before.text in "-*" and (i == 1 or tokens[i - 2].kind in ("line", "stop")))
    if before.text in "'’" and before.glued and tokens[i].glued:
        return True  # f'(3)
    if before.kind == "word" and tokens[i].kind == "open" and tokens[i].glued:
        return True  # corr(3)
    if before.kind in _BROKEN or (before.kind == "close" and before.glued and before.math):
        return True
    if before.kind in ("num", "vulgar") or (before.kind == "sym" and tokens[i].kind in ("num", "open")):
        return True
    if before.kind == "colon" and before.glued and tokens[i].glued and i > 1 and tokens[i - 2].kind == "num":
        return True
    if before.kind == "word":
        if before.text in _LEADING:
            return True
        if before.text in _PREPOSITIONS and any(token.text in _OPERATIONS for token in tokens[max(0, i - 5) : i]):
            return True
        return literal(node) is not None and not isinstance(node, Quantity)
    return False


def _cut_right(tokens: list[Token], end: int, spoken: bool) -> bool:
    """Whether the text goes on in a way that changes the value of an expression that ended before token `end`."""
    if end >= len(tokens):
        return False
    token = tokens[end]
    if token.kind == "op":
        following = tokens[end + 1] if end + 1 < len(tokens) else None
        # "= 80*" or "= 80!" closes emphasis or a sentence; "= 80 - the tax" goes on.
        if token.end - token.start > 2 and following is not None and following.kind in ("word", "sym"):
            return False  # "24 times a year"
        return token.text != "!" and following is not None and following.kind not in ("line", "stop", "comma")
    if token.kind in _BROKEN or (token.kind == "open" and token.glued) or token.kind in ("frac", "num", "sym"):
        return True
    if token.kind == "colon" and token.glued:
        return end + 1 < len(tokens) and tokens[end + 1].kind == "num"
    if token.kind != "word":
        return False
    return token.text in _CHANGING or (spoken and (token.text not in CLAUSE or token.text in ("than", "as")))


def _is_list(tokens: list[Token], at: int) -> bool:
    if at + 1 >= len(tokens):
        return False
    return tokens[at].text in (",", "or", "and") and tokens[at + 1].kind in ("num", "vulgar", "open", "frac")
