"""Specifications that lie in files: saved answers, registry entries, OpenAPI documents, folders of them."""

import json

import jsonschema
import pytest
from tokenmill.tools_repo.harvest.openapi import OpenApiInvalid, read_openapi
from tokenmill.tools_repo.harvest.server_lists import from_server_json, read_sources, slug
from tokenmill.tools_repo.harvest.servers import ServerInvalid

TOOL = {"name": "find", "description": "Finds.", "inputSchema": {"type": "object"}}

PETS = {
    "openapi": "3.0.3",
    "info": {"title": "Pet Store!", "version": "2.1", "license": {"name": "Apache 2.0"}},
    "paths": {
        "/pets/{id}": {
            "parameters": [{"$ref": "#/components/parameters/Id"}],
            "get": {
                "operationId": "getPet",
                "summary": "One pet",
                "description": "Returns a pet by its number.",
                "parameters": [
                    {"name": "fields", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "Authorization", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                ],
                "responses": {
                    "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
                },
            },
            "put": {
                "requestBody": {"$ref": "#/components/requestBodies/Pet"},
                "responses": {"204": {"description": "done"}},
            },
            "delete": {"operationId": "getPet", "responses": {}},
        }
    },
    "components": {
        "parameters": {"Id": {"name": "id", "in": "path", "description": "Its number", "schema": {"type": "integer"}}},
        "requestBodies": {
            "Pet": {"required": True, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}
        },
        "schemas": {
            "Pet": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "nullable": True, "example": "Rex"},
                    "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                    "tag": {"type": "string", "enum": ["cat", "dog"], "nullable": True},
                    "mother": {"$ref": "#/components/schemas/Pet"},
                    "example": {"type": "string", "x-internal": 1},
                },
                "discriminator": {"propertyName": "tag"},
            }
        },
    },
}

SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "Old", "version": "1"},
    "paths": {
        "/orders": {
            "post": {
                "parameters": [
                    {"name": "dry", "in": "query", "type": "boolean", "description": "Only try"},
                    {"name": "order", "in": "body", "required": True, "schema": {"$ref": "#/definitions/Order"}},
                ],
                "responses": {"201": {"schema": {"$ref": "#/definitions/Order"}}},
            }
        }
    },
    "definitions": {"Order": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}},
}


def tool(document, name):
    return next(t for t in read_openapi(document).tools if t["name"] == name)


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


# OpenAPI


def test_an_operation_becomes_a_tool():
    found = tool(PETS, "getPet")
    assert found["description"] == "One pet\n\nReturns a pet by its number."
    assert found["inputSchema"] == {
        "type": "object",
        "properties": {
            "id": {"description": "Its number", "type": "integer"},
            "fields": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["id"],
    }
    assert found["annotations"] == {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}


def test_a_body_is_merged_and_its_schema_made_standalone_and_modern():
    schema = tool(PETS, "put_/pets/{id}")["inputSchema"]
    assert schema["required"] == ["id", "name"]
    assert schema["properties"]["name"] == {"type": ["string", "null"]}
    assert schema["properties"]["weight"] == {"type": "number", "exclusiveMinimum": 0}
    assert schema["properties"]["tag"] == {"type": ["string", "null"], "enum": ["cat", "dog", None]}
    assert schema["properties"]["example"] == {"type": "string"}, "a property may be called like a keyword"
    assert schema["properties"]["mother"] == {"$ref": "#/$defs/Pet"} and "discriminator" not in schema["$defs"]["Pet"]
    jsonschema.Draft202012Validator.check_schema(schema)
    judge = jsonschema.Draft202012Validator(schema)
    assert judge.is_valid({"id": 1, "name": None, "mother": {"name": "Ada", "weight": 2}})
    assert not judge.is_valid({"id": 1, "name": "Rex", "mother": {"name": "Ada", "weight": 0}})


def test_a_result_that_is_an_object_becomes_the_output_schema():
    assert tool(PETS, "getPet")["outputSchema"]["required"] == ["name"]
    assert "outputSchema" not in tool(PETS, "put_/pets/{id}")


def test_two_operations_of_one_name_are_told_apart():
    assert tool(PETS, "getPet_2")["annotations"]["destructiveHint"] is True


def test_swagger_2_is_read_too():
    found = tool(SWAGGER, "post_/orders")
    assert found["inputSchema"]["properties"] == {
        "dry": {"description": "Only try", "type": "boolean"},
        "sum": {"type": "number"},
    }
    assert found["inputSchema"]["required"] == ["sum"] and found["outputSchema"]["required"] == ["sum"]


def test_a_body_whose_names_collide_stays_apart():
    document = json.loads(json.dumps(SWAGGER))
    document["definitions"]["Order"]["properties"]["dry"] = {"type": "string"}
    schema = read_openapi(document).tools[0]["inputSchema"]
    assert schema["properties"]["body"] == {"$ref": "#/$defs/Order"} and schema["required"] == ["body"]


@pytest.mark.parametrize(
    "broken",
    [
        {"openapi": "3.1.0"},
        {"openapi": "3.1.0", "paths": []},
        {"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "http://evil/x"}]}}}},
        {"openapi": "3.1.0", "paths": {"/a": {"$ref": "#/paths/~1a"}}},
        {"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "#/components/no"}]}}}},
        {"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": "x"}}}},
        {"openapi": "3.1.0", "paths": {"/a": {"get": {}}}, "info": "x"},
        {"openapi": "3.1.0", "paths": {"/a": {"get": {}}}, "info": {"license": "MIT"}},
    ],
)
def test_a_document_that_is_not_built_like_one_is_refused(broken):
    with pytest.raises(OpenApiInvalid):
        read_openapi(broken)


