import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tokenmill.schemas.typescript.render import render_namespace, resolve
from tokenmill.schemas.typescript.text import literal

from tests.schemas import compiler


@pytest.fixture(scope="module")
def tsc():
    package = compiler.find_package()
    if package is None:
        pytest.skip("needs node, and npm with a registry to install the typescript package from")
    with compiler.start(package) as running:
        yield running


def tool(schema, name="f", description=""):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER = tool(
    {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "The city and country e.g. Beijing, China"},
            "date": {"type": "string", "description": "The date to query, format in '%Y-%m-%d'"},
        },
        "required": ["location"],
    },
    "get_weather",
    "Get weather for a location and date",
)
CALCULATOR = tool(
    {"type": "object", "properties": {"expr": {"type": "string", "description": "Arithmetic expression"}}},
    "Calculator",
    "Simple calculator",
)


def test_the_reports_listing():
    assert render_namespace([WEATHER, CALCULATOR]) == (
        """namespace functions {
// Get weather for a location and date
type get_weather = (_: {
  // The city and country e.g. Beijing, China
  location: string,
  // The date to query, format in '%Y-%m-%d'
  date?: string
}) => any;
// Simple calculator
type Calculator = (_: {
  // Arithmetic expression
  expr?: string
}) => any;
}"""
    )


def declared(schema):
    """The type of a tool's arguments, after the definitions it refers to. Not even `{"type": "object"}` is without any."""
    schema = {**schema, "$comment": ""} if isinstance(schema, dict) else schema
    inside = render_namespace([tool(schema)]).removeprefix("namespace functions {\n").removesuffix("\n}")
    before, _, arguments = inside.rpartition("type f = (_: ")
    return f"{before}type Value = {arguments.removesuffix(') => any;')};"


def rendered(schema):
    return declared(schema).removeprefix("type Value = ").removesuffix(";")


@pytest.mark.parametrize(
    "schema, text",
    [
        ({"enum": ["a", 1, None, True, 2.5, 1.0]}, '"a" | 1 | null | true | 2.5'),
        ({"type": "string", "enum": ["a", None]}, '"a"'),
        ({"const": {"a": [1, "b"]}}, '{ a: [1, "b"] }'),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, "number | null"),
        ({"type": "array", "items": {"type": ["string", "number"]}}, "(string | number)[]"),
        ({"type": "array"}, "any[]"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{\n  [k: string]: number\n}"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "minItems": 1, "items": False},
         "[string, number?]"),
        ({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}}, "[string?, ...null[]]"),
        ({"allOf": [{"type": "object", "properties": {"a": {}}}, {"type": "object", "required": ["b"]}]},
         "{\n  a?: any\n} & {\n  b: any\n}"),
        ({"type": "object"}, "{ [k: string]: any }"),
        (True, "any"),
        (False, "never"),
        ({"type": "object", "properties": {"a-b": {}, "c": {"type": "object", "properties": {"d": {"const": 1}}}},
          "required": ["a-b"]}, '{\n  "a-b": any,\n  c?: {\n    d?: 1\n  }\n}'),
    ],
)  # fmt: skip
def test_forms(schema, text):
    assert rendered(schema) == text


def test_what_types_cannot_say_is_in_the_comment():
    count = {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "How many.\nAt most fifty."}
    lines = rendered({"type": "object", "properties": {"n": count}}).splitlines()
    assert [line.strip("/ ") for line in lines[1:5]] == [
        "How many.", "At most fifty.", "Integer, minimum 1, maximum 50", "Default: 10"]  # fmt: skip


def test_declared_and_other_properties_together():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": {"type": "integer"},
        "required": ["a"],
    }
    assert rendered(schema) == "{\n  a: string,\n  // Other properties: number\n  [k: string]: any\n}"


