"""JSON Schemas that strangers wrote: RE2 reads their patterns, in time linear in the text, so that none can hang a worker.

    validator_for(schema)(schema).iter_errors(value)

A pattern beyond RE2 (look-around, a repetition of more than 1,000, ...) is asked of no value: backtracking over it could take
for ever. `\\w`, `\\d` and `\\s` are ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import re2
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.protocols import Validator

MAX_PATTERN, MAX_TEXT = 1_000, 100_000
"""Characters of a pattern that is read, and of a text that is looked at."""
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)
_MORE_THAN_RE2 = ("pattern is longer", "perl operator", "escape sequence", "repetition size", "too large")
"""What RE2 says of patterns that other matchers may know."""


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """The pattern as RE2 has it.

    Raises:
        ValueError: RE2 does not read it; one line says why.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern is longer than {MAX_PATTERN:,} characters")
    try:
        return re2.compile(
            _ESCAPE.sub(lambda escape: f"\\x{{{escape[1]}}}" if escape[1] else escape[0], pattern), _OPTIONS
        )
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else error
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise ValueError(f"no regular expression that RE2 reads: {said[:200]}") from None


def broken(pattern: str) -> str:
    """Why a pattern is none in any syntax; empty where it is one, be it beyond RE2."""
    try:
        compiled(pattern)
    except ValueError as error:
        return "" if any(words in str(error) for words in _MORE_THAN_RE2) else str(error)
    return ""


def found(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text. One that RE2 does not read is asked of none."""
    try:
        expression = compiled(pattern)
    except ValueError:
        return True
    try:
        return expression.search(text[:MAX_TEXT]) is not None
    except UnicodeEncodeError:  # half a surrogate pair
        return expression.search(text[:MAX_TEXT].encode("utf-8", "replace").decode()) is not None


def validator_for(schema: Any, default: type[Validator] = Draft202012Validator) -> type[Validator]:
    """As `jsonschema.validators.validator_for`, of validators whose patterns RE2 reads. It is the schema's own draft."""
    return linear(validators.validator_for(schema, default=default))


@cache
def linear(kind: type[Validator]) -> type[Validator]:
    """A validator class whose patterns RE2 reads. Where a schema has `patternProperties`, it must be without
    `unevaluatedProperties`: see `unbounded`."""
    others = kind.VALIDATORS.get("additionalProperties")
    keywords = {"pattern": _pattern, "patternProperties": _pattern_properties}
    if others is not None:
        keywords["additionalProperties"] = lambda *given: _additional_properties(others, *given)
    return validators.extend(kind, keywords)


def unbounded(subschemas: list[dict[str, Any]]) -> bool:
    """Whether a validator would match the patterns of these schemas, all of one document, by its own slow means."""
    return all(any(word in sub for sub in subschemas) for word in ("patternProperties", "unevaluatedProperties"))


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not found(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for pattern, part in patterns.items() if validator.is_type(value, "object") else ():
        for key, inner in value.items():
            if found(pattern, key):
                yield from validator.descend(inner, part, path=key, schema_path=pattern)


def _additional_properties(
    others: Any, validator: Any, rule: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    """What the library does for schemas without patterns, for the properties that no pattern names."""
    patterns = schema.get("patternProperties")
    if patterns and validator.is_type(value, "object"):
        value = {key: inner for key, inner in value.items() if not any(found(pattern, key) for pattern in patterns)}
        schema = {word: part for word, part in schema.items() if word != "patternProperties"}
    yield from others(validator, rule, value, schema)
