"""Styles, perspectives and templates as the user names them: those that are shipped, or files of his own."""

from __future__ import annotations

from collections.abc import Sequence

from tokenmill.pipelines.knowledge.style_pairs import Repertoire, draw_pairs, styles
from tokenmill.pipelines.knowledge.writing import (
    BRIEF_TEMPLATE,
    EXPAND_TEMPLATE,
    REPAIR_TEMPLATE,
    STRATEGY_TEMPLATE,
    TEMPLATE,
)
from tokenmill.pipelines.runs.own import own_prompts
from tokenmill.prompts.own import OwnPrompt, read
from tokenmill.schemas.flags import UsageError

from tokenmill import prompts

REPLACEABLE = (TEMPLATE, BRIEF_TEMPLATE, REPAIR_TEMPLATE, STRATEGY_TEMPLATE, EXPAND_TEMPLATE)
"""Templates that a run may bring its own for."""


def repertoire(wanted_styles: Sequence[str], wanted_perspectives: Sequence[str], rephrasings: int) -> Repertoire | None:
    """What `--styles` and `--perspectives` name; None where they name nothing.

    Args:
        wanted_styles, wanted_perspectives: names, files and folders.
        rephrasings: how many of them a document is to have.

    Raises:
        UsageError: one is not there or malformed, or they are too few for the rephrasings.
    """
    if not (wanted_styles or wanted_perspectives):
        return None
    among = Repertoire()
    named, own = own_prompts("--styles", wanted_styles, ("styles", "strategies"), _unlike_a_style)
    readers, more = own_prompts("--perspectives", wanted_perspectives, ("perspectives",), _unlike_a_style)
    chosen = Repertoire(named or among.styles, readers or among.perspectives, (*own, *more))
    try:
        styles(chosen)
        draw_pairs(rephrasings, 0, "", among=chosen)
    except prompts.PromptError as error:
        raise UsageError(f"--styles {error}") from None
    except ValueError as error:
        raise UsageError(f"--rephrasings {error}") from None
    return chosen


def _unlike_a_style(prompt: prompts.Prompt) -> str:
    """What is wrong with a style or perspective of the user's."""
    if isinstance(prompt.meta.get("brief"), str):
        return ""
    return "its front matter needs `brief`: the form in a few words, for the judge"


def templates(wanted: Sequence[str]) -> tuple[tuple[str, OwnPrompt], ...]:
    """What `--prompt NAME=FILE` names: the shipped template and the user's in its place.

    Raises:
        UsageError: there is no such template or file, or the file has other placeholders.
    """
    found = {}
    for word in wanted:
        name, equals, path = word.partition("=")
        if not equals or name not in REPLACEABLE:
            raise UsageError(f"--prompt {word}: write NAME=FILE; the names are {', '.join(REPLACEABLE)}")
        try:
            prompt = read(path)
        except prompts.PromptError as error:
            raise UsageError(f"--prompt {name}={error}") from None
        needed = set(prompts.load(name).meta["placeholders"])
        if differing := sorted(needed ^ set(prompt.placeholders)):
            listed = ", ".join(f"{{{{{one}}}}}" for one in differing)
            raise UsageError(f"--prompt {word}: its placeholders must be those of {name}; they differ in {listed}")
        found[name] = prompt
    return tuple(found.items())
