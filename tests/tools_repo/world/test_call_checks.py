import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.bench.agentic.shop import ENTITIES, LIST, STATE, TOOLS, tool
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.call_checks import Checks

TEXT = {"type": "string"}
CREATE = tool("create_order", {"order_id": TEXT, "customer_id": TEXT}, reads=["Customer"], writes=["Order"])
SEARCH = tool("search_orders", {"customer_id": TEXT}, reads=["Order", "Customer"])
BULK = tool(
    "archive",
    {
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"order_id": TEXT, "at": {"type": "string", "format": "date"}}},
        },
        "owner": {"type": "string", "x-ref": "Customer"},
    },
    ["items"],
    writes=["Order"],
)
BY_ID = tool("fetch", {"id": TEXT}, reads=["Order"])
OTHER = tool("send_mail", {"order_id": TEXT}, reads=["Customer"])
CHECKS = Checks((*TOOLS, CREATE, SEARCH, BULK, BY_ID, OTHER), ENTITIES)


def fault(name, arguments):
    found = CHECKS(name, arguments if isinstance(arguments, str) else json.dumps(arguments), STATE)
    assert isinstance(found, ToolResult), found
    error = json.loads(found.content)["error"]
    assert found.error == error["code"] and found.engine == "checks" and found.patch == "[]"
    return error


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("get_order", {"order_id": "ORD-10"}),
        ("create_order", {"order_id": "ORD-99", "customer_id": "CUS-1"}),  # it makes that order
        ("search_orders", {"customer_id": "CUS-9"}),  # nothing will be found
        ("list_orders", {"customer_id": "CUS-9"}),
        ("archive", {"items": [{"order_id": "ORD-10"}]}),
        ("send_mail", {"order_id": "ORD-99"}),  # not known to look at orders
        ("fetch", {"id": "ORD-11"}),
    ],
)
def test_valid_calls_pass(name, arguments):
    assert CHECKS(name, json.dumps(arguments), STATE) == arguments


@pytest.mark.parametrize(
    "name, arguments, code, said",
    [
        ("get_ordr", {}, "unknown_tool", "Did you mean get_order"),
        ("zzz", {}, "unknown_tool", "Available: get_order"),
        ("get_order", "{", "invalid_arguments", "not valid JSON"),
        ("get_order", "[]", "invalid_arguments", "must be a JSON object"),
        ("get_order", "", "invalid_arguments", "order_id: this field is required"),
        ("get_order", "x" * 70_000, "invalid_arguments", "longer than"),
        ("get_order", '{"order_id":' + "[" * 50 + "]" * 50 + "}", "invalid_arguments", "nest"),
        ("get_order", '{"order_id":' + "[" * 5000 + "]" * 5000 + "}", "invalid_arguments", "not valid JSON"),
        ("get_order", {"order_id": 10}, "invalid_arguments", "order_id: 10 is not of type 'string'"),
        ("get_order", {"order_id": "ORD-10", "x": 1}, "invalid_arguments", "'x' was unexpected"),
        ("get_order", {"order_id": "ORD-99"}, "not_found", "Order 'ORD-99' does not exist"),
        ("fetch", {"id": "ORD-99"}, "not_found", "Order 'ORD-99' does not exist"),
        ("create_order", {"order_id": "ORD-99", "customer_id": "CUS-9"}, "not_found", "Customer 'CUS-9'"),
        ("archive", {"items": [], "owner": "CUS-9"}, "not_found", "Customer 'CUS-9'"),
        ("archive", {"items": [{"order_id": "ORD-10"}, {"order_id": "A\ud800"}]}, "invalid_arguments", "JSON"),
        ("archive", {"items": [{"order_id": "ORD-10", "at": "soon"}]}, "invalid_arguments", "items[0].at"),
    ],
)
def test_a_faulty_call_is_told_what_is_wrong_and_where(name, arguments, code, said):
    error = fault(name, arguments)
    assert error["code"] == code and said in error["message"]


def test_the_field_of_an_unknown_identifier_is_named_in_nested_arguments():
    assert fault("archive", {"items": [{"order_id": "ORD-10"}, {"order_id": "ORD-9"}]})["field"] == "items[1].order_id"


def test_a_hostile_pattern_takes_no_time():
    checks = Checks([tool("f", {"a": {"type": "string", "pattern": "(a+)+$"}})])
    began = time.process_time()
    answer = checks("f", json.dumps({"a": "a" * 5_000 + "!"}), STATE)
    assert json.loads(answer.content)["error"]["code"] == "invalid_arguments" and time.process_time() - began < 1


def test_named_records_are_found_for_the_prompt():
    named = CHECKS.kinds_named("archive", {"items": [{"order_id": "ORD-10"}] * 2, "owner": "CUS-2"}, STATE)
    assert named == {"Order": ["ORD-10"], "Customer": ["CUS-2"]}
    assert Checks([LIST]).kinds_named("list_orders", {"customer_id": "CUS-1"}, STATE) == {}


@given(st.text(), st.text(max_size=60), st.booleans())
def test_no_call_raises(name, arguments, known):
    found = CHECKS("archive" if known else name, arguments, STATE)
    assert isinstance(found, ToolResult) or "items" in found
