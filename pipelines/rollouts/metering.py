"""What one row costs, over all roles: an `ask` that adds up what goes through it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tokenmill.inference.call import Answer, Ask, Message, Usage

from tokenmill import prompts


@dataclass
class Meter:
    """Passes calls on and counts them. Answers from the cache count as they were billed once, so that a row says the same
    whether it was resumed or not."""

    ask: Ask
    usage: Usage = field(default_factory=Usage)
    calls: int = 0

    async def __call__(self, messages: list[Message], **kwargs: Any) -> Answer:
        answer = await self.ask(messages, **kwargs)
        self.usage += answer.usage
        self.calls += 1
        return answer

    def provenance(self, model: str, used: Iterable[str], seed: int) -> dict[str, Any]:
        """The columns that say how a row was written: by which model, with which prompts (their names), for how much."""
        return {
            "model": model,
            "prompts": sorted({prompts.load(name).id for name in used}),
            "seed": seed,
            "prompt_tokens": self.usage.prompt,
            "completion_tokens": self.usage.completion,
        }
