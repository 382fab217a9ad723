"""The guarded side of the symbolic checks: runs in a process of its own, never in the caller's (see `worker`).

Protocol: one JSON request a line on standard input, `{"op", "args", "seconds"}`; one JSON answer a line on standard
output, `{"ok": true | false | null}`. Expressions travel as nested lists, never as text to be parsed. Every request
runs in a fork of this warm process under limits on memory and time: it ends, and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

MEMORY = 1 << 30
"""Bytes of address space of one request."""


def build(tree: list[Any]) -> Any:
    """The sympy expression of a tree as `worker.encode` writes it."""
    import sympy

    kind, *rest = tree
    if kind == "num":
        return sympy.Rational(int(rest[0]), int(rest[1]))
    if kind == "sym":
        constants = {"pi": sympy.pi, "e": sympy.E}
        return constants.get(rest[0]) or sympy.Symbol(rest[0], real=True)
    if kind == "set":
        return sympy.FiniteSet(*(build(item) for item in rest))
    if kind == "eq":
        return sympy.Eq(build(rest[0]), build(rest[1]))
    args = [build(item) for item in rest]
    functions = {
        "+": sympy.Add, "*": sympy.Mul, "of": sympy.Mul, "^": sympy.Pow, "abs": sympy.Abs,
        "!": sympy.factorial,
        "binom": sympy.binomial, "sqrt": sympy.sqrt, "sin": sympy.sin, "cos": sympy.cos, "tan": sympy.tan,
        "ln": sympy.log,
        "exp": sympy.exp, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "sinh": sympy.sinh,
        "cosh": sympy.cosh, "tanh": sympy.tanh, "mixed": sympy.Add,
    }  # fmt: skip
    if kind == "-":
        return args[0] - args[1]
    if kind == "/":
        return args[0] / args[1]
    if kind == "neg":
        return -args[0]
    if kind == "%":
        return args[0] / 100
    if kind == "log":
        return sympy.log(args[0], 10)
    return functions[kind](*args)


def equal(left: list[Any], right: list[Any]) -> bool | None:
    """Whether two expressions, equations or sets are equal; None when neither could be shown."""
    import sympy
    from math_verify import verify

    a, b = build(left), build(right)
    if verify(a, b, timeout_seconds=None, raise_on_error=False) or verify(
        b, a, timeout_seconds=None, raise_on_error=False
    ):
        return True
    if isinstance(a, sympy.Expr) and isinstance(b, sympy.Expr):
        return (a - b).equals(0)
    return None


def solves(equation: list[Any], name: str, values: list[list[Any]]) -> bool | None:
    """Whether `values` are all the real solutions of `equation` in `name`."""
    import sympy

    symbol = sympy.Symbol(name, real=True)
    solutions = sympy.solveset(build(equation), symbol, sympy.S.Reals)
    if not isinstance(solutions, sympy.FiniteSet):
        return None
    return bool(sympy.FiniteSet(*(sympy.nsimplify(build(v)) for v in values)) == solutions)


OPERATIONS: dict[str, Callable[..., bool | None]] = {"equal": equal, "solves": solves}


def _child(request: dict[str, Any], out: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    cpu = int(time.process_time()) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = OPERATIONS[request["op"]](*request["args"])
    except (Exception, MemoryError, RecursionError):
        answer = None
    os.write(out, json.dumps({"ok": answer if answer is None else bool(answer)}).encode())
    os._exit(0)


def _answer(request: dict[str, Any]) -> bytes:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _child(request, writing)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], float(request["seconds"]))
        data = os.read(reading, 4096) if ready else b""
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return data or b'{"ok": null}'


def main() -> None:
    """Serve until standard input closes."""
    import math_verify  # noqa: F401  (imported once here, so that no request pays for it)
    import sympy  # noqa: F401

    sys.set_int_max_str_digits(5000)
    out = sys.stdout.buffer
    out.write(b"ready\n")
    out.flush()
    for line in sys.stdin.buffer:
        out.write(_answer(json.loads(line)) + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
