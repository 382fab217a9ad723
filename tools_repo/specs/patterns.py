"""Regular expressions that a hostile text can make run for ever.

A backtracking matcher needs exponential time exactly when a loop of the expression can read some text in two ways
(Weideman et al., "Analyzing matching time behavior of backtracking regular expression matchers", CIAA 2016). The
expression becomes its position automaton (Glushkov); two copies of it that read one text must not part and meet again.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from re import _constants as op  # type: ignore[attr-defined]  # no public parser of `re` syntax exists
from re import _parser as parser  # type: ignore[attr-defined]  # as above
from typing import Any

import networkx

_LATIN = 256
"""Characters are told apart below this code point; of all others only what `_OTHERS` shows one of each kind of."""
_OTHERS = "\u2003\u0660\u4e00\u2014"
"""A space, a digit, a letter and none of these: four bits after those of Latin-1."""
_EVERYTHING = (1 << _LATIN + len(_OTHERS)) - 1
_BEYOND = _EVERYTHING & ~((1 << _LATIN) - 1)
_MAX_POSITIONS = 300
_MAX_STEPS = 60_000
"""Edges of the product of two copies that are looked at before an expression counts as too complex."""
_MAX_COPIES = 16
"""A repetition of at most so many is written out; a longer one is treated as endless."""
_LOOP_WAYS = 100
_MAX_WAYS = 5_000_000
"""Ways to share a text among repetitions in a row that can all read it; a loop counts as 100, so three may follow."""
_LONGEST = 1_000
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_WORD: r"\w", op.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


class _TooComplex(Exception):
    pass


@lru_cache(maxsize=4096)
def danger(pattern: str) -> str:
    """Why `pattern` must not be run on untrusted text, in one phrase; empty if it may.

    Raises:
        re.error: Python does not know this syntax, so that no validator here could run it.
    """
    if len(pattern) > _LONGEST:
        return f"it is longer than {_LONGEST:,} characters"
    try:
        re.compile(pattern)
        tree = parser.parse(pattern)
        return _Automaton().judge(tree)
    except (RecursionError, OverflowError, _TooComplex):
        return "it is too complex to be checked"


@dataclass
class _Part:
    """A piece of the expression: where it can begin and end, and whether it can be empty."""

    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    empty: bool = True


@dataclass
class _Automaton:
    classes: list[int] = field(default_factory=list)
    """For each position the characters it reads, as bits."""
    follow: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How many ways lead from one position to the next: two for the same pair are two readings of one text."""
    choices: list[tuple[set[int], int]] = field(default_factory=list)
    """Bounded repetitions of something of one length: their positions, and how many numbers of times they allow."""
    inner: list[Any] = field(default_factory=list)
    """Look-arounds, which are expressions of their own."""

    def judge(self, tree: Any) -> str:
        self.sequence(tree)
        graph: networkx.DiGraph[int] = networkx.DiGraph()
        graph.add_nodes_from(range(len(self.classes)))
        graph.add_edges_from(self.follow)
        loops = [
            part for part in networkx.strongly_connected_components(graph)
            if len(part) > 1 or graph.has_edge(*[next(iter(part))] * 2)
        ]  # fmt: skip
        if any(self._two_ways(graph, loop) for loop in loops):
            return "a loop can read the same text in two ways, which takes exponential time"
        if self._ways(graph, loops) > _MAX_WAYS:
            return "too many repetitions in a row can read the same text"
        return next(filter(None, (_Automaton().judge(tree) for tree in self.inner)), "")

    def _two_ways(self, graph: networkx.DiGraph[int], loop: set[int]) -> bool:
        if any(count > 1 and p in loop and q in loop for (p, q), count in self.follow.items()):
            return True
        within = {p: [q for q in graph[p] if q in loop] for p in loop}
        product: networkx.DiGraph[tuple[int, int]] = networkx.DiGraph()
        steps, stack = 0, [(p, p) for p in loop]
        seen = set(stack)
        while stack:
            pair = stack.pop()
            for p in within[pair[0]]:
                for q in within[pair[1]]:
                    steps += 1
                    if steps > _MAX_STEPS:
                        raise _TooComplex
                    if self.classes[p] & self.classes[q]:
                        product.add_edge(pair, (p, q))
                        if (p, q) not in seen:
                            seen.add((p, q))
                            stack.append((p, q))
        parts = networkx.strongly_connected_components(product)
        return any(any(p == q for p, q in part) and any(p != q for p, q in part) for part in parts)

    def _ways(self, graph: networkx.DiGraph[int], loops: list[set[int]]) -> int:
        """The most ways in which repetitions that follow each other can share a text that the first of them reads."""
        looping = set().union(*loops)
        groups = [(loop, _LOOP_WAYS) for loop in loops]
        groups += [(positions, ways) for positions, ways in self.choices if not positions & looping]
        owner = {p: index for index, (positions, _) in enumerate(groups) for p in positions}
        best: dict[int, int] = {}
        # Positions are numbered as they stand in the expression, and groups neither overlap nor enclose each other.
        for index in sorted(range(len(groups)), key=lambda index: max(groups[index][0]), reverse=True):
            positions, ways = groups[index]
            reads = 0
            for p in positions:
                reads |= self.classes[p]
            following, stack, seen = set(), list(positions), set(positions)
            while stack:
                for q in graph[stack.pop()]:
                    if q not in seen and self.classes[q] & reads:
                        seen.add(q)
                        if q in owner:
                            following.add(owner[q])
                        else:
                            stack.append(q)
            best[index] = ways * max((best[other] for other in following), default=1)
        return max(best.values(), default=0)

    def sequence(self, items: Any) -> _Part:
        whole = _Part()
        for code, argument in items:
            whole = self._join(whole, self._piece(code, argument))
        return whole

    def _join(self, a: _Part, b: _Part) -> _Part:
        self._connect(a.last, b.first)
        return _Part(
            a.first + (b.first if a.empty else []), b.last + (a.last if b.empty else []), a.empty and b.empty
        )  # fmt: skip

    def _connect(self, last: list[int], first: list[int]) -> None:
        if len(self.follow) + len(last) * len(first) > _MAX_STEPS:
            raise _TooComplex
        self.follow.update((p, q) for p in last for q in first)

    def _read(self, characters: int) -> _Part:
        if len(self.classes) >= _MAX_POSITIONS:
            raise _TooComplex
        self.classes.append(characters)
        here = len(self.classes) - 1
        return _Part([here], [here], False)

    def _piece(self, code: Any, argument: Any) -> _Part:
        if code in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY, op.GROUPREF):
            return self._read(_characters(code, argument))
        if code is op.SUBPATTERN:
            return self.sequence(argument[-1])
        if code is op.ATOMIC_GROUP:
            return self.sequence(argument)
        if code is op.BRANCH:
            return self._either([self.sequence(option) for option in argument[1]])
        if code is op.GROUPREF_EXISTS:
            return self._either([self.sequence(option or []) for option in argument[1:]])
        if code in (op.ASSERT, op.ASSERT_NOT):
            self.inner.append(argument[1])
            return _Part()
        if code in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self._repeat(*argument)
        return _Part()  # anchors and boundaries read nothing

    def _either(self, options: list[_Part]) -> _Part:
        return _Part(
            [p for o in options for p in o.first], [p for o in options for p in o.last], any(o.empty for o in options)
        )

    def _repeat(self, least: int, most: Any, body: Any) -> _Part:
        if not body or most == 0:
            return _Part()
        shortest, longest = body.getwidth()
        if most == 1:
            begun, part = len(self.classes), self.sequence(body)
            if least == 0 and shortest == longest and len(self.classes) > begun:
                self.choices.append((set(range(begun, len(self.classes))), 2))
            return _Part(part.first, part.last, part.empty or least == 0)
        if most is not op.MAXREPEAT and most <= _MAX_COPIES and shortest == longest:
            begun, copies = len(self.classes), [self.sequence(body) for _ in range(most)]
            for part, after in pairwise(copies):
                self._connect(part.last, after.first)
            if least < most and len(self.classes) > begun:
                self.choices.append((set(range(begun, len(self.classes))), most - least + 1))
            ends = [p for part in copies[max(least, 1) - 1 :] for p in part.last]
            return _Part(copies[0].first, ends, copies[0].empty or least == 0)
        part = self.sequence(body)
        self._connect(part.last, part.first)
        if part.empty and (least > 1 or most is not op.MAXREPEAT):
            self._connect(part.last, part.first)  # which of the counted turns are empty is a second choice
        return _Part(part.first, part.last, part.empty or least == 0)


