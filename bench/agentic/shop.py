"""A small world for tests: orders of customers."""

import json
from typing import Any

from tokenmill.schemas.tools import Semantics, ToolSpec
from tokenmill.tools_repo.world.entities import EntityModel


def field(name: str, type: str = "text", **more: Any) -> dict[str, Any]:
    return {
        "name": name, "description": "", "type": type, "optional": False, "values": [], "refers_to": "", "fields": [],
        **more,
    }  # fmt: skip


def part(name: str, type: str = "text") -> dict[str, Any]:
    return {key: value for key, value in field(name, type).items() if key != "fields"}


KINDS = {
    "kinds": [
        {
            "name": "Customer",
            "description": "Somebody who buys.",
            "identifier": "customer_id",
            "fields": [field("customer_id"), field("name"), field("tags", "texts", values=["new", "vip"])],
        },
        {
            "name": "Order",
            "description": "What a customer bought.",
            "identifier": "order_id",
            "fields": [
                field("order_id"),
                field("customer_id", refers_to="Customer"),
                field("status", values=["open", "shipped", "cancelled"]),
                field("placed", "date"),
                field("total", "number"),
                field("note", optional=True),
                field("lines", "groups", fields=[part("sku"), part("quantity", "integer")]),
            ],
        },
    ]
}
LISTS: dict[str, list[dict[str, Any]]] = {
    "Customer": [
        {"customer_id": "CUS-1", "name": "Ada Vogel", "tags": ["vip"]},
        {"customer_id": "CUS-2", "name": "Ben Ito", "tags": []},
    ],
    "Order": [
        {
            "order_id": "ORD-10", "customer_id": "CUS-1", "status": "open", "placed": "2025-03-01", "total": 24.5,
            "note": None, "lines": [{"sku": "MUG", "quantity": 2}],
        },
        {
            "order_id": "ORD-11", "customer_id": "CUS-2", "status": "shipped", "placed": "2025-03-02", "total": 8.0,
            "note": "gift", "lines": [],
        },
    ],
}  # fmt: skip
STATE = {
    "Customer": {record["customer_id"]: record for record in LISTS["Customer"]},
    "Order": {record["order_id"]: record for record in LISTS["Order"]},
}


def model() -> EntityModel:
    from tokenmill.tools_repo.world.design import compile_kinds

    return compile_kinds(KINDS)


def state() -> dict[str, Any]:
    return json.loads(json.dumps(STATE))


def tool(
    name: str,
    properties: dict[str, Any],
    required: list[str] | None = None,
    *,
    output: dict[str, Any] | None = None,
    annotations: dict[str, Any] | None = None,
    **semantics: list[str],
) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }
    return ToolSpec(
        id=f"synthetic/shop/{name}",
        name=name,
        description=f"{name} in the shop.",
        input_schema=json.dumps(schema),
        output_schema=json.dumps(output) if output else "",
        annotations=json.dumps(annotations or {}),
        origin="synthetic",
        domain=["shop"],
        semantics=Semantics(**semantics),
    )


GET = tool("get_order", {"order_id": {"type": "string"}}, reads=["Order"], errors=["There is no such order."])
LIST = tool(
    "list_orders",
    {"customer_id": {"type": "string"}},
    reads=["Order", "Customer"],
    output={"type": "object", "properties": {"orders": {"type": "array"}}, "required": ["orders"]},
    annotations={"readOnlyHint": True},
)
CANCEL = tool(
    "cancel_order",
    {"order_id": {"type": "string"}, "reason": {"type": "string"}},
    ["order_id"],
    reads=["Order"],
    writes=["Order"],
    preconditions=["The order is open."],
    effects=["The order's status is cancelled."],
    errors=["The order is not open."],
)
TOOLS = (GET, LIST, CANCEL)
ENTITIES = model()
