"""What users bring to several jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tokenmill.judges.own import CheckUnusable, OwnCheck, find_check
from tokenmill.pipelines.runs.options import of_checking, of_writing
from tokenmill.prompts.own import OwnPrompt, read
from tokenmill.schemas.flags import UsageError, positive

from tokenmill import prompts


def own_check() -> Any:
    """The field of options that names a user's checks."""
    return of_checking(
        (), metavar="CHECK", help="a check of yours: module:Class, FILE.py:Class, or the name of an installed one"
    )


def own_candidates() -> Any:
    """The field of options that says how many answers are drawn."""
    return of_writing(
        1,
        metavar="N",
        parse=positive,
        shapes=True,
        help="draw N answers where the first is refused, and go on with the one that the checks find best",
    )


def own_candidates_always() -> Any:
    """The field of options that says whether they are drawn in any case."""
    return of_writing(False, shapes=True, help="draw the N answers of --candidates also where the first passes")


def own_checks(names: tuple[str, ...]) -> tuple[OwnCheck, ...]:
    """The checks that `--check` names.

    Raises:
        UsageError: one cannot be loaded.
    """
    try:
        return tuple(map(find_check, names))
    except CheckUnusable as error:
        raise UsageError(f"--check {error}") from None


def own_prompts(
    flag: str, wanted: Sequence[str], folders: Sequence[str], fault: Callable[[prompts.Prompt], str]
) -> tuple[tuple[str, ...], tuple[OwnPrompt, ...]]:
    """Names of the prompts that a flag names, shipped or files of the user's, and those from files.

    Args:
        wanted: names, files and folders, one by one or several with commas.
        folders: where the shipped ones are.
        fault: what is wrong with a file, or nothing (empty).

    Raises:
        UsageError: one is not there, or malformed.
    """
    shipped = {name.rpartition("/")[2]: name for folder in folders for name in prompts.names(folder)}
    found: list[str] = []
    own: list[OwnPrompt] = []
    for word in (part for one in wanted for part in one.split(",") if part):
        place = Path(word)
        files = sorted(place.glob("*.md")) if place.is_dir() else [place] if place.suffix == ".md" else []
        if word in shipped:
            found.append(shipped[word])
        elif files:
            mine = [_own(flag, file, fault) for file in files]
            own += mine
            found += [prompt.name for prompt in mine]
        else:
            raise UsageError(f"{flag} {word}: no such file or folder with .md files; shipped are {', '.join(shipped)}")
    return tuple(dict.fromkeys(found)), tuple(own)


def _own(flag: str, file: Path, fault: Callable[[prompts.Prompt], str]) -> OwnPrompt:
    try:
        prompt = read(str(file), alone="system")
    except prompts.PromptError as error:
        raise UsageError(f"{flag} {error}") from None
    loaded = prompts.load(prompt.name)
    if len(loaded.parts) != 1 or prompt.placeholders:
        raise UsageError(f"{flag} {file}: must be one text without placeholders")
    if wrong := fault(loaded):
        raise UsageError(f"{flag} {file}: {wrong}")
    return prompt
