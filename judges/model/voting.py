"""A model judges by votes, and each fault it reports must be shown with quotations really there.

What the judges of this kind share; each says which faults it looks for (`prompt`, `schema`) and where their quotations
must stand (`verify`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from tokenmill.inference.call import Ask, Message
from tokenmill.inference.errors import RowError
from tokenmill.inference.gather import together
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.judges.model.quotes import plain
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.verdicts import Finding, Question, Verdict

from tokenmill import prompts

REPAIR = "structured/repair"
"""Prompt that asks again after an answer that is not the JSON asked for."""

DROPPED = "claims_dropped"
"""Kind of the finding that counts claims whose quotations are not there."""


class JudgeUndecided(RowError):
    """No vote of the judge was usable."""


@dataclass(frozen=True)
class Claim:
    """A fault that a vote reported, its quotations verified."""

    kind: str
    """The reason for which it refuses: `unsupported_claim`, `missing_claim`, ..."""
    claim: str
    source: str
    rewrite: str
    major: bool


class Misquoted(NamedTuple):
    """A claim that a vote reported, and whose quotation is not where the vote says."""

    why: str
    """One line, for the judge."""
    major: bool


class Seam(NamedTuple):
    """Where two parts of a rewrite meet that were written one after the other."""

    earlier: str
    """The last words of the one,"""
    later: str
    """and the first words of the other."""


@dataclass(frozen=True)
class Case:
    """What a vote is about."""

    source: str
    rewrite: str
    context: str = ""
    title: str = ""
    form: str = ""
    questions: tuple[Question, ...] = ()
    before: str = ""
    """The rewritten text just before; no source."""
    seams: tuple[Seam, ...] = ()
    checked: str = ""
    partial: bool = False
    """Whether the rewrite may leave out what it likes."""

    @property
    def known(self) -> str:
        """What a reader knows besides the source."""
        return f"{self.title}\n{self.context}"


@dataclass(frozen=True)
class Vote:
    """One answer of the judge; `decided` is False when it could not be used."""

    decided: bool
    claims: tuple[Claim, ...] = ()
    dropped: int = 0
    """Claims thrown away because a quotation is not where the judge said it was."""

    @property
    def majors(self) -> int:
        return sum(claim.major for claim in self.claims)


@dataclass(frozen=True)
class QuotingJudge:
    """Compares a text with its source.

    A majority of the decided votes must pass the text; a tie refuses it. A vote whose every claim fails the check of
    its quotations is asked once more and then counts as undecided. Votes that cannot change the outcome any more are
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
    prompt: str = ""
    """Name of the prompt, with the placeholders title, context, source and rewrite."""

    check: ClassVar[str]
    """Name under which verdicts stand."""
    schema: ClassVar[dict[str, Any]]
    """What a vote answers."""
    requote: ClassVar[str]
    """Prompt that asks again after a vote none of whose quotations is there; placeholder quotes."""
    orders: ClassVar[dict[str, str]]
    """For each kind of claim, what the writer is told to do about it."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError(f"{name}.votes must be odd, so that they cannot tie, not {self.votes}")
        if self.votes > 1 and self.temperature == 0:
            raise ValueError(f"{name}.temperature must be above 0 for several votes, or they are all the same")
        if self.tolerated_minor < 0 or self.tries < 1 or self.max_tokens < 1:
            raise ValueError(f"{name} needs tolerated_minor >= 0, tries >= 1 and max_tokens >= 1")

    def verify(
        self, answer: dict[str, Any], source: str, rewrite: str, known: str = ""
    ) -> tuple[list[Claim], list[Misquoted]]:
        """The claims of a vote whose quotations stand where it says, and those whose quotations do not.
        `known` is what a reader knows besides: title and context."""
        raise NotImplementedError

    def render(self, case: Case) -> list[Message]:
        """The messages that ask for a vote."""
        return prompts.load(self.prompt).render(
            title=block(case.title, "title"),
            context=block(case.context, "context"),
            source=fence(case.source, "source"),
            rewrite=fence(case.rewrite, "rewrite"),
        )

    def examined(self, answer: dict[str, Any], case: Case) -> tuple[list[Claim], list[Misquoted]]:
        """What `verify` says of a vote, and what else its schema has."""
        return self.verify(answer, case.source, case.rewrite, case.known)

    def schema_of(self, case: Case) -> dict[str, Any]:
        """What a vote on a case answers."""
        return self.schema

    @property
    def sampling(self) -> dict[str, Any]:
        """Sampling parameters of a vote."""
        temperature = self.temperature if self.temperature is not None else (0.0 if self.votes == 1 else 0.7)
        return {"temperature": temperature, "max_tokens": self.max_tokens}

    @property
    def prompt_names(self) -> tuple[str, ...]:
        """Names of all prompts that a judgement may use."""
        return self.prompt, self.requote, REPAIR

    async def __call__(
        self,
        source: str,
        rewrite: str,
        context: str,
        ask: Ask,
        *,
        title: str = "",
        form: str = "",
        questions: Sequence[Question] = (),
        before: str = "",
        seams: Sequence[Seam] = (),
        checked: str = "",
        partial: bool = False,
    ) -> Verdict:
        """Judge `rewrite` against `source`. `context` is what a reader already knows: the source before this chunk; `form` is
        what the writer was asked for, `questions` what code found unmatched, `checked` what code found right; `before` is the
        rewritten text just before, and `seams` are where the parts meet of which the rewrite is put together; `partial` says
        that it may leave out what it likes.

        Raises:
            JudgeUndecided: no vote was usable.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        case = Case(
            source,
            rewrite,
            context,
            title,
            form,
            tuple(questions),
            before,
            tuple(seams),
            checked=checked,
            partial=partial,
        )
        messages = self.render(case)
        enough = self.votes // 2 + 1
        votes = await self._ask(range(enough), messages, case, ask)
        decided = {self._passes(vote) for vote in votes if vote.decided}
        if len(votes) < self.votes and not (len(decided) == 1 and all(vote.decided for vote in votes)):
            votes += await self._ask(range(enough, self.votes), messages, case, ask)
        return self._verdict(votes)

    async def _ask(self, attempts: Iterable[int], *case: Any) -> list[Vote]:
        return await together(self._vote(attempt, *case) for attempt in attempts)

    async def _vote(self, attempt: int, messages: list[Message], case: Case, ask: Ask) -> Vote:
        conversation = messages
        for again in (False, True):
            try:
                answer = await ask_json(
                    ask,
                    conversation,
                    self.schema_of(case),
                    to="judge",
                    tries=self.tries,
                    attempt=attempt,
                    seed=attempt,
                    **self.sampling,
                )
            except StructuredAnswerInvalid:
                return Vote(False)
            claims, wrong = self.examined(answer.value, case)
            # A grave fault is not passed over for a slip in its quotation, whatever else the vote has shown.
            if not any(one.major for one in wrong) if claims else not wrong:
                return Vote(True, tuple(claims), len(wrong))
            if again and claims:
                return Vote(True, tuple(claims), len(wrong))
            if not again:
                quotes = "\n".join(f"- {one.why}" for one in wrong)
                conversation = [
                    *messages,
                    {"role": "assistant", "content": defuse(answer.answers[-1].text)},
                    *prompts.load(self.requote).render(quotes=quotes),
                ]
        return Vote(False, dropped=len(wrong))

    def _passes(self, vote: Vote) -> bool:
        return vote.majors == 0 and len(vote.claims) <= self.tolerated_minor

    def _verdict(self, votes: list[Vote]) -> Verdict:
        decided = [vote for vote in votes if vote.decided]
        if not decided:
            raise JudgeUndecided(f"none of {len(votes)} votes of the judge was usable")
        against = [vote for vote in decided if not self._passes(vote)]
        passed = 2 * len(against) < len(decided)
        relevant = decided if passed else against
        claims = _distinct(chain.from_iterable(vote.claims for vote in relevant))
        score = round(sum(1 / (1 + v.majors + (len(v.claims) - v.majors) / 4) for v in decided) / len(decided), 4)
        findings = tuple(map(self._finding, claims)) + _dropped(sum(vote.dropped for vote in votes))
        reason = "" if passed else next((c.kind for c in claims if c.major), claims[0].kind)
        minor = tuple(self._finding(claim) for claim in claims if not claim.major)
        return Verdict(self.check, passed, score, reason, findings, minor)

    def _finding(self, claim: Claim) -> Finding:
        weight = "" if claim.major else " (minor)"
        return Finding(claim.kind, f"{self.orders[claim.kind]}{weight}: {claim.claim}", claim.source, claim.rewrite)


def line(text: str, limit: int = 300) -> str:
    """One line of untrusted text, fit for a prompt."""
    return " ".join(defuse(text[: 2 * limit]).split())[:limit]


def block(text: str, label: str) -> str:
    """A fenced text and an empty line; nothing for an empty text."""
    return f"{fence(text, label)}\n\n" if text.strip() else ""


def _distinct(claims: Iterable[Claim]) -> list[Claim]:
    """Claims about different passages, major ones first."""
    seen: dict[tuple[str, str, str], Claim] = {}
    for claim in sorted(claims, key=lambda c: not c.major):
        seen.setdefault((claim.kind, plain(claim.source), plain(claim.rewrite)), claim)
    return list(seen.values())


def _dropped(count: int) -> tuple[Finding, ...]:
    if not count:
        return ()
    return (Finding(DROPPED, f"(Further claims, dropped because their quotations are not there: {count}.)"),)