def test_references_become_named_types(tsc):
    schema = {
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/Node"}, "again": {"$ref": "#"}},
        "$defs": {
            "Node": {
                "type": "object",
                "description": "A node",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
            }
        },
    }
    text = render_namespace([tool(schema), tool(schema, "Node")])
    assert "// A node\ntype Node_2 = {\n  next?: Node_2 | null\n};" in text
    assert "type f_arguments = {\n  root?: Node_2,\n  again?: f_arguments\n};" in text
    assert text.count("type Node = (_: {") == 1, "a tool keeps its name against definitions"
    assert not tsc.errors(text)


@pytest.mark.parametrize(
    "defs",
    [
        {"A": {"$ref": "#/$defs/A"}},
        {"A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "null"}]}, "B": {"allOf": [{"$ref": "#/$defs/A"}]}},
        {"A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}, "anyOf": [{"$ref": "#/$defs/B"}]},
         "B": {"$ref": "#/$defs/C"}, "C": {"anyOf": [{"$ref": "#/$defs/A"}]}},
        {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}},
        {"A": {"prefixItems": [{"$ref": "#/$defs/A"}]}},
        {"A": {"additionalProperties": {"$ref": "#/$defs/A"}}},
        {"A": {"$ref": "#/$defs/missing"}},
        {"A": {"$ref": "https://example.org/schema"}},
        {"A": {"allOf": [{"enum": [f"a{i}" for i in range(999)]}, {"enum": [f"b{i}" for i in range(999)]}]}},
        {"A": {"allOf": [{"$ref": "#/$defs/B"}, {"$ref": "#/$defs/C"}]},
         "B": {"enum": [f"a{i}" for i in range(999)]}, "C": {"$ref": "#/$defs/D"},
         "D": {"enum": [f"b{i}" for i in range(999)]}},
    ],
)  # fmt: skip
def test_hostile_references_compile(tsc, defs):
    text = render_namespace([tool({"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": defs})])
    assert not tsc.errors(text)


_WORDS = """
abstract accessor any as asserts assert async await bigint boolean break case catch class const constructor continue
debugger declare default delete do else enum eval export extends false finally for from function get global if
implements import in infer instanceof interface intrinsic is keyof let module namespace never new null number object
of out override package private protected prototype public readonly require return satisfies set static string super
switch symbol this throw true try type typeof undefined unique unknown using var void while with yield Array Object
Record Function arguments globalThis NaN Infinity __proto__ toString functions _ $ Promise
"""
WORDS = _WORDS.split()


def test_every_word_can_name_a_tool_and_a_property(tsc):
    tools = [tool({"type": "object", "properties": {w: {"type": "string"} for w in WORDS}}, word) for word in WORDS]
    text = render_namespace(tools)
    assert not tsc.errors(text)
    for word in WORDS:
        assert f"type {word} = (_:" in text or f"// Call as {json.dumps(word)}.\ntype _{word}" in text


HOSTILE = st.one_of(
    st.text(max_size=20),
    st.text(st.characters(), max_size=6),
    st.text(st.sampled_from("*/\\\n\r\u2028\u2029\x85\x0b\ud800\udfff'\"`${}();:@#<>! \x00\x1b\ufeff-a1"), max_size=20),
    st.sampled_from(
        ["@ts-ignore", "@ts-nocheck", " @ts-expect-error", "/ @ts-expect-error", "/// <reference path='x'/>", "*/ x",
         "a\u2028type b = c;", "}) => any;\n}\nlet x: number = 'a';", "\\", "\\u2028", "\ud83d", *WORDS]
    ),
)  # fmt: skip
SCALARS = st.one_of(HOSTILE, st.integers(), st.floats(), st.booleans(), st.none(), st.just(10**400))
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3), max_leaves=6
)
KEYWORDS = [
    "type", "properties", "required", "items", "prefixItems", "additionalProperties", "patternProperties", "enum",
    "const", "anyOf", "allOf", "oneOf", "default", "description", "pattern", "format", "minItems", "minimum",
    "additionalItems", "$ref", "$defs", "title", "uniqueItems", "$schema",
]  # fmt: skip
REFERENCES = st.sampled_from(
    ["#", "#/$defs/A", "#/$defs/B", "#/properties/A", "#/anyOf/0", "#/allOf/1", "#/items", "#a", "x", ""]
)