# server.json


def test_a_registry_entry_names_its_first_package_over_stdio():
    server = from_server_json(
        {
            "server": {
                "name": "io.github.acme/weather",
                "version": "1.4.0",
                "packages": [
                    {"registryType": "oci", "identifier": "acme/weather"},
                    {"registryType": "pypi", "identifier": "http-only", "transport": {"type": "streamable-http"}},
                    {
                        "registryType": "npm",
                        "identifier": "@acme/weather",
                        "version": "1.4.1",
                        "transport": {"type": "stdio"},
                        "packageArguments": [
                            {"type": "positional", "value": "serve"},
                            {"type": "named", "name": "--units", "default": "metric"},
                            {"type": "named", "name": "--quiet"},
                        ],
                        "environmentVariables": [
                            {"name": "MODE", "default": "demo"},
                            {"name": "KEY", "isSecret": True},
                        ],
                    },
                ],
            }
        }
    )
    assert (server.name, server.npm, server.version) == ("io.github.acme-weather", "@acme/weather", "1.4.1")
    assert server.args == ("serve", "--units", "metric", "--quiet") and server.env == {"MODE": "demo"}


def test_a_registry_entry_without_packages_names_its_address():
    server = from_server_json({"name": "a/b", "remotes": [{"type": "streamable-http", "url": "https://a.example/mcp"}]})
    assert server.url == "https://a.example/mcp"


@pytest.mark.parametrize(
    "entry", [{}, [], {"name": "x"}, {"name": "x", "remotes": [{"type": "sse", "url": "http://x"}]}]
)
def test_a_registry_entry_that_names_nothing_we_can_reach_is_refused(entry):
    with pytest.raises(ServerInvalid):
        from_server_json(entry)


# Files and folders


@pytest.mark.parametrize(
    "saved", [[TOOL], {"tools": [TOOL]}, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL], "nextCursor": None}}]
)
def test_a_saved_answer_is_read_in_every_form(saved, tmp_path):
    (source,) = read_sources([write(tmp_path / "acme.json", saved)])
    assert (source.name, source.file, source.origin) == ("acme", "acme.json", "mcp")
    assert source.listed.tools == (TOOL,)


def test_a_folder_is_read_file_by_file_and_nothing_is_lost(tmp_path):
    folder = tmp_path / "specs"
    write(
        folder / "a" / "server.json",
        {"name": "x/one", "packages": [{"registryType": "pypi", "identifier": "one", "version": "1"}]},
    )
    write(folder / "b.json", {"tools": [TOOL]})
    write(folder / "c.yaml", "openapi: 3.1.0\ninfo: {title: Yam}\npaths: {/a: {get: {summary: Reads}}}\n")
    write(folder / "d.json", "{broken")
    write(folder / "e.yml", "a: [")
    write(folder / "f.jsonl", '{"name": "two", "url": "http://x/"}\n\n# a remark\n{"name": "one"}\n')
    write(folder / "g.json", {"nothing": "known"})
    write(folder / "h.yaml", "a: &a [x, x]\nb: &b [*a, *a]\ndate: 2026-01-01\n")
    write(
        folder / "i.json",
        {"servers": [{"name": "two", "remotes": [{"type": "streamable-http", "url": "http://y/"}]}, 7]},
    )
    write(folder / "notes.txt", "not read")
    found = {(s.file, s.row): s for s in read_sources([folder])}
    assert {key: source.error for key, source in found.items()} == {
        ("specs/a/server.json", 0): "",
        ("specs/b.json", 0): "",
        ("specs/c.yaml", 0): "",
        ("specs/d.json", 0): "invalid_json",
        ("specs/e.yml", 0): "invalid_json",
        ("specs/f.jsonl", 0): "",
        ("specs/f.jsonl", 3): "invalid_server",
        ("specs/g.json", 0): "invalid_server",
        ("specs/h.yaml", 0): "invalid_server",
        ("specs/i.json", 0): "duplicate_name",
        ("specs/i.json", 1): "invalid_server",
    }
    assert found["specs/c.yaml", 0].origin == "openapi" and found["specs/c.yaml", 0].name == "Yam"
    assert found["specs/a/server.json", 0].server.pypi == "one"


@pytest.mark.parametrize(
    ("text", "name"), [("io.github.acme/weather API", "io.github.acme-weather-API"), ("../..", ""), ("日本", "")]
)
def test_names_are_safe_everywhere(text, name):
    assert slug(text) == name
