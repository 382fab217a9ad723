"""A model judges whether a rewrite is faithful; each fault it reports must be shown with quotations really there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import prompts
from judges.quotes import is_sentence_of, plain, stands_in
from llm.call import Ask, Message, Usage
from llm.errors import RowError
from llm.structured import StructuredAnswerInvalid, ask_json
from prompts.fence import defuse, fence
from schemas.verdicts import Finding, Verdict

CHECK = "faithfulness"

_MAX_CLAIMS = 12  # of each kind in one answer: bounds what a rambling judge costs
_CLAIM = {
    "type": "object",
    "properties": {
        "claim": {"type": "string"},
        "source_quote": {"type": "string"},
        "rewrite_quote": {"type": "string"},
        "severity": {"type": "string", "enum": ["minor", "major"]},
    },
    "required": ["claim", "source_quote", "rewrite_quote", "severity"],
    "additionalProperties": False,
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "unsupported": {"type": "array", "items": _CLAIM, "maxItems": _MAX_CLAIMS},
        "missing": {"type": "array", "items": _CLAIM, "maxItems": _MAX_CLAIMS},
    },
    "required": ["unsupported", "missing"],
    "additionalProperties": False,
}
"""What a judge answers."""


class JudgeUndecided(RowError):
    """No vote of the judge was usable; `usage` is what the votes were billed."""

    def __init__(self, line: str, usage: Usage = Usage()) -> None:
        super().__init__(line)
        self.usage = usage


@dataclass(frozen=True)
class Claim:
    """A fault that a vote reported, its quotations verified."""

    kind: str
    """`unsupported_claim` or `missing_claim`."""
    claim: str
    source: str
    rewrite: str
    major: bool


@dataclass(frozen=True)
class Vote:
    """One answer of the judge; `decided` is False when it could not be used."""

    decided: bool
    claims: tuple[Claim, ...] = ()
    dropped: int = 0
    """Claims thrown away because a quotation is not where the judge said it was."""
    usage: Usage = field(default_factory=Usage)

    @property
    def majors(self) -> int:
        return sum(claim.major for claim in self.claims)


@dataclass(frozen=True)
class Faithfulness:
    """Refuses with `unsupported_claim` or `missing_claim`.

    A majority of the decided votes must pass the rewrite; a tie refuses it. A vote whose every claim fails the check
    of its quotations is asked once more and then counts as undecided. Votes that cannot change the outcome any more are
    not asked for.
    """

    votes: int = 1
    tolerated_minor: int = 3
    """Minor faults of one vote that it may report and still pass."""
    temperature: float | None = None
    """None: 0 for a single vote, 0.7 for several, which would otherwise all be the same."""
    max_tokens: int = 1500
    tries: int = 3
    """Answers asked for until one meets the schema."""
    prompt: str = "judges/faithfulness"
    """Name of the prompt, with the placeholders title, context, source and rewrite."""

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError(f"Faithfulness.votes must be odd, so that they cannot tie, not {self.votes}")
        if self.votes > 1 and self.temperature == 0:
            raise ValueError("Faithfulness.temperature must be above 0 for several votes, or they are all the same")
        if self.tolerated_minor < 0 or self.tries < 1 or self.max_tokens < 1:
            raise ValueError("Faithfulness needs tolerated_minor >= 0, tries >= 1 and max_tokens >= 1")

    async def __call__(
        self, source: str, rewrite: str, context: str, ask: Ask, *, title: str = ""
    ) -> tuple[Verdict, Usage]:
        """Judge `rewrite` against `source`. `context` is what a reader already knows: the source before this chunk.

        Raises:
            JudgeUndecided: no vote was usable.
            llm.errors.CallRefused: the endpoint will never answer this.
        """
        known = f"{title}\n{context}"
        messages = prompts.load(self.prompt).render(
            title=_block(title, "title"),
            context=_block(context, "context"),
            source=fence(source, "source"),
            rewrite=fence(rewrite, "rewrite"),
        )
        enough = self.votes // 2 + 1
        votes = await self._ask(range(enough), messages, source, rewrite, known, ask)
        decided = {self._passes(vote) for vote in votes if vote.decided}
        if len(votes) < self.votes and not (len(decided) == 1 and all(vote.decided for vote in votes)):
            votes += await self._ask(range(enough, self.votes), messages, source, rewrite, known, ask)
        usage = sum((vote.usage for vote in votes), Usage())
        return self._verdict(votes, usage), usage

    async def _ask(self, attempts: Iterable[int], *case: Any) -> list[Vote]:
        return list(await asyncio.gather(*(self._vote(attempt, *case) for attempt in attempts)))

    async def _vote(
        self, attempt: int, messages: list[Message], source: str, rewrite: str, known: str, ask: Ask
    ) -> Vote:
        temperature = self.temperature if self.temperature is not None else (0.0 if self.votes == 1 else 0.7)
        usage, conversation = Usage(), messages
        for again in (False, True):
            try:
                answer = await ask_json(
                    ask,
                    conversation,
                    SCHEMA,
                    to="judge",
                    tries=self.tries,
                    attempt=attempt,
                    seed=attempt,
                    temperature=temperature,
                    max_tokens=self.max_tokens,
                )
            except StructuredAnswerInvalid as error:
                return Vote(False, usage=usage + error.usage)
            usage += answer.usage
            claims, wrong = verify(answer.value, source, rewrite, known)
            if claims or not wrong:
                return Vote(True, tuple(claims), len(wrong), usage)
            if not again:
                quotes = "\n".join(f"- {quote}" for quote in wrong)
                conversation = [
                    *messages,
                    {"role": "assistant", "content": defuse(answer.answers[-1].text)},
                    *prompts.load("judges/faithfulness_requote").render(quotes=quotes),
                ]
        return Vote(False, dropped=len(wrong), usage=usage)

    def _passes(self, vote: Vote) -> bool:
        return vote.majors == 0 and len(vote.claims) <= self.tolerated_minor

    def _verdict(self, votes: list[Vote], usage: Usage) -> Verdict:
        decided = [vote for vote in votes if vote.decided]
        if not decided:
            raise JudgeUndecided(f"none of {len(votes)} votes of the judge was usable", usage)
        against = [vote for vote in decided if not self._passes(vote)]
        passed = 2 * len(against) < len(decided)
        relevant = decided if passed else against
        claims = _distinct(chain.from_iterable(vote.claims for vote in relevant))
        score = round(sum(1 / (1 + v.majors + (len(v.claims) - v.majors) / 4) for v in decided) / len(decided), 4)
        findings = tuple(_finding(claim) for claim in claims) + _dropped(sum(vote.dropped for vote in votes))
        reason = "" if passed else next((c.kind for c in claims if c.major), claims[0].kind)
        return Verdict(CHECK, passed, score, reason, findings)


def _block(text: str, label: str) -> str:
    return f"{fence(text, label)}\n\n" if text.strip() else ""


def verify(answer: dict[str, Any], source: str, rewrite: str, known: str = "") -> tuple[list[Claim], list[str]]:
    """The claims of a judge's answer whose quotations stand where it says, and a line on each quotation that does not.

    An unsupported claim must quote the rewrite, a missing one the source; the other quotation may be empty. What
    contradicts the rewrite may also stand in the context (`known`). A claim about a sentence that stands, whole and
    word for word, in both texts refutes itself and is dropped like a false quotation.
    """
    claims: list[Claim] = []
    wrong: list[str] = []
    for kind, listed in (("unsupported_claim", answer["unsupported"]), ("missing_claim", answer["missing"])):
        for item in listed:
            claim = Claim(
                kind, _line(item["claim"]), item["source_quote"], item["rewrite_quote"], item["severity"] == "major"
            )
            fault = _fault(claim, source, rewrite, known)
            if fault:
                wrong.append(fault)
            else:
                claims.append(claim)
    return claims, wrong


def _fault(claim: Claim, source: str, rewrite: str, known: str) -> str:
    """Why a claim cannot be used, or an empty string."""
    unsupported = claim.kind == "unsupported_claim"
    in_source = stands_in(claim.source, source) or (unsupported and stands_in(claim.source, known))
    if not in_source and (plain(claim.source) or not unsupported):
        return f'not in the source: "{_line(claim.source)}"'
    if not stands_in(claim.rewrite, rewrite) and (plain(claim.rewrite) or unsupported):
        return f'not in the rewrite: "{_line(claim.rewrite)}"'
    shown, other = (claim.rewrite, source) if unsupported else (claim.source, rewrite)
    own = rewrite if unsupported else source
    if is_sentence_of(shown, own) and is_sentence_of(shown, other):
        return f'in both texts, word for word: "{_line(shown)}"'
    return ""


def _line(text: str, limit: int = 300) -> str:
    """One line of untrusted text, fit for a prompt."""
    return " ".join(defuse(text[: 2 * limit]).split())[:limit]


def _distinct(claims: Iterable[Claim]) -> list[Claim]:
    """Claims about different passages, major ones first."""
    seen: dict[tuple[str, str, str], Claim] = {}
    for claim in sorted(claims, key=lambda c: not c.major):
        seen.setdefault((claim.kind, plain(claim.source), plain(claim.rewrite)), claim)
    return list(seen.values())


def _finding(claim: Claim) -> Finding:
    todo = (
        "Remove or correct what the source does not say" if claim.kind == "unsupported_claim" else "Say what is missing"
    )
    weight = "" if claim.major else " (minor)"
    return Finding(claim.kind, f"{todo}{weight}: {claim.claim}", claim.source, claim.rewrite)


def _dropped(count: int) -> tuple[Finding, ...]:
    if not count:
        return ()
    return (Finding("claims_dropped", f"(Further claims, dropped because their quotations are not there: {count}.)"),)
