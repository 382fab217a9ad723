"""A tool specification as the report and the card show it: what a model reads, and the declaration it is given."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
from tokenmill.pipelines.report.figures import one_line
from tokenmill.schemas.tools import ToolSpec
from tokenmill.schemas.typescript.render import render_namespace

_SHOWN = 6000
"""Characters shown of a declaration or a description."""
_CHIPS = ("origin", "category", "server", "license")


def are_tools(schema: pa.Schema | None) -> bool:
    """Whether rows of this schema are tool specifications."""
    return schema is not None and set(ToolSpec.__dataclass_fields__) <= set(schema.names)


def tool_view(row: dict[str, Any], label: str = "") -> dict[str, Any] | None:
    """Name, description, TypeScript declaration and provenance of a row; None where it is no tool."""
    if not all(isinstance(row.get(name), str) for name in ("name", "description", "input_schema")):
        return None
    package = "@".join(filter(None, (str(row.get("package") or ""), str(row.get("version") or ""))))
    domain = row.get("domain") if isinstance(row.get("domain"), list) else []
    chips = [*(row.get(name) for name in _CHIPS), " / ".join(map(str, domain)), package]
    language, code = declaration(row)
    return {
        "label": label,
        "id": str(row.get("id") or ""),
        "name": row["name"],
        "description": row["description"][:_SHOWN],
        "chips": [one_line(chip, 80) for chip in chips if chip],
        "language": language,
        "code": code[:_SHOWN],
        "more": max(len(code) - _SHOWN, 0),
    }


def declaration(row: dict[str, Any]) -> tuple[str, str]:
    """(language, code): the TypeScript declaration, or the schema as it stands where none can be made of it."""
    try:
        function = {
            "name": row["name"],
            "description": row["description"],
            "parameters": orjson.loads(row["input_schema"]),
        }
        return "typescript", render_namespace([{"type": "function", "function": function}])
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return "json", row["input_schema"]
