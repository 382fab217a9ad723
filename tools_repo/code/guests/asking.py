"""The tests' side of a repository's verdict: asking in the other sandbox, and what is believed of the answers.

Where a question holds what the test expects (`==` and `<` with a plain value, `in`, arithmetic that comes to a plain value,
`startswith`), a favourable answer is not taken from the tested code: see `Undecided`.
"""

import builtins
import importlib
import json
import logging
import operator
import os
import random
import sys
import types
import warnings
from typing import Any, BinaryIO

from tokenmill.tools_repo.code.guests.common import read_line, write_all  # ours, sent along
from tokenmill.tools_repo.code.guests.mirror import COMPARED, COMPUTED, SPECIALS, Mirror, specials  # ours, sent along
from tokenmill.tools_repo.code.guests.stand_ins import (  # ours, sent along
    Gone,
    Remote,
    RemoteClass,
    RemoteFunction,
    RemoteModule,
    Undecided,
    for_errors,
    for_objects,
    later,
    link_of,
    ours,
)
from tokenmill.tools_repo.code.guests.values import Unsendable, decode, encode_exactly  # ours, sent along

SHARED_KINDS = (list, dict, set, bytearray)
_CLOSED: tuple[type, ...] = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.FrameType,
    types.CodeType,
)
_CLOSED += (types.GeneratorType, types.CoroutineType, types.TracebackType, types.BuiltinFunctionType)
TYPES = ("int", "float", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset", "bool", "complex")
MOST_BASES = 2
"""Kinds of exception of Python's own that one class of exceptions may be at once; more would be caught by any test."""
_WATCHED = ("builtins", "time", "random", "os", "os.path", "subprocess", "uuid", "secrets", "shutil", "socket", "getpass",
           "platform", "urllib.request", "sys", "tempfile", "logging", "json", "math", "glob", "signal")  # fmt: skip
"""Modules of Python's own in which a test may put something else for the tested code."""
_KEPT = {("sys", name) for name in ("displayhook", "breakpointhook", "unraisablehook", "excepthook")}


def originals() -> dict[tuple[str, str], Any]:
    """What is in those modules; asked before any test runs."""
    return {
        (module, name): value
        for module in _WATCHED
        for name, value in vars(importlib.import_module(module)).items()
        if callable(value) and not name.startswith("__") and (module, name) not in _KEPT
    }


class Peer:
    """The conversation with the tested code, by way of the host."""

    def __init__(
        self, lines: BinaryIO, channel: BinaryIO, mirror: Mirror, originals: dict[tuple[str, str], Any], first: int
    ) -> None:
        self.lines, self.channel, self.mirror, self.originals = lines, channel, mirror, originals
        self.counted = first
        self.stand_ins: dict[int, Any] = {}
        self.objects: dict[int, Any] = {}
        self.shared: dict[str, list[Any]] = {}
        self.gone = ""
        self.doubt = ""
        self.strange = ""
        """What was handed over that the tested code may rightly take for something else."""
        self.lies = ""
        self.context: dict[str, Any] = {"cwd": os.getcwd(), "argv": list(sys.argv), "path": []}  # noqa: PTH109
        self.env: dict[str, str] = {}
        self.random: Any = random.getstate()
        self.patched: set[tuple[str, str]] = set()

    def undecided(self, why: str) -> Any:
        self.doubt = self.doubt or why
        raise Undecided(why)

    # Values

    def encode(self, value: Any, top: bool = False) -> Any:
        try:
            if top and type(value) in SHARED_KINDS:
                wire = encode_exactly(value, self.other)
                number = next((n for n, (held, _) in self.shared.items() if held is value), f"t{len(self.shared)}")
                self.shared[number] = [value, encode_exactly(value, self.other)]  # its objects are introduced by now
                return ["&", number, wire]
            return encode_exactly(value, self.other)
        except Unsendable as error:
            return self.undecided(f"the test hands over {error}")

    def other(self, value: Any) -> Any:
        link = link_of(value) if isinstance(value, type) else None
        if link is not None:
            return ["H", link[1]]
        fields = getattr(value, "__dict__", {})
        if isinstance(value, (Remote, RemoteFunction, RemoteModule, BaseException)) and "_number" in fields:
            return ["H", fields["_number"]]
        if value is NotImplemented or value is ... or isinstance(value, types.TracebackType):
            return ["N", 0] if value is NotImplemented else ["E", 0] if value is ... else None
        if isinstance(value, BaseException):
            args = [self.encode(each) for each in value.args]
            return ["X", _builtin(value), args]
        if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] in sys.stdlib_module_names:
            return ["M", value.__name__]
        if isinstance(value, _CLOSED) and isinstance(named := getattr(value, "__qualname__", None), str):
            module = getattr(value, "__module__", None) or "builtins"
            if module.partition(".")[0] in sys.stdlib_module_names and _found(module, named) is value:
                return ["S", module, named]
        return self._object(value)

    def _object(self, value: Any) -> Any:
        for number, held in self.objects.items():
            if held is value:
                return ["O", number, {"specials": [], "name": ""}]
        number = len(self.objects) + 1
        self.objects[number] = value
        if not isinstance(value, _CLOSED) or isinstance(value, type):
            self.strange = (
                self.strange or f"the test hands over a {type(value).__name__} of its own, which only seems one there"
            )
        return ["O", number, {"specials": specials(type(value)), "name": str(getattr(value, "__name__", ""))}]

    def decode(self, wire: Any) -> Any:
        return decode(wire, self.known)

    def known(self, wire: list[Any]) -> Any:
        tag, number, *rest = wire
        if tag == "&":
            if number not in self.shared:
                self.shared[number] = [self.decode(rest[0]), rest[0]]
            return self.shared[number][0]
        if tag == "O":
            return self.objects[number]
        if tag == "B":
            kind = getattr(builtins, number, None)
            if number in TYPES or (isinstance(kind, type) and issubclass(kind, BaseException)):
                return kind
            raise Unsendable(f"the type {str(number)[:40]}")
        if tag in ("N", "E"):
            return NotImplemented if tag == "N" else ...
        if tag != "h":
            raise Unsendable(f"a value of kind {str(tag)[:20]!r}")
        if number not in self.stand_ins:
            self.stand_ins[number] = self.made(number, *rest)
        made = self.stand_ins[number]
        return later(self, number, "wait", ()) if made is Gone else made

    def made(self, number: int, kind: str, told: dict[str, Any]) -> Any:
        if kind == "x":
            return Gone  # a coroutine: made anew each time that it comes
        if kind == "k":
            return self.made_class(number, told)
        if kind == "m":
            return self.made_module(number, str(told["name"]))
        if kind == "f":
            return self.made_function(number, told)
        made_of = self.decode(told["class"])
        if kind == "e":
            error = made_of.__new__(made_of)
            error.args = tuple(self.decode(each) for each in told["args"])
            if made_of.__dict__.get("_link_") is None:  # of Python's own
                return _with_fields(error, {str(name): self.decode(wire) for name, wire in told["fields"]})
            error.__dict__.update(_peer=self, _number=number, _text=str(told["text"]))
            return error
        if not isinstance(made_of, RemoteClass):
            raise Unsendable("an object of no class")
        made = self.decode(told["plain"]) if "plain" in told else None
        it: Any = object.__new__(made_of)  # type: ignore[arg-type]
        it.__dict__.update(_peer=self, _number=number, _plain=made, _has_plain="plain" in told)
        return it

    def made_module(self, number: int, name: str) -> types.ModuleType:
        module = RemoteModule(name)
        module.__dict__.update(_peer=self, _number=number, __path__=[], __file__=None)
        return module

    def made_function(self, number: int, told: dict[str, Any]) -> Any:
        def function(*args: Any, **kwargs: Any) -> Any:
            return self.do("__call__", number, args, kwargs)

        made: Any = RemoteFunction()
        made.__dict__.update(
            {f"__{name}__": str(told.get(name) or "") for name in ("name", "doc", "module", "qualname")},
            _peer=self,
            _number=number,
            _call=function,
        )
        return made

    def made_class(self, number: int, told: dict[str, Any]) -> Any:
        if (known := _own_error(str(told["module"]), str(told["qualname"]))) is not None:
            return known
        own = [getattr(builtins, name, None) for name in told["builtins"]]
        errors = [kind for kind in own if isinstance(kind, type) and issubclass(kind, BaseException)]
        roots = [kind for kind in errors if not any(other is not kind and issubclass(other, kind) for other in errors)]
        if len(roots) > MOST_BASES:
            self.lies = self.lies or f"{str(told['name'])[:60]} is {len(roots)} kinds of exception at once"
            roots = [Exception]
        bases: tuple[type, ...] = tuple(
            base for base in map(self.decode, told["bases"]) if isinstance(base, RemoteClass)
        )
        space: dict[str, Any] = {
            "__module__": str(told["module"]),
            "__qualname__": str(told["qualname"]),
            "__doc__": told["doc"],
            "_link_": (self, number),
        }
        if errors:
            bases += tuple(root for root in roots if not any(issubclass(base, root) for base in bases))
            return _class(str(told["name"]), bases, space | for_errors())
        methods = [name for name in told["specials"] if name in SPECIALS]
        return _class(str(told["name"]), bases or (Remote,), space | for_objects(methods))

    # Messages

    def do(self, do: str, of: Any = None, args: Any = (), kwargs: Any = None) -> Any:
        """What comes of an operation over there.

        Raises: Gone, Undecided, and whatever the operation raises.
        """
        ask = {
            "do": do,
            "of": of,
            "args": [self.encode(each, top=True) for each in args],
            "kwargs": {name: self.encode(each, top=True) for name, each in (kwargs or {}).items()},
        }
        told = self.send(ask)
        while "callback" in told:
            told = self.send(self.called_back(told["callback"]))
        if "unsendable" in told:
            self.undecided(str(told["unsendable"])[:300])
        if "raised" in told:
            error = self.decode(told["raised"])
            raise error if isinstance(error, BaseException) else RuntimeError("raised what is no exception")
        return self.decode(told.get("value"))

    def send(self, ask: dict[str, Any]) -> dict[str, Any]:
        if self.gone:
            raise Gone(self.gone)
        self.counted += 1
        try:
            ask |= self.news()
        except Unsendable as error:
            self.undecided(f"the test leaves {error}")
        write_all(self.channel, json.dumps({"ask": ask, "number": self.counted}).encode() + b"\n")
        while True:
            line = read_line(self.lines)
            try:
                told: Any = json.loads(line) if line else {"number": self.counted, "answer": {"gone": "no answer"}}
            except ValueError:  # the rest of a line whose reader was ended
                continue
            if told.get("number") == self.counted:
                break
        answer = dict(told["answer"])
        if "gone" in answer:
            self.gone = str(answer["gone"])
            raise Gone(self.gone)
        self.take_in(answer)
        return answer

    def called_back(self, told: dict[str, Any]) -> dict[str, Any]:
        """The answer of an object of the test's that the tested code was given."""
        try:
            it, do = self.objects[told["of"]], told["do"]
            args = [self.decode(each) for each in told["args"]]
            kwargs = {name: self.decode(each) for name, each in told["kwargs"].items()}
            if do in ("get", "set"):
                name = args[0]
                if isinstance(it, _CLOSED) or not isinstance(name, str) or name.startswith("_"):
                    raise AttributeError(f"{name} of an object of the test's")
                if do == "set":
                    if callable(getattr(it, name, None)) or isinstance(args[1], (Remote, RemoteFunction)):
                        raise AttributeError(f"{name} of an object of the test's is not for others to set")
                    setattr(it, name, args[1])
                    value = None
                else:
                    value = getattr(it, name)
            elif do == "__call__":
                value = it(*args, **kwargs)
            elif do in SPECIALS and not isinstance(it, type):
                value = getattr(type(it), do)(it, *args, **kwargs)
            else:
                raise TypeError(f"{do} of an object of the test's")
            return {"value": self.encode(value, top=True)}
        except Exception as error:
            return {"raised": self.other(error)}

    def news(self) -> dict[str, Any]:
        """What has changed here since the last message."""
        told: dict[str, Any] = {}
        env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        if env != self.env:
            gone: dict[str, Any] = {name: None for name in self.env if name not in env}
            told["env"] = gone | {name: text for name, text in env.items() if self.env.get(name) != text}
            self.env = env
        context = {
            "cwd": os.getcwd(),  # noqa: PTH109
            "argv": [str(each) for each in sys.argv],
            "path": [path for path in reversed(sys.path) if path.startswith(self.mirror.roots)],
        }
        told |= {name: value for name, value in context.items() if self.context[name] != value}
        self.context = context
        given = type(sys.stdin).__module__ in ("_io", "io") and not getattr(sys.stdin, "name", None)
        if given and (text := sys.stdin.read()):
            told["stdin"] = text
        if (state := random.getstate()) != self.random:
            self.random = state
            told["random"] = encode_exactly(state, self.other)
        now = {key for key, value in self.originals.items() if getattr(sys.modules[key[0]], key[1], None) is not value}
        if now != self.patched:
            told["patched"] = [[*key, self.encode(getattr(sys.modules[key[0]], key[1]))] for key in now - self.patched]
            told["patched"] += [[*key, None] for key in self.patched - now]
            self.patched = now
        if files := self.mirror.changes():
            told["files"] = files
        changed = []
        for number, row in self.shared.items():
            wire = self.encode(row[0])
            if wire != row[1]:
                row[1] = wire
                changed.append([number, wire])
        return {**told, "changed": changed} if changed else told

    def take_in(self, told: dict[str, Any]) -> None:
        """What has changed over there."""
        for number, wire in told.get("changed", []):
            if number not in self.shared:  # it comes with this message
                continue
            held, new = self.shared[number][0], self.decode(wire)
            if type(held) is not type(new):
                raise Unsendable("another type of value in its place")
            if isinstance(held, (list, bytearray)):
                held[:] = new
            else:
                held.clear()
                held.update(new)
            self.shared[number][1] = self.encode(held)
        self.mirror.apply(told.get("files", []))
        for name, stream in (("out", sys.stdout), ("err", sys.stderr)):
            if name in told:
                stream.write(str(told[name]))
        for name, level, text in told.get("logged", []):
            logger = logging.getLogger(str(name))
            if logger.isEnabledFor(int(level)):
                logger.handle(logging.LogRecord(logger.name, int(level), "", 0, str(text), (), None))
        for name, text in told.get("warned", []):
            kind = getattr(builtins, str(name), UserWarning)
            warned = isinstance(kind, type) and issubclass(kind, Warning)
            warnings.warn(str(text), kind if warned else UserWarning, stacklevel=2)

    # What a test concludes

    def special(self, it: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A method that Python itself calls; where it decides a test, not on the word of the tested code alone."""
        if name in COMPARED:
            return self.compared(it, name, args[0])
        value = self.do(name, it._number, args, kwargs)
        kind = type(it).__name__
        if name == "__contains__":
            if value is True and self.claims(it, name, os.urandom(8).hex()):
                self.lie(f"a {kind} that contains everything")
            return value
        if name in COMPUTED and args and not ours(args[0]) and not ours(value) and value is not NotImplemented:
            self.undecided(f"what a {kind} of the tested code and a plain value come to")
        return value

    def compared(self, it: Any, name: str, other: Any) -> Any:
        """The outcome of `it == other` and the like."""
        fields = it.__dict__
        if it is other:
            return name in ("__eq__", "__le__", "__ge__")
        theirs = other.__dict__ if isinstance(other, Remote) else None
        if theirs is None:
            if fields.get("_has_plain"):  # compared here, as its base of Python's own compares
                return getattr(operator, name)(fields["_plain"], other)
            if not self.said(it, name, other):
                return name == "__ne__"
            if name == "__ne__":
                return True
            if name == "__eq__" and self.claims(it, name, _stranger(other)):
                self.lie(f"a {type(it).__name__} that equals anything")
            return self.undecided(
                f"a {type(it).__name__} of the tested code is compared with a plain value by its own word"
            )
        both = fields.get("_has_plain") and theirs.get("_has_plain") and type(it) is type(other)
        if both and name == "__eq__" and fields["_plain"] != theirs["_plain"]:
            return False
        said = self.said(it, name, other)
        if said and name == "__eq__" and self.claims(it, name, os.urandom(8).hex()):
            self.lie(f"a {type(it).__name__} that equals anything")
        return said

    def said(self, it: Any, name: str, other: Any) -> bool:
        """What the tested code answers to a comparison."""
        value = self.do(name, it._number, (other,))
        if isinstance(value, Remote):
            return bool(self.do("__bool__", value._number))
        return bool(value)

    def claims(self, it: Any, name: str, stranger: Any) -> bool:
        """Whether the tested code says yes also of a value that nobody can have expected."""
        try:
            return self.said(it, name, stranger)
        except Exception:
            return False

    def lie(self, what: str) -> Any:
        self.lies = self.lies or what
        raise Undecided(what)


def _class(name: str, bases: tuple[type, ...], space: dict[str, Any]) -> RemoteClass:
    try:
        return RemoteClass(name, bases, space)
    except TypeError as error:
        raise Unsendable(f"the class {name[:60]}: {error}") from None


def _own_error(module: str, name: str) -> Any:
    """The exception of Python's own library that is named so, if it is one."""
    if module.partition(".")[0] not in sys.stdlib_module_names:
        return None
    try:
        importlib.import_module(module)
    except ImportError:
        return None
    found = _found(module, name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _with_fields(error: BaseException, fields: dict[str, Any]) -> BaseException:
    """An exception of Python's own, made anew from its arguments, since some keep them in fields as well."""
    try:
        made = type(error)(*error.args)
    except Exception:
        made = error
    for name, value in fields.items():
        if name.isidentifier() and not name.startswith("_"):
            made.__dict__[name] = value
    return made


def _stranger(other: Any) -> Any:
    """A value of the same type that nobody expects."""
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        return random.SystemRandom().randrange(1 << 40, 1 << 50)
    return os.urandom(8).hex()


def _found(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _builtin(error: BaseException) -> str:
    return next(kind.__name__ for kind in type(error).__mro__ if getattr(builtins, kind.__name__, None) is kind)
