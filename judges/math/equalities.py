"""Every equality, inequality and approximation that a note states must be true (Kimi K2 report, section 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from tokenmill.judges.math.expressions import Exact, Node, Sym, Undecidable, evaluate, magnitude, symbols, units
from tokenmill.judges.math.mathml import from_mathml
from tokenmill.judges.math.relations import Decision, decide
from tokenmill.judges.math.rounding import Knowledge, Truth, is_rounding
from tokenmill.judges.math.statements import Chain, Member, find_chains
from tokenmill.schemas.verdicts import Finding, Verdict

MAX_STATEMENTS = 5_000
"""Relations of one text that are decided; a text with more is refused as `ValueError` rather than half checked."""
_QUOTE = 200

_DISOWNED = re.compile(
    r"\b(?:slips?|mistak\w*|errors?|erroneous\w*|wrong(?:ly)?|incorrect(?:ly)?|false|contradict\w*|impossible|pitfalls?|"
    r"tempt\w*|misread\w*|careless\w*|absurd|misconception|trap)\b",
    re.IGNORECASE,
)
_ROUNDING = re.compile(
    r"\b(?:round\w*|approx\w*|about|nearly|roughly|almost|nearest|whole|at least|full|remainder)\b", re.IGNORECASE
)
_CONDITION = re.compile(
    r"\b(?:if|when|suppose|assum\w+|at|for|try\w*|case|setting|substitut\w*|plug\w*)\b[^.\n]{0,40}$", re.IGNORECASE
)
_IDENTITY = re.compile(
    r"\b(?:expand\w*|simplif\w*|factor\w*|identity|distribut\w*|multiply\w* out|like terms|for all)\b", re.IGNORECASE
)
_HEADING = re.compile(r"^\s{0,3}(?:#{1,6}\s|\*\*[^*\n]+\*\*:?\s*$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One relation of a chain, decided."""

    truth: Truth
    relation: str
    left: Member
    right: Member
    decision: Decision
    disowned: bool = False
    """False, but the text itself says so ("a common slip is …")."""


@dataclass(frozen=True)
class Equalities:
    """Check `equalities`: reason `false_equality`, one finding for each false statement with the values of both sides.

    The score is the share of true statements among the decided ones, 1 when none could be decided.
    """

    def __call__(self, note_text: str, language: str = "en") -> Verdict:
        """Judge `note_text`; `language` (ISO 639-1) settles decimal marks.

        Raises:
            ValueError: the text is longer than the limits allow.
        """
        text = from_mathml(note_text)
        return equalities_verdict(text, self.statements(text, language))

    def statements(self, text: str, language: str = "en") -> list[Statement]:
        """Every stated relation with what was decided, in order of place; positions are in `text`, without MathML."""
        chains = find_chains(text, language)
        count = sum(len(chain.relations) for chain in chains)
        if count > MAX_STATEMENTS:
            raise ValueError(f"{count} statements exceed {MAX_STATEMENTS}")
        known = Knowledge(values=assignments(text, chains))
        return [
            self._decided(text, chain, left, relation, right, known)
            for chain in chains
            for left, relation, right in zip(chain.members, chain.relations, chain.members[1:], strict=False)
        ]

    def _decided(
        self, text: str, chain: Chain, left: Member, relation: str, right: Member, known: Knowledge
    ) -> Statement:
        decision = decide(left.node, relation, right.node, known)
        truth = decision.truth
        disowned = False
        if truth is not Truth.TRUE and not (left.whole and right.whole):
            truth = Truth.UNDECIDED
        if truth is Truth.UNDECIDED and relation == "=" and left.whole and right.whole and decision.left is None:
            truth = _asserted_identity(text, left, right)
        if truth is Truth.FALSE:
            sentence = _sentence(text, left.start, right.end)
            if relation == "=" and _rounded_in_words(sentence, left, right, decision):
                truth = Truth.TRUE
            elif chain.spoken and _near(decision):
                truth = Truth.UNDECIDED  # "7 / 2 is 3, with one left over"
            elif _disowned(text, sentence, left.start):
                truth, disowned = Truth.UNDECIDED, True
        return Statement(truth, relation, left, right, decision, disowned)


def equalities_verdict(text: str, statements: list[Statement]) -> Verdict:
    """Verdict `equalities` on decided statements of `text`."""
    false = [s for s in statements if s.truth is Truth.FALSE]
    decided = sum(s.truth is not Truth.UNDECIDED for s in statements)
    score = 1 - len(false) / decided if decided else 1.0
    findings = tuple(finding(text, statement) for statement in false)
    return Verdict("equalities", not false, score, "false_equality" if false else "", findings)


