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

_TEMPLATE_TAG = re.compile(
    r"</?(?:think|thinking|tool_calls?|tool_response|tool_results?|function_calls?|tool_sep|bos|eos|pad|unk)>"
)
"""Tags that are control tokens to some models (Qwen, GLM, Hunyuan, Gemma) and ordinary words to others, which texts about
models may hold: they are broken in what is sent and refused in nothing that is answered."""

_UNSEEN = re.compile(
    "\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f"  # the flags of England, Scotland, Wales: kept
    "|[\u00ad\u180e\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""Letters that nobody sees: zero-width ones, those that turn a line around, and the alphabet of tags, in which whole
instructions can be hidden. Joiners and marks that Persian, Hebrew, Indic scripts and emoji need are not among them."""

MARKER = re.compile(r"</?[a-z][a-z_-]*-[0-9a-f]{8}>")
"""An opening or closing marker of any fence."""

_LABEL = re.compile(r"[a-z][a-z_-]*")


def defuse(text: str) -> str:
    """`text` without letters that nobody sees, and with a space inside every control token, so that a server which parses
    special tokens in message content cannot be made to open a new turn: `<|im_start|>` becomes `< |im_start|>`."""
    if not text.isascii():
        text = _UNSEEN.sub(lambda m: m[0] if m[0][0] == "\U0001f3f4" else "", text)
    return _TEMPLATE_TAG.sub(_broken, CONTROL_TOKEN.sub(_broken, text))


def _broken(token: re.Match[str]) -> str:
    return f"{token[0][0]} {token[0][1:]}"


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
