"""Styles, perspectives and templates as the user names them: those that are shipped, or files of his own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenmill.pipelines.knowledge.style_pairs import Repertoire, draw_pairs, styles
from tokenmill.pipelines.knowledge.writing import (
    BRIEF_TEMPLATE,
    EXPAND_TEMPLATE,
    REPAIR_TEMPLATE,
    STRATEGY_TEMPLATE,
    TEMPLATE,
)
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
    own: list[OwnPrompt] = []
    among = Repertoire()
    chosen = Repertoire(
        _named("--styles", wanted_styles, ("styles", "strategies"), own) or among.styles,
        _named("--perspectives", wanted_perspectives, ("perspectives",), own) or among.perspectives,
        tuple(own),
    )
    try:
        styles(chosen)
        draw_pairs(rephrasings, 0, "", among=chosen)
    except prompts.PromptError as error:
        raise UsageError(f"--styles {error}") from None
    except ValueError as error:
        raise UsageError(f"--rephrasings {error}") from None
    return chosen


def _named(flag: str, wanted: Sequence[str], folders: Sequence[str], own: list[OwnPrompt]) -> tuple[str, ...]:
    """Names of the prompts that are wanted; those from files are added to `own`."""
    shipped = {name.rpartition("/")[2]: name for folder in folders for name in prompts.names(folder)}
    found: list[str] = []
    for word in (part for one in wanted for part in one.split(",") if part):
        place = Path(word)
        files = sorted(place.glob("*.md")) if place.is_dir() else [place] if place.suffix == ".md" else []
        if word in shipped:
            found.append(shipped[word])
        elif files:
            mine = [_own(flag, file) for file in files]
            own += mine
            found += [prompt.name for prompt in mine]
        else:
            raise UsageError(f"{flag} {word}: no such file or folder with .md files; shipped are {', '.join(shipped)}")
    return tuple(dict.fromkeys(found))


def _own(flag: str, file: Path) -> OwnPrompt:
    try:
        prompt = read(str(file), alone="system")
    except prompts.PromptError as error:
        raise UsageError(f"{flag} {error}") from None
    loaded = prompts.load(prompt.name)
    if len(loaded.parts) != 1 or prompt.placeholders:
        raise UsageError(f"{flag} {file}: must be one text without placeholders")
    if not isinstance(loaded.meta.get("brief"), str):
        raise UsageError(f"{flag} {file}: its front matter needs `brief`: the form in a few words, for the judge")
    return prompt


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
