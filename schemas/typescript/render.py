"""Tools as TypeScript declarations, the form in which a model is told of them (Kimi K2 report, appendix B, listing 2).

    render_namespace([to_openai(spec) for spec in toolset])

Every call that a tool's JSON Schema accepts type-checks, but for properties that an object does not declare: the type
is silent of them where the schema is, as in the report, and not where `additionalProperties` says more. What TypeScript
cannot say (ranges, patterns, exclusive choices, whole numbers) widens the type and is told in a comment. A schema that
constrains objects, arrays or texts without naming the type is read as that type, as its author meant it.

Whatever stands in names, descriptions and schemas, the text is one valid namespace: see `schemas.typescript.text`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tokenmill.schemas.typescript.text import comment, constraints, identifier, is_identifier, key, literal
from tokenmill.schemas.typescript.types import ANY, NEVER, Type, array, intersection, object_type, tuple_type, union

_DEEPEST = 48
"""Schemas nested deeper than this become `any`; it also bounds our own recursion."""
_SHOWN = 500
"""Characters of a default that are shown."""
_OLD_DRAFTS = ("draft-03", "draft-04", "draft-06", "draft-07")
"""Drafts in which a `$ref` makes everything beside it void."""
_OBJECT_WORDS = ("properties", "required", "additionalProperties", "patternProperties")
_ARRAY_WORDS = ("items", "prefixItems")
_PLAIN_WORDS = {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
"""What a schema may hold that takes no arguments; the report declares such tools with `(_: {})`."""
_BASIC = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def render_namespace(tools: list[dict[str, Any]], name: str = "functions") -> str:
    """The tools, OpenAI `tools` elements (`function` wrapped or bare), as `namespace NAME { ... }`.

    A tool whose name is no TypeScript identifier is declared under a similar one, with its real name in the comment
    above: `// Call as "get-weather".`.

    Raises:
        ValueError: `name` is no identifier, or a tool has no name.
    """
    if not is_identifier(name):
        raise ValueError(f"a namespace is named by an identifier, not {name!r}")
    functions = [tool.get("function", tool) for tool in tools]
    if not all(isinstance(f, dict) and isinstance(f.get("name"), str) and f["name"] for f in functions):
        raise ValueError("every tool needs a name")
    # Tools that can keep their names do, whatever other tools and definitions would like to be called.
    taken: set[str] = set()
    declared: list[str] = [""] * len(functions)
    for index, function in enumerate(functions):
        if is_identifier(function["name"]) and function["name"] not in taken:
            declared[index] = function["name"]
            taken.add(function["name"])
    for index, function in enumerate(functions):
        declared[index] = declared[index] or identifier(function["name"], taken)
    lines = [f"namespace {name} {{"]
    for function, as_name in zip(functions, declared, strict=True):
        lines += _tool(function, as_name, taken)
    return "\n".join([*lines, "}"])


def _tool(function: dict[str, Any], as_name: str, taken: set[str]) -> list[str]:
    schema = function.get("parameters")
    schema = {"type": "object", "properties": {}} if schema is None else schema
    scope = _Scope(schema, as_name, taken)
    nothing = schema == {"type": "object"} or (isinstance(schema, dict) and schema.get("properties") == {})
    arguments = Type("{}") if nothing and schema.keys() <= _PLAIN_WORDS else scope.render(schema, None)
    head = comment(function.get("description"))
    if as_name != function["name"]:
        head += comment(f"Call as {literal(function['name'])}.")
    return [*scope.definitions(), *head, f"type {as_name} = (_: {arguments.text}) => any;"]


@dataclass
class _Scope:
    """One tool's schema: its references resolve in it, and become named types of the namespace."""

    root: Any
    owner: str
    taken: set[str]
    """Names in use in the namespace; grows."""
    names: dict[str, str] = field(default_factory=dict)
    """Type name of each `$ref` met."""
    waiting: list[str] = field(default_factory=list)
    bare: dict[str, set[str]] = field(default_factory=dict)
    """For each definition those it refers to outside any object or array: these must not form a circle."""
    old: bool = False

    def __post_init__(self) -> None:
        dialect = self.root.get("$schema") if isinstance(self.root, dict) else None
        self.old = isinstance(dialect, str) and any(draft in dialect for draft in _OLD_DRAFTS)

    def definitions(self) -> list[str]:
        """Declarations of everything referred to so far, and of what those refer to."""
        lines: list[str] = []
        while self.waiting:
            ref = self.waiting.pop(0)
            schema = resolve(self.root, ref)
            lines += comment(schema.get("description") if isinstance(schema, dict) else None)
            lines.append(f"type {self.names[ref]} = {self.render(schema, ref).text};")
        return lines

    def render(self, schema: Any, within: str | None, depth: int = 0) -> Type:
        """The type of `schema`; `within` is the definition whose alias it stands in bare, None inside a structure."""
        if schema is False:
            return NEVER
        if not isinstance(schema, dict) or depth > _DEEPEST:
            return ANY
        parts = []
        if "$ref" in schema:
            parts.append(self._reference(schema["$ref"], within))
            if self.old:
                return parts[0]
        if "const" in schema:
            parts.append(union([_constant(schema["const"])]))
        elif isinstance(schema.get("enum"), list):
            parts.append(union([_constant(value) for value in schema["enum"] if _may_be(value, schema.get("type"))]))
        else:
            parts.append(self._by_type(schema, depth))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                parts.append(union([self.render(s, within, depth + 1) for s in schema[word]]))
        if isinstance(schema.get("allOf"), list):
            parts += [self.render(s, within, depth + 1) for s in schema["allOf"]]
        return intersection(parts)

    def _reference(self, ref: Any, within: str | None) -> Type:
        target = resolve(self.root, ref) if isinstance(ref, str) else None
        if target is None or isinstance(target, bool):
            return NEVER if target is False else ANY
        if within is not None:
            if self._leads(ref, within):
                return ANY  # `type A = A`: a circle that no value can break
            self.bare.setdefault(within, set()).add(ref)
        if ref not in self.names:
            last = ref.rstrip("/").rsplit("/", 1)[-1].lstrip("#")
            self.names[ref] = identifier(last or f"{self.owner}_arguments", self.taken)
            self.waiting.append(ref)
        return Type(self.names[ref], wide=_is_choice(self.root, target))

    def _leads(self, start: str, goal: str) -> bool:
        """Whether `start` is `goal` or refers to it, bare, directly or through others."""
        seen, stack = set(), [start]
        while stack:
            ref = stack.pop()
            if ref == goal:
                return True
            if ref not in seen:
                seen.add(ref)
                stack += self.bare.get(ref, ())
        return False

    def _by_type(self, schema: dict[str, Any], depth: int) -> Type:
        kinds = schema.get("type")
        if kinds is None:
            if any(word in schema for word in _OBJECT_WORDS):
                kinds = "object"
            elif any(word in schema for word in _ARRAY_WORDS):
                kinds = "array"
            elif "pattern" in schema:
                kinds = "string"
            else:
                return ANY
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return union([self._one_type(kind, schema, depth) for kind in kinds])

    def _one_type(self, kind: Any, schema: dict[str, Any], depth: int) -> Type:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        return Type(_BASIC[kind]) if isinstance(kind, str) and kind in _BASIC else ANY

    def _array(self, schema: dict[str, Any], depth: int) -> Type:
        first, rest = schema.get("prefixItems"), schema.get("items", True)
        if not isinstance(first, list) and isinstance(rest, list):  # as drafts up to 2019-09 write tuples
            first, rest = rest, schema.get("additionalItems", True)
        others = self.render(rest, None, depth + 1)
        if not isinstance(first, list) or not first:
            return array(others)
        needed = schema.get("minItems")
        needed = needed if isinstance(needed, int | float) else 0
        return tuple_type([self.render(item, None, depth + 1) for item in first], needed, others)

    def _object(self, schema: dict[str, Any], depth: int) -> Type:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        fields: list[tuple[list[str], str]] = []
        for name, sub in properties.items():
            shown = self.render(sub, None, depth + 1)
            mark = "" if name in needed else "?"
            fields.append((_remarks(sub), f"{key(name)}{mark}: {shown.text}"))
        others = self._others(schema, depth)
        # A required property that is not described follows the rule for the others.
        fields += [([], f"{key(name)}: {(others or ANY).text}") for name in sorted(needed - properties.keys())]
        if others is not None:
            if fields and others.text != "any":  # an index signature also binds the declared properties
                fields.append((comment(f"Other properties: {others.text}"), "[k: string]: any"))
            else:
                fields.append(([], f"[k: string]: {others.text}"))
        if not fields:  # `{}` would also accept texts and numbers
            return Type(f"{{ [k: string]: {'never' if schema.get('additionalProperties') is False else 'any'} }}")
        return object_type(fields)

    def _others(self, schema: dict[str, Any], depth: int) -> Type | None:
        """The type of properties that are not declared; None where the schema says nothing of them or forbids them."""
        additional, patterns = schema.get("additionalProperties"), schema.get("patternProperties")
        options = [self.render(s, None, depth + 1) for s in patterns.values()] if isinstance(patterns, dict) else []
        if additional is not None and additional is not False:
            options.append(self.render(additional, None, depth + 1))
        elif options and additional is None:
            return ANY
        return union(options) if options else None


