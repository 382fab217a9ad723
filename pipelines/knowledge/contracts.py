"""What a style's front matter promises of the texts in it.

keeps: all | some    whether all that the source says must be said (the default), or what is chosen of it
adds: nothing        in any style
check: NAME          a check that fits the form, one of `judges.strategies.fitting.CHECKS`; only where it keeps some
after: source | STYLE   what the row's text begins with: the source itself, or the document in another style, which the
                        writer has in view
"""

from __future__ import annotations

from tokenmill.judges.strategies.fitting import CHECKS, Fitting

from tokenmill import prompts

SOURCE = "source"


def keeps_all(style: str) -> bool:
    """Whether a text in this style must say all that its source says. What it adds to it is nothing, in any style."""
    return prompts.load(style).meta.get("keeps", "all") == "all"


def check_of(style: str) -> Fitting | None:
    """The check that fits the form, if it names one."""
    return CHECKS.get(prompts.load(style).meta.get("check", ""))


def before_it(style: str) -> str:
    """What a row's text begins with before the text in this style: `SOURCE`, another style, or nothing (empty)."""
    return str(prompts.load(style).meta.get("after") or "")


def see_to(style: str) -> None:
    """Look through a style's contract.

    Raises:
        prompts.PromptError: it is none.
    """
    meta = prompts.load(style).meta
    if meta.get("keeps", "all") not in ("all", "some") or meta.get("adds", "nothing") != "nothing":
        raise prompts.PromptError(f"{style}: a style's contract is keeps: all or keeps: some, and adds: nothing")
    check, first = meta.get("check"), before_it(style)
    if check is not None and (check not in CHECKS or keeps_all(style)):
        raise prompts.PromptError(f"{style}: check must be one of {', '.join(CHECKS)}, in a style that keeps: some")
    if first not in ("", SOURCE) and before_it(first):
        raise prompts.PromptError(f"{style}: after must be source, or a style that has no after itself")
