"""From our calls to what a provider reads, and back. A call's content address and what the cache holds stay in OpenAI's
form, so that they mean the same whoever answers; only the bytes on the wire differ."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

import orjson
from tokenmill.inference.anthropic import Anthropic
from tokenmill.inference.in_words import in_words
from tokenmill.inference.providers import PROVIDERS, Provider


class Codec(Protocol):
    """A wire format. The default is OpenAI's own, which changes nothing."""

    path: str
    """Of the route that answers, below the base URL."""
    headers: Mapping[str, str]
    """What every request has beside the key."""
    key_header: str
    """Header that carries the key, bare; `Authorization` for after `Bearer`."""

    def encode(self, body: bytes) -> bytes: ...

    def decode(self, body: bytes) -> bytes: ...


class Plain:
    """OpenAI's chat completions."""

    path = "/chat/completions"
    headers: Mapping[str, str] = MappingProxyType({})
    key_header = "Authorization"

    def encode(self, body: bytes) -> bytes:
        return body

    def decode(self, body: bytes) -> bytes:
        return body


class Adapted(Plain):
    """Chat completions with a provider's differences."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.key_header = provider.header

    def encode(self, body: bytes) -> bytes:
        provider, told = self._provider, orjson.loads(body)
        told = {provider.names.get(name, name): value for name, value in told.items() if name not in provider.unknown}
        form = told.get("response_format")
        if form is not None and provider.schemas != "json_schema":
            told["messages"] = in_words(told["messages"], form["json_schema"]["schema"])
            del told["response_format"]
            if provider.schemas == "json_object":
                told["response_format"] = {"type": "json_object"}
        return orjson.dumps(told)


def codec_of(provider: str) -> Codec:
    """How to speak with a provider, by its name; empty for whoever speaks OpenAI's protocol as it is."""
    if not provider:
        return Plain()
    if PROVIDERS[provider].wire == "anthropic":
        return Anthropic()
    return Adapted(PROVIDERS[provider])
