"""Tools from an OpenAPI document: one per operation, its parameters and JSON body as one object of arguments.

OpenAPI 3.1 and 3.0, and Swagger 2.0. Schemas of 3.0 and 2.0, a dialect apart, are brought to JSON Schema 2020-12:
`nullable` becomes a type, boolean `exclusiveMinimum` a number, `#/components/schemas/X` becomes `#/$defs/X`.
"""

from __future__ import annotations

import re
from typing import Any

from tokenmill.tools_repo.harvest.harvester import Harvested

_METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
_DROPPED = frozenset({"nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly"})
_REF = re.compile(r"#/(?:components/schemas|definitions)/([^/]+)")
_DEPTH = 64
_CREDENTIALS = frozenset({"authorization", "cookie", "x-api-key"})


class OpenApiInvalid(ValueError):
    """Not an OpenAPI document that tools can be made of."""


def is_openapi(document: Any) -> bool:
    """Whether a JSON value says of itself that it is an OpenAPI document."""
    return isinstance(document, dict) and ("openapi" in document or "swagger" in document)


def read_openapi(document: dict[str, Any]) -> Harvested:
    """The operations of a document, as elements of an MCP `tools/list`.

    Raises:
        OpenApiInvalid: it has no operations, or is not built like one.
    """
    try:
        tools = _tools(document)
        info = document.get("info") or {}
        license = info.get("license") or {}
        rights = str(license.get("identifier") or license.get("name") or "")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OpenApiInvalid(f"not built like an OpenAPI document: {type(error).__name__}: {error}") from None
    if not tools:
        raise OpenApiInvalid("the document has no operations")
    return Harvested(
        tools=tuple(tools),
        version=str(info.get("version") or ""),
        license=rights,
        title=str(info.get("title") or ""),
    )


def _tools(document: dict[str, Any]) -> list[dict[str, Any]]:
    tools, used = [], set()
    for path, item in (document.get("paths") or {}).items():
        item = _resolved(item, document)
        for method in _METHODS:
            operation = item.get(method)
            if not isinstance(operation, dict):
                continue
            name = str(operation.get("operationId") or f"{method}_{path}")
            while name in used:
                name += "_2"
            used.add(name)
            tools.append(_tool(name, method, path, item, operation, document))
    return tools


def _tool(
    name: str, method: str, path: str, item: dict[str, Any], operation: dict[str, Any], document: dict[str, Any]
) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    body: dict[str, Any] | None = None
    body_required = False
    # An operation's own parameter replaces the path's of the same name and place.
    listed = [_resolved(p, document) for p in (*(item.get("parameters") or ()), *(operation.get("parameters") or ()))]
    for parameter in {(p.get("name"), p.get("in")): p for p in listed}.values():
        where, key = parameter.get("in"), str(parameter.get("name"))
        if where == "body":
            body, body_required = parameter.get("schema"), bool(parameter.get("required"))
        elif where in ("path", "query", "formData") or (where == "header" and key.lower() not in _CREDENTIALS):
            properties[key] = _parameter(parameter)
            if parameter.get("required") or where == "path":
                required.append(key)
    request = _resolved(operation.get("requestBody") or {}, document)
    if request:
        body, body_required = _json_schema(request), bool(request.get("required"))
    if body is not None:
        whole = _resolved(body, document)
        own = whole.get("properties")
        if isinstance(own, dict) and own and not own.keys() & properties.keys() and "allOf" not in whole:
            properties |= own
            required += [key for key in whole.get("required") or () if body_required]
        else:
            properties["body"] = body
            required += ["body"] if body_required else []
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    text = "\n\n".join(dict.fromkeys(str(operation[k]).strip() for k in ("summary", "description") if operation.get(k)))
    tool = {
        "name": name,
        "description": text or f"{method.upper()} {path}",
        "inputSchema": _standalone(schema, document),
        "annotations": {
            "readOnlyHint": method in ("get", "head", "options"),
            "destructiveHint": method == "delete",
            "idempotentHint": method in ("get", "put", "delete", "head", "options"),
        },
    }
    output = _result(operation, document)
    if output is not None:
        tool["outputSchema"] = _standalone(output, document)
    return tool


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    schema = parameter.get("schema")
    if schema is None and "content" in parameter:
        schema = _json_schema(parameter)
    if schema is None:  # Swagger 2.0 writes the schema's keywords beside the parameter's own
        own = ("name", "in", "required", "description", "collectionFormat", "allowEmptyValue")
        schema = {key: value for key, value in parameter.items() if key not in own}
        if schema.get("type") == "file":
            schema = {"type": "string"}
    if parameter.get("description") and "$ref" not in schema:
        schema = {"description": parameter["description"], **schema}
    return schema


def _json_schema(holder: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a body's JSON form, or of its first form."""
    content = holder.get("content") or {}
    as_json = next((value for kind, value in content.items() if "json" in kind), None)
    form: dict[str, Any] = as_json or next(iter(content.values()), {})
    return form.get("schema")


def _result(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a successful answer, where that is an object, as MCP's `outputSchema` must be."""
    responses = operation.get("responses") or {}
    for code, response in responses.items():
        if str(code).startswith("2"):
            response = _resolved(response, document)
            schema = response.get("schema") or _json_schema(response)
            if schema and _resolved(schema, document).get("type") == "object":
                return schema
    return None


def _resolved(value: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """What a `$ref` within the document points at; the value itself where it has none."""
    for _ in range(_DEPTH):
        ref = value.get("$ref")
        if not isinstance(ref, str):
            return value
        if not ref.startswith("#/"):
            raise KeyError(f"reference {ref[:200]} leads out of the document")
        target: Any = document
        for part in ref[2:].split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        value = target
    raise RecursionError("references lead in a circle")


def _standalone(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """The schema in JSON Schema 2020-12, with all definitions that it reaches under `$defs`."""
    if "$ref" in schema:
        schema = _resolved(schema, document)
    known = (document.get("components") or {}).get("schemas") or document.get("definitions") or {}
    named: dict[str, Any] = {}
    todo: list[str] = []
    converted = _converted(schema, todo, 0)
    while todo:
        name = todo.pop()
        if name not in named:
            named[name] = {}
            named[name] = _converted(known[name], todo, 0)
    if named:
        converted["$defs"] = named
    return converted


def _converted(schema: Any, todo: list[str], depth: int) -> Any:
    if depth > _DEPTH:
        raise RecursionError("a schema is nested too deeply")
    if isinstance(schema, list):
        return [_converted(item, todo, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    ref = schema.get("$ref")
    if isinstance(ref, str):
        match = _REF.fullmatch(ref)
        if match is None:
            raise KeyError(f"reference {ref[:200]} does not name a schema of the document")
        name = match[1].replace("~1", "/").replace("~0", "~")
        todo.append(name)
        return {"$ref": f"#/$defs/{match[1]}"}
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED or key.startswith("x-"):
            continue
        if key in ("properties", "patternProperties", "$defs") and isinstance(value, dict):
            out[key] = {name: _converted(inner, todo, depth + 1) for name, inner in value.items()}
        elif key in ("enum", "const", "default", "examples", "required"):
            out[key] = value
        else:
            out[key] = _converted(value, todo, depth + 1)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(out.get(exclusive), bool) and out.pop(exclusive) and limit in out:
            out[exclusive] = out.pop(limit)
    if schema.get("nullable") is True and isinstance(out.get("type"), str):
        out["type"] = [out["type"], "null"]
        if isinstance(out.get("enum"), list) and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
    return out
