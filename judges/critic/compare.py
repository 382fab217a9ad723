"""Two answers compared by a model, in both orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tokenmill.inference.call import Ask
from tokenmill.inference.gather import together
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json
from tokenmill.judges.critic.rubrics import Rubric
from tokenmill.prompts.fence import fence
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, array, choice, record

from tokenmill import prompts

PROMPT = "critic/compare"
REPAIR = "structured/repair"
FIRST, SECOND, SAME = "first", "second", "same"
_TURNED = {FIRST: SECOND, SECOND: FIRST, SAME: SAME}
_MANDATORY = (
    'The rubrics marked "must" hold for each answer by itself: say of each of them whether the first answer meets it, and '
    "whether the second does."
)


@dataclass(frozen=True)
class Opinion:
    """What one comparison says, about the answers in the order in which the caller gave them."""

    better: str
    """`first`, `second` or `same`."""
    broken: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    """Mandatory rubrics that the first and the second answer break."""
    why: str = ""


@dataclass(frozen=True)
class Comparison:
    """Both orders together."""

    better: str
    """The answer that both orders prefer; `same` where they disagree or one of them sees no difference."""
    opinions: tuple[Opinion, ...]

    @property
    def flipped(self) -> bool:
        """Whether the verdict turned round with the order: the critic preferred a place and not an answer."""
        verdicts = {opinion.better for opinion in self.opinions}
        return {FIRST, SECOND} <= verdicts


@dataclass(frozen=True)
class Compare:
    """Compares two answers to a prompt by rubrics."""

    rubrics: tuple[Rubric, ...]
    max_tokens: int = 1000
    tries: int = 3
    seed: int = 0
    params: dict[str, Any] = field(default_factory=lambda: {"temperature": 0.0})

    async def __call__(self, prompt: str, first: str, second: str, ask: Ask) -> Comparison:
        """
        Raises:
            StructuredAnswerInvalid: no answer of the critic can be used, in either order.
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        """
        opinions = await together([self._once(prompt, first, second, ask), self._once(prompt, second, first, ask)])
        usable = [one for one in (opinions[0], _turned(opinions[1])) if one is not None]
        if not usable:
            raise StructuredAnswerInvalid("the critic gave no usable comparison, in either order")
        verdicts = {opinion.better for opinion in usable}
        agreed = usable[0].better if len(usable) == 2 and len(verdicts) == 1 else SAME
        return Comparison(agreed, tuple(usable))

    async def _once(self, prompt: str, first: str, second: str, ask: Ask) -> Opinion | None:
        must = [rubric for rubric in self.rubrics if rubric.mandatory]
        messages = prompts.load(PROMPT).render(
            rubrics="\n".join(f"- {r.name}{' (must)' if r.mandatory else ''}: {r.text}" for r in self.rubrics),
            mandatory=_MANDATORY if must else "",
            prompt=fence(prompt, "request"),
            first=fence(first, "first"),
            second=fence(second, "second"),
        )
        params = {**self.params, "max_tokens": self.max_tokens, "seed": self.seed}
        try:
            answer = await ask_json(ask, messages, self.schema, to="judge", tries=self.tries, **params)
        except StructuredAnswerInvalid:
            return None
        said = answer.value
        first_broken = {one["rubric"] for one in said.get("musts", ()) if not one["first_meets"]}
        second_broken = {one["rubric"] for one in said.get("musts", ()) if not one["second_meets"]}
        return Opinion(said["better"], (frozenset(first_broken), frozenset(second_broken)), said["why"])

    @property
    def schema(self) -> dict[str, Any]:
        """What a comparison answers: verdicts by rubric before the whole, so that it rests on them."""
        weighed = [rubric.name for rubric in self.rubrics if not rubric.mandatory]
        must = [rubric.name for rubric in self.rubrics if rubric.mandatory]
        side = choice((FIRST, SECOND, SAME))
        parts: dict[str, Any] = {}
        if weighed:
            parts["rubrics"] = array(record(rubric=choice(weighed), better=side), len(weighed), len(weighed))
        if must:
            met = record(rubric=choice(must), first_meets=BOOLEAN, second_meets=BOOLEAN)
            parts["musts"] = array(met, len(must), len(must))
        return record(**parts, why=TEXT, better=side)


def _turned(opinion: Opinion | None) -> Opinion | None:
    if opinion is None:
        return None
    return Opinion(_TURNED[opinion.better], (opinion.broken[1], opinion.broken[0]), opinion.why)
