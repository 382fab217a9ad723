"""The tests' side of a repository's verdict: what a test imports, runs and looks at of the tested code is asked for in the
other sandbox; none of its code is ever run here."""

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import os
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from tokenmill.tools_repo.code.guests.asking import Peer  # ours, sent along
from tokenmill.tools_repo.code.guests.stand_ins import RemoteClass, RemoteModule, ours  # ours, sent along

RUNNER = {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"}
_ASKED_THERE = {
    dataclasses: ("asdict", "astuple", "fields", "is_dataclass", "replace"),
    inspect: (
        "signature",
        "getsource",
        "iscoroutinefunction",
        "isgeneratorfunction",
        "getdoc",
        "getmembers",
        "isabstract",
    ),
}
"""Functions of Python's own library that look into what they are given."""
_STARTS = {
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "subprocess.Popen",
    "pty.spawn",
}


class Imports(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the task's own test files here, and everything else of the workspace over there."""

    def __init__(self, peer: Peer, local: set[str], areas: tuple[str, ...]) -> None:
        self.peer, self.local = peer, local
        self.areas = tuple(f"{area}/" for area in areas)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent = sys.modules.get(name.rpartition(".")[0])
        if isinstance(parent, RemoteModule):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        find = importlib.machinery.PathFinder.find_spec
        if name.partition(".")[0] in sys.stdlib_module_names or name.partition(".")[0] in RUNNER:
            # Never from the workspace, whatever has been written there meanwhile.
            for finder in (importlib.machinery.BuiltinImporter, importlib.machinery.FrozenImporter):
                if (spec := finder.find_spec(name)) is not None:
                    return spec
            spec = find(name, [each for each in path or sys.path if not f"{each}/".startswith(self.areas)])
            if spec is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return spec
        spec = find(name, path)
        if spec is None:
            return None
        where = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        if not any(os.path.realpath(place).startswith(self.areas) for place in where):
            return spec
        here = spec.origin in self.local if spec.origin else any(self._holds_tests(place) for place in where)
        return spec if here else importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _holds_tests(self, folder: str) -> bool:
        return any(path.startswith(f"{folder}/") for path in self.local)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        if isinstance(spec.loader_state, str):
            return self.peer.do("load", None, (spec.name, spec.loader_state))
        return self.peer.do("import", None, (spec.name,))

    def exec_module(self, module: types.ModuleType) -> None:
        """It ran over there."""

    def by_file(self, made: Callable[..., Any]) -> Callable[..., Any]:
        """`importlib.util.spec_from_file_location`, for files of the tested code as well."""

        def spec_from_file_location(name: str, location: Any = None, *args: Any, **kwargs: Any) -> Any:
            path = os.path.abspath(os.fspath(location)) if location is not None else ""  # noqa: PTH100
            if not path.startswith(self.areas) or path in self.local:
                return made(name, location, *args, **kwargs)
            return importlib.machinery.ModuleSpec(name, self, loader_state=path)

        return spec_from_file_location

    def guard(self, texts: set[str]) -> None:
        """Refuse to run here what is not the task's own, and to start programs. The hook cannot be taken off."""

        def refuse(why: str) -> None:
            self.peer.undecided(f"the test {why} itself")

        def hook(event: str, given: tuple[Any, ...]) -> None:
            if event in _STARTS:
                refuse(f"starts a program ({event})")
            elif event == "compile":
                source = given[0]
                if isinstance(source, bytes):
                    source = source.decode("utf-8", "replace")
                if source in texts or self._foreign(given[1]):
                    refuse("runs a file of the tested code")
            elif event == "exec" and self._foreign(getattr(given[0], "co_filename", "")):
                refuse("runs a file of the tested code")

        sys.addaudithook(hook)

    def _foreign(self, path: Any) -> bool:
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        return isinstance(path, str) and path.startswith(self.areas) and path not in self.local

    def install(self, texts: set[str]) -> None:
        peer = self.peer
        sys.meta_path.insert(0, self)
        importlib.util.spec_from_file_location = self.by_file(importlib.util.spec_from_file_location)
        Started.peer = peer
        subprocess.Popen = Started  # type: ignore[misc, assignment]
        os.system = lambda command: Started(command, shell=True).wait() << 8
        for module, names in _ASKED_THERE.items():
            for name in names:
                setattr(module, name, _asked(peer, getattr(module, name)))
        self.guard(texts)


def _asked(peer: Peer, function: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*args: Any, **kwargs: Any) -> Any:
        if args and (ours(args[0]) or isinstance(args[0], (RemoteClass, RemoteModule))):
            return peer.do("apply", None, (function.__module__, function.__name__, *args), kwargs)
        return function(*args, **kwargs)

    asked.__qualname__, asked.__module__ = function.__qualname__, function.__module__
    return asked


class Started:
    """A command that a test starts: it runs where the tested code is, to its end, when it is first waited for."""

    peer: Peer

    def __init__(
        self,
        args: Any,
        bufsize: int = -1,
        executable: Any = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        preexec_fn: Any = None,
        close_fds: bool = True,
        shell: bool = False,
        cwd: Any = None,
        env: Any = None,
        universal_newlines: Any = None,
        *_: Any,
        text: Any = None,
        encoding: str | None = None,
        errors: str | None = None,
        **__: Any,
    ) -> None:
        self.args, self.shell, self.cwd, self.env = args, shell, cwd, env
        self.given, self.wanted = stdin, (stdout, stderr)
        self.text = bool(text or universal_newlines or encoding or errors)
        self.encoding, self.errors = encoding or "utf-8", errors or "strict"
        self.returncode: int | None = None
        self.pid = 0
        self.stdin: Any = io.BytesIO() if stdin == subprocess.PIPE else None
        if self.text and self.stdin is not None:
            self.stdin = io.StringIO()
        self.outputs: list[Any] = [None, None]

    def __class_getitem__(cls, _: Any) -> Any:
        return cls

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: Any) -> None:
        self.wait()

    @property
    def stdout(self) -> Any:
        return self._stream(0)

    @property
    def stderr(self) -> Any:
        return self._stream(1)

    def _stream(self, which: int) -> Any:
        if self.wanted[which] != subprocess.PIPE:
            return None
        self.wait()
        held = self.outputs[which]
        if not hasattr(held, "read"):
            self.outputs[which] = io.StringIO(held) if self.text else io.BytesIO(held)
        return self.outputs[which]

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        self._run(input, timeout)
        told = [held.read() if hasattr(held, "read") else held for held in self.outputs]
        return told[0], told[1]

    def wait(self, timeout: float | None = None) -> int:
        self._run(None, timeout)
        assert self.returncode is not None
        return self.returncode

    def poll(self) -> int | None:
        return self.wait()

    def kill(self) -> None:
        """It has ended, or never began."""

    terminate = kill

    def send_signal(self, signal: int) -> None:
        """It has ended, or never began."""

    def _run(self, input: Any, timeout: float | None) -> None:
        if self.returncode is not None:
            return
        if input is None and self.stdin is not None:
            input = self.stdin.getvalue()
        elif hasattr(self.given, "read"):
            input = self.given.read()
        data = input.encode(self.encoding) if isinstance(input, str) else bytes(input or b"")
        argv = [os.fspath(each) for each in self.args] if isinstance(self.args, (list, tuple)) else os.fspath(self.args)
        env = None if self.env is None else {str(name): str(value) for name, value in self.env.items()}
        cwd = None if self.cwd is None else os.fspath(self.cwd)
        joined = self.wanted[1] == subprocess.STDOUT
        code, *out = self.peer.do("run", None, (argv, self.shell, data, env, cwd, timeout, joined))
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0, out[0], out[1])
        self.returncode = code
        for which, (wanted, content) in enumerate(zip(self.wanted, out, strict=True)):
            if wanted == subprocess.PIPE:
                self.outputs[which] = (
                    content.decode(self.encoding, self.errors).replace("\r\n", "\n") if self.text else content
                )
            elif wanted is None:
                (sys.stdout, sys.stderr)[which].write(content.decode("utf-8", "replace"))
            elif hasattr(wanted, "write"):
                wanted.write(content.decode("utf-8", "replace") if isinstance(wanted, io.TextIOBase) else content)