def _garbage(inner):
    """Schemas whose keywords hold the right things, or anything."""
    some = st.lists(inner, max_size=3)
    named = st.dictionaries(st.sampled_from("AB") | HOSTILE, inner, max_size=3)
    kinds = st.sampled_from(["object", "array", "string", "number", "integer", "null", "boolean", "x"])
    right = {
        "type": kinds | st.lists(kinds | JSON, max_size=3), "properties": named, "patternProperties": named,
        "$defs": named, "required": st.lists(HOSTILE, max_size=3), "items": inner | some, "prefixItems": some,
        "anyOf": some, "allOf": some, "oneOf": some, "enum": st.lists(JSON, max_size=4), "additionalItems": inner,
        "additionalProperties": inner,
        "$ref": REFERENCES,
    }  # fmt: skip
    return st.fixed_dictionaries({}, optional={word: right.get(word, JSON) for word in KEYWORDS}) | st.dictionaries(
        st.sampled_from(KEYWORDS), JSON, max_size=4
    )


GARBAGE = st.recursive(st.booleans() | JSON, _garbage, max_leaves=8)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(GARBAGE, HOSTILE.filter(bool), HOSTILE), min_size=1, max_size=3))
def test_nothing_breaks_out_of_the_namespace(tsc, given_tools):
    text = render_namespace([tool(*parts) for parts in given_tools])
    text.encode()
    assert not tsc.errors(text)
    # The text after the namespace is still outside of it, and every tool is declared in it under its own name.
    probe = f"{text}\nconst probe: number = 'text';"
    assert [error["code"] for error in tsc.errors(probe)] == [2322]
    names = re.findall(r"^type (\S+) = \(_:", text, re.MULTILINE)
    assert len(set(names)) == len(given_tools)
    uses = "".join(f"let v{i}: {name};\n" for i, name in enumerate(names))
    assert text.endswith("\n}")
    assert not tsc.errors(f"{text[:-1]}{uses}}}")


