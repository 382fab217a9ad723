"""How many calls a second executable tools take, in the sandbox, with a process forked for every call.

    python -m tokenmill.bench.agentic.worlds                    # 2,000 calls of 50 worlds at once: about ten seconds
    python -m tokenmill.bench.agentic.worlds --calls 500 --records 500

Calls take turns: look up a record, change one (or be refused), list some. Every result is checked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from typing import Any

from tokenmill.bench.agentic.shop import ENTITIES, STATE, TOOLS
from tokenmill.bench.agentic.shop_program import MODULE
from tokenmill.tools_repo.world.executable import Executable, Function
from tokenmill.tools_repo.world.programs.pool import Interpreter, Pool

CODE = {spec.name: Function(MODULE, spec.name) for spec in TOOLS}


def state(records: int) -> str:
    """The state of a shop with so many orders, as JSON."""
    held: dict[str, Any] = json.loads(json.dumps(STATE))
    for number in range(records - len(held["Order"])):
        order = f"ORD-{1000 + number}"
        customer = f"CUS-{1 + number % 20}"
        held["Customer"].setdefault(customer, {"customer_id": customer, "name": f"Customer {number}", "tags": []})
        held["Order"][order] = {**STATE["Order"]["ORD-10"], "order_id": order, "customer_id": customer}
    return json.dumps(held)


async def use(world: Executable, calls: int) -> None:
    for number in range(calls):
        if number % 3 == 0:
            result = await world.call("get_order", '{"order_id": "ORD-11"}', number)
            assert json.loads(result.content)["status"] == "shipped", result
        elif number % 3 == 1:
            result = await world.call("cancel_order", '{"order_id": "ORD-10"}', number)
            assert result.error == ("" if number == 1 else "invalid_state"), result
        else:
            result = await world.call("list_orders", '{"customer_id": "CUS-1"}', number)
            assert json.loads(result.content)["orders"][0]["status"] == "cancelled", result
        assert result.engine == "executable", result
    await world.close()


async def measure(worlds: int, calls: int, records: int, processes: int) -> tuple[float, float, float]:
    """Calls a second; CPU of this process in ms a call; ms that one call takes when nothing else is asked."""
    interpreter = Interpreter.local(processes=processes)
    text = state(records)
    made = [Executable(TOOLS, ENTITIES, text, CODE, interpreter) for _ in range(worlds)]
    await use(Executable(TOOLS, ENTITIES, text, CODE, interpreter), 3)  # processes are there now
    begun, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(use(world, calls // worlds) for world in made))
    rate = calls // worlds * worlds / (time.perf_counter() - begun)
    cpu = (time.process_time() - cpu) / (calls // worlds * worlds)
    begun = time.perf_counter()
    await use(Executable(TOOLS, ENTITIES, text, CODE, interpreter), 90)
    alone = (time.perf_counter() - begun) / 90
    await Pool.shared(interpreter).close()
    return rate, cpu * 1000, alone * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--worlds", type=int, default=50, help="worlds at work at once (default 50)")
    parser.add_argument("--records", type=int, nargs="+", default=[2, 60, 300], help="orders in each state")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2, help="sandboxed processes")
    args = parser.parse_args()
    print("| orders in the state | bytes | calls/s | our CPU, ms a call | one at a time, ms |")
    print("|---|---|---|---|---|")
    for records in args.records:
        rate, cpu, alone = asyncio.run(measure(args.worlds, args.calls, records, args.processes))
        print(f"| {records} | {len(state(records)):,} | {rate:.0f} | {cpu:.2f} | {alone:.1f} |", flush=True)


if __name__ == "__main__":
    main()
