"""Verdicts of checks on a document: passed, or refused for one reason with a quotation."""

from __future__ import annotations

from tokenmill.schemas.verdicts import Finding, Verdict

_QUOTE = 200
"""Characters of a quotation."""


def passed(check: str, score: float = 1.0) -> Verdict:
    """The document stays."""
    return Verdict(check, True, min(1.0, max(0.0, score)))


def refusal(check: str, reason: str, detail: str, quote: str = "", score: float = 0.0) -> Verdict:
    """The document goes.

    Args:
        detail: the figure and the threshold that it missed.
        quote: verbatim from the document; its beginning is kept.
    """
    return Verdict(check, False, min(1.0, max(0.0, score)), reason, (Finding(reason, detail, quote[:_QUOTE]),))
