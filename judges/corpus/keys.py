"""What has the form of a credential: keys of well-known services, private keys, tokens. Nothing is compared with real ones."""

from __future__ import annotations

import re2

FORMS = (
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s]*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    r"\b(?:sk|pk|rk|xai|gsk|nvapi|r8|glpat)[-_][A-Za-z0-9_-]{16,}",
    r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    r"\bhf_[A-Za-z0-9]{20,}",
    r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}",
)
"""OpenAI and its like, Slack, Hugging Face, GitHub, AWS, Google, JSON web tokens, webhooks."""
_ANY = re2.compile("|".join(f"(?:{form})" for form in FORMS))
_HINTS = ("PRIVATE KEY", "sk-", "sk_", "pk-", "pk_", "rk_", "xai-", "gsk_", "nvapi-", "r8_", "glpat-", "xox", "hf_", "gh", "AKIA",
          "ASIA", "AIza", "eyJ", "hooks.slack")  # fmt: skip
_SAME = 6
"""Different characters that the last part of a real key has at least: `sk-xxxxxxxxxxxxxxxxxxxx` is an example."""


def found(text: str) -> list[tuple[int, int]]:
    """[start, end) of everything in the text that has such a form, in order."""
    if not any(hint in text for hint in _HINTS):
        return []
    return [match.span() for match in _ANY.finditer(text) if len(set(match.group()[-16:])) >= _SAME]
