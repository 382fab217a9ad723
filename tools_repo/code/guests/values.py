"""Plain values as JSON, for two programs that do not trust each other: what comes out of `decode` is of Python's own types,
compares as they do, and runs nothing of the other side's making."""

import builtins
import collections
import datetime
import decimal
import fractions
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

MAX_ITEMS = 200_000
MAX_EXPONENT = 10_000
"""Of a decimal number: computing with larger ones takes for ever."""
MAX_COLLISIONS = 1000
"""Keys of one hash in a set or dict: with many more, making it takes for ever."""
COLLECTIONS: dict[str, type[Any]] = {"l": list, "t": tuple, "s": set, "z": frozenset}
Other = Callable[[Any], Any]


class Unsendable(Exception):
    """A value that has no plain form."""


def encode(value: Any, depth: int = 0) -> Any:
    """A value of Python's own types, or of a class made from them, which it then loses. Raises: Unsendable."""
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
    if isinstance(value, decimal.Decimal):
        return ["D", str(_bounded(value))]
    if isinstance(value, fractions.Fraction):
        return ["F", hex(value.numerator), hex(value.denominator)]
    if hasattr(value, "__next__") or type(value).__name__ in ("dict_keys", "dict_values", "dict_items", "deque"):
        items = []
        for item in value:
            items.append(encode(item, depth + 1))
            if len(items) > MAX_ITEMS:
                raise Unsendable("an iterator without end")
        return ["n" if hasattr(value, "__next__") else "l", items]
    raise Unsendable(f"a value of type {type(value).__name__}")


def encode_exactly(value: Any, other: Other, depth: int = 0) -> Any:
    """A value whose type is exactly one of Python's own; all else, also below it, is what `other` makes of it."""
    if depth > 100:
        raise Unsendable("a value nested too deeply")
    kind = type(value)
    if kind in _EXACT:
        return encode(value)
    if kind is dict or kind is collections.Counter or kind is collections.OrderedDict:
        tag = {dict: "d", collections.Counter: "C"}.get(kind, "o")
        pairs = list(dict.items(value))
        return [tag, [[encode_exactly(k, other, depth + 1), encode_exactly(v, other, depth + 1)] for k, v in pairs]]
    for tag, each in _LISTS.items():
        if kind is each:
            return [tag, [encode_exactly(item, other, depth + 1) for item in list(value)]]
    if kind is datetime.timedelta:
        return ["T", value.days, value.seconds, value.microseconds]
    if kind in (datetime.date, datetime.time, datetime.datetime) and _fixed(value):
        return ["W", kind.__name__, value.isoformat()]
    if kind in (pathlib.PosixPath, pathlib.PurePosixPath):
        return ["P", kind.__name__, str(value)]
    if kind is uuid.UUID:
        return ["U", value.hex]
    return other(value)


_EXACT = frozenset(
    [type(None), bool, int, float, complex, str, bytes, bytearray, range, decimal.Decimal, fractions.Fraction]
)
_LISTS: dict[str, type[Any]] = {**COLLECTIONS, "q": collections.deque}
_DICTS: dict[str, type[Any]] = {"d": dict, "C": collections.Counter, "o": collections.OrderedDict}


def _fixed(value: Any) -> bool:
    zone = getattr(value, "tzinfo", None)
    return zone is None or type(zone) is datetime.timezone


def _bounded(number: decimal.Decimal) -> decimal.Decimal:
    if number.is_finite() and abs(number.adjusted()) > MAX_EXPONENT:
        raise Unsendable("a decimal number with too large an exponent")
    return number


def _spread(keys: list[Any]) -> list[Any]:
    """Keys of a set or dict, of which few have the same hash."""
    if len(keys) > MAX_COLLISIONS:
        most = collections.Counter(hash(key) for key in keys).most_common(1)
        if most[0][1] > MAX_COLLISIONS:
            raise Unsendable("too many keys of one hash")
    return keys


def decode(wire: Any, other: Other | None = None) -> Any:
    """The value; `other` makes those of tags that are not known here.

    Raises: Unsendable, and ValueError, TypeError and the like for what no `encode` makes.
    """
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
        "D": lambda text: _bounded(decimal.Decimal(text)),
        "F": lambda above, below: fractions.Fraction(int(above, 16), int(below, 16)),
        "T": datetime.timedelta,
        "W": lambda name, text: _MOMENTS[name].fromisoformat(text),
        "P": lambda name, text: (pathlib.PurePosixPath if name == "PurePosixPath" else pathlib.Path)(text),
        "U": lambda text: uuid.UUID(hex=text),
    }
    if tag in plain:
        return plain[tag](*rest)
    if tag in _DICTS:
        keys = _spread([decode(key, other) for key, _ in rest[0]])
        return _DICTS[tag]({keys[n]: decode(pair[1], other) for n, pair in enumerate(rest[0])})
    if tag in ("l", "t", "s", "z", "q", "n"):
        items = [decode(item, other) for item in rest[0]]
        if tag in ("s", "z"):
            _spread(items)
        return iter(items) if tag == "n" else _LISTS[tag](items)
    if other is None:
        raise Unsendable(f"a value of an unknown kind {str(tag)[:20]!r}")
    return other(wire)


_MOMENTS: dict[str, type[Any]] = {"date": datetime.date, "time": datetime.time, "datetime": datetime.datetime}


def raised(name: object, message: str) -> Exception:
    """An exception of Python's own type of that name, or a plain one."""
    kind = getattr(builtins, str(name), None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass
    return RuntimeError(f"{name}: {message}")
