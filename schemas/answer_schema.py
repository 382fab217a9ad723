"""JSON Schemas of what models are asked for, in the subset that strict decoders take: every property of an object is
required, and nothing else is allowed. Models write properties in the order in which they are declared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}


def record(**properties: Schema) -> Schema:
    """An object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def array(items: Schema, most: int | None = None, least: int | None = None) -> Schema:
    """A list; None sets no limit."""
    limits = {"minItems": least, "maxItems": most}
    return {"type": "array", "items": items, **{name: limit for name, limit in limits.items() if limit is not None}}


def choice(values: Iterable[str]) -> Schema:
    """One of some texts."""
    return {"type": "string", "enum": list(values)}
