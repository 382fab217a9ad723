"""A model judges what code cannot decide: each verdict rests on quotations that really stand in the trajectory.

    verdicts = await RubricJudge(votes=3)(criteria, evidence, ask)

Kimi K2 report, section 3.1.1: an LLM judge evaluates each trajectory against the task's rubric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenmill.inference.call import Ask, Message
from tokenmill.inference.gather import together
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.judges.model.voting import JudgeUndecided, line
from tokenmill.judges.rubric.criteria import AnswerSpec, parse
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.judges.rubric.transcript import found, transcript
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.agentic import Criterion, CriterionVerdict, Quote
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record

from tokenmill import prompts

Rules = Mapping[str, str]
"""What an agent must keep to whatever its task, by name."""

CLAIMS = "claims"
"""Name under which the verdict on unsupported claims stands."""
JUDGE = "judge"
PROMPT = "judges/rubric"
_ASKED, _CLAIMS_ONLY, _REQUOTE = "judges/rubric_asked", "judges/rubric_claims_only", "judges/rubric_requote"
_MAX_CLAIMS, _MAX_QUOTES = 8, 6


@dataclass(frozen=True)
class _Held:
    """What one vote holds of one criterion, its quotations verified."""

    met: bool
    why: str
    quotes: tuple[Quote, ...]


@dataclass(frozen=True)
class _Vote:
    held: dict[str, _Held] = field(default_factory=dict)
    """By criterion or rule; those whose quotations are not there are left out."""
    claims: tuple[_Held, ...] | None = None
    """Unsupported claims; None when the vote said nothing usable of them."""

    def passes(self, name: str) -> bool | None:
        """Whether the vote is for a criterion or rule, or for the absence of claims; None: it did not decide."""
        if name == CLAIMS:
            return None if self.claims is None else not self.claims
        return self.held[name].met if name in self.held else None


@dataclass(frozen=True)
class RubricJudge:
    """Votes on criteria and on claims without support; a majority of the votes that decided must be for, a tie is against.

    A vote with a quotation that is not in the message named is asked once more; what is then still misquoted does not
    count. Votes that cannot change any outcome are not asked for.
    """

    votes: int = 1
    claims: bool = True
    """Whether claims are judged also when code has decided every criterion."""
    temperature: float | None = None
    """None: 0 for a single vote, 0.7 for several, which would otherwise all be the same."""
    max_tokens: int = 2000
    tries: int = 3
    """Answers asked for until one meets the schema."""

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError(f"RubricJudge.votes must be odd, so that they cannot tie, not {self.votes}")
        if self.votes > 1 and self.temperature == 0:
            raise ValueError("RubricJudge.temperature must be above 0 for several votes, or they are all the same")
        if self.tries < 1 or self.max_tokens < 1:
            raise ValueError("RubricJudge needs tries >= 1 and max_tokens >= 1")

    async def __call__(
        self, criteria: Sequence[Criterion], evidence: Evidence, ask: Ask, *, rules: Rules | None = None
    ) -> list[CriterionVerdict]:
        """A verdict on each of the criteria, then the one on claims, then one on each of the rules.

        Raises:
            JudgeUndecided: no vote was usable for one of them.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        rules = rules or {}
        asked = [criterion.id for criterion in criteria]
        names = (*asked, CLAIMS, *rules)
        messages = _render(criteria, evidence, rules)
        schema = answer_schema(asked, tuple(rules))
        enough = self.votes // 2 + 1
        votes = await self._ask(range(enough), messages, schema, evidence, ask)
        if enough < self.votes and not all(_settled(votes, name) for name in names):
            votes += await self._ask(range(enough, self.votes), messages, schema, evidence, ask)
        return [_verdict(name, votes, broken="rule_broken" if name in rules else "not_met") for name in names]

    async def _ask(self, attempts: range, *case: Any) -> list[_Vote]:
        return await together(self._vote(attempt, *case) for attempt in attempts)

    async def _vote(
        self, attempt: int, messages: list[Message], schema: dict[str, Any], evidence: Evidence, ask: Ask
    ) -> _Vote:
        temperature = self.temperature if self.temperature is not None else (0.0 if self.votes == 1 else 0.7)
        sampling = {"seed": attempt, "temperature": temperature, "max_tokens": self.max_tokens}
        conversation, vote = messages, _Vote()
        for again in (False, True):
            try:
                answer = await ask_json(
                    ask, conversation, schema, to="judge", tries=self.tries, attempt=attempt, **sampling
                )
            except StructuredAnswerInvalid:
                break
            read, wrong = _read(answer.value, evidence)
            # What the first answer showed stands; the second one mends what it did not.
            vote = _Vote({**read.held, **vote.held}, read.claims if vote.claims is None else vote.claims)
            if not wrong or again:
                break
            quotes = "\n".join(f"- {quote}" for quote in wrong)
            conversation = [
                *messages,
                {"role": "assistant", "content": defuse(answer.answers[-1].text)},
                *prompts.load(_REQUOTE).render(quotes=quotes),
            ]
        return vote


