"""The tools of one domain, written a few at a time: each call sees what is there already, and each tool must differ.

    async for outcome in ToolWriting(seed=1).tools(domain, 20, ask): ...

A slot says what a tool is to do (one of the six actions, in a drawn order, so that together they cover all) and which
feature of a schema it may show. What is wrong with a draft goes back to the model; only that draft is written again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tokenmill.inference.call import Answer, Ask
from tokenmill.inference.errors import RowError
from tokenmill.inference.structured import candidates
from tokenmill.prompts.fence import defuse, fence
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.draws import digest, pick, shuffled
from tokenmill.schemas.tools import RefusedTool, ToolSpec, dump, refuse
from tokenmill.tools_repo.evolution.drafts import ACTIONS, Draft, batch_schema, read_draft
from tokenmill.tools_repo.evolution.outline import outline
from tokenmill.tools_repo.evolution.siblings import first_line, view
from tokenmill.tools_repo.specs.likeness import Fingerprint, Likeness
from tokenmill.tools_repo.specs.words import split, stem
from tokenmill.tools_repo.world.entities import EntityModel

from tokenmill import prompts

TOOLS, AGAIN = "evolve/tools", "evolve/tools_again"
PROMPTS = (TOOLS, AGAIN)

SAME_NAME, NEAR_DUPLICATE, WRONG_ACTION = "same_name", "near_duplicate", "wrong_action"
"""Reasons of a refusal, beside those of `drafts`."""
NO_ANSWER, GAVE_UP = "no_answer", "gave_up"
"""Why a slot has no tool at all, not even a refused one."""

BARREN = 10
"""Slots in a row of which nothing could be taken, after which no more is spent on a domain."""
_MAX_FINDING = 500
_MAX_ECHO = 20_000


@dataclass(frozen=True)
class Slot:
    """One tool to be written."""

    number: int
    action: str
    feature: str

    def line(self, place: int) -> str:
        meta = prompts.load(TOOLS).meta
        return f"{place}. {meta['actions'][self.action]}. Where it fits: {self.feature}."


@dataclass(frozen=True)
class Missing:
    """A slot for which nothing came."""

    slot: Slot
    error: str
    message: str


@dataclass
class _Made:
    """The tools of a domain so far."""

    shown: list[tuple[str, str]]
    prints: list[Fingerprint]
    names: dict[tuple[str, ...], str]


@dataclass(frozen=True)
class ToolWriting:
    """How tools are written; picklable configuration."""

    seed: int = 0
    per_call: int = 5
    """Tools asked for in one call."""
    repairs: int = 2
    """Further calls for what is wrong with an answer."""
    likeness: Likeness | None = field(default_factory=Likeness)
    """Which tools are one; None compares names only."""
    temperature: float | None = 0.8
    top_p: float | None = 0.95
    tokens_per_tool: int = 1200
    """Limit of an answer."""

    def __post_init__(self) -> None:
        if self.per_call < 1 or self.repairs < 0 or self.tokens_per_tool < 1:
            raise ValueError("ToolWriting needs per_call >= 1, repairs >= 0 and tokens_per_tool >= 1")

    def slots(self, domain_id: str, count: int) -> list[Slot]:
        """What the tools of a domain are to do; the first n of more are the same."""
        features = prompts.load(TOOLS).meta["features"]
        slots = []
        for number in range(count):
            turn, place = divmod(number, len(ACTIONS))
            action = shuffled(ACTIONS, self.seed, domain_id, turn, "actions")[place]
            slots.append(Slot(number, action, pick(features, self.seed, domain_id, number, "feature")))
        return slots

    def messages(
        self, domain: Domain, model: EntityModel, made: Sequence[tuple[str, str]], slots: Sequence[Slot]
    ) -> list[dict[str, str]]:
        """The request for some slots."""
        towards = " ".join(slot.action for slot in slots)
        return prompts.load(TOOLS).render(
            domain=fence(f"{' / '.join(domain.path)}\n{domain.description}", "application"),
            entities=fence(outline(model), "entities"),
            siblings=fence(view(made, towards, self.seed, domain.id, slots[0].number, "siblings"), "tools"),
            wanted=wanted(slots),
        )

    async def tools(self, domain: Domain, count: int, ask: Ask) -> AsyncIterator[ToolSpec | RefusedTool | Missing]:
        """What comes of `count` slots, one outcome each.

        Raises:
            ValueError: the domain's entity model cannot be read.
        """
        model = EntityModel.parse(domain.entities)
        made = _Made([], [], {})
        slots = self.slots(domain.id, count)
        barren = 0
        for start in range(0, count, self.per_call):
            batch = slots[start : start + self.per_call]
            if barren >= BARREN:
                for slot in batch:
                    yield Missing(slot, GAVE_UP, f"nothing could be taken of the {barren} before it")
                continue
            outcomes = await self._batch(domain, model, made, batch, ask)
            barren = 0 if any(type(outcome) is ToolSpec for outcome in outcomes) else barren + len(batch)
            for outcome in outcomes:
                yield outcome

    async def _batch(
        self, domain: Domain, model: EntityModel, made: _Made, slots: Sequence[Slot], ask: Ask
    ) -> list[ToolSpec | RefusedTool | Missing]:
        messages = conversation = self.messages(domain, model, made.shown, slots)
        outcomes: dict[int, ToolSpec | RefusedTool | Missing] = {}
        left = list(slots)
        for attempt in range(self.repairs + 1):
            sampling: dict[str, Any] = {
                "seed": digest(self.seed, domain.id, slots[0].number, attempt, "tools") >> 33,
                "temperature": self.temperature,
                "top_p": self.top_p,
                "max_tokens": self.tokens_per_tool * len(left) + 200,
            }
            try:
                answer = await ask(conversation, to="writer", schema=batch_schema(), **sampling)
            except RowError as error:
                kind, message = type(error).__name__, " ".join(str(error).split())[:1000]
                for slot in left:
                    outcomes.setdefault(slot.number, Missing(slot, kind, message))
                break
            drafts, fault = read_answer(answer)
            findings, refused, kept = [fault] if fault else [], [], []
            still = []
            for slot, value in _matched(left, drafts):
                if value is None:
                    outcomes.setdefault(slot.number, Missing(slot, NO_ANSWER, fault or "the answer has no such tool"))
                    still.append(slot)
                    continue
                outcome = await self._judged(slot, read_draft(value, domain, model), made)
                outcomes[slot.number] = outcome
                if isinstance(outcome, RefusedTool):
                    still.append(slot)
                    refused.append(value)
                    findings.append(f"{outcome.name[:64]}: {outcome.detail}")
                else:
                    kept.append(outcome.name)
            left = still
            if not left:
                break
            conversation = [*messages, *_again(refused, kept, findings, left)]
        return [outcomes[slot.number] for slot in slots]

    async def _judged(self, slot: Slot, draft: Draft, made: _Made) -> ToolSpec | RefusedTool:
        """The tool, which joins those made; or what is wrong with it."""
        spec = draft.spec
        if draft.reason:
            return refuse(_numbered(spec, slot), draft.reason, draft.detail)
        if draft.action != slot.action:
            return refuse(
                _numbered(spec, slot), WRONG_ACTION, f'its action is "{draft.action}", asked for is "{slot.action}"'
            )
        key = tuple(stem(word) for word in split(spec.name))
        if key in made.names:
            detail = "there is a tool of this name already; write another tool, not another name"
            return refuse(_numbered(spec, slot), SAME_NAME, detail, duplicate_of=made.names[key], score=1.0)
        if self.likeness is not None:
            (new,) = await self.likeness.fingerprints([spec])
            score, of = max(((self.likeness.score(new, old), old.id) for old in made.prints), default=(0.0, ""))
            if score > 0:
                detail = f"it does what {of.rpartition('/')[2]} does (similarity {score:.2f}); write another tool"
                return refuse(_numbered(spec, slot), NEAR_DUPLICATE, detail, duplicate_of=of, score=score)
            made.prints.append(new)
        made.names[key] = spec.id
        made.shown.append((spec.name, first_line(spec.description)))
        return spec


def wanted(slots: Sequence[Slot]) -> str:
    """The slots as a numbered list."""
    return "\n".join(slot.line(place) for place, slot in enumerate(slots, start=1))


def read_answer(answer: Answer) -> tuple[list[Any], str]:
    """(drafts, what is wrong with the answer as a whole)."""
    if answer.finish_reason == "length":
        return [], "the answer was cut off by the token limit; write more briefly"
    for value in candidates(answer.text):
        if isinstance(value, dict) and isinstance(value.get("tools"), list):
            return value["tools"], ""
    return [], 'the answer is no JSON with the list "tools"'


def _matched(slots: Sequence[Slot], drafts: Sequence[Any]) -> list[tuple[Slot, Any]]:
    """Each slot with a draft of its action, in order; what is left over with the slots that are left over."""
    spare = list(drafts)
    found: dict[int, Any] = {}
    for slot in slots:
        at = next((i for i, d in enumerate(spare) if isinstance(d, dict) and d.get("action") == slot.action), None)
        if at is not None:
            found[slot.number] = spare.pop(at)
    for slot in slots:
        if slot.number not in found and spare:
            found[slot.number] = spare.pop(0)
    return [(slot, found.get(slot.number)) for slot in slots]


def _again(refused: list[Any], kept: list[str], findings: list[str], left: Sequence[Slot]) -> list[dict[str, str]]:
    """The refused drafts as what the model said, and what is wrong with them: kept ones are not paid for again."""
    echo = dump({"tools": refused})[:_MAX_ECHO]
    told = "\n".join(f"- {finding[:_MAX_FINDING]}" for finding in findings) or "- there are too few"
    asked = prompts.load(AGAIN).render(
        kept=", ".join(kept) or "none", findings=fence(told, "findings"), wanted=wanted(left)
    )
    return [{"role": "assistant", "content": defuse(echo)}, *asked]


def _numbered(spec: ToolSpec, slot: Slot) -> ToolSpec:
    """A refused draft under an id of its own: another tool may be kept under its name."""
    return replace(spec, id=f"{spec.id}#{slot.number}")
