"""Fences for untrusted text inside a prompt: between the markers stands data, and it cannot close its own fence."""

from __future__ import annotations

import hashlib
import re
import unicodedata

CONTROL_TOKEN = re.compile(
    r"<[|｜][^|｜<>\n]{1,40}[|｜]>"  # ChatML, Llama 3, DeepSeek and Kimi: <|im_start|>, <|eot_id|>, <｜User｜>
    r"|</?(?:start|end)_of_(?:turn|text|image)>"  # Gemma
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"  # Mistral
    r"|<</?SYS>>"  # Llama 2
    r"|</?s>"  # SentencePiece begin and end; also the HTML strike-through, which breaking does not hurt
)
"""Spellings that a tokenizer may read as a control token of a chat template although they stand in a message."""

MARKER = re.compile(r"</?[a-z][a-z_-]*-[0-9a-f]{8}>")
"""An opening or closing marker of any fence."""

_LABEL = re.compile(r"[a-z][a-z_-]*")


def defuse(text: str) -> str:
    """`text` with a space inside every control token, so that a server which parses special tokens in message content
    cannot be made to open a new turn: `<|im_start|>` becomes `< |im_start|>`."""
    return CONTROL_TOKEN.sub(lambda m: f"{m[0][0]} {m[0][1:]}", text)


def _nonce(text: str) -> str:
    """Eight hex digits derived from `text` that do not occur in it, whatever Unicode spelling is tried."""
    folded = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    data = text.encode("utf-8", "surrogatepass")
    counter = 0
    while (nonce := hashlib.sha256(b"%d\n%s" % (counter, data)).hexdigest()[:8]) in folded:
        counter += 1
    return nonce


def fence(text: str, label: str) -> str:
    """`text`, control tokens broken, between `<label-nonce>` and `</label-nonce>` lines.

    The nonce depends only on the text, so equal prompts stay equal (and are paid for once), and never occurs in it.

    Raises:
        ValueError: the label is not lower-case letters, `-` and `_`.
    """
    if not _LABEL.fullmatch(label):
        raise ValueError(f"fence label {label!r}: use lower-case letters, '-' and '_'")
    body = defuse(text)
    tag = f"{label}-{_nonce(body)}"
    return f"<{tag}>\n{body}\n</{tag}>"
