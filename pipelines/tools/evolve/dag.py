"""Synthetic tools, evolved through domains (Kimi K2 report, section 3.1.1 and figure 8a), in two stages of a run each:

categories | evolve domains | design entities               | data, rejected, failed
domains    | write tools    | one of each, named, judged    | data, rejected, failed
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import apache_beam as beam
from tokenmill.inference.call import Ask
from tokenmill.inference.errors import RowError
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.tools.curate.dag import CurateTools
from tokenmill.pipelines.tools.curation import Curation
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Paired, Rejected, Rollout, Several
from tokenmill.pipelines.transforms.sources import RowUnreadable
from tokenmill.schemas.agentic import Domain, RefusedDomain
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.tools import RefusedTool, ToolSpec
from tokenmill.tools_repo.evolution.categories import Category
from tokenmill.tools_repo.evolution.domains import Evolution
from tokenmill.tools_repo.evolution.siblings import Siblings
from tokenmill.tools_repo.evolution.writing import GAVE_UP, Missing, ToolWriting
from tokenmill.tools_repo.world.design import PROMPTS as DESIGN_PROMPTS
from tokenmill.tools_repo.world.design import DesignFailed, design_entities

from tokenmill import prompts

NO_ENTITIES = "no_entities"
"""Why a domain is refused for which no valid entity model came."""
BARREN = 4
"""Domains of a category in a row that came to nothing, after which no more is spent on it."""

T = TypeVar("T", bound=Domain)


@dataclass(frozen=True)
class CategoryParser:
    """Reads a list of categories."""

    row_type: ClassVar[type] = Category
    columns: ClassVar[None] = None
    required: ClassVar[tuple[str, ...]] = ("name", "description", "examples")

    def __call__(self, values: dict[str, Any], file: str, row: int) -> Category:
        """Raises: RowUnreadable."""
        try:
            return Category.of(values)
        except ValueError as error:
            raise RowUnreadable("invalid_category", str(error), str(values)[:500]) from None


@dataclass(frozen=True)
class EvolveDomains:
    """The rollout of one category: its domains, one after another, each seeing those before it."""

    domains: int
    evolution: Evolution = field(default_factory=Evolution)

    row_type: ClassVar[type] = Domain
    rejected_type: ClassVar[type] = RefusedDomain

    def __post_init__(self) -> None:
        if self.domains < 1:
            raise ValueError(f"EvolveDomains.domains must be at least 1, not {self.domains}")

    async def __call__(self, category: Category, ask: Ask) -> Several:
        siblings = Siblings(self.evolution.distinct)
        made: list[Domain] = []
        outcomes: list[Accepted | Rejected | FailedRow] = []
        barren = 0
        for number in range(self.domains):
            if barren >= BARREN:
                outcomes.append(self._lost(category, number, GAVE_UP, f"the {BARREN} domains before it were none"))
                continue
            meter = Meter(ask)
            try:
                domain = _billed(await self.evolution.domain(category, number, made, siblings, meter), meter)
            except RowError as error:
                outcomes.append(self._lost(category, number, type(error).__name__, _line(error)))
                barren += 1
                continue
            if isinstance(domain, RefusedDomain):
                outcomes.append(Rejected(domain, domain.reason))
                barren += 1
            else:
                outcomes.append(Accepted(domain))
                made.append(domain)
                barren = 0
        return Several(outcomes)

    def failed(self, category: Category, error: str, message: str) -> FailedRow:
        return failed_row(category.id, "domain", error, message, category.description)

    def _lost(self, category: Category, number: int, error: str, message: str) -> FailedRow:
        return replace(self.failed(category, error, message), id=f"{category.id}#{number}")


@dataclass(frozen=True)
class DesignDomain:
    """The rollout of one domain: its kinds of entity and a sample state."""

    tries: int = 3
    temperature: float | None = 0.7
    max_tokens: int = 5000
    """Of an answer: a small model that finds no end is stopped."""

    row_type: ClassVar[type] = Domain
    rejected_type: ClassVar[type] = RefusedDomain

    async def __call__(self, domain: Domain, ask: Ask) -> Accepted | Rejected:
        meter = Meter(ask)
        used = [*domain.prompts, *(prompts.load(name).id for name in DESIGN_PROMPTS)]
        domain = replace(domain, prompts=list(dict.fromkeys(used)))
        try:
            designed = await design_entities(
                meter,
                title=domain.name,
                description=domain.description,
                tries=self.tries,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
            )
        except DesignFailed as failed:
            values = vars(_billed(domain, meter))
            return Rejected(RefusedDomain(**values, reason=NO_ENTITIES, detail=_line(failed)[:600]), NO_ENTITIES)
        made = replace(domain, entities=designed.entities, state=designed.state)
        return Accepted(_billed(made, meter))

    def failed(self, domain: Domain, error: str, message: str) -> FailedRow:
        return failed_row(domain.id, "entities", error, message, domain.description, source_id=domain.category)


@dataclass(frozen=True)
class WriteTools:
    """The rollout of one domain: its tools, a few at a time, each seeing those before it."""

    tools: int
    writing: ToolWriting = field(default_factory=ToolWriting)

    row_type: ClassVar[type] = ToolSpec
    rejected_type: ClassVar[type] = RefusedTool

    def __post_init__(self) -> None:
        if self.tools < 1:
            raise ValueError(f"WriteTools.tools must be at least 1, not {self.tools}")

    async def __call__(self, domain: Domain, ask: Ask) -> Several:
        outcomes: list[Accepted | Rejected | FailedRow] = []
        async for made in self.writing.tools(domain, self.tools, ask):
            if isinstance(made, Missing):
                lost = self.failed(domain, made.error, made.message)
                outcomes.append(replace(lost, id=f"{domain.id}#{made.slot.number}"))
            elif isinstance(made, RefusedTool):
                outcomes.append(Rejected(made, made.reason))
            else:
                outcomes.append(Accepted(made))
        return Several(outcomes)

    def failed(self, domain: Domain, error: str, message: str) -> FailedRow:
        return failed_row(domain.id, "tools", error, message, domain.description)


@dataclass(frozen=True)
class EvolveTools:
    """All of it for the first domain of a category, for a preview: the same calls as the stages make."""

    domains: EvolveDomains
    design: DesignDomain
    tools: WriteTools

    async def __call__(self, category: Category, ask: Ask) -> Several:
        first = await replace(self.domains, domains=1)(category, ask)
        outcomes: list[Accepted | Rejected | FailedRow | Paired] = []
        for outcome in first.outcomes:
            if isinstance(outcome, Accepted):
                outcome = await self.design(outcome.row, ask)
            outcomes.append(outcome)
            if isinstance(outcome, Accepted):
                outcomes += (await self.tools(outcome.row, ask)).outcomes
        return Several(outcomes)


def build_domains(step: EvolveDomains, design: DesignDomain, flow: Flow) -> None:
    """The first stage."""
    categories, unreadable = flow.read()
    evolved = categories | "Spread" >> beam.Reshuffle() | "Evolve domains" >> Rollout(step, flow.models)
    designed = (
        evolved[DATA]
        | "Spread domains" >> beam.Reshuffle()
        | "Design entities" >> Rollout(design, flow.models, follows="design")
    )
    refused, failed = [evolved[REJECTED], designed[REJECTED]], [unreadable, evolved[FAILED], designed[FAILED]]
    flow.write(Domain, RefusedDomain, designed[DATA], refused, failed)


def build_tools(step: WriteTools, chosen: Curation, seed: int, flow: Flow) -> None:
    """The second stage."""
    domains, unreadable = flow.read()
    written = domains | "Spread" >> beam.Reshuffle() | "Write tools" >> Rollout(step, flow.models)
    curated = written[DATA] | "Curate" >> CurateTools(flow.models, chosen.judge, seed, likeness=chosen.likeness)
    refused, failed = [written[REJECTED], curated[REJECTED]], [unreadable, written[FAILED], curated[FAILED]]
    flow.write(ToolSpec, RefusedTool, curated[DATA], refused, failed)


def _billed(domain: T, meter: Meter) -> T:
    """The domain with what it cost now added to what it has cost before."""
    return replace(
        domain,
        prompt_tokens=domain.prompt_tokens + meter.usage.prompt,
        completion_tokens=domain.completion_tokens + meter.usage.completion,
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:2000]
