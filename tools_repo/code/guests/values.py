"""Plain values as JSON, for two programs that do not trust each other: what comes out of `decode` is of Python's own types,
compares as they do, and runs nothing of the other side's making."""

import builtins
import decimal
import fractions
from collections.abc import Callable
from typing import Any

MAX_ITEMS = 200_000
COLLECTIONS: dict[str, type[Any]] = {"l": list, "t": tuple, "s": set, "z": frozenset}


class Unsendable(Exception):
    """A value that has no plain form."""


def encode(value: Any, depth: int = 0) -> Any:
    if depth > 100:
        raise Unsendable("a value nested too deeply")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, int):
        return ["i", hex(value)]
    if isinstance(value, float):
        return ["f", float.hex(value)]
    if isinstance(value, complex):
        return ["c", float.hex(value.real), float.hex(value.imag)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return ["b" if isinstance(value, bytes) else "a", bytes(value).hex()]
    if isinstance(value, dict):
        return ["d", [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in dict.items(value)]]
    for tag, kind in COLLECTIONS.items():
        if isinstance(value, kind):
            return [tag, [encode(item, depth + 1) for item in kind.__iter__(value)]]
    if isinstance(value, range):
        return ["r", value.start, value.stop, value.step]
    if isinstance(value, (decimal.Decimal, fractions.Fraction)):
        return ["D" if isinstance(value, decimal.Decimal) else "F", str(value)]
    if hasattr(value, "__next__") or type(value).__name__ in ("dict_keys", "dict_values", "dict_items", "deque"):
        items = []
        for item in value:
            items.append(encode(item, depth + 1))
            if len(items) > MAX_ITEMS:
                raise Unsendable("an iterator without end")
        return ["n" if hasattr(value, "__next__") else "l", items]
    raise Unsendable(f"a value of type {type(value).__name__}")


def decode(wire: Any) -> Any:
    if wire is None or isinstance(wire, (bool, str)):
        return wire
    tag, *rest = wire
    plain: dict[str, Callable[..., Any]] = {
        "i": lambda text: int(text, 16),
        "f": float.fromhex,
        "c": lambda real, imag: complex(float.fromhex(real), float.fromhex(imag)),
        "b": bytes.fromhex,
        "a": bytearray.fromhex,
        "r": range,
        "D": decimal.Decimal,
        "F": fractions.Fraction,
    }
    if tag in plain:
        return plain[tag](*rest)
    if tag == "d":
        return {decode(key): decode(value) for key, value in rest[0]}
    items = [decode(item) for item in rest[0]]
    return iter(items) if tag == "n" else COLLECTIONS[tag](items)


def raised(name: object, message: str) -> Exception:
    """An exception of Python's own type of that name, or a plain one."""
    kind = getattr(builtins, str(name), None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass
    return RuntimeError(f"{name}: {message}")