def finding(text: str, statement: Statement) -> Finding:
    """The false statement quoted, with the values of both sides."""
    quote = " ".join(text[statement.left.start : statement.right.end].split())[:_QUOTE]
    values = statement.decision
    if values.left is None or values.right is None:
        detail = f"Correct `{quote}`: its two sides are not equal."
    else:
        detail = f"Correct `{quote}`: the left side is {show(values.left)}, the right side is {show(values.right)}."
    return Finding("false_equality", detail, rewrite=quote)


def show(value: Exact | complex) -> str:
    """A value for people: an integer, a terminating decimal, or a fraction."""
    if isinstance(value, complex):
        return f"{value.real:.6g}" if abs(value.imag) < 1e-9 else f"{value:.6g}"
    value = Fraction(value)
    if value.denominator == 1:
        return _short(str(value.numerator) if value.numerator.bit_length() < 4000 else "a number of over 1000 digits")
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest == 1 and abs(value) < 10**12 and value.denominator < 10**9:
        return f"{float(value):.12g}"
    return _short(str(value)) if value.denominator.bit_length() < 2000 else f"{float(value):.6g}"


def _short(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:16]}…{digits[-8:]} ({len(digits)} characters)"


def assignments(text: str, chains: list[Chain]) -> dict[str, Exact]:
    """Symbols that the text sets to one constant, unconditionally and always the same."""
    values: dict[str, set[Exact | None]] = {}
    for chain in chains:
        if any(relation != "=" for relation in chain.relations):
            continue
        names = [m.node.name for m in chain.members if isinstance(m.node, Sym)]
        if not names:
            continue
        constants = []
        for member in chain.members:
            angle = "pi" in names and units(member.node)  # "pi = 180 degrees" is no value of pi
            if member.whole and not angle and not isinstance(member.node, Sym):
                try:
                    constants.append(evaluate(member.node, {}))
                except Undecidable:
                    continue
        if not constants:
            continue
        unsure = (
            chain.listed
            or not chain.members[0].whole
            or _CONDITION.search(text, max(0, chain.members[0].start - 60), chain.members[0].start)
        )
        for name in names:
            found = values.setdefault(name, set())
            found.add(constants[-1])
            if unsure:
                found.add(None)  # a second value: the symbol stays unknown
    return {name: value for name, (value, *more) in values.items() if value is not None and not more}


def _sentence(text: str, start: int, end: int) -> str:
    begin = max(text.rfind("\n", 0, start), text.rfind(". ", max(0, start - 400), start), -1) + 1
    stops = [p for p in (text.find("\n", end), text.find(". ", end)) if p >= 0]
    return text[begin : min(stops, default=len(text))][:1000]


def _rounded_in_words(sentence: str, left: Member, right: Member, decision: Decision) -> bool:
    """ "7/2 = 4, rounded up": a whole number beside a word for rounding may stand for its fractional neighbour."""
    a, b = decision.left, decision.right
    if not isinstance(a, int | Fraction) or not isinstance(b, int | Fraction) or not _ROUNDING.search(sentence):
        return False
    return any(
        is_rounding(exact, stated, node)
        or (isinstance(stated, int) and Fraction(exact).denominator > 1 and magnitude(exact - stated) < 1)
        for exact, stated, node in ((a, b, right.node), (b, a, left.node))
    )


def _near(decision: Decision) -> bool:
    a, b = decision.left, decision.right
    return isinstance(a, Fraction) and isinstance(b, int | Fraction) and a.denominator > 1 and magnitude(a - b) < 1


def _disowned(text: str, sentence: str, start: int) -> bool:
    """Whether sentence, paragraph so far or heading present what stands at `start` as a mistake."""
    if _DISOWNED.search(sentence):
        return True
    paragraph = max(text.rfind("\n\n", 0, start), 0)
    if _DISOWNED.search(text, max(paragraph, start - 1000), start):
        return True
    headings = [m for m in _HEADING.finditer(text, max(0, start - 3000), start)]
    if not headings:
        return False
    line_end = text.find("\n", headings[-1].end())
    return bool(_DISOWNED.search(text, headings[-1].start(), line_end if line_end >= 0 else len(text)))


def _asserted_identity(text: str, left: Member, right: Member) -> Truth:
    """A conditional equation is false where the sentence says that one side is only rewritten ("expanding gives")."""
    if not _same_unknowns(left.node, right.node):
        return Truth.UNDECIDED
    return Truth.FALSE if _IDENTITY.search(_sentence(text, left.start, right.end)) else Truth.UNDECIDED


def _same_unknowns(left: Node, right: Node) -> bool:
    names = symbols(left)
    return bool(names) and names == symbols(right) and not isinstance(left, Sym) and not isinstance(right, Sym)
