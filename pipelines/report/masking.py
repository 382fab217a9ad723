"""Keep credentials out of what a run shows: whatever looks like a key is replaced before it is printed or published."""

from __future__ import annotations

import re
from typing import Any

from tokenmill.inference.redaction import MASK, SECRET_NAME, redacted

_SECRET_VALUE = re.compile(
    r"""
      \b(?:sk|pk|rk|xai|gsk|nvapi|r8|glpat|xox[abprs])[-_][A-Za-z0-9_-]{12,}   # OpenAI, Anthropic, Groq, NVIDIA, Slack
    | \bhf_[A-Za-z0-9]{16,}                                                    # Hugging Face
    | \b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{16,}                             # GitHub
    | \bAKIA[0-9A-Z]{12,}                                                      # AWS
    | \bAIza[0-9A-Za-z_-]{20,}                                                 # Google
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*                # JSON web token
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    """,
    re.VERBOSE,
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_USERINFO = re.compile(r"(\w+://)[^/\s@\"',]*@")
_QUERY = re.compile(
    r"([?&;](?:[\w-]*[_-])?(?:api[_-]?key|key|token|secret|password|sig|signature)=)[^&;\s#]+", re.IGNORECASE
)
_ASSIGNED = re.compile(r"^(--?[\w-]+)=(.*)$", re.DOTALL)


def masked_text(text: str) -> str:
    """`text` with our own secrets, and everything that has the form of a credential, replaced by `***`."""
    text = redacted(text)
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    return _SECRET_VALUE.sub(MASK, text)


def masked(value: Any, name: str = "") -> Any:
    """A copy of a JSON-like value without credentials, told by the name of a setting or the form of its value."""
    if isinstance(value, dict):
        return {k: masked(v, str(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(v, name) for v in value]
    if isinstance(value, str):
        return MASK if value and SECRET_NAME.search(name) else masked_text(value)
    return value


def masked_command(command: list[str]) -> list[str]:
    """A command line with the values of `--api-key X`, `--api-key=X` and the like replaced."""
    shown, name = [], ""
    for word in command:
        assigned = _ASSIGNED.match(word)
        if assigned:
            shown.append(f"{assigned[1]}={masked(assigned[2], assigned[1].lstrip('-'))}")
            name = ""
        elif word.startswith("-"):
            shown.append(masked_text(word))
            name = word.lstrip("-")
        else:
            shown.append(masked(word, name))
            name = ""
    return shown
