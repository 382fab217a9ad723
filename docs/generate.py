"""What the documentation takes from the code: tables of flags, columns, thresholds, reasons, prompts and prices.

A page asks for one by a line of its own, `<!-- generate: columns schemas.knowledge:Rephrasing -->`. mkdocs runs this file
as a hook (`mkdocs.yml`); it also makes pages of the README files beside the code. `filled` needs no mkdocs, so that the
tests can ask for every table.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import io
import logging
import os
import posixpath
import re
import sys
import textwrap
import typing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
logging.getLogger().addFilter(lambda record: "apitools" not in record.getMessage())
"""Beam warns of Google's clients when it is imported."""

INCLUDED = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/README.md",
    "examples/recordings.md",
    "training/README.md",
    "bench/README.md",
    "bench/agentic/README.md",
    "bench/batch/README.md",
    "bench/fidelity/README.md",
    "bench/fidelity/data/LICENSE.md",
    "bench/math_verify/README.md",
    "bench/throughput/README.md",
    "bench/tools/README.md",
    "bench/training/README.md",
)
"""Files beside the code that are pages of the site, under the same path."""
DIRECTIVE = re.compile(r"^<!-- generate: (\S+) ?(.*?) -->$", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\(([^)\s]+)\)")
_MAKERS: dict[str, Callable[..., str]] = {}


class Unknown(ValueError):
    """A page asks for something that is not there; the text names it."""


def filled(markdown: str) -> str:
    """A page with every `generate` line replaced by what it asks for.

    Raises:
        Unknown: there is no such table, or its subject is not in the code.
    """
    return DIRECTIVE.sub(lambda match: _made(match[1], match[2].split()), markdown)


def _made(name: str, arguments: list[str]) -> str:
    if name not in _MAKERS:
        raise Unknown(f"generate: {name}: there are {', '.join(sorted(_MAKERS))}")
    try:
        return _MAKERS[name](*arguments)
    except (ImportError, AttributeError, KeyError, TypeError) as error:
        raise Unknown(f"generate: {name} {' '.join(arguments)}: {error}") from error


