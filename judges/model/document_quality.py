"""A model says how much can be learnt from a document, from 0 to 5."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenmill.inference.call import Ask, Message
from tokenmill.inference.structured import ask_json
from tokenmill.prompts.fence import fence
from tokenmill.schemas.answer_schema import TEXT, record

from tokenmill import prompts

BEST = 5
SCHEMA = record(why=TEXT, score={"type": "integer", "minimum": 0, "maximum": BEST})


@dataclass(frozen=True)
class DocumentQuality:
    """Asks for a score and what decides it."""

    characters: int = 6000
    """Beginning of a document that is shown."""
    max_tokens: int = 300
    seed: int = 0
    prompt: str = "judges/document"

    def messages(self, text: str) -> list[Message]:
        """What the model is asked."""
        return list(prompts.load(self.prompt).render(text=fence(text[: self.characters], "document")))

    async def __call__(self, text: str, ask: Ask) -> tuple[int, str]:
        """(score, why).

        Raises:
            tokenmill.inference.errors.RowError: the model cannot be brought to answer.
        """
        sampling: dict[str, Any] = {"seed": self.seed, "temperature": 0.0, "max_tokens": self.max_tokens}
        answer = await ask_json(ask, self.messages(text), SCHEMA, to="writer", **sampling)
        return answer.value["score"], " ".join(answer.value["why"].split())[:300]
