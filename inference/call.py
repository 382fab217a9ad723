"""One model call and its answer: the content address that makes a call payable once, and the raw body kept for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

import orjson
from tokenmill.inference.thinking import thinking_in, without_thinking

Message = dict[str, Any]
"""One chat message as the OpenAI protocol has it: `{"role": ..., "content": ...}` and for tools their fields."""


_PIECE = 2000

_CUT = ("length", "content_filter")
"""Reasons to finish for which an answer may have no text."""
_THOUGHT = ("reasoning_content", "reasoning")
"""Fields in which servers give a model's thinking."""


class MalformedAnswer(ValueError):
    """The endpoint answered 200 with something that is no chat completion."""


@dataclass(frozen=True)
class Call:
    """A chat-completion request. Its content address does not depend on where the endpoint is."""

    model: str
    messages: tuple[Message, ...]
    params: dict[str, Any] = field(default_factory=dict)
    """Sampling parameters as on the wire: `temperature`, `top_p`, `max_tokens`, `seed`, `stop`, ..."""
    schema: dict[str, Any] | None = None
    """JSON Schema for a structured answer (`response_format` json_schema), or None for text."""
    tools: tuple[dict[str, Any], ...] | None = None
    attempt: int = 0
    """Distinguishes deliberate repetitions of the same request (votes, samples)."""

    @cached_property
    def body(self) -> bytes:
        """The JSON request body, deterministic.

        Keys are sorted, but for those of a schema and of tools: models write fields in the order in which they are declared,
        and reasoning must come before the answer that rests on it.
        """
        body: dict[str, Any] = {"model": self.model, "messages": list(self.messages), **self.params}
        if self.schema is not None:
            schema = orjson.dumps(self.schema)
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": _closed(schema), "schema": orjson.Fragment(schema)},
            }
        if self.tools:
            body["tools"] = _as_given(self.tools)
        return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)

    @property
    def limit(self) -> int:
        """Tokens that the answer may have."""
        return int(self.params.get("max_tokens") or self.params.get("max_completion_tokens") or 4096)

    @cached_property
    def address(self) -> str:
        """SHA-256 over the body and the attempt number, in hex."""
        return sha256(b"%d\n" % self.attempt, self.body).hex()


def sha256(*parts: bytes) -> bytes:
    """The digest of the parts as one text."""
    sha = hashlib.sha256()
    # In pieces below 2 KB hashlib keeps the interpreter lock; giving it up for 10 us costs far more beside busy threads.
    for part in parts:
        for start in range(0, len(part), _PIECE):
            sha.update(part[start : start + _PIECE])
    return sha.digest()


@lru_cache(maxsize=256)
def _closed(schema: bytes) -> bool:
    """Whether the schema may be asked for strictly: OpenAI takes only objects that name all their properties, all required."""
    pending = [orjson.loads(schema)]
    while pending:
        part = pending.pop()
        if not isinstance(part, dict) or part.keys() & _LOOSE or not part.keys() & _SHAPING:
            return False
        properties = part.get("properties", {})
        named = part.get("additionalProperties") is False and set(properties) == set(part.get("required", ()))
        if part.get("type") == "object" and not named:
            return False
        pending += [*properties.values(), *part.get("$defs", {}).values(), *part.get("anyOf", ())]
        pending += [part["items"]] if "items" in part else []
    return True


_SHAPING = frozenset(["type", "enum", "const", "anyOf", "$ref"])
"""Without any of these a schema takes anything at all."""
_LOOSE = frozenset(["oneOf", "allOf", "not", "if", "patternProperties", "dependentRequired", "prefixItems"])
"""Keywords that strict answers do not know."""


def _as_given(value: Any) -> orjson.Fragment:
    return orjson.Fragment(orjson.dumps(value))


@dataclass(frozen=True)
class Usage:
    """Tokens as the endpoint billed them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    """Prompt tokens that the endpoint served from its own prefix cache (part of `prompt`)."""

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion, self.cached + other.cached)


def read_usage(body: dict[str, Any]) -> Usage:
    """What a response body says it cost; nothing where it does not say, or says what cannot be."""
    counted = body.get("usage")
    if not isinstance(counted, dict):
        return Usage()
    details = counted.get("prompt_tokens_details")
    return Usage(
        tokens(counted.get("prompt_tokens")),
        tokens(counted.get("completion_tokens")),
        tokens(details.get("cached_tokens")) if isinstance(details, dict) else 0,
    )


def tokens(value: Any) -> int:
    """A number of tokens as an endpoint gives it; 0 for what can be none."""
    try:
        count = int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return count if 0 < count < _MOST_TOKENS else 0


_MOST_TOKENS = 1 << 40

_TOKEN_BYTES = 3
"""Bytes for which a token is counted where an endpoint does not say what it billed. English has about four, Chinese
three: a budget is to be kept, so rather too many tokens than too few."""


def _estimated(usage: Usage, call: Call, message: dict[str, Any]) -> Usage:
    """`usage` with what the endpoint left out made up for; never more than the answer's limit."""
    said = len(orjson.dumps(message)) // _TOKEN_BYTES
    prompt = usage.prompt or len(call.body) // _TOKEN_BYTES
    return Usage(prompt, usage.completion or min(said, call.limit), usage.cached)