PLAIN = st.sampled_from(["a", "b", "c d", "1", "é"])
VALUES = st.recursive(
    st.sampled_from(["", "a", "b", 0, 1, 2.5, True, False, None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=5,
)
CONSTANTS = st.sampled_from(["a", "b", 0, 1, 2.5, True, None])
BASIC = st.sampled_from([{"type": kind} for kind in ("string", "number", "boolean", "null")])


def _objects(inner, closed):
    """Objects, with properties that are required or not and a rule for others."""

    def build(properties, flags, others):
        names = [name for name, needed in zip(properties, flags, strict=False) if needed]
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": others}

    others = st.just(False) if closed else st.booleans() | inner
    return st.builds(build, st.dictionaries(PLAIN, inner, max_size=3), st.lists(st.booleans(), max_size=3), others)


def _open(inner):
    """All that the renderer knows, and keywords that TypeScript cannot express."""
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        _objects(inner, False),
        st.builds(lambda s: {"type": "array", "items": s}, inner),
        st.builds(lambda f, r, n: {"type": "array", "prefixItems": f, "items": r, "minItems": n},
                  some, inner | st.booleans(), st.integers(0, 3)),
        st.builds(lambda w, s: {w: s}, st.sampled_from(["anyOf", "oneOf", "allOf"]), some),
        st.builds(lambda s: {**s, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, _objects(inner, False)),
        st.builds(lambda s: {"type": ["object", "null"], "patternProperties": {"^a": s}}, inner),
        st.sampled_from([{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Pair"}, {"type": "integer", "minimum": 1},
                         {"type": "string", "pattern": "^a$"}, {"not": {"type": "string"}}]),
    )  # fmt: skip


LEAVES = BASIC | st.builds(lambda v: {"const": v}, CONSTANTS) | st.builds(
    lambda v: {"enum": v}, st.lists(CONSTANTS, min_size=1, max_size=3, unique_by=repr))  # fmt: skip
OPEN = st.recursive(LEAVES, _open, max_leaves=6)
DEFS = {
    # Closed, because the type of an object that is silent about other properties is silent too.
    "Tree": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Tree"}, "b": {"type": "number"}},
        "additionalProperties": False,
    },
    "Pair": {"prefixItems": [{"type": "string"}, {"$ref": "#/$defs/Tree"}], "type": "array"},
}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(OPEN, st.lists(VALUES, min_size=4, max_size=12))
def test_what_the_schema_accepts_type_checks(tsc, schema, values):
    schema = {**schema, "$defs": DEFS}
    accepted = [value for value in values if Draft202012Validator(schema).is_valid(value)]
    # Written as types, values are not subject to the rule that only literals obey: no undeclared properties.
    uses = [f"let v{i}: Value = null! as {literal(value)};" for i, value in enumerate(accepted)]
    assert not tsc.errors("\n".join([declared(schema), *uses]))


def _exact(inner):
    """What TypeScript can say in full: closed objects, maps, arrays, tuples, and unions with at most one structure."""
    flat = LEAVES
    return st.one_of(
        _objects(inner, True),
        st.builds(lambda s: {"type": "object", "additionalProperties": s}, inner),
        st.builds(lambda s: {"type": "array", "items": s}, inner),
        st.builds(lambda f, n: {"type": "array", "prefixItems": f, "items": False, "minItems": min(n, len(f))},
                  st.lists(inner, min_size=1, max_size=3), st.integers(0, 3)),
        st.builds(lambda f, s: {"anyOf": [*f, s]}, st.lists(flat, max_size=2), inner),
    )  # fmt: skip


def _expression(value):
    return json.dumps(value, ensure_ascii=False)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.recursive(LEAVES, _exact, max_leaves=5), st.lists(VALUES, min_size=4, max_size=12))
def test_what_type_checks_the_schema_accepts(tsc, schema, values):
    text = declared(schema)
    first = text.count("\n") + 1
    uses = [f"let v{i}: Value = {_expression(value)};" for i, value in enumerate(values)]
    wrong = {error["line"] - first for error in tsc.errors("\n".join([text, *uses]))}
    valid = Draft202012Validator(schema).is_valid
    assert {i: valid(value) for i, value in enumerate(values)} == {i: i not in wrong for i in range(len(values))}


def test_deep_and_wide_schemas_render_in_bounded_text():
    deep = {"type": "string"}
    for _ in range(400):
        deep = {"type": "object", "properties": {"a": deep}}
    assert len(render_namespace([tool(deep)])) < 20_000
    bomb = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)} | {"d40": {"type": "string"}}
    text = render_namespace([tool({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": bomb})])
    assert len(text) < 5_000


def test_old_drafts_ignore_what_stands_beside_a_reference():
    schema = {"$ref": "#/definitions/a", "type": "number", "definitions": {"a": {"type": "string"}}}
    assert rendered({**schema, "$schema": "http://json-schema.org/draft-07/schema#"}).endswith("type Value = a")
    assert rendered(schema).endswith("type Value = a & number")


def test_references_resolve_by_pointer_and_anchor():
    root = {"$defs": {"a/b": {"type": "string", "$anchor": "x"}, "~": {"prefixItems": [{"const": 1}]}}}
    assert resolve(root, "#/$defs/a~1b") == resolve(root, "#x") == root["$defs"]["a/b"]
    assert resolve(root, "#/$defs/~0/prefixItems/0") == {"const": 1}
    assert resolve(root, "#/$defs/%7E0/prefixItems/0") == {"const": 1}
    assert resolve(root, "#") is root
    for missing in ("#/no", "#/$defs/~0/prefixItems/7", "#nowhere", "other.json#/a", "#/$defs/~0/prefixItems"):
        assert resolve(root, missing) is None


@pytest.mark.parametrize("tools, name", [([WEATHER], "a b"), ([WEATHER], "new"), ([{"description": "x"}], "functions")])
def test_bad_arguments_are_refused(tools, name):
    with pytest.raises(ValueError):
        render_namespace(tools, name)
