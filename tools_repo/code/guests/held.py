"""Guest: holds a repository's written code and does what tests in another sandbox ask of it, one JSON line each. It has no
test and knows none; what it answers are plain values, and names of objects that stay here."""

import asyncio
import builtins
import contextlib
import copy
import importlib
import importlib.util
import inspect
import io
import json
import logging
import operator
import os
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from tokenmill.tools_repo.code.guests.common import lay_out, open_channel, read_line, write_all  # ours, sent along
from tokenmill.tools_repo.code.guests.mirror import COMPARED, SPECIALS, Mirror, specials  # ours, sent along
from tokenmill.tools_repo.code.guests.values import Unsendable, decode, encode_exactly  # ours, sent along

MAX_PRINTED = 1 << 20
SHARED = (list, dict, set, bytearray)
PLAIN_BASES: dict[type[Any], Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: lambda value: bytes(bytes.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}
"""Kinds of Python's own that a class may be made from, and how the value of the base alone is had, whatever the class makes
of it."""


class Foreign:
    """An object of the test's: calls and questions go there."""

    def __init__(self, peer: "Peer", number: int, name: str) -> None:
        self.__dict__.update(_peer=peer, _number=number, __name__=name, __qualname__=name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._peer.back(self._number, "get", [name])

    def __setattr__(self, name: str, value: Any) -> None:
        self._peer.back(self._number, "set", [name, value])


def _forwarded(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._peer.back(self._number, name, list(args), kwargs)

    method.__name__ = name
    return method


class Peer:
    """The conversation with the test."""

    def __init__(self, lines: BinaryIO, channel: BinaryIO, mirror: Mirror) -> None:
        self.lines, self.channel, self.mirror = lines, channel, mirror
        self.objects: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.foreign: dict[int, Any] = {}
        self.kinds: dict[tuple[str, ...], type[Any]] = {}
        self.shared: dict[str, list[Any]] = {}
        self.originals: dict[tuple[str, str], Any] = {}
        self.loop = asyncio.new_event_loop()
        self.lock = threading.RLock()
        self.printed = {"out": io.StringIO(), "err": io.StringIO()}
        self.logged: list[list[Any]] = []
        self.warned: list[list[str]] = []

    # Values

    def encode(self, value: Any, top: bool = False) -> Any:
        if top and type(value) in SHARED:
            wire = encode_exactly(value, self.other)
            number = next((n for n, (held, _) in self.shared.items() if held is value), f"c{len(self.shared)}")
            self.shared[number] = [value, encode_exactly(value, self.other)]  # its objects are introduced by now
            return ["&", number, wire]
        return encode_exactly(value, self.other)

    def other(self, value: Any) -> Any:
        if isinstance(value, Foreign):
            return ["O", value.__dict__["_number"]]
        if value is NotImplemented or value is ...:
            return ["N" if value is NotImplemented else "E", 0]
        if isinstance(value, type) and getattr(builtins, type.__getattribute__(value, "__name__"), None) is value:
            return ["B", type.__getattribute__(value, "__name__")]
        known = self.numbers.get(id(value))
        if known is not None:
            return ["h", known]
        number = len(self.objects) + 1
        self.objects[number] = value
        self.numbers[id(value)] = number
        return ["h", number, *self.described(value)]

    def described(self, value: Any) -> list[Any]:
        if isinstance(value, types.ModuleType):
            return ["m", {"name": value.__name__}]
        if isinstance(value, type):
            return ["k", self.of_class(value)]
        if isinstance(value, BaseException):
            args = [self.encode(each) for each in value.args]
            told: dict[str, Any] = {"class": self.other(type(value)), "args": args, "text": _text(value)}
            return ["e", {**told, "fields": [[name, wire] for name, wire in self.plain_fields(value)]}]
        if inspect.iscoroutine(value):
            return ["x", {}]
        if inspect.isroutine(value) or (callable(value) and type(value).__module__ == "functools"):
            named = {
                name: str(getattr(value, f"__{name}__", "") or "") for name in ("name", "doc", "module", "qualname")
            }
            return ["f", {**named, "async": inspect.iscoroutinefunction(value)}]
        told = {"class": self.other(type(value))}
        base = next((kind for kind in PLAIN_BASES if isinstance(value, kind)), None)
        if base is not None:
            told["plain"] = self.encode(PLAIN_BASES[base](value))
        return ["o", told]

    def plain_fields(self, value: Any) -> list[tuple[str, Any]]:
        found = []
        for name, field in vars(value).items():
            with contextlib.suppress(Unsendable, RecursionError):
                found.append((name, encode_exactly(field, _nothing)))
        return found

    def of_class(self, kind: type[Any]) -> dict[str, Any]:
        raises = [each.__name__ for each in kind.__mro__ if getattr(builtins, each.__name__, None) is each]
        return {
            "name": kind.__name__,
            "qualname": kind.__qualname__,
            "module": str(kind.__module__),
            "doc": kind.__doc__ if isinstance(kind.__doc__, str) else "",
            "bases": [self.other(base) for base in kind.__bases__ if base is not object],
            "builtins": [name for name in raises if name != "object"],
            "specials": specials(kind),
        }

    def decode(self, wire: Any) -> Any:
        return decode(wire, self.known)

    def known(self, wire: list[Any]) -> Any:
        tag, number, *rest = wire
        if tag == "H":
            return self.objects[number]
        if tag == "&":
            if number not in self.shared:
                self.shared[number] = [self.decode(rest[0]), rest[0]]
            return self.shared[number][0]
        if tag in ("N", "E"):
            return NotImplemented if tag == "N" else ...
        if tag == "X":
            kind = getattr(builtins, number)
            return kind(*(self.decode(each) for each in rest[0]))
        if tag == "M":
            return importlib.import_module(number)
        if tag == "S":
            found: Any = importlib.import_module(number)
            for part in rest[0].split("."):
                found = getattr(found, part)
            return found
        if tag == "O":
            if number not in self.foreign:
                told = rest[0]
                names = tuple(name for name in told["specials"] if name in SPECIALS)
                if names not in self.kinds:
                    self.kinds[names] = type("Foreign", (Foreign,), {name: _forwarded(name) for name in names})
                self.foreign[number] = self.kinds[names](self, number, told["name"])
            return self.foreign[number]
        raise Unsendable(f"a value of kind {tag!r}")

    # Messages

    def say(self, told: dict[str, Any]) -> None:
        for name, held in self.printed.items():
            if text := held.getvalue():
                told[name] = text[:MAX_PRINTED]
                held.seek(0)
                held.truncate()
        for name, rows in (("logged", self.logged), ("warned", self.warned)):
            if rows:
                told[name] = rows[:1000]
                rows.clear()
        if files := self.mirror.changes():
            told["files"] = files
        changed = []
        for number, row in self.shared.items():
            wire = encode_exactly(row[0], self.other)
            if wire != row[1]:
                row[1] = wire
                changed.append([number, wire])
        if changed:
            told["changed"] = changed
        write_all(self.channel, json.dumps(told).encode() + b"\n")

    def take_in(self, told: dict[str, Any]) -> None:
        """What has changed on the other side."""
        for number, wire in told.get("changed", []):
            if number not in self.shared:  # it comes with this message
                continue
            held = self.shared[number][0]
            replace(held, self.decode(wire))
            self.shared[number][1] = encode_exactly(held, self.other)
        self.mirror.apply(told.get("files", []))
        for name, text in told.get("env", {}).items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text
        for path in told.get("path", []):
            if path not in sys.path:
                sys.path.insert(0, path)
        if "cwd" in told:
            os.chdir(told["cwd"])
        if "argv" in told:
            sys.argv[:] = told["argv"]
        if "stdin" in told:
            sys.stdin = io.TextIOWrapper(io.BytesIO(told["stdin"].encode()), encoding="utf-8")
        if "random" in told:
            import random

            random.setstate(self.decode(told["random"]))
        for module, name, wire in told.get("patched", []):
            place = importlib.import_module(module)
            original = self.originals.setdefault((module, name), getattr(place, name, None))
            setattr(place, name, original if wire is None else self.decode(wire))

    def back(self, number: int, do: str, args: list[Any], kwargs: dict[str, Any] | None = None) -> Any:
        """Ask something of an object of the test's."""
        with self.lock:
            given = [self.encode(each, top=True) for each in args]
            named = {name: self.encode(each, top=True) for name, each in (kwargs or {}).items()}
            self.say({"callback": {"of": number, "do": do, "args": given, "kwargs": named}})
            told = self.listen()
        if "raised" in told:
            raise self.decode(told["raised"])
        return self.decode(told["value"])

    def listen(self) -> dict[str, Any]:
        """Do what is asked until an answer comes."""
        while True:
            line = read_line(self.lines)
            if not line:
                os._exit(0)
            told = json.loads(line)
            try:
                self.take_in(told)
            except Exception as error:
                self.say({"unsendable": f"nothing: {type(error).__name__}: {error}"[:300]})
                continue
            if "do" not in told:
                return dict(told)
            self.say(self.answer(told))

    def answer(self, told: dict[str, Any]) -> dict[str, Any]:
        try:
            args = [self.decode(each) for each in told.get("args", [])]
            kwargs = {name: self.decode(each) for name, each in told.get("kwargs", {}).items()}
            value = self.perform(told["do"], told.get("of"), args, kwargs)
            return {"value": self.encode(value, top=True)}
        except Unsendable as error:
            return {"unsendable": f"it returned {error}"}
        except BaseException as error:
            try:
                return {"raised": self.encode(error)}
            except BaseException:
                return {"unsendable": f"it raised a {type(error).__name__} that cannot be told"}

    def perform(self, do: str, of: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if do == "import":
            return importlib.import_module(args[0])
        if do == "load":
            spec = importlib.util.spec_from_file_location(args[0], args[1])
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[args[0]] = module
            spec.loader.exec_module(module)
            return module
        if do == "apply":
            return getattr(importlib.import_module(args[0]), args[1])(*args[2:], **kwargs)
        if do == "run":
            return run_command(*args)
        it = self.objects[of]
        if do == "get":
            return getattr(it, args[0])
        if do == "set":
            return setattr(it, args[0], args[1])
        if do == "del":
            return delattr(it, args[0])
        if do == "dir":
            return dir(it)
        if do == "wait":
            return self.loop.run_until_complete(_waited(it))
        if do in ("copy", "deepcopy"):
            return getattr(copy, do)(it)
        if do == "__call__":
            return it(*args, **kwargs)
        if do == "__await__":
            return self.loop.run_until_complete(_waited(it))
        if do in ("__aenter__", "__aexit__", "__anext__"):
            return self.loop.run_until_complete(_waited(getattr(type(it), do)(it, *args)))
        if do in ("__str__", "__repr__", "__hash__", "__bool__"):
            own: dict[str, Callable[[Any], Any]] = {
                "__str__": str,
                "__repr__": repr,
                "__hash__": hash,
                "__bool__": bool,
            }
            return own[do](it)
        if do in COMPARED:
            return getattr(operator, do)(it, *args)
        if do in SPECIALS:
            return getattr(type(it), do)(it, *args, **kwargs)
        raise Unsendable(f"nothing: {do} is not known")


def _nothing(value: Any) -> Any:
    raise Unsendable("an object")


async def _waited(it: Any) -> Any:
    return await it


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except BaseException:
        return ""


def replace(held: Any, new: Any) -> None:
    """Give a container the content of another."""
    if isinstance(held, (list, bytearray)):
        held[:] = new
    else:
        held.clear()
        held.update(new)


def run_command(argv: Any, shell: bool, given: bytes, env: Any, cwd: Any, seconds: Any, joined: bool) -> Any:
    """(exit code, stdout, stderr) of a command; None for the code when it took too long."""
    errors = subprocess.STDOUT if joined else subprocess.PIPE
    with subprocess.Popen(
        argv, shell=shell, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=env, cwd=cwd
    ) as process:
        try:
            out, err = process.communicate(given, seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            return (None, out, err or b"")
    return (process.returncode, out, err or b"")


class Forwarded(logging.Handler):
    def __init__(self, rows: list[list[Any]]) -> None:
        super().__init__(0)
        self.rows = rows

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):
            self.rows.append([record.name, record.levelno, record.getMessage()])


def main() -> None:
    lines, channel = open_channel()
    job = json.loads(read_line(lines))
    root = Path(os.environ["HOME"], "workspace")
    lay_out(root, job["files"])
    os.chdir(root)
    peer = Peer(lines, channel, Mirror((str(root), "/tmp"), lambda path: False))
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.path[:] = [path for path in sys.path if path]
    sys.path.insert(0, os.environ.get("PYTHONPATH", ""))
    for folder in ("src", ""):
        if (root / folder).is_dir():
            sys.path.insert(0, str(root / folder))
    sys.dont_write_bytecode = True
    sys.set_int_max_str_digits(0)
    sys.stdout, sys.stderr = peer.printed["out"], peer.printed["err"]
    sys.stdin = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    logging.getLogger().addHandler(Forwarded(peer.logged))
    logging.getLogger().setLevel(logging.DEBUG)
    warnings.simplefilter("always")

    def warned(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        peer.warned.append([category.__name__, str(message)])

    warnings.showwarning = warned
    channel.write(b'{"ready": true}\n')
    peer.listen()


main()
