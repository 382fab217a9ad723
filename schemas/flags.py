"""Options of a command, each declared once: a field of a frozen dataclass is an argument in Python, a flag of the command
line, a key of the manifest's configuration and a line of the documentation.

    @dataclass(frozen=True, kw_only=True)
    class Head(Options):
        file: str = flag(metavar="FILE", help="what is read")
        limit: int = flag(10, parse=positive, metavar="N", shapes=True, help="read only the first N rows")

    Head(file="a.txt", limit=0)                       # UsageError: --limit 0: must be at least 1
    add_flags(parser, Head)                           # --file FILE, --limit N
    from_namespace(Head, parser.parse_args(["--file", "a.txt"])) == Head(file="a.txt")
    as_flags(Head(file="a.txt", limit=5)) == ["--file", "a.txt", "--limit", "5"]
    shaping(Head(file="a.txt")) == {"limit": 10}
    describe(Head)                                    # a `Flag` for each
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")


class UsageError(Exception):
    """Something about the command or its input is wrong; the text says what to do. Nothing was spent."""


@dataclass(frozen=True)
class Flag:
    """What is declared of one option."""

    field: str
    """Name in Python."""
    name: str
    """On the command line: `--judge-llm`; without dashes for a word that stands for itself."""
    type: type
    """bool, int, float, str, Path, dict, or tuple for several texts."""
    default: Any
    """MISSING where it must be given."""
    optional: bool
    """Whether it may be None."""
    help: str
    group: str
    metavar: str | None
    parse: Callable[[Any], Any] | None
    choices: tuple[str, ...]
    shapes: str
    """Key under which a manifest's configuration has it; empty where it does not shape rows."""
    echo: bool

    @property
    def described(self) -> str:
        """The help, with the default where that says something and the help does not."""
        if self.type is bool or self.default in (MISSING, None, "", (), {}) or "default" in self.help:
            return self.help
        told = f"{self.default:,}" if self.type is int else f"{self.default:g}" if self.type is float else self.default
        return f"{self.help} (default {told})"

    @property
    def many(self) -> bool:
        return self.type is tuple

    def read(self, given: Any) -> Any:
        """The value of what was given, be it text or a value already.

        Raises:
            UsageError: it cannot be.
        """
        if given is None and self.optional:
            return None
        try:
            value = _READERS[self.type](given)
            if value == () != self.default:
                raise ValueError("name at least one")
            if self.choices and value not in self.choices:
                raise ValueError(f"must be one of {', '.join(self.choices)}")
            return value if self.parse is None else self.parse(value)
        except ValueError as error:
            told = " ".join(str(given).split())[:80] if self.echo and isinstance(given, (str, int, float)) else ""
            raise UsageError(f"{self.name} {told}".rstrip() + f": {error}") from None

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        # argparse only cuts the command line into words: `read` says what they mean, for Python, too.
        told: dict[str, Any] = {"default": argparse.SUPPRESS, "help": self.described.replace("%", "%%")}
        if self.type is bool:
            parser.add_argument(self.name, dest=self.field, action="store_true", **told)
            return
        told["metavar"] = f"{{{','.join(self.choices)}}}" if self.choices else self.metavar
        if self.many:
            told["nargs"] = "+"
            if self.name.startswith("-"):
                told["action"] = "extend"  # it may be repeated
        if self.name.startswith("-"):
            parser.add_argument(self.name, dest=self.field, required=self.default is MISSING, **told)
        else:
            parser.add_argument(self.field, **told)


