"""Structured answers: asked for with a JSON Schema, read leniently, validated strictly, asked for again on failure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from jsonschema import ValidationError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from tokenmill.inference.call import Answer, Ask, Message
from tokenmill.inference.errors import AnswerInvalid
from tokenmill.prompts.fence import defuse
from tokenmill.schemas.json_schema import validator_for

from tokenmill import prompts

_FENCED = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_MAX_STARTS = 32  # opening brackets tried in an answer that wraps its JSON in prose: keeps hostile answers linear
_MAX_ECHO = 4_000  # characters of a faulty answer shown to the model again
_MAX_ERROR = 300


_STRIDE = 1_000
"""Between the attempt numbers of variations: callers count their own attempts in ones."""


class Structured(NamedTuple):
    """A validated value and all answers that it took, faulty ones first."""

    value: Any
    answers: list[Answer]


class StructuredAnswerInvalid(AnswerInvalid):
    """No answer met the schema."""


async def ask_json(
    ask: Ask,
    messages: list[Message],
    schema: dict[str, Any],
    *,
    to: str,
    tries: int = 3,
    **params: Any,
) -> Structured:
    """Ask for a value that meets `schema`; after a faulty answer ask again with that answer and its error appended.

    Only the latest faulty answer is shown again, so prompts do not grow with the number of tries. `params` go to `ask`
    unchanged (`attempt`, `temperature`, ...).

    Raises:
        StructuredAnswerInvalid: no valid answer in `tries` tries.
        tokenmill.inference.errors.CallRefused: the endpoint will never answer this.
        ValueError: `tries` below 1, or `schema` itself is no valid JSON Schema.
    """
    if tries < 1:
        raise ValueError(f"tries must be at least 1, not {tries}")
    validator = _validator(orjson.dumps(schema))
    answers: list[Answer] = []
    conversation, varied = list(messages), params
    while True:
        answer = await ask(conversation, to=to, schema=schema, **varied)
        answers.append(answer)
        try:
            return Structured(_read(answer, validator), answers)
        except ValueError as fault:
            error = str(fault)
        if len(answers) >= tries:
            raise StructuredAnswerInvalid(f"no valid JSON answer in {tries} tries; the last one: {error}")
        varied = variation(params, sum(earlier.text == answer.text for earlier in answers[:-1]))
        conversation = [
            *messages,
            {"role": "assistant", "content": echo(answer.text[:_MAX_ECHO])},
            *prompts.load("structured/repair").render(error=error),
        ]


def echo(text: str) -> str:
    """A model's answer as it is shown to it again. Many endpoints refuse a message without text."""
    return defuse(text) if text.strip() else "(no text)"


def variation(params: dict[str, Any], number: int) -> dict[str, Any]:
    """`params` for asking in the same words for the `number`th time more, when a model has repeated a faulty answer: with
    another attempt the cache, and with another seed the server, will not give that answer again."""
    if not number:
        return params
    varied = {**params, "attempt": params.get("attempt", 0) + _STRIDE * number}
    if varied.get("seed") is not None:
        varied["seed"] += number
    return varied


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Validator:
    parsed = orjson.loads(schema)
    kind = validator_for(parsed)
    try:
        kind.check_schema(parsed)
    except Exception as error:
        raise ValueError(f"not a valid JSON Schema: {getattr(error, 'message', error)}") from error
    return kind(parsed)


def _read(answer: Answer, validator: Validator) -> Any:
    """The first value in the answer that meets the schema; ValueError says what is wrong with the best candidate."""
    if answer.finish_reason == "length":
        raise ValueError(f"it was cut off by the token limit after {len(answer.text)} characters, answer more briefly")
    error = "it contains no JSON"
    for value in candidates(answer.text):
        fault = best_match(validator.iter_errors(value))
        if fault is None:
            return value
        if error == "it contains no JSON":
            error = _line(fault)
    raise ValueError(error)


def _line(fault: ValidationError) -> str:
    where = "/".join(str(step) for step in fault.absolute_path) or "the value"
    return f"{where}: {fault.message}".replace("\n", " ")[:_MAX_ERROR]


def candidates(text: str) -> Iterator[Any]:
    """JSON values in a model's answer, likeliest first: all of it, fenced blocks, then what starts at a bracket."""
    text = text.strip()
    try:
        yield orjson.loads(text)
        return
    except orjson.JSONDecodeError:
        pass
    for block in _FENCED.finditer(text):
        try:
            yield orjson.loads(block[1])
        except orjson.JSONDecodeError:
            continue
    position = 0
    for _ in range(_MAX_STARTS):
        start = _OPENING.search(text, position)
        if start is None:
            return
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position = start.end()
            continue
        yield value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