def _characters(code: Any, argument: Any) -> int:
    """The characters that one item of the syntax tree reads, as bits; more than that in doubt."""
    if code is op.LITERAL:
        return _one(argument)
    if code is op.NOT_LITERAL:
        return _EVERYTHING & ~_one(argument) if argument < _LATIN else _EVERYTHING
    if code is not op.IN:
        return _EVERYTHING
    negated = argument[0][0] is op.NEGATE
    bits = 0
    for kind, value in argument[negated:]:
        if kind is op.CATEGORY:
            bits |= _category(value)
            continue
        low, high = value if kind is op.RANGE else (value, value)
        bits |= sum(1 << c for c in range(low, min(high, _LATIN - 1) + 1))
        if high >= _LATIN and not negated:  # some of the others, so all may be read, and none is surely left out
            bits |= _BEYOND if kind is op.RANGE else _one(high)
    return _EVERYTHING & ~bits if negated else bits


def _one(code_point: int) -> int:
    if code_point < _LATIN:
        return 1 << code_point
    kinds = (op.CATEGORY_SPACE, op.CATEGORY_DIGIT, op.CATEGORY_WORD)
    for at, kind in enumerate(kinds):
        if re.match(_CATEGORIES[kind], chr(code_point)):
            return 1 << (_LATIN + at)
    return 1 << (_LATIN + len(kinds))


@cache
def _category(category: Any) -> int:
    match = re.compile(_CATEGORIES[category]).match
    characters = [chr(c) for c in range(_LATIN)] + list(_OTHERS)
    return sum(1 << at for at, character in enumerate(characters) if match(character))
