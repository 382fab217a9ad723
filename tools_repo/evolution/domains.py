"""One more domain of a category: a move is drawn, a model makes it, and it must differ from every sibling.

domain = await Evolution(seed=1).domain(category, number, made, siblings, ask)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from tokenmill.inference.call import Ask
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.prompts.fence import CONTROL_TOKEN, defuse, fence
from tokenmill.schemas.agentic import Domain, RefusedDomain
from tokenmill.schemas.answer_schema import TEXT, record
from tokenmill.schemas.draws import digest
from tokenmill.tools_repo.evolution.categories import MARK, Category, flat, plain, slug
from tokenmill.tools_repo.evolution.operators import Move, Operators
from tokenmill.tools_repo.evolution.siblings import Distinct, Siblings

from tokenmill import prompts

REPAIR = "structured/repair"
NAME_UNFIT, DESCRIPTION_UNFIT = "name_unfit", "description_unfit"
"""Why a domain is refused, beside the reasons of `siblings`."""

SCHEMA = record(description=TEXT, name=TEXT)
"""What a model answers."""

_NAME = re.compile(r"\w[\w &'’(),.+-]{1,69}")
_SHORTEST, _LONGEST = 40, 2_000
"""Characters of a description."""
_MAX_ECHO = 4_000


@dataclass(frozen=True)
class Evolution:
    """How domains are evolved; picklable configuration."""

    seed: int = 0
    model: str = ""
    """Name of the model, as rows carry it."""
    operators: Operators = field(default_factory=Operators)
    distinct: Distinct = field(default_factory=Distinct)
    repairs: int = 2
    """Further answers asked for after one that is unfit."""
    temperature: float | None = 0.9
    top_p: float | None = 0.95
    max_tokens: int = 700

    def __post_init__(self) -> None:
        if self.repairs < 0:
            raise ValueError(f"Evolution.repairs must be 0 or more, not {self.repairs}")

    def messages(self, category: Category, move: Move, siblings: Siblings, number: int) -> list[dict[str, str]]:
        """The request for domain `number`."""
        towards = " ".join([move.aspect, move.shown])
        values = {
            "category": fence(f"{category.name}: {category.description}", "field"),
            "parents": fence(move.shown, "parents"),
            "siblings": fence(siblings.view(towards, self.seed, category.id, number, "siblings"), "domains"),
            "aspect": move.aspect,
        }
        prompt = move.prompt
        return prompt.render(**{name: values[name] for name in prompt.meta["placeholders"]})

    async def domain(
        self, category: Category, number: int, made: Sequence[Domain], siblings: Siblings, ask: Ask
    ) -> Domain | RefusedDomain:
        """Domain `number` of a category, counted from 0. `siblings` are `made`; a kept domain is added to them.

        Raises:
            StructuredAnswerInvalid: no answer could be read.
            tokenmill.inference.errors.RowError: the endpoint did not answer this.
        """
        move = self.operators.draw(category, number, made, self.seed)
        messages = self.messages(category, move, siblings, number)
        sampling = {
            "seed": digest(self.seed, category.id, number, "domain") >> 33,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }
        conversation, left = messages, self.repairs + 1
        refused: RefusedDomain | None = None
        while True:
            try:
                said = await ask_json(ask, conversation, SCHEMA, to="writer", tries=left, **sampling)
            except StructuredAnswerInvalid:
                if refused is None:
                    raise
                return refused
            left -= len(said.answers)
            domain = await self._read(category, move, number, said.value, siblings)
            if not isinstance(domain, RefusedDomain):
                return domain
            refused = domain
            if left < 1:
                return refused
            echo = {"role": "assistant", "content": defuse(said.answers[-1].text[:_MAX_ECHO])}
            conversation = [*messages, echo, *prompts.load(REPAIR).render(error=defuse(refused.detail))]

    async def _read(
        self, category: Category, move: Move, number: int, answer: dict[str, str], siblings: Siblings
    ) -> Domain | RefusedDomain:
        """The domain of an answer, which joins the siblings; or what is wrong with it."""
        name, description = plain(answer["name"]), flat(answer["description"])
        path = [*(move.path or [category.name]), name[:80]]
        domain = Domain(
            id="/".join(map(slug, path)),
            category=category.name,
            path=path,
            name=name[:80],
            description=description[:_LONGEST],
            operator=move.operator,
            parents=[parent.id for parent in move.parents],
            model=self.model,
            prompts=[move.prompt.id, prompts.load(REPAIR).id],
            seed=self.seed,
        )
        unfit = {**asdict(domain), "id": f"{domain.id}#{number}"}
        if fault := _fault(category, name, description):
            return RefusedDomain(**unfit, reason=fault[0], detail=fault[1])
        new = await siblings.describe(domain.id, name, description)
        if repeated := siblings.repetition(new):
            return RefusedDomain(
                **unfit,
                reason=repeated.reason,
                detail=f"{repeated.detail}; give a domain of other things, users or work",
                duplicate_of=repeated.of.id,
                score=repeated.similarity,
            )
        siblings.add(new)
        return domain


def _fault(category: Category, name: str, description: str) -> tuple[str, str] | None:
    """(reason, what is wrong) with an answer on its own."""
    if not _NAME.fullmatch(name) or not re.search(r"[^\W\d_]{2}", name):
        return NAME_UNFIT, "the name must be 2 to 6 plain words, at most 70 characters"
    if slug(name) == category.id:
        return NAME_UNFIT, "the name is that of the whole field; name one domain in it"
    if not _SHORTEST <= len(description) <= _LONGEST:
        return DESCRIPTION_UNFIT, f"the description has {len(description)} characters; write 2 to 4 sentences"
    if mark := MARK.search(f"{name} {description}"):
        return NAME_UNFIT, f'"{mark[0]}" only marks where a text begins and ends; leave it out'
    if token := CONTROL_TOKEN.search(f"{name} {description}"):
        return DESCRIPTION_UNFIT, f"leave out {defuse(token[0])}"
    return None
