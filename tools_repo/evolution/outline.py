"""An entity model as a page that a model reads at a quarter of the tokens of its JSON Schemas."""

from __future__ import annotations

from typing import Any

from tokenmill.tools_repo.world.entities import EntityModel

_MAX_CHOICES = 20


def outline(model: EntityModel) -> str:
    """Kinds with their fields: types, choices, `-> Kind` for references, `?` for what may be missing."""
    return "\n".join(
        f"{kind.name}{f' (identifier: {kind.identifier})' if kind.identifier else ''}: {kind.description}\n"
        f"  {_fields(kind.schema)}"
        for kind in model.kinds.values()
    )


def _fields(schema: dict[str, Any]) -> str:
    required = set(schema.get("required") or ())
    return "; ".join(
        f"{name}{'' if name in required else '?'}: {_type(inner)}"
        for name, inner in (schema.get("properties") or {}).items()
    )


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    for option in schema.get("anyOf") or ():
        if isinstance(option, dict) and option.get("type") != "null":
            return _type(option)
    if target := schema.get("x-ref"):
        return f"-> {target}" if schema.get("type") != "array" else f"list of -> {target}"
    if choices := schema.get("enum"):
        return " | ".join(map(str, choices[:_MAX_CHOICES]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items'))}"
    if schema.get("properties"):
        return f"{{{_fields(schema)}}}"
    return str(schema.get("format") or schema.get("type") or "any")


def choices_of(model: EntityModel, kinds: list[str]) -> dict[str, set[str]]:
    """Fixed choices of the fields of some kinds, by the field's name."""
    found: dict[str, set[str]] = {}
    for name in kinds:
        kind = model.kinds.get(name)
        for field, schema in (kind.schema.get("properties") or {}).items() if kind else ():
            options = [schema, *(o for o in schema.get("anyOf") or () if isinstance(o, dict))]
            for option in options:
                found.setdefault(field, set()).update(map(str, option.get("enum") or ()))
    return {field: values for field, values in found.items() if values}