@dataclass(frozen=True)
class Answer:
    """A parsed chat completion; `raw` is the paid body itself, kept so that a better parser never pays again."""

    text: str
    """Without the model's thinking, where its server left it in."""
    finish_reason: str
    usage: Usage
    model: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    reasoning: str = ""
    """What the model gives of its thinking: in a field of its own, or before its text."""
    raw: bytes = b""
    from_cache: bool = False
    estimated: bool = False
    """Whether `usage` is an estimate, because the endpoint does not report it."""

    @classmethod
    def parse(cls, raw: bytes, *, call: Call | None = None, from_cache: bool = False) -> Answer:
        """Read a response body.

        An answer may be without text: the model spent its limit before it came to any, or was silenced, and it would be
        billed for that again. Where it refuses in a field of its own, that is the text.

        Args:
            call: what was asked, from which the usage is estimated where the body does not give it.

        Raises:
            MalformedAnswer: not JSON, an error in place of an answer, no choice, or a choice with neither text nor tool
                calls nor a reason to have none.
        """
        try:
            body = orjson.loads(raw)
            choices = body.get("choices")
            problem = choices[0].get("error") if choices else body.get("error")
            if problem:
                raise MalformedAnswer(f"the endpoint says: {_words(problem)}")
            choice = body["choices"][0]
            message = choice["message"]
            text = _text(message.get("content")) or message.get("refusal") or ""
            tool_calls = tuple(message.get("tool_calls") or ())
            thought = next((said for name in _THOUGHT if isinstance(said := message.get(name), str) and said), "")
            usage = read_usage(body)
            finish_reason = choice.get("finish_reason") or ""
            model = body.get("model") or ""
        except MalformedAnswer:
            raise
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise MalformedAnswer(f"{type(error).__name__} in a body of {len(raw)} bytes") from error
        for what, value in (("text", text), ("reason to finish", finish_reason), ("model's name", model)):
            if not isinstance(value, str):
                raise MalformedAnswer(f"the answer's {what} is no text")
        if not all(isinstance(one, dict) for one in tool_calls):
            raise MalformedAnswer("one of the answer's tool calls is no object")
        # Servers in trouble also say `stop` to nothing at all; a model that stops has written at least its end.
        if not (text.strip() or tool_calls or finish_reason in _CUT or (finish_reason == "stop" and usage.completion)):
            raise MalformedAnswer("the answer has neither text nor tool calls")
        estimated = call is not None and not (usage.prompt and (usage.completion or not (text or tool_calls)))
        if call is not None and estimated:
            usage = _estimated(usage, call, message)
        reasoning = thought or thinking_in(text)
        text = without_thinking(text)
        return cls(text, finish_reason, usage, model, tool_calls, reasoning, raw, from_cache, estimated)


def _text(content: Any) -> Any:
    """The text of a message's content, which some servers send in parts."""
    if not isinstance(content, list):
        return content
    return "".join(part["text"] for part in content if part.get("type") == "text")


def _words(error: Any) -> str:
    """What an endpoint says in an `error` field, on one line."""
    said = error.get("message") if isinstance(error, dict) else error
    return " ".join(str(said or error).split())[:300]


class Ask(Protocol):
    """What a rollout gets to talk to models with: one call, paid for once."""

    async def __call__(
        self,
        messages: list[Message],
        *,
        to: str = "writer",
        schema: dict[str, Any] | None = None,
        tools: list[dict[str, Any]] | None = None,
        attempt: int = 0,
        **params: Any,
    ) -> Answer:
        """Send `messages` to the model that plays the role `to` (`writer`, `judge`, `user`, `tools`).

        Raises:
            tokenmill.inference.errors.CallRefused: the endpoint will never answer this request (HTTP 400, 413, 422,
                and 403 or 404 where it answers others).
        """
        ...