def flag(
    default: Any = MISSING,
    *,
    help: str,
    group: str = "",
    metavar: str | None = None,
    name: str = "",
    parse: Callable[[Any], Any] | None = None,
    choices: Sequence[str] = (),
    shapes: bool | str = False,
    echo: bool = True,
) -> Any:
    """A field of `Options` that is a flag; its annotation decides what is read.

    Args:
        default: left out where it must be given.
        help: one line; the default is added where it says something.
        group: heading under which the help lists it.
        name: on the command line, where that is not the field's with dashes.
        parse: checks a value of the field's type and returns what is kept; raises ValueError with what it must be.
        choices: the only values.
        shapes: whether it shapes the rows that a run writes; a text names its key in the manifest's configuration.
        echo: whether an error repeats what was given; False where that may hold a secret, or `parse` says it.
    """
    told = dict(help=help, group=group, metavar=metavar, name=name, parse=parse, choices=tuple(choices), shapes=shapes,
                echo=echo)  # fmt: skip
    kept = {"default_factory": default.copy} if isinstance(default, dict) else {"default": default}
    return dataclasses.field(**kept, metadata={"flag": told})


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command may be given. Subclasses are frozen dataclasses whose fields are made with `flag`; others are none.

    Raises:
        UsageError: a value cannot be; one line that names the flag and what it must be.
    """

    def __post_init__(self) -> None:
        for declared in describe(type(self)):
            object.__setattr__(self, declared.field, declared.read(getattr(self, declared.field)))


O = TypeVar("O", bound=Options)  # noqa: E741


def describe(options: type[Options]) -> tuple[Flag, ...]:
    """All flags, in the order of their declaration, those of base classes first."""
    if options in _DESCRIBED:
        return _DESCRIBED[options]
    hints, found = typing.get_type_hints(options), []
    for field in dataclasses.fields(options):
        if (told := field.metadata.get("flag")) is not None:
            default = field.default if field.default_factory is MISSING else field.default_factory()
            kind, optional = _kind(hints[field.name])
            name = told["name"] or "--" + field.name.replace("_", "-")
            shapes = field.name if told["shapes"] is True else told["shapes"] or ""
            derived = {"field": field.name, "name": name, "shapes": shapes}
            found.append(Flag(**{**told, **derived}, type=kind, default=default, optional=optional))
    return _DESCRIBED.setdefault(options, tuple(found))


_DESCRIBED: dict[type[Options], tuple[Flag, ...]] = {}


def add_flags(parser: argparse.ArgumentParser, options: type[Options]) -> None:
    """Give a parser the flags of `options`, under their headings."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for declared in describe(options):
        if declared.group not in groups:
            groups[declared.group] = parser.add_argument_group(declared.group)
        declared.add_to(groups[declared.group])


def from_namespace(options: type[O], namespace: argparse.Namespace) -> O:
    """The options that a parser with their flags has read.

    Raises:
        UsageError: a value cannot be.
    """
    given = vars(namespace)
    return options(**{one.field: given[one.field] for one in describe(options) if one.field in given})


def as_flags(options: Options) -> list[str]:
    """The words of a command line that say the same; what is at its default is left out."""
    words: list[str] = []
    for one in describe(type(options)):
        value = getattr(options, one.field)
        if value is None or value == one.default:
            continue
        texts = [json.dumps(value)] if one.type is dict else value if one.many else [str(value)]
        if one.type is bool:
            words.append(one.name)
        elif not one.name.startswith("-"):
            words = [*texts, *words]
        elif not one.many and texts[0].startswith("-"):
            words.append(f"{one.name}={texts[0]}")
        else:
            words += [one.name, *texts]
    return words


def shaping(options: Options, of: type[Options] | None = None) -> dict[str, Any]:
    """What of the options shapes the rows, by its key in the manifest's configuration.

    Args:
        of: take only the flags of this base class: of one stage of several.
    """
    return {one.shapes: getattr(options, one.field) for one in describe(of or type(options)) if one.shapes}


def must(be: str, holds: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Values for which `holds`; of others an error says what they must `be`."""

    def parse(value: Any) -> Any:
        if not holds(value):
            raise ValueError(f"must be {be}")
        return value

    return parse


positive = must("at least 1", lambda value: value >= 1)
not_negative = must("at least 0", lambda value: value >= 0)
more_than_zero = must("more than 0", lambda value: value > 0)
odd = must("odd, or votes can be tied", lambda value: value > 0 and value % 2)


def checked(read: Callable[[Value], Any]) -> Callable[[Value], Value]:
    """Values that `read` takes without a ValueError; they are kept as they were given."""

    def parse(value: Value) -> Value:
        read(value)
        return value

    return parse


def _kind(hint: Any) -> tuple[type, bool]:
    """(plain type, whether None may stand in its place) of an annotation."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    (plain,) = (kind for kind in kinds if kind is not types.NoneType)
    return typing.get_origin(plain) or plain, types.NoneType in kinds


def _text(given: Any) -> str:
    if not isinstance(given, (str, os.PathLike)):
        raise ValueError("must be a text")
    return os.fspath(given)


def _texts(given: Any) -> tuple[str, ...]:
    if isinstance(given, (str, os.PathLike)):
        return (_text(given),)
    if not isinstance(given, Iterable):
        raise ValueError("must be texts")
    return tuple(map(_text, given))


def _bool(given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError("must be True or False")
    return given


def _int(given: Any) -> int:
    try:
        value = int(given.replace("_", "")) if isinstance(given, str) else given
    except ValueError:
        value = None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


def _float(given: Any) -> float:
    try:
        value = float(given)
    except (TypeError, ValueError):
        value = nan
    if isnan(value) or isinstance(given, bool):
        raise ValueError("must be a number")
    return value


def _object(given: Any) -> dict[str, Any]:
    try:
        value = json.loads(given, parse_constant=_no_number) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    return dict(value)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


_READERS: dict[type, Callable[[Any], Any]] = {
    bool: _bool, int: _int, float: _float, str: _text, Path: Path, tuple: _texts, dict: _object,
}  # fmt: skip
