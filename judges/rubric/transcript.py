"""A trajectory as a judge reads it, and the passages that it quotes.

    [4] assistant
    | I will look that up.
    | calls get_order {"order_id": "A-17"}

Every line of content is marked, so that nothing in a message can pass for another message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tokenmill.judges.model.quotes import stands_in
from tokenmill.schemas.agentic import ChatMessage, Quote

_MAX_MESSAGE = 6_000
_MAX_TRANSCRIPT = 60_000
_MIN_MESSAGE = 400
_CUT = " […] "
_NEWLINE = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Everything that some reader takes for the end of a line."""
_ELLIPSIS = re.compile(r"\.{3,}|…|\[\s*\.{2,}\s*\]|\[…\]")
_WORD = re.compile(r"[^\W_]+")
_MAX_QUOTE = 2_000


def text_of(message: ChatMessage) -> str:
    """What a message says, its calls included."""
    calls = [f"calls {call.function.name} {call.function.arguments}" for call in message.tool_calls or ()]
    return "\n".join([*([message.content] if message.content else []), *calls])


def transcript(messages: Sequence[ChatMessage]) -> str:
    """All messages, numbered from 0; long ones are cut in their middle."""
    limit = _MAX_MESSAGE
    while limit > _MIN_MESSAGE and sum(min(len(text_of(m)), limit) for m in messages) > _MAX_TRANSCRIPT:
        limit //= 2
    return "\n\n".join(_shown(index, message, limit) for index, message in enumerate(messages))


def _shown(index: int, message: ChatMessage, limit: int) -> str:
    text = text_of(message)
    if len(text) > limit:
        text = text[: limit // 2] + _CUT + text[-limit // 2 :]
    name = f" {_label(message.name)}" if message.role == "tool" and message.name else ""
    content = "\n".join(f"| {line}" for line in _NEWLINE.split(text))
    return f"[{index}] {message.role}{name}\n{content}"


def _label(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)[:64]


def found(messages: Sequence[ChatMessage], message: int, quote: str) -> list[Quote]:
    """The quotation as it stands, verbatim, in the message named; empty when it does not stand there.

    Case and punctuation may differ from what the judge wrote; around an ellipsis every part must stand, in order.
    """
    if not 0 <= message < len(messages) or len(quote) > _MAX_QUOTE:
        return []
    text = text_of(messages[message])
    if not stands_in(quote, text):
        return []
    quotes, position = [], 0
    for part in _ELLIPSIS.split(quote):
        words = _WORD.findall(part)
        if not words:
            continue
        passage = re.compile(r"[\W_]*".join(map(re.escape, words)), re.IGNORECASE).search(text, position)
        if passage is None:
            return []
        quotes.append(Quote(message=message, text=passage[0]))
        position = passage.end()
    return quotes
