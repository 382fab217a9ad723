"""The executable world of a coding trajectory: a private workspace, and the tools that act on it in the sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from tokenmill.schemas.code import CodeTask
from tokenmill.tools_repo.code.interpreter import WORKSPACE, Executed, Runtime, as_json, shortened
from tokenmill.tools_repo.code.workspace import Entry, PathRefused, Workspace, WorkspaceFull
from tokenmill.tools_repo.world import ToolResult

BASH_SECONDS, PATCH_SECONDS, TEST_SECONDS = 30.0, 20.0, 120.0
_ENGINE = "sandbox"
_EXCEEDED = {
    "time": "the command was ended after {seconds:g} seconds",
    "memory": "the command was ended because it used too much memory; files are as they were before it",
    "output": "the command was ended because it printed too much; files are as they were before it",
    "disk": "the workspace would be too large; files are as they were before the command",
    "killed": "the command ended its own session; files are as they were before it",
}
_KINDS = {"time": "timeout", "memory": "out_of_memory", "output": "too_much_output", "disk": "disk_full"}

_TIMING = re.compile(r"((?:passed|failed|errors?|skipped|warnings?|deselected|Ran \d+ tests?)) in \d+\.\d+s")
"""How long a test run took differs each time; without it the same conversation has the same text, and cached answers."""


class _ToolError(Exception):
    """Something an agent did wrong; it reads the text."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@cache
def _tools() -> dict[str, dict[str, Any]]:
    listed = json.loads(resources.files("tokenmill.tools_repo.code").joinpath("tools.json").read_text(encoding="utf-8"))
    return {tool["function"]["name"]: tool for tool in listed}


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(_tools()[name]["function"]["parameters"])


