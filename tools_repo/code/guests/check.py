"""Guest: runs `check(candidate)` of a task, assertion by assertion. The candidate lives in another sandbox: calls go out as
JSON lines and plain values come back, so the tested code never meets the tests."""

import ast
import json
import os
import random
import sys
from typing import Any

from tokenmill.tools_repo.code.guests.common import open_channel, write_all  # ours, sent along
from tokenmill.tools_repo.code.guests.values import Unsendable, decode, encode, raised  # ours, sent along


class Gone(BaseException):
    """The candidate does not answer any more, or cannot be asked; no `except Exception` of a test hides it."""


class Numbered(ast.NodeTransformer):
    """Turns every assertion of `check` that asserts something into one that is recorded and does not end the check."""

    def __init__(self, own: str) -> None:
        self.count = 0
        self.own = own

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        if isinstance(node.test, ast.Constant):
            return ast.copy_location(ast.Pass(), node)
        self.count += 1
        record = ast.With(
            items=[
                ast.withitem(
                    context_expr=ast.Call(
                        func=ast.Name(id=self.own, ctx=ast.Load()), args=[ast.Constant(self.count)], keywords=[]
                    )
                )
            ],
            body=[node],
        )
        return ast.fix_missing_locations(ast.copy_location(record, node))


class Recorded:
    """What became of each assertion; one in a loop holds when it held each time."""

    def __init__(self) -> None:
        self.outcomes: dict[str, list[str]] = {}

    def __call__(self, number: int) -> "_One":
        return _One(self.outcomes, f"check:{number}")


class _One:
    def __init__(self, outcomes: dict[str, list[str]], name: str) -> None:
        self.outcomes, self.name = outcomes, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if kind is None:
            self.outcomes.setdefault(self.name, ["passed", ""])
            return False
        if issubclass(kind, Gone):
            self.outcomes[self.name] = ["error", str(error)]
            return False
        outcome = "failed" if issubclass(kind, AssertionError) else "error"
        if self.outcomes.get(self.name, ["passed"])[0] == "passed":
            self.outcomes[self.name] = [outcome, f"{kind.__name__}: {error}"[:300]]
        return issubclass(kind, Exception)


def main() -> None:
    lines, channel = open_channel()
    sys.set_int_max_str_digits(0)
    job = json.loads(lines.readline())
    recorded = Recorded()

    def candidate(*args: Any, **kwargs: Any) -> Any:
        try:
            asked = [encode(args), encode(kwargs)]
        except Unsendable as error:
            unsendable.append(str(error))
            raise Gone(f"the test hands over {error}") from None
        write_all(channel, json.dumps({"ask": asked}).encode() + b"\n")
        line = lines.readline()
        told = json.loads(line) if line else {"gone": "no answer"}
        if "value" in told:
            return decode(told["value"])
        if "raised" in told:
            raise raised(*told["raised"])
        if "unsendable" in told:
            raise TypeError(told["unsendable"])
        raise Gone(told.get("gone", "no answer"))

    unsendable: list[str] = []
    own = "_recorded_" + os.urandom(8).hex()
    tree = ast.parse(job["test"])
    numbered = Numbered(own)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            numbered.visit(node)
    space: dict[str, Any] = {"__name__": "hidden", own: recorded}
    told: dict[str, Any] = {"outcomes": recorded.outcomes, "broken": "", "count": numbered.count}
    random.seed(job["seed"])
    try:
        exec(compile(job["prelude"], "prelude.py", "exec"), space)
        space[job["entry_point"]] = candidate
        exec(compile(tree, "hidden.py", "exec"), space)
    except Exception as error:
        told["broken"] = f"{type(error).__name__}: {error}"[:500]
    else:
        try:
            space["check"](candidate)
            if not numbered.count:
                recorded.outcomes["check:1"] = ["passed", ""]
        except (Exception, Gone) as error:
            if not numbered.count:
                outcome = "failed" if isinstance(error, AssertionError) else "error"
                recorded.outcomes["check:1"] = [outcome, f"{type(error).__name__}: {error}"[:300]]
    told["unsendable"] = unsendable[0] if unsendable else ""
    write_all(channel, json.dumps({"done": told}).encode() + b"\n")


main()