def resolve(root: Any, ref: str) -> Any:
    """What a local `$ref` (`#`, `#/json/pointer`, `#anchor`) points to in `root`; None if that is no schema."""
    if not ref.startswith("#"):
        return None
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        return _anchored(root, ref[1:])
    from urllib.parse import unquote

    at = root
    for step in ref[2:].split("/"):
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and step in at:
            at = at[step]
        elif isinstance(at, list) and step.isascii() and step.isdigit() and len(step) < 9 and int(step) < len(at):
            at = at[int(step)]
        else:
            return None
    return at if isinstance(at, dict | bool) else None


def _anchored(root: Any, anchor: str) -> Any:
    stack = [root]
    while stack:
        at = stack.pop()
        if isinstance(at, dict):
            if anchor in (at.get("$anchor"), at.get("$dynamicAnchor")) or at.get("$id") == f"#{anchor}":
                return at
            stack += at.values()
        elif isinstance(at, list):
            stack += at
    return None


def _is_choice(root: Any, schema: Any) -> bool:
    """Whether a definition may be a union, looking through references."""
    seen: list[int] = []
    while isinstance(schema, dict) and id(schema) not in seen:
        if any(word in schema for word in ("anyOf", "oneOf", "allOf", "enum")) or isinstance(schema.get("type"), list):
            return True
        seen.append(id(schema))
        schema = resolve(root, schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
    return False


def _may_be(value: Any, kinds: Any) -> bool:
    """Whether `type` lets an `enum` value through; widens in doubt."""
    kinds = kinds if isinstance(kinds, list) else [kinds]
    mine = {str: "string", bool: "boolean", type(None): "null", dict: "object", list: "array"}.get(
        type(value), "number"
    )
    return (
        not all(isinstance(kind, str) for kind in kinds) or mine in kinds or (mine == "number" and "integer" in kinds)
    )


def _constant(value: Any) -> Type:
    return Type(literal(value))


def _remarks(schema: Any) -> list[str]:
    """The comment above a property: description, what TypeScript cannot say, default."""
    if not isinstance(schema, dict):
        return []
    lines = comment(schema.get("description"))
    items = schema.get("items")
    if isinstance(items, dict) and items.get("description"):
        lines += comment(f"Items: {items['description']}")
    if limits := constraints(schema):
        lines += comment(limits)
    if "default" in schema:
        lines += comment(f"Default: {literal(schema['default'])[:_SHOWN]}")
    return lines
