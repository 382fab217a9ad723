"""A structured answer that must also pass a check; what the check finds is fed back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tokenmill.inference.call import Ask, Message
from tokenmill.inference.errors import AnswerInvalid
from tokenmill.inference.structured import StructuredAnswerInvalid, ask_json, variation
from tokenmill.prompts.fence import defuse

from tokenmill import prompts

T = TypeVar("T")

_MAX_ECHO = 12_000
_MAX_FINDING = 1_500
REPAIR = "structured/repair"


class CheckFailed(AnswerInvalid):
    """No answer passed."""


async def ask_checked(
    ask: Ask,
    messages: list[Message],
    schema: dict[str, Any],
    check: Callable[[Any], T],
    *,
    to: str,
    tries: int = 3,
    **params: Any,
) -> T:
    """What `check` makes, without raising ValueError, of a value that meets `schema`.

    The text of that error goes back to the model together with its answer. Only the latest answer is shown again.

    Raises:
        CheckFailed: none did in `tries` tries.
        tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
    """
    if tries < 1:
        raise ValueError(f"tries must be at least 1, not {tries}")
    calls, conversation, varied = 0, list(messages), params
    refused: list[str] = []
    while True:
        try:
            said = await ask_json(ask, conversation, schema, to=to, tries=tries - calls, **varied)
        except StructuredAnswerInvalid as invalid:
            raise CheckFailed(str(invalid)) from None
        calls += len(said.answers)
        try:
            return check(said.value)
        except ValueError as found:
            fault = str(found)[:_MAX_FINDING]
        if calls >= tries:
            raise CheckFailed(f"no valid answer in {tries} tries; the last one: {fault}")
        varied = variation(params, refused.count(said.answers[-1].text))
        refused.append(said.answers[-1].text)
        echo = {"role": "assistant", "content": defuse(said.answers[-1].text[:_MAX_ECHO])}
        conversation = [*messages, echo, *prompts.load(REPAIR).render(error=defuse(fault))]
