"""A user's own checks: any callable that sees a source and what was made of it.

    --check my_checks:NoRecipes           a class or function in a module on the path or in the working directory
    --check checks/recipes.py:NoRecipes   the same by file
    --check no-recipes                    one that an installed package offers under the entry-point group `tokenmill.checks`

    class NoRecipes:
        def __call__(self, source: str, text: str, *, language: str = "en") -> Verdict: ...

A class is made without arguments. A check takes the two texts and by name whatever it wants of `title`, `language` and
`answer` (the parsed JSON of a structured answer, otherwise None). It returns a `Verdict`, several, or None for no objection.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from tokenmill.schemas.verdicts import Verdict

GROUP = "tokenmill.checks"
_OFFERED = frozenset({"title", "language", "answer"})


class CheckUnusable(ValueError):
    """A check cannot be loaded, or does not keep to the form above; the text is one line."""


@dataclass(frozen=True)
class OwnCheck:
    """A check by where it is found. Travels to workers as that; loaded where it is first used."""

    name: str
    """As the user wrote it."""
    place: str
    """`module:attribute`, or `FILE.py:attribute`."""
    folder: str
    """Where modules may lie beside those on the path."""

    @cached_property
    def _run(self) -> tuple[Callable[..., Any], frozenset[str]]:
        made = found(self.place, self.folder)
        check = made() if inspect.isclass(made) else made
        if not callable(check):
            raise CheckUnusable(f"check {self.name}: it cannot be called")
        wanted = inspect.signature(check).parameters.values()
        if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in wanted):
            return check, _OFFERED
        return check, _OFFERED & {one.name for one in wanted}

    @property
    def sha256(self) -> str:
        """Of the file that the check is in: what it says may change with it."""
        made = found(self.place, self.folder)
        file = inspect.getsourcefile(made if inspect.isclass(made) or inspect.isfunction(made) else type(made))
        return hashlib.sha256(Path(file).read_bytes() if file else repr(made).encode()).hexdigest()

    def __call__(
        self, source: str, text: str, *, title: str = "", language: str = "en", answer: Any = None
    ) -> list[Verdict]:
        """What it says of a text.

        Raises:
            CheckUnusable: it returned something other than verdicts.
            Exception: whatever the check itself raises.
        """
        check, wanted = self._run
        about = {"title": title, "language": language, "answer": answer}
        said = check(source, text, **{name: about[name] for name in wanted})
        if said is None:
            return []
        verdicts = list(said) if isinstance(said, Iterable) else [said]
        if not all(isinstance(one, Verdict) for one in verdicts):
            raise CheckUnusable(f"check {self.name} returned {type(said).__name__}, not a Verdict, several, or None")
        return verdicts


def find_check(name: str, folder: str | None = None) -> OwnCheck:
    """A user's check by what he wrote, loaded once to see that it can be.

    Raises:
        CheckUnusable: there is none, or it cannot be loaded.
    """
    place = name
    if ":" not in name:
        offered = {one.name: one.value for one in entry_points(group=GROUP)}
        if name not in offered:
            there = f"; installed packages offer {', '.join(sorted(offered))}" if offered else ""
            raise CheckUnusable(f"{name}: write module:Class or FILE.py:Class{there}")
        place = offered[name]
    check = OwnCheck(name, place, str(Path(folder or ".").resolve()))
    check._run  # noqa: B018 (loads it)
    return check


def described(checks: Iterable[OwnCheck]) -> list[dict[str, str]]:
    """Checks as a manifest has them, and its fingerprint."""
    return [{"check": check.name, "sha256": check.sha256} for check in checks]


def found(place: str, folder: str) -> Any:
    """What `module:attribute` or `FILE.py:attribute` names; `folder` may hold it beside the path.

    Raises:
        CheckUnusable: there is none, or it cannot be loaded.
    """
    where, _, attribute = place.rpartition(":")
    try:
        found: Any = _by_file(Path(folder, where)) if where.endswith(".py") else _by_name(where, folder)
        for part in attribute.split("."):
            found = getattr(found, part)
    except CheckUnusable:
        raise
    except AttributeError:
        raise CheckUnusable(f"{place}: there is no {attribute} in {where}") from None
    except Exception as error:  # whatever importing a user's module may raise
        raise CheckUnusable(f"{place}: {type(error).__name__}: {' '.join(str(error).split())[:300]}") from None
    return found


def _by_name(module: str, folder: str) -> ModuleType:
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(module)


def _by_file(path: Path) -> ModuleType:
    name = f"tokenmill_own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise CheckUnusable(f"{path}: there is no such file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
