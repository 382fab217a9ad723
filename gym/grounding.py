"""Faithfulness: questions about a document, paid for only where every sentence of the answer rests on it.

The judge is that of the project's own rewrites (`judges/model/grounding.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from random import Random
from typing import Any

import orjson
from tokenmill.gym.environment import Drawn, Generated, part
from tokenmill.gym.puzzles.words import ADJECTIVES, CITIES, NAMES, PRODUCTS
from tokenmill.inference.call import Ask
from tokenmill.judges.model.grounding import Grounding, Sentence
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask, RewardPart

MOST_WORDS = 70
"""Words of an answer: a copy of the document is none."""


class Grounded(Generated):
    """A report on a drawn business; the answer must give what is asked, and nothing that the report does not say."""

    name = "grounding"
    budget = 1024
    topics = ("grounding",)
    judged = True

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        owner, other = random.sample(NAMES, 2)
        city, elsewhere = random.sample(CITIES, 2)
        goods, more = random.sample(PRODUCTS, 2)
        year, sold, staff = random.randint(1951, 2014), random.randint(1_200, 9_800), random.randint(12, 94)
        before, share = sold - random.randint(105, 990), random.randint(11, 48)
        document = (
            f"{owner} founded the workshop in {city} in {year}. It makes {goods} and, since a fire in the old hall, also {more}. "
            f"Last year it sold {sold} {goods}, after {before} the year before. {share} % of them went to shops in {elsewhere}. "
            f"The workshop employs {staff} people, most of them from the {random.choice(ADJECTIVES)} quarter by the harbour. "
            f"{other}, who leads the sales, expects more orders from abroad but would not name a figure. "
            f"A second hall was discussed by the council and put off. Deliveries leave on two days of the week."
        )
        asked = [
            (
                "who founded the workshop and in which year",
                [owner, str(year)],
                f"{owner} founded the workshop in {year}.",
            ),
            (f"how many {goods} it sold last year", [str(sold)], f"Last year it sold {sold} {goods}."),
            (
                f"what share of them went to {elsewhere}",
                [str(share)],
                f"{share} % of them went to shops in {elsewhere}.",
            ),
            ("how many people it employs", [str(staff)], f"It employs {staff} people."),
        ]
        chosen = random.sample(asked, 3)
        prompt = (
            f"{document}\n\nFrom this report alone, say in at most {MOST_WORDS} words {chosen[0][0]}, {chosen[1][0]}, and "
            f"{chosen[2][0]}. Say nothing that the report does not say."
        )
        needed = [fact for _, facts, _ in chosen for fact in facts]
        data = {
            "document": document,
            "needed": needed,
            "names": [owner, other],
        }
        return Drawn(prompt, " ".join(text for *_, text in chosen), data)

    def fault(self, data: dict[str, Any], text: str) -> str:
        """What code alone finds wrong with what was asked for."""
        plain = re.sub(r"(?<=\d)[,\u202f\u00a0\u2009](?=\d{3}(?!\d))", "", text)
        lacking = [fact for fact in data["needed"] if not re.search(rf"(?<![\w.,]){re.escape(fact)}(?![\w])", plain)]
        if lacking:
            return f"does not give {', '.join(lacking)}"
        count = len(text.split())
        return f"has {count} words, at most {MOST_WORDS} are asked for" if count > MOST_WORDS else ""

    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        """A part for what was asked, and one for each sentence."""
        data = orjson.loads(task.data)
        if fault := self.fault(data, text):
            return (part("asked for", False, fault),)
        sentences = await self._judge(data["document"], text, ask)
        return (part("asked for", True, "all is given"), *(_part(n, one) for n, one in enumerate(sentences, 1)))

    def wrong(self, task: GymTask) -> list[str]:
        """Numbers and names that are not the report's, or not in their place, and sentences that it does not have."""
        data, right = orjson.loads(task.data), task.reference
        stranger = next(name for name in NAMES if name not in data["names"])
        made = [
            f"{right} {one}"
            for one in (
                f"{stranger} works there as well.",
                "It was founded with money from a bank that has since closed.",
                "The council approved the second hall.",
                "Sales abroad will double.",
                "It exports to 17 countries.",
            )
        ]
        made += [right.replace(fact, str(int(fact) + 3) if fact.isdigit() else stranger) for fact in data["needed"]]
        return [*made, data["document"]]

    @cached_property
    def prompts(self) -> tuple[str, ...]:  # type: ignore[override]  # known once the judge is
        return self._judge.judge.prompt_names

    @cached_property
    def _judge(self) -> Grounding:
        return Grounding()


def _part(number: int, sentence: Sentence) -> RewardPart:
    evidence = f"{sentence.fault}: {sentence.text}" if sentence.fault else sentence.text
    return part(f"sentence {number}", sentence.supported, evidence, sentence.decided_by)
