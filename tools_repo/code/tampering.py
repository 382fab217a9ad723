"""What an agent may not touch: tests, what configures their runner, and names that stand in for the runner's own modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Container

from tokenmill.schemas.code import REPOSITORY, CodeTask
from tokenmill.schemas.verdicts import Finding
from tokenmill.tools_repo.code.workspace import Entry, Workspace

_RUNNER_FILES = re.compile(
    r"(.*/)?(conftest\.py|sitecustomize\.py|usercustomize\.py|pytest\.ini|\.pytest\.ini|pytest\.toml|\.pytest\.toml|tox\.ini"
    r"|setup\.cfg|[^/]+\.pth|[^/]+\.egg-link|pyvenv\.cfg)|pyproject\.toml"
)
_SHARED = re.compile(r"(.*/)?(pyproject\.toml|setup\.cfg|tox\.ini)")
"""Files that also hold other settings: undone like the others, but an offence only where they speak of pytest."""
_RUNNER_MODULES = {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest_asyncio"}
_MODULES = _RUNNER_MODULES | set(sys.stdlib_module_names)
_TEST = re.compile(r"(.*/)?(test_[^/]*|[^/]*_test)\.py|(.*/)?tests?/.*")


def is_test(path: str) -> bool:
    """Whether a path is by its name one of a test or of what tests use."""
    return bool(_TEST.fullmatch(path))


def is_runner(path: str) -> bool:
    """Whether a file of that name steers the test runner or Python's start."""
    return bool(_RUNNER_FILES.fullmatch(path))


def restored(task: CodeTask, workspace: Workspace) -> tuple[Workspace, list[Finding]]:
    """The workspace as it is judged: protected files as they were, planted ones gone, hidden tests in place.

    With a finding for each thing that had to be undone. Raises: PathRefused, WorkspaceFull.
    """
    start = Workspace.of(task.files)
    hidden = Workspace.of(task.hidden_tests)
    protected = {p for p in start if p in set(task.protected) or is_runner(p)}
    findings: list[Finding] = []
    undo: dict[str, Entry | None] = {}
    for path in sorted(protected):
        if workspace.get(path) != start[path]:
            undo[path] = start[path]
            kind = "test_changed" if path in workspace else "test_deleted"
            if is_runner(path):
                kind = "runner_changed"
                if _SHARED.fullmatch(path) and not _steers(start[path], workspace.get(path)):
                    continue
            findings.append(Finding(kind, f"Leave {path} as it was.", source=path))
    for path, entry in workspace.items():
        if path in start:
            continue
        if kind := _planted(path, entry, task, start):
            undo[path] = None
            findings.append(
                Finding(kind, f"Do not add {path}: it would stand between the tests and the code.", rewrite=path)
            )
    # A folder where a file belongs, or a file where a folder belongs: the task's own wins.
    wanted = {**{p: start[p] for p in protected}, **hidden}
    for path in workspace:
        if path not in wanted and (_below(path, wanted) or any(_below(want, {path}) for want in wanted)):
            undo[path] = None
            findings.append(Finding("runner_planted", f"Do not put {path} in the way of the tests.", rewrite=path))
    for path in hidden:
        if path in workspace and path not in start and workspace[path] != hidden[path]:
            undo[path] = None  # an agent's own test that happens to have the name of a hidden one is no offence
    if task.kind == REPOSITORY:
        undo |= hidden
    return workspace.changed(undo), findings


def _steers(*entries: Entry | None) -> bool:
    return any(entry is not None and (b"pytest" in entry.content or entry.link is not None) for entry in entries)


def _below(path: str, folders: Container[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:end]) in folders for end in range(1, len(parts)))


def _module(parts: list[str], at: int) -> str:
    """The module that a file makes importable from the folder at depth `at`, empty for none."""
    if at >= len(parts) or (at == len(parts) - 1 and not re.search(r"\.(py|pyc|so|pyd)$", parts[at])):
        return ""
    return parts[at].split(".", 1)[0]


def _planted(path: str, entry: Entry, task: CodeTask, start: Workspace) -> str:
    """Why a new file must not be there; empty when it may."""
    if is_runner(path):
        return "runner_planted"
    parts = path.split("/")
    for at in (0, 1) if parts[0] == "src" else (0,):
        name = _module(parts, at)
        known = {_module(p.split("/"), at) for p in start}
        if name in _MODULES and name not in known and (entry.link is None or name in _RUNNER_MODULES):
            return "module_shadowed"
    if entry.link is not None and is_test(path):
        return "runner_planted"
    if path.endswith(".pyc"):
        return "runner_planted"
    return ""
