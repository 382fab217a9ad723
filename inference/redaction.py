"""Keep this process's own secrets out of whatever it writes or prints, whoever repeats them to it.

An endpoint knows the key that it is sent and may repeat it: in a refusal, in an answer, in a redirection. What comes in passes
`redacted` where it is received (`inference.transport`), and what goes out where it is written: rows (`transforms.sinks`),
pages and manifest (`runs.finish`), lines of the terminal and of logs (`runs.terminal`).
"""

from __future__ import annotations

import base64
import contextlib
import html
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO, overload
from urllib.parse import quote, unquote

import orjson

MASK = "***"
SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|access[_-]?key|key|token|secret|passwd|password|credentials?|authorization|auth|cookie)$",
    re.IGNORECASE,
)
"""Names of settings and of environment variables whose values are secrets."""

_SHORTEST, _LONG = 8, 16
_USERINFO = re.compile(r"\w+://([^/\s@\"',]+)@")

_known: set[str] = set()
_texts: tuple[str, ...] = ()
_bytes: tuple[bytes, ...] = ()
_learnt = False


def learn(*values: str) -> None:
    """Count values among the secrets, and those that the environment holds now. Of a URL its password is
    one, or the user where there is none; what is no secret is passed over (see `secret`)."""
    global _texts, _bytes, _learnt
    _learnt = True
    found = {value for name, value in os.environ.items() if SECRET_NAME.search(name) and not _is_path(value)}
    for value in (*values, *os.environ.values()):
        for userinfo in _USERINFO.findall(value):
            found.add(unquote(userinfo.partition(":")[2] or userinfo))
    found |= {value for value in values if "://" not in value}
    new = {value for value in found if secret(value)} - _known
    if new:
        _known.update(new)
        forms = {form for value in _known for form in _forms(value)}
        # The longest first: one may be the beginning of another.
        _texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        _bytes = tuple(form.encode() for form in _texts)


def secret(value: str) -> bool:
    """Whether a value is long and odd enough to be one. `EMPTY`, `anything` and `12345678`, which people give to servers that
    want some key, are words and numbers that texts hold as well."""
    if not value.isprintable() or any(map(str.isspace, value)):
        return False
    return len(value) >= _LONG or (len(value) >= _SHORTEST and not value.isalpha() and not value.isdigit())


class _Guarded:
    """A text stream that writes no secret."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(redacted(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_streams() -> None:
    """From now on, let no secret through to this process's standard output and error: tracebacks and logs go there, too."""
    sys.stdout, sys.stderr = _Guarded(sys.stdout), _Guarded(sys.stderr)


def _is_path(value: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        return value.startswith(("/", "~", ".")) and Path(value).expanduser().exists()
    return False


def _forms(value: str) -> Iterable[str]:
    """A secret as it stands in a text, in JSON, in a page, in an address, and in a header of Basic authorisation."""
    yield value
    with contextlib.suppress(TypeError, ValueError):  # a lone surrogate is in no text that can be written
        yield orjson.dumps(value).decode()[1:-1]
        yield html.escape(value)
        yield quote(value, safe="")
        for whole in (value, f"{value}:", f":{value}"):
            # The end of base64 depends on what follows.
            yield base64.b64encode(whole.encode()).decode().rstrip("=")


@overload
def redacted(data: str) -> str: ...
@overload
def redacted(data: bytes) -> bytes: ...
def redacted(data: str | bytes) -> str | bytes:
    """`data` with every secret of this process replaced by `***`."""
    if not _learnt:
        learn()
    if isinstance(data, str):
        for text in _texts:
            if text in data:
                data = data.replace(text, MASK)
        return data
    for form in _bytes:
        if form in data:
            data = data.replace(form, MASK.encode())
    return data


def redacted_json(body: bytes) -> bytes:
    """The same for a JSON text from outside, in which any letter may be written as an escape."""
    body = redacted(body)
    if b"\\u00" not in body:
        return body
    try:
        plain = orjson.dumps(orjson.loads(body))
    except (orjson.JSONDecodeError, TypeError):
        return body
    clean = redacted(plain)
    return body if clean == plain else clean