def answer_schema(names: Sequence[str], rules: Sequence[str] = ()) -> dict[str, Any]:
    """What a vote answers: a verdict on each criterion and rule named, and the claims without support."""
    number = {"type": "integer", "minimum": 0}
    quote = record(message=number, text=TEXT)
    verdict = record(
        criterion=choice(names) if names else TEXT,
        quotes=array(quote, _MAX_QUOTES),
        why=TEXT,
        met=BOOLEAN,
    )
    where = {"type": "integer", "minimum": -1}
    rule = record(rule=choice(rules) if rules else TEXT, message=where, quote=TEXT, why=TEXT, kept=BOOLEAN)
    claim = record(message=number, quote=TEXT, why=TEXT)
    return record(
        verdicts=array(verdict, len(names), len(names)),
        rules=array(rule, len(rules), len(rules)),
        claims=array(claim, _MAX_CLAIMS),
    )


def _render(criteria: Sequence[Criterion], evidence: Evidence, rules: Rules) -> list[Message]:
    asked = prompts.load(_ASKED if criteria else _CLAIMS_ONLY).text
    listed = "\n".join(f"{line(criterion.id)}: {line(_question(criterion), 1200)}" for criterion in criteria)
    names = dict.fromkeys(call.tool for call in evidence.calls if call.tool in evidence.specs)
    called = "\n".join(f"{line(name)}: {line(evidence.specs[name].description, 600)}" for name in names)
    kept = "\n".join(f"{line(name)}: {line(rule, 1200)}" for name, rule in rules.items())
    return prompts.load(PROMPT).render(
        rules=fence(kept, "rules") if kept else "",
        criteria=fence(listed, "criteria") if listed else "",
        tools=fence(called, "tools") if called else "",
        transcript=fence(transcript(evidence.messages), "transcript"),
        asked=asked,
    )


def _question(criterion: Criterion) -> str:
    spec = parse(criterion)
    asked = spec.judged if isinstance(spec, AnswerSpec) else ""
    return asked if criterion.description.strip() in asked else f"{criterion.description} {asked}".strip()


def _read(value: dict[str, Any], evidence: Evidence) -> tuple[_Vote, list[str]]:
    """A vote with its quotations verified, and a line on each that is not there or lacks where it is needed."""
    held: dict[str, _Held] = {}
    claims: list[_Held] = []
    wrong: list[str] = []
    for verdict in value["verdicts"]:
        quotes, misquoted = _quotes([(q["message"], q["text"]) for q in verdict["quotes"]], evidence)
        by_agent = any(evidence.messages[quote.message].role == "assistant" for quote in quotes)
        if misquoted or (verdict["met"] and not by_agent):
            wrong += misquoted or [f"{line(verdict['criterion'])}: met, but no passage of the assistant is quoted"]
        else:
            held.setdefault(verdict["criterion"], _Held(verdict["met"], line(verdict["why"]), quotes))
    for rule in value["rules"]:
        where = [] if rule["kept"] else [(rule["message"], rule["quote"])]
        quotes, misquoted = _quotes(where, evidence)
        if misquoted or any(evidence.messages[quote.message].role != "assistant" for quote in quotes):
            wrong += misquoted or [f"[{rule['message']}] is no message of the assistant"]
        else:
            held.setdefault(rule["rule"], _Held(rule["kept"], line(rule["why"]), quotes))
    misquoted_claims = 0
    for claim in value["claims"]:
        quotes, misquoted = _quotes([(claim["message"], claim["quote"])], evidence)
        if quotes and evidence.messages[claim["message"]].role == "assistant":
            claims.append(_Held(False, line(claim["why"]), quotes))
        else:
            misquoted_claims += 1
            wrong += misquoted or [f"[{claim['message']}] is no message of the assistant"]
    usable = None if misquoted_claims and not claims else tuple(claims)
    return _Vote(held, usable), wrong


def _quotes(listed: list[tuple[int, str]], evidence: Evidence) -> tuple[tuple[Quote, ...], list[str]]:
    quotes: list[Quote] = []
    wrong: list[str] = []
    for message, text in listed:
        here = found(evidence.messages, message, text)
        quotes += here
        if not here:
            wrong.append(f'not in message {message}: "{line(text)}"')
    return tuple(quotes), wrong


def _settled(votes: list[_Vote], name: str) -> bool:
    """Whether the votes of the majority asked first agree, so that the others cannot change the outcome."""
    said = {vote.passes(name) for vote in votes}
    return len(said) == 1 and None not in said


def _verdict(name: str, votes: list[_Vote], broken: str) -> CriterionVerdict:
    decided = [vote for vote in votes if vote.passes(name) is not None]
    if not decided:
        raise JudgeUndecided(f"none of {len(votes)} votes of the judge was usable for {line(name, 60)!r}")
    share = sum(bool(vote.passes(name)) for vote in decided) / len(decided)
    passed = share > 0.5
    agreeing = next(vote for vote in decided if bool(vote.passes(name)) == passed)
    said = agreeing.held[name] if name != CLAIMS else next(iter(agreeing.claims or ()), _Held(True, "", ()))
    return CriterionVerdict(
        criterion=name,
        passed=passed,
        score=round(share, 4),
        decided_by=JUDGE,
        reason="" if passed else ("unsupported_claim" if name == CLAIMS else broken),
        detail=said.why,
        quotes=list(said.quotes),
    )
