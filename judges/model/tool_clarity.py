"""A model judges whether a tool is clear enough to be called and simulated; every problem must quote the specification.

    verdict = await ToolClarity()(spec, ask)

Kimi K2 report, section 3.1.1: tools with clear interfaces, descriptions and operational semantics.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import orjson
from tokenmill.inference.call import Ask, Message
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.judges.model.faithfulness import JudgeUndecided
from tokenmill.judges.model.quotes import plain, stands_in
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.answer_schema import TEXT, choice, record
from tokenmill.schemas.tools import ToolSpec
from tokenmill.schemas.verdicts import Finding, Verdict

from tokenmill import prompts

CHECK = "tool_clarity"
KINDS = ("vague", "impossible", "inconsistent", "several_tools")
"""Reasons of a refusal."""

_MAX_PROBLEMS = 8
_PROBLEM = record(kind=choice(KINDS), quote=TEXT, why=TEXT, severity=choice(["minor", "major"]))
SCHEMA = record(problems={"type": "array", "maxItems": _MAX_PROBLEMS, "items": _PROBLEM})
"""What a judge answers."""


@dataclass(frozen=True)
class _Vote:
    problems: tuple[dict[str, str], ...]
    dropped: int

    @property
    def majors(self) -> int:
        return sum(problem["severity"] == "major" for problem in self.problems)


@dataclass(frozen=True)
class ToolClarity:
    """Refuses with `vague`, `impossible`, `inconsistent` or `several_tools`.

    A majority of the usable votes must pass the tool; a tie refuses it. A vote all of whose problems misquote the
    specification is not usable.
    """

    votes: int = 1
    tolerated_minor: int = 2
    """Minor problems in one vote with which it still passes the tool."""
    temperature: float | None = None
    """None: 0 for a single vote, 0.7 for several, which would otherwise all be the same."""
    max_tokens: int = 1000
    tries: int = 3
    """Answers asked for until one meets the schema."""
    seed: int = 0
    """Sampling seed of the first vote; each further vote has the next."""
    prompt: str = "judges/tool"
    """Name of the prompt, with the placeholder `tool`."""

    def __post_init__(self) -> None:
        if self.votes < 1 or self.votes % 2 == 0:
            raise ValueError(f"ToolClarity.votes must be odd, so that they cannot tie, not {self.votes}")
        if self.votes > 1 and self.temperature == 0:
            raise ValueError("ToolClarity.temperature must be above 0 for several votes, or they are all the same")
        if self.tolerated_minor < 0 or self.tries < 1 or self.max_tokens < 1:
            raise ValueError("ToolClarity needs tolerated_minor >= 0, tries >= 1 and max_tokens >= 1")

    async def __call__(self, spec: ToolSpec, ask: Ask) -> Verdict:
        """Judge one specification.

        Raises:
            JudgeUndecided: no vote was usable.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        text = present(spec)
        messages = prompts.load(self.prompt).render(tool=fence(text, "tool"))
        votes: list[_Vote] = []
        for attempt in range(self.votes):
            vote = await self._vote(attempt, messages, text, ask)
            if vote is not None:
                votes.append(vote)
            if self._decided(votes, self.votes - attempt - 1):
                break
        if not votes:
            raise JudgeUndecided(f"none of {self.votes} votes on the tool was usable")
        return self._verdict(votes)

    async def _vote(self, attempt: int, messages: list[Message], text: str, ask: Ask) -> _Vote | None:
        temperature = self.temperature if self.temperature is not None else (0.0 if self.votes == 1 else 0.7)
        sampling = {"seed": self.seed + attempt, "temperature": temperature, "max_tokens": self.max_tokens}
        try:
            answer = await ask_json(ask, messages, SCHEMA, to="judge", tries=self.tries, attempt=attempt, **sampling)
        except StructuredAnswerInvalid:
            return None
        problems = answer.value["problems"]
        shown = tuple(p for p in problems if plain(p["quote"]) and stands_in(p["quote"], text))
        if problems and not shown:
            return None
        return _Vote(shown, len(problems) - len(shown))

    def _passes(self, vote: _Vote) -> bool:
        return vote.majors == 0 and len(vote.problems) <= self.tolerated_minor

    def _decided(self, votes: list[_Vote], remaining: int) -> bool:
        """Whether the votes still to come cannot change the outcome."""
        passed = sum(map(self._passes, votes))
        against = len(votes) - passed
        return passed > against + remaining or against >= passed + remaining > 0

    def _verdict(self, votes: list[_Vote]) -> Verdict:
        against = [vote for vote in votes if not self._passes(vote)]
        passed = 2 * len(against) < len(votes)
        relevant = votes if passed else against
        problems = sorted(chain.from_iterable(v.problems for v in relevant), key=lambda p: p["severity"] != "major")
        distinct: dict[tuple[str, str], dict[str, str]] = {}
        for problem in problems:
            distinct.setdefault((problem["kind"], plain(problem["quote"])), problem)
        score = round(sum(1 / (1 + v.majors + (len(v.problems) - v.majors) / 4) for v in votes) / len(votes), 4)
        reason = "" if passed else problems[0]["kind"]
        return Verdict(CHECK, passed, score, reason, tuple(map(_finding, distinct.values())))


def present(spec: ToolSpec) -> str:
    """The specification as the judge reads it: everything that a simulator would have."""
    shown = {
        "name": spec.name,
        "description": spec.description,
        "arguments": orjson.loads(spec.input_schema),
        "result": spec.returns,
        "reads": spec.semantics.reads,
        "writes": spec.semantics.writes,
        "preconditions": spec.semantics.preconditions,
        "effects": spec.semantics.effects,
        "errors": spec.semantics.errors,
    }
    return orjson.dumps({k: v for k, v in shown.items() if v}, option=orjson.OPT_INDENT_2).decode()


def _finding(problem: dict[str, str]) -> Finding:
    why = " ".join(defuse(problem["why"]).split())[:300]
    weight = "" if problem["severity"] == "major" else " (minor)"
    return Finding(problem["kind"], f"{why}{weight}", defuse(problem["quote"])[:300])
