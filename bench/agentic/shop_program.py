"""An engine of the test shop, as a good model would write it, and answers that are not good."""

MODULE = '''
"""Orders of a shop."""
from datetime import datetime


def _order(state, order_id):
    order = state["Order"].get(order_id)
    if order is None:
        raise ToolError("not_found", f"There is no order {order_id}.")
    return order


def get_order(state, args, now):
    return _order(state, args["order_id"])


def list_orders(state, args, now):
    if args["customer_id"] not in state["Customer"]:
        return {"orders": []}
    return {"orders": [o for _, o in sorted(state["Order"].items()) if o["customer_id"] == args["customer_id"]]}


def cancel_order(state, args, now):
    order = _order(state, args["order_id"])
    if order["status"] != "open":
        raise ToolError("invalid_state", f"Order {order['order_id']} is {order['status']}.")
    datetime.fromisoformat(now.replace("Z", "+00:00"))
    order["status"] = "cancelled"
    order["note"] = args.get("reason")
    return {"order_id": order["order_id"], "status": "cancelled", "at": now}
'''

TESTS = """
def test_get(world):
    assert world.call("get_order", {"order_id": "ORD-10"})["total"] == 24.5


def test_get_unknown(world):
    assert world.fails("get_order", order_id="ORD-1") == "not_found"


def test_list(world):
    assert [o["order_id"] for o in world.call("list_orders", customer_id="CUS-2")["orders"]] == ["ORD-11"]
    assert world.call("list_orders", {"customer_id": "CUS-7"}) == {"orders": []}


def test_cancel(world):
    assert world.call("cancel_order", {"order_id": "ORD-10", "reason": "late"})["status"] == "cancelled"
    assert world.state["Order"]["ORD-10"]["status"] == "cancelled"
    assert world.state["Order"]["ORD-11"]["status"] == "shipped"
    assert world.fails("cancel_order", {"order_id": "ORD-10"}) == "invalid_state"
"""


def answer(module: str = MODULE, tests: str = TESTS) -> str:
    return f"```python\n{module}\n```\n\n```python\n{tests}\n```\n"


def with_cancel(body: str) -> str:
    """The module whose `cancel_order` has another body."""
    head = MODULE.split("def cancel_order(state, args, now):")[0]
    return head + "def cancel_order(state, args, now):\n" + "".join(f"    {line}\n" for line in body.splitlines())
