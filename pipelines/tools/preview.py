"""What the jobs of tools make, as a preview shows it."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text
from tokenmill.schemas.tools import ToolSpec, to_openai
from tokenmill.schemas.typescript.render import render_namespace


def view(row: Any) -> RenderableType:
    """A tool, or the domain of several."""
    if isinstance(row, ToolSpec):
        shown: list[RenderableType] = [Syntax(render_namespace([to_openai(row)]), "typescript", word_wrap=True)]
        for name in ("reads", "writes", "preconditions", "effects", "errors"):
            if told := getattr(row.semantics, name):
                shown.append(Text(f"  {name}: {'; '.join(told)}", "dim"))
    else:
        shown = [Text(f"{row.operator} of {', '.join(row.parents)}", "dim"), Text(row.description)]
    if detail := getattr(row, "detail", ""):
        shown.append(Text(f"  {detail}", "yellow"))
    return Group(*shown)
