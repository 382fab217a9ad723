"""Operators by which one domain comes from another, and how they and their parents are drawn.

An operator is a prompt, `prompts/evolve/OPERATOR.md`; its front matter may list `aspects`, one of which is drawn. Every
draw depends on the seed, the category and the number of the domain, never on how many are asked for: asking for more
domains leaves the first ones as they are. Candidates are drawn by rendezvous hashing, so that one more candidate
changes few draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.draws import digest, uniform
from tokenmill.tools_repo.evolution.categories import Category, slug

from tokenmill import prompts

SEED, DEEPEN, SPECIALISE, COMBINE, TRANSFER, CONSTRAIN = (
    "seed", "deepen", "specialise", "combine", "transfer", "constrain",
)  # fmt: skip
OPERATORS = (SEED, DEEPEN, SPECIALISE, COMBINE, TRANSFER, CONSTRAIN)
BELOW = (DEEPEN, SPECIALISE, CONSTRAIN)
"""Operators whose result stands below its parent in the path of domains."""
PROMPTS = tuple(f"evolve/{operator}" for operator in OPERATORS)

FIRST_SEEDS = 3
"""Domains of a category that are seeds before any operator is drawn."""
MAX_DEPTH = 4
"""Names in a path, the category included."""
_WEIGHTS = {SEED: 1.0, DEEPEN: 2.0, SPECIALISE: 2.0, COMBINE: 2.0, TRANSFER: 2.0, CONSTRAIN: 1.0}

T = TypeVar("T", bound="Domain | Example")


@dataclass(frozen=True)
class Example:
    """An application named in the list of categories."""

    category: str
    name: str

    @property
    def id(self) -> str:
        return f"{slug(self.category)}/{slug(self.name)}"

    @property
    def text(self) -> str:
        return f"{self.name} (field: {self.category})"


@dataclass(frozen=True)
class Move:
    """One step of evolution, drawn."""

    operator: str
    parents: tuple[Domain | Example, ...]
    aspect: str = ""

    @property
    def prompt(self) -> prompts.Prompt:
        return prompts.load(f"evolve/{self.operator}")

    @property
    def path(self) -> list[str]:
        """Path of the parent that the result stands below; empty where it stands right below the category."""
        first = self.parents[0]
        return first.path if self.operator in BELOW and isinstance(first, Domain) else []

    @property
    def shown(self) -> str:
        """The parents, as the prompt shows them."""
        return "\n".join(
            p.text if isinstance(p, Example) else f"{' / '.join(p.path[1:])}: {p.description}" for p in self.parents
        )


@dataclass(frozen=True)
class Operators:
    """Draws moves; picklable configuration."""

    elsewhere: tuple[Example, ...] = ()
    """Applications of all categories: parents of what is transferred or combined, without waiting for another category."""
    weights: dict[str, float] = field(default_factory=lambda: dict(_WEIGHTS))

    def __post_init__(self) -> None:
        if wrong := set(self.weights) - set(OPERATORS):
            raise ValueError(f"Operators.weights: there is no operator {sorted(wrong)[0]!r}")
        if any(weight < 0 for weight in self.weights.values()):
            raise ValueError("Operators.weights are not negative")

    def draw(self, category: Category, number: int, made: Sequence[Domain], seed: int) -> Move:
        """The move for domain `number` of a category, counted from 0, when `made` have been kept so far."""
        where = (seed, category.id, number)
        examples = [Example(category.name, name) for name in category.examples]
        if number < min(FIRST_SEEDS, len(examples)):
            return _move(SEED, (examples[number],), where)
        foreign = [example for example in self.elsewhere if example.category != category.name]
        high = [domain for domain in made if len(domain.path) < MAX_DEPTH]
        possible = {
            SEED: True,
            **dict.fromkeys(BELOW, bool(high)),
            COMBINE: bool(made) and bool(foreign or len(made) > 1),
            TRANSFER: bool(foreign),
        }
        operator = _weighted({name: w for name, w in self.weights.items() if possible[name]}, where) or SEED
        if operator in BELOW:
            return _move(operator, (_rendezvous(high, *where, "parent"),), where)
        if operator == TRANSFER:
            return _move(operator, (_rendezvous(foreign, *where, "parent"),), where)
        if operator == COMBINE:
            first = _rendezvous(made, *where, "parent")
            others = [domain for domain in made if domain.id != first.id]
            inside = others and (not foreign or uniform(*where, "inside") < 0.5)
            further: Sequence[Domain | Example] = others if inside else foreign
            return _move(operator, (first, _rendezvous(further, *where, "other parent")), where)
        return _move(SEED, (_rendezvous(examples, *where, "parent"),), where)


def _move(operator: str, parents: tuple[Domain | Example, ...], where: Sequence[object]) -> Move:
    aspects = prompts.load(f"evolve/{operator}").meta.get("aspects") or []
    aspect = max(aspects, key=lambda aspect: digest(*where, "aspect", str(aspect)), default="")
    return Move(operator, parents, aspect)


def _weighted(weights: dict[str, float], where: Sequence[object]) -> str:
    """A name drawn by weight; empty when all weights are 0."""
    at = uniform(*where, "operator") * sum(weights.values())
    for name, weight in weights.items():
        at -= weight
        if at < 0:
            return name
    return ""


def _rendezvous(options: Sequence[T], *where: object) -> T:
    return max(options, key=lambda option: digest(*where, option.id))
