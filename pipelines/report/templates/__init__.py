"""Templates of what a finished run shows: the dataset card and the report."""

from __future__ import annotations

import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from tokenmill.inference.recording import told
from tokenmill.pipelines.report import formatting


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tokenmill.pipelines.report", "templates"),
        # The report is HTML made of untrusted rows; the card is Markdown and quotes by its own filters.
        autoescape=lambda name: name is not None and ".html" in name,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {**formatting.FILTERS, "recorded": told}
    return environment


def _visible(value: Any) -> Any:
    """No value that a template prints carries control characters or direction overrides."""
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def load() -> None:
    """Compile all templates."""
    for name in _environment().list_templates(extensions=["j2"]):
        _environment().get_template(name)


def text(name: str) -> str:
    """A file of this folder as it stands (style sheet, script)."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


def render(name: str, **values: Any) -> str:
    """The template `name` with `values`; a value it lacks is an error."""
    return _environment().get_template(name).render(**values)


def write_whole(path: Path, content: str) -> Path:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(content, encoding="utf-8", newline="\n")
    os.replace(part, path)  # noqa: PTH105  one atomic rename
    return path