class CodeWorld:
    """A `tools_repo.world.World` for one trajectory on one task. The hidden tests never enter it."""

    def __init__(self, task: CodeTask, runtime: Runtime, *, keep: int = 16_000) -> None:
        """Raises: PathRefused, WorkspaceFull: the task's files cannot be laid out."""
        self.workspace = Workspace.of(task.files)
        self.tools = [tool for name, tool in _tools().items() if name != "run_tests" or task.visible_command]
        self._start = self.workspace
        self._runtime = runtime
        self._visible_command = task.visible_command
        self._protected = {path: self.workspace[path] for path in task.protected if path in self.workspace}
        self._keep = keep
        self._work: dict[str, Callable[[Mapping[str, Any]], Awaitable[tuple[dict[str, Any], str]]]] = {
            "bash": self._bash,
            "read_file": self._read_file,
            "write_file": self._write_file,
            "apply_patch": self._apply_patch,
            "run_tests": self._run_tests,
        }

    @property
    def state(self) -> dict[str, Any]:
        """`{"files": {path: {"sha256", "bytes", "content", "executable"} or {"link"}}}`."""
        return {"files": self.workspace.state}

    async def call(self, name: str, arguments: str, number: int) -> ToolResult:
        """Run a call. Nothing is drawn here: what happens is what happens.

        Raises:
            RunStopped: there is no sandbox here.
            GuestFailed: Python does not start in it.
        """
        before = self.workspace
        try:
            if name not in {tool["function"]["name"] for tool in self.tools}:
                raise _ToolError("unknown_tool", f"there is no tool {name[:80]!r}")
            content, error = await self._work[name](_parsed(name, arguments))
        except _ToolError as wrong:
            content, error = {"error": str(wrong)}, wrong.kind
        except PathRefused as wrong:
            content, error = {"error": str(wrong)}, "permission"
        except WorkspaceFull as wrong:
            content, error = {"error": f"No space left: {wrong}"}, "disk_full"
        patch = json_patch(before, self.workspace)
        engine = "checks" if error in ("unknown_tool", "invalid_arguments") else _ENGINE
        return ToolResult(as_json(content), error, patch=patch, engine=engine)

    async def close(self) -> None:
        """Nothing to give back: no process and no file outlives a call."""

    async def _bash(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        seconds = float(given.get("timeout", BASH_SECONDS))
        return await self._shell(given["command"], seconds)

    async def _run_tests(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """The visible tests as the task brought them, whatever the agent made of them."""
        mended = self.workspace.changed(self._protected) if self._protected else self.workspace
        done = await self._runtime.execute(
            mended, ("bash", "-c", self._visible_command), seconds=TEST_SECONDS, keep=self._keep
        )
        return self._told(done, TEST_SECONDS)

    async def _shell(self, command: str, seconds: float) -> tuple[dict[str, Any], str]:
        if "\0" in command:
            raise _ToolError("invalid_arguments", "a command cannot hold NUL characters")
        if len(command.encode("utf-8", "replace")) > 100_000:
            raise _ToolError("invalid_arguments", "the command is too long; write it to a file first")
        done = await self._runtime.execute(self.workspace, ("bash", "-c", command), seconds=seconds, keep=self._keep)
        self.workspace = done.workspace
        return self._told(done, seconds)

    def _told(self, done: Executed, seconds: float) -> tuple[dict[str, Any], str]:
        told: dict[str, Any] = {} if done.exit_code is None else {"exit_code": done.exit_code}
        told["output"] = _TIMING.sub(r"\1", shortened(done.output, self._keep + 200))
        if done.exceeded:
            told["error"] = _EXCEEDED[done.exceeded].format(seconds=seconds)
        return told, _KINDS.get(done.exceeded, done.exceeded)

    async def _read_file(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        asked = given["path"]
        if _inside(asked) in ("", "."):
            return {"path": ".", "entries": self.workspace.folder("")}, ""
        path = self.workspace.resolve(_inside(asked))
        entry = self.workspace.get(path)
        if entry is None:
            if below := self.workspace.folder(path):
                return {"path": asked, "entries": below}, ""
            raise _ToolError("not_found", f"{asked}: no such file or folder")
        try:
            text = entry.content.decode()
        except UnicodeDecodeError:
            raise _ToolError("not_text", f"{asked}: not a text file ({len(entry.content)} bytes)") from None
        lines = text.splitlines(keepends=True)
        first, last = given.get("first_line", 1), given.get("last_line", len(lines))
        if first > max(1, len(lines)) or last < first:
            raise _ToolError("out_of_range", f"{asked} has {len(lines)} lines; {first} to {last} is no range of them")
        shown = "".join(lines[first - 1 : last])
        return {"path": asked, "lines": len(lines), "content": shortened(shown, self._keep)}, ""

    async def _write_file(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        asked = given["path"]
        path = self.workspace.resolve(_inside(asked))
        if self.workspace.folder(path):
            raise _ToolError("is_a_folder", f"{asked}: is a folder")
        for parent in _parents(path):
            if parent in self.workspace:
                raise _ToolError("not_a_folder", f"{asked}: {parent} is a file, not a folder")
        content = given["content"].encode("utf-8", "replace")
        old = self.workspace.get(path)
        self.workspace = self.workspace.changed({path: Entry(content, executable=bool(old and old.executable))})
        return {"path": asked, "bytes": len(content), "created": old is None}, ""

    async def _apply_patch(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
        """`git apply` in the sandbox: it applies all or nothing, and never through links or out of the folder."""
        patch = given["patch"] if given["patch"].endswith("\n") else given["patch"] + "\n"
        argv = ("git", "apply", "--recount", "--whitespace=nowarn", "-")
        done = await self._runtime.execute(
            self.workspace, argv, seconds=PATCH_SECONDS, stdin=patch.encode("utf-8", "replace").decode()
        )
        if done.exceeded:
            return self._told(done, PATCH_SECONDS)
        if done.exit_code:
            raise _ToolError("patch_failed", shortened(done.output.strip() or "the patch does not apply", 2000))
        changed = sorted(changes(self.workspace, done.workspace))
        self.workspace = done.workspace
        return {"applied": True, "files": changed}, ""


def _parsed(name: str, arguments: str) -> dict[str, Any]:
    try:
        given = orjson.loads(arguments or "{}")
    except orjson.JSONDecodeError as error:
        raise _ToolError("invalid_arguments", f"the arguments are no JSON: {error}") from None
    fault = best_match(_validator(name).iter_errors(given))
    if fault is not None:
        where = ".".join(map(str, fault.absolute_path))
        raise _ToolError("invalid_arguments", shortened(f"{where}: {fault.message}" if where else fault.message, 400))
    return given


def _inside(path: str) -> str:
    """A path as the workspace has it; models also write it from the root."""
    return path[len(WORKSPACE) :].lstrip("/") if path == WORKSPACE or path.startswith(f"{WORKSPACE}/") else path


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def changes(before: Workspace, after: Workspace) -> dict[str, Entry | None]:
    """What was made or changed, and None for what is gone."""
    made = {path: entry for path, entry in after.items() if before.get(path) != entry}
    return {**made, **{path: None for path in before if path not in after}}


def json_patch(before: Workspace, after: Workspace) -> str:
    """The change of `CodeWorld.state` as JSON Patch (RFC 6902)."""
    if before is after:
        return "[]"
    steps: list[dict[str, Any]] = []
    for path, entry in sorted(changes(before, after).items()):
        pointer = "/files/" + path.replace("~", "~0").replace("/", "~1")
        if entry is None:
            steps.append({"op": "remove", "path": pointer})
        else:
            steps.append({"op": "replace" if path in before else "add", "path": pointer, "value": entry.record})
    return as_json(steps)
