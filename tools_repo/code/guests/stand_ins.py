"""The tests' side of a repository's verdict: objects that stand for those of the tested code, which live in another sandbox.

No object of the tested code crosses: what a test gets is a plain value of Python's own, or a stand-in whose methods ask over
there (`asking.py`).
"""

import types
from typing import Any

from tokenmill.tools_repo.code.guests.mirror import COMPARED  # ours, sent along

PREDICATES = frozenset(["startswith", "endswith", "issubset", "issuperset", "isdisjoint"]) | {
    name for name in dir(str) if name.startswith("is")
}


class Gone(BaseException):
    """The tested code does not answer any more; no `except Exception` of a test hides it."""


class Undecided(BaseException):
    """The test asks what only the tested code itself could say, or hands over what cannot pass."""


class Remote:
    """Stands for an object over there; its classes are made after those there."""

    _peer: Any
    _number: int


class RemoteClass(type):
    """Class of the stand-ins for classes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        link = link_of(cls)
        if link is None:
            above = next(link_of(kind) for kind in cls.__mro__ if link_of(kind) is not None)
            return above[0].undecided(f"a class of the test's, {cls.__name__}, is made from one of the tested code")
        return link[0].do("__call__", link[1], args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        link = link_of(cls)
        if link is None or (name.startswith("__") and name.endswith("__") and name not in ("__members__",)):
            raise AttributeError(name)
        return link[0].do("get", link[1], (name,))

    def __setattr__(cls, name: str, value: Any) -> None:
        link = link_of(cls)
        if link is None or name.startswith("__") or name in ("_abc_impl",):
            type.__setattr__(cls, name, value)
        else:
            link[0].do("set", link[1], (name, value))

    def __delattr__(cls, name: str) -> None:
        cls._ask("del", name)

    def _ask(cls, do: str, *args: Any) -> Any:
        link = link_of(cls)
        assert link is not None
        return link[0].do(do, link[1], args)

    def __iter__(cls) -> Any:
        return cls._ask("__iter__")

    def __len__(cls) -> Any:
        return cls._ask("__len__")

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return cls._ask("__getitem__", key)

    def __contains__(cls, key: Any) -> Any:
        return cls._ask("__contains__", key)

    def __dir__(cls) -> Any:
        return cls._ask("dir")


def link_of(cls: type) -> Any:
    return cls.__dict__.get("_link_")


def _getattr(self: Any, name: str) -> Any:
    if name.startswith("__") and name not in ("__wrapped__", "__cause__", "__notes__", "__dict__"):
        raise AttributeError(name)
    got = self._peer.do("get", self._number, (name,))
    if name in PREDICATES and isinstance(got, RemoteFunction):
        return _doubted(self._peer, got, f"{type(self).__name__}.{name}")
    return got


def _doubted(peer: Any, method: Any, name: str) -> Any:
    def asked(*args: Any, **kwargs: Any) -> Any:
        value = method(*args, **kwargs)
        if value is True:
            peer.undecided(f"{name}(), which a string or set has as well, is answered by the tested code's own class")
        return value

    return asked


def _setattr(self: Any, name: str, value: Any) -> None:
    self._peer.do("set", self._number, (name, value))


def _delattr(self: Any, name: str) -> None:
    self._peer.do("del", self._number, (name,))


def _dir(self: Any) -> Any:
    return self._peer.do("dir", self._number)


def _copy(self: Any) -> Any:
    return self._peer.do("copy", self._number)


def _deepcopy(self: Any, memo: Any) -> Any:
    return self._peer.do("deepcopy", self._number)


def _reduce(self: Any, protocol: Any = None) -> Any:
    self._peer.undecided("the test pickles an object of the tested code")


def _special(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._peer.special(self, name, args, kwargs)

    method.__name__ = name
    return method


def _awaited(self: Any) -> Any:
    return self._peer.do("__await__", self._number)
    yield  # for Python, which awaits iterators only


async def later(peer: Any, number: int, do: str, args: tuple[Any, ...]) -> Any:
    return peer.do(do, number, args)


def for_errors() -> dict[str, Any]:
    """Methods of the stand-ins for exceptions."""
    return {"__getattr__": _getattr, "__str__": lambda self: self.__dict__.get("_text", "")}


def for_objects(names: list[str]) -> dict[str, Any]:
    """Methods of the stand-ins for objects whose class has such special methods."""
    given: dict[str, Any] = {name: _special(name) for name in (*names, *COMPARED, "__repr__", "__str__", "__hash__")}
    given |= {"__getattr__": _getattr, "__setattr__": _setattr, "__delattr__": _delattr, "__dir__": _dir}
    given |= {"__copy__": _copy, "__deepcopy__": _deepcopy, "__reduce_ex__": _reduce}
    given |= {name: _async(name) for name in ("__aenter__", "__aexit__", "__anext__") if name in names}
    return given | ({"__await__": _awaited} if "__await__" in names else {})


def _async(name: str) -> Any:
    return lambda self, *args: later(self._peer, self._number, name, args)


class RemoteFunction:
    """Stands for a function over there."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_call"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["_peer"].do("get", self.__dict__["_number"], (name,))

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["_peer"].do("set", self.__dict__["_number"], (name, value))

    def __repr__(self) -> str:
        return f"<function {self.__dict__['__qualname__']}>"


class RemoteModule(types.ModuleType):
    """Stands for a module over there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__version__", "__all__", "__author__", "__file__"):
            raise AttributeError(name)
        return self.__dict__["_peer"].do("get", self.__dict__["_number"], (name,))

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, RemoteModule):
            self.__dict__[name] = value
        else:
            self.__dict__["_peer"].do("set", self.__dict__["_number"], (name, value))

    def __delattr__(self, name: str) -> None:
        self.__dict__["_peer"].do("del", self.__dict__["_number"], (name,))

    def __dir__(self) -> Any:
        return self.__dict__["_peer"].do("dir", self.__dict__["_number"])


def ours(value: Any) -> bool:
    return isinstance(value, (Remote, RemoteFunction))