def maker(make: Callable[..., str]) -> Callable[..., str]:
    """Make a function what the directive of its name stands for."""
    _MAKERS[make.__name__] = make
    return make


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [tuple(head), *(tuple(map(_cell, row)) for row in rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    """A text on one line, its bars no border; those in code are none anyhow."""
    parts = " ".join(text.split()).split("`")
    return "`".join(part if number % 2 else part.replace("|", "\\|") for number, part in enumerate(parts))


def _named(name: str) -> Any:
    """What `schemas.knowledge:Rephrasing` names in the package."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(f"tokenmill.{module}"), attribute)


# Columns and fields


@maker
def columns(name: str, own: str = "") -> str:
    """Columns of a row type with their types; with `own` only those that it adds to the type it extends."""
    row_type = _named(name)
    inherited = {field.name for base in row_type.__mro__[1:-1] for field in dataclasses.fields(base)} if own else set()
    hints = typing.get_type_hints(row_type)
    rows = [
        (
            f"`{field.name}`",
            _type(hints[field.name]),
            field.metadata.get("doc") or documented(row_type).get(field.name, ""),
        )
        for field in dataclasses.fields(row_type)
        if field.name not in inherited
    ]
    return _table(("column", "type", "what it holds"), rows)


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if type(None) in arguments:
        return f"{_type(next(one for one in arguments if one is not type(None)))} or null"
    if origin in (list, tuple):
        return f"list of {_type(arguments[0])}"
    if dataclasses.is_dataclass(annotation):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    return {str: "text", int: "whole number", float: "number", bool: "true or false"}.get(
        annotation, getattr(annotation, "__name__", str(annotation))
    )


@maker
def fields(*names: str) -> str:
    """Settings of classes with their defaults."""
    return _table(("setting", "default", "meaning"), (row for name in names for row in _fields(_named(name))))


USUAL = {
    "max_tokens": "Longest answer, in tokens.",
    "temperature": "Sampling temperature.",
    "top_p": "Nucleus sampling.",
    "tries": "Answers asked for until one meets the schema.",
    "votes": "Votes of the judge, odd.",
}
"""What settings mean that many classes have and few explain."""
NO_SETTINGS = {"judge_model", "model", "models", "prompt", "seed", "worlds"}


def _fields(cls: type) -> Iterator[tuple[str, str, str]]:
    docs = {**USUAL, **documented(cls)}
    for field in dataclasses.fields(cls):
        if field.name in NO_SETTINGS:
            continue
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if dataclasses.is_dataclass(default) or callable(default):
            continue  # a setting with settings of its own
        shown = "" if default is dataclasses.MISSING else f"`{default!r}`"
        yield f"`{cls.__name__}.{field.name}`", shown, docs.get(field.name, "")


@maker
def described(name: str) -> str:
    """Fields of a record with what their docstrings say."""
    cls = _named(name)
    return _table(
        ("field", "what it holds"), ((f"`{f.name}`", documented(cls).get(f.name, "")) for f in dataclasses.fields(cls))
    )


@cache
def documented(cls: type) -> dict[str, str]:
    """Docstrings of the fields of a class and of those that it extends: the texts that stand below them."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        try:
            (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError):  # a base of the library's
            continue
        for field, after in zip(node.body, node.body[1:], strict=False):
            text = getattr(getattr(after, "value", None), "value", None)
            if isinstance(field, ast.AnnAssign) and isinstance(text, str):
                found[field.target.id] = text
    return found


# Flags


@cache
def commands() -> dict[str, tuple[Any, ...]]:
    """The flags of every subcommand, `tools harvest` by its two words; what only groups others is not among them."""
    from tokenmill.schemas.flags import describe

    from tokenmill import cli

    alone = [name for name in cli.COMMANDS if not any(other.startswith(f"{name} ") for other in cli.COMMANDS)]
    return {name: describe(cli.load(name).options) for name in alone}


def _shown(flag: Any) -> tuple[str, str]:
    """How a flag is written, and what it means."""
    value = "|".join(flag.choices) or flag.metavar or "VALUE"
    words = [flag.name] if flag.type is bool or not flag.name.startswith("-") else [flag.name, value]
    told = flag.described + (" (required)" if flag.default is dataclasses.MISSING else "")
    return f"`{' '.join(words)}{' …' if flag.many else ''}`", told


@cache
def _common() -> dict[str, tuple[str, str]]:
    """Flags that most commands have, with the same meaning."""
    listed = [{flag.name: _shown(flag) for flag in flags} for flags in commands().values()]
    counted = Counter((name, told) for one in listed for name, told in one.items())
    return {name: told for one in listed for name, told in one.items() if counted[name, told] > len(listed) / 2}


@maker
def flags(*words: str) -> str:
    """Flags of one subcommand without those that most have, and which of these it lacks; `common` for what most have."""
    command = " ".join(words)
    if command == "common":
        return _table(("flag", "meaning"), _common().values())
    all_of_it = {flag.name: _shown(flag) for flag in commands()[command]}
    own = [told for name, told in all_of_it.items() if _common().get(name) != told]
    lacking = [f"`{name}`" for name in _common() if name not in all_of_it]
    if len(lacking) == len(_common()):
        lacks = "\n\nIt has none of the common flags."
    else:
        lacks = f"\n\nOf the common flags it does not have {', '.join(lacking)}." if lacking else ""
    return (_table(("flag", "meaning"), own) if own else "None beside the common ones.") + lacks


@maker
def all_flags() -> str:
    """The flags of every subcommand, a section each."""
    return "\n\n".join(f"## {name} {{ #{name.replace(' ', '-')} }}\n\n{flags(*name.split())}" for name in commands())


@maker
def usage(module: str) -> str:
    """What `python -m tokenmill.MODULE --help` says of its flags."""
    printed, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            importlib.import_module(f"tokenmill.{module}").main(["--help"])
    finally:
        os.environ.pop("COLUMNS")
        os.environ |= {} if columns is None else {"COLUMNS": columns}
    _, _, told = printed.getvalue().partition("\n\n")  # after the line of all flags
    return f"```text\n{told.strip()}\n```"


# Formats of trajectories


@maker
def formats() -> str:
    """The formats that `agentic export` writes."""
    from tokenmill.pipelines.agentic.export.formats import FORMATS

    return _table(("format", "what it is"), ((f"`{name}`", one.meaning) for name, one in FORMATS.items()))


@maker
def templates() -> str:
    """Chat templates by the format in which they take trajectories."""
    from tokenmill.pipelines.agentic.export.templates import GROUPS

    rows = [
        (f"`{shape}`" if shape else "as they are", why, ", ".join(f"`{name}`" for name in names))
        for shape, why, names in GROUPS
    ]
    return _table(("format", "why", "templates"), rows)


# Reasons, prompts, prices


@maker
def reasons() -> str:
    """The catalogue of reasons, a section a group."""
    from tokenmill.pipelines.report.reasons import catalogue

    parts = []
    for group in catalogue():
        step = "check" if group.folder == "rejected" else "step"
        rows = [
            (f"`{one.name}`{{ #{group.folder}-{one.name.replace('_', '-')} }}", one.check, one.means, one.do)
            for one in group.reasons
        ]
        intro = f"In `{group.folder}/`, jobs: {group.jobs}. {group.intro}".strip()
        head = ("reason" if group.folder == "rejected" else "error", step, "meaning", "what to do")
        parts.append(f"## {group.title}\n\n{intro}\n\n{_table(head, rows)}")
    return "\n\n".join(parts)


@maker
def prompts(folder: str) -> str:
    """The prompts of a folder by name and version, with what their front matter says of them."""
    from tokenmill import prompts as texts

    rows = []
    for name in texts.names(folder):
        prompt = texts.load(name)
        said = prompt.meta.get("brief") or prompt.meta.get("title") or prompt.meta.get("knowledge") or ""
        excluded = ", ".join(f"`{style}`" for style in prompt.meta.get("excludes") or ())
        told = f"{said}{f'; not with {excluded}' if excluded else ''}{_suiting(prompt.meta)}"
        rows.append((f"`{name.rpartition('/')[2]}`", str(prompt.version), told))
    return _table(("name", "version", "what it asks for"), rows)


def _suiting(meta: dict[str, Any]) -> str:
    """What a style's front matter says of its use; empty for other prompts."""
    if "genre" not in meta:
        return ""
    least, most = meta.get("tokens") or (None, None)
    length = " ".join(f"{word} {n:,}" for word, n in (("from", least), ("to", most)) if n)
    kinds = ", ".join(f"`{kind}`" for kind in meta.get("suits") or ()) or "every kind"
    keeps = "; keeps headings and code" if meta.get("keeps_structure") else ""
    return f" (genre {meta['genre']}; {kinds}{f', {length} tokens' if length else ''}{keeps})"


@maker
def kinds() -> str:
    """Kinds of document, in the order in which they are looked for."""
    from tokenmill.pipelines.knowledge.content import KINDS

    return _table(("kind", "what such a document has"), ((f"`{kind}`", told) for kind, told in KINDS.items()))


@maker
def prices() -> str:
    """The shipped price table."""
    from tokenmill.inference.pricing import load_prices

    rows = [
        (f"`{name}`", f"{p.input:g}", f"{p.cached_input:g}", f"{p.output:g}")
        for name, p in load_prices().models.items()
    ]
    return _table(("model", "prompt", "prompt from the endpoint's cache", "answer"), rows)


# The site


def repo_path(site_path: str) -> str:
    """Where the page of a site's path lies in the repository."""
    return site_path if site_path in INCLUDED else f"docs/{site_path}"


def relinked(markdown: str, site_path: str) -> str:
    """A page whose relative links, which are right in the repository, are right in the site; a link to a file that is no
    page becomes its text."""
    here = posixpath.dirname(repo_path(site_path))

    def link(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, hash, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(here, path))
        if path in INCLUDED:
            place = path
        elif path.startswith("docs/"):
            place = path.removeprefix("docs/")
        else:
            return text
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(site_path) or '.')}{hash}{anchor})"

    return _outside_fences(lambda part: _LINK.sub(link, part), markdown)


def _outside_fences(change: Callable[[str], str], markdown: str) -> str:
    parts = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.lstrip().startswith("```") else change(part) for part in parts)


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: make pages of the files beside the code."""
    from mkdocs.structure.files import File

    for path in INCLUDED:
        if (ROOT / path).is_file():
            files.append(File.generated(config, path, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """mkdocs: fill in a page. Flags in the text get a class of their own, by which they are not broken."""
    return _outside_fences(
        lambda part: re.sub(r"(?<!`)`(--[\w-]+)`(?![`{])", r"`\1`{ .flag }", part),
        filled(relinked(markdown, page.file.src_uri)),
    )
