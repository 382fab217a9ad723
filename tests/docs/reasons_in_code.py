"""Which reasons for refusing a row, and which errors of failed rows, the code can give: read from its syntax.

A reason is a text that reaches one of `SINKS`. Where it is a parameter of the function around it, the calls of that
function are looked at in turn; names are followed to the assignments and module constants that they stand for.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import tokenmill

ROOT = Path(tokenmill.IMPORT_ROOT)
ROOMS = ("inference", "judges", "pipelines", "tools_repo", "schemas")
REFUSED, FAILED = "rejected", "failed"
SINKS = {
    "Verdict": (REFUSED, 3, "reason"),
    "Rejected": (REFUSED, 1, "reason"),
    "refuse": (REFUSED, 1, "reason"),
    "Fault": (REFUSED, 0, "reason"),
    "_Refused": (REFUSED, 0, "reason"),
    "Draft": (REFUSED, 2, "reason"),
    "Repetition": (REFUSED, 1, "reason"),
    "RowDecision": (REFUSED, 2, "reason"),
    "Judged": (REFUSED, 2, "reason"),
    "AgentTurn": (REFUSED, 3, "problem"),
    "FailedRow": (FAILED, 5, "error"),
    "RowUnreadable": (FAILED, 0, "error"),
    "NotExtracted": (FAILED, 0, "error"),
    "HarvestFailed": (FAILED, 1, "error"),
    "Missing": (FAILED, 1, "error"),
    "TaskInvalid": (FAILED, 0, "reason"),
    "Source": (FAILED, 6, "error"),
}
"""Callable: (folder of the row, position, keyword) of the argument that is a reason."""
PASSED_ON = {"reason", "error", "ended", "problem", "__name__"}
"""Attributes that hold a reason which was given elsewhere."""
TUPLES = ("_Fault", "tuple[str, str] | None", "tuple[str, str, int] | None")
"""What functions return whose first element is a reason."""
LISTS = ("KINDS", "REASONS", "orders")
"""Names under which judges list the reasons that a model may give."""
ENDINGS = "pipelines/agentic/trajectories/dialogue.py"
"""Its constants say how a trajectory ended; all but the good end are reasons."""

Reason = tuple[str, str]
"""(folder, reason)"""


class Module:
    """One file: its functions, constants and imports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.constants: dict[str, ast.expr] = {}
        for node in self.tree.body:
            self.constants |= _assigned(node)
        for cls in (node for node in self.tree.body if isinstance(node, ast.ClassDef)):
            for node in cls.body:
                self.constants |= _assigned(node)
        self.imports = {
            alias.asname or alias.name: (node.module, alias.name)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tokenmill.")
            for alias in node.names
        }


def _assigned(node: ast.stmt) -> dict[str, ast.expr]:
    """Names and values of a plain assignment, `A, B = "a", "b"` included."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return {node.target.id: node.value}
    if not isinstance(node, ast.Assign):
        return {}
    found: dict[str, ast.expr] = {}
    for target in node.targets:
        if isinstance(target, ast.Name):
            found[target.id] = node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = zip(target.elts, node.value.elts, strict=False)
            found |= {name.id: value for name, value in pairs if isinstance(name, ast.Name)}
    return found


@cache
def modules() -> dict[str, Module]:
    """Every module of the product that may refuse a row, by its path."""
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return {module.name: module for module in map(Module, paths)}


def _imported(module: Module, name: str) -> tuple[Module, str] | None:
    if name not in module.imports:
        return None
    where, original = module.imports[name]
    inside = where.removeprefix("tokenmill.").replace(".", "/")
    found = modules().get(f"{inside}.py") or modules().get(f"{inside}/__init__.py")
    return (found, original) if found else None


class Collector:
    """Follows what reaches the sinks."""

    def __init__(self) -> None:
        self.found: dict[Reason, set[str]] = defaultdict(set)
        self.unknown: list[str] = []
        self._sinks: dict[tuple[str, str], set[tuple[str, int, str]]] = defaultdict(set)
        """(module or "" for all, callable) -> sinks."""
        for name, sink in SINKS.items():
            self._sinks["", name].add(sink)
        before = -1
        while before != len(self._sinks):
            before = len(self._sinks)
            for module in modules().values():
                for around, call in _calls(module.tree):
                    self._call(module, around, call)
        for module in modules().values():
            self._listed(module)
        self._errors()

    def _call(self, module: Module, around: tuple[ast.AST, ...], call: ast.Call) -> None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        sinks = self._sinks.get((module.name, name)) or self._sinks.get(("", name), set())
        by_keyword = {keyword.arg: keyword.value for keyword in call.keywords}
        if not sinks and "reason" in by_keyword and name.lstrip("_")[:1].isupper():  # a record
            sinks = {(REFUSED, 99, "reason")}
        for folder, position, keyword in list(sinks):
            given = by_keyword.get(keyword) or (call.args[position] if len(call.args) > position else None)
            if given is not None and not any(isinstance(arg, ast.Starred) for arg in call.args):
                self._take(module, around, given, folder)

    def _take(self, module: Module, around: tuple[ast.AST, ...], value: ast.expr, folder: str) -> None:
        """Note what an expression may be."""
        here = f"{module.name}:{value.lineno}"
        for text in self._texts(module, around, value, folder):
            if text is None:
                self.unknown.append(f"{here}: {ast.unparse(value)}")
            elif text:
                self.found[folder, text].add(here)

    def _texts(self, module: Module, around: tuple[ast.AST, ...], value: ast.expr, folder: str) -> Iterator[str | None]:
        """The texts that an expression may be; None where that cannot be told."""
        match value:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr():
                parts = (str(part.value) if isinstance(part, ast.Constant) else "*" for part in value.values)
                yield "".join(parts)
            case ast.IfExp():
                yield from self._texts(module, around, value.body, folder)
                yield from self._texts(module, around, value.orelse, folder)
            case ast.BoolOp():
                for part in value.values:
                    yield from self._texts(module, around, part, folder)
            case ast.Dict():
                for part in value.values:
                    yield from self._texts(module, around, part, folder)
            case ast.Subscript(slice=ast.Constant(value="kind")):
                yield from self._kinds(module)
            case ast.Subscript(slice=ast.Constant(value=int())) | ast.Call(func=ast.Name(id="next")):
                return  # of what a function returned, or of claims that a judge made: see TUPLES and LISTS
            case ast.Subscript(value=ast.Name()):
                yield from self._texts(module, around, value.value, folder)
            case ast.Attribute(attr="kind"):
                yield from self._kinds(module)
            case ast.Attribute(attr=attribute) if attribute in PASSED_ON:
                return
            case ast.Name():
                yield from self._name(module, around, value.id, folder)
            case _:
                yield None

    def _name(self, module: Module, around: tuple[ast.AST, ...], name: str, folder: str) -> Iterator[str | None]:
        for function in reversed(around):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
                if name in names:
                    own = names[0] in ("self", "cls")
                    called, position = function.name, names.index(name) - own
                    if called == "__init__":
                        called = next(node.name for node in reversed(around) if isinstance(node, ast.ClassDef))
                    local = module.name if called.startswith("_") else ""
                    self._sinks[local, called].add((folder, position, name))
                    return
                values = list(_local(function, name))
                if values:
                    for value in values:
                        if value is not None:
                            yield from self._texts(module, around, value, folder)
                    return
        if name in module.constants:
            yield from self._texts(module, (), module.constants[name], folder)
        elif imported := _imported(module, name):
            yield from self._name(imported[0], (), imported[1], folder)
        else:
            yield None

    @staticmethod
    def _kinds(module: Module) -> Iterator[str]:
        """Where a verdict takes its reason from its first finding: all kinds of finding of that module."""
        for _, call in _calls(module.tree):
            if getattr(call.func, "id", "") == "Finding" and isinstance(call.args[0], ast.Constant):
                yield call.args[0].value

    def _listed(self, module: Module) -> None:
        """Reasons that stand in tables, and at the head of tuples that functions return."""
        for name in LISTS if module.name.startswith("judges/") else ():
            for text in _members(module.constants.get(name), module.constants):
                self.found[REFUSED, text].add(module.name)
        for around, node in _walk(module.tree):
            if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns).endswith(TUPLES):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Tuple | ast.IfExp):
                        parts = [inner.value] if isinstance(inner.value, ast.Tuple) else [inner.value.orelse]
                        for part in parts:
                            if isinstance(part, ast.Tuple):
                                self._take(module, (*around, node), part.elts[0], REFUSED)
            is_append = isinstance(node, ast.Call) and ast.unparse(node.func) == "faults.append"
            if is_append and isinstance(node.args[0], ast.Tuple):
                self._take(module, around, node.args[0].elts[0], REFUSED)
        if module.name == ENDINGS:
            for name, value in module.constants.items():
                if name.isupper() and name != "USER_DONE":
                    self._take(module, (), value, REFUSED)

    def _errors(self) -> None:
        """What a row that fails in a rollout is told by: the names of the exceptions that end rows."""
        bases = {
            node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
            for module in modules().values()
            for node in module.tree.body
            if isinstance(node, ast.ClassDef)
        }
        rows = {"RowError"}
        while more := {name for name, of in bases.items() if of & rows} - rows:
            rows |= more
        for name in rows - {"RowError"}:
            self.found[FAILED, name].add("class")


def _members(value: ast.expr | None, constants: dict[str, ast.expr]) -> list[str]:
    """Texts of a tuple, or keys (of `orders`) or values (of other tables) of a dict; a name stands for its constant."""
    parts: Sequence[ast.expr | None] = ()
    if isinstance(value, ast.Tuple):
        parts = value.elts
    elif isinstance(value, ast.Dict):
        keyed = any(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in value.keys)
        parts = value.keys if keyed else value.values
    parts = [constants.get(part.id) if isinstance(part, ast.Name) else part for part in parts]
    return [part.value for part in parts if isinstance(part, ast.Constant)]


def _local(function: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """Values that a function gives a name: by assignment, or by going through a table. None for one that it takes apart."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in (assigned := _assigned(node)):
            yield assigned[name]
        elif isinstance(node, ast.Assign) and _places(node.targets[0], name) is not None:
            yield None
        elif isinstance(node, ast.For) and (place := _places(node.target, name)) is not None:
            for row in getattr(node.iter, "elts", ()):
                yield row.elts[place]


def _places(target: ast.expr, name: str) -> int | None:
    names = [getattr(part, "id", "") for part in getattr(target, "elts", ())]
    return names.index(name) if name in names else None


def _walk(tree: ast.AST, around: tuple[ast.AST, ...] = ()) -> Iterator[tuple[tuple[ast.AST, ...], ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        yield around, node
        opens = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from _walk(node, (*around, node) if opens else around)


def _calls(tree: ast.AST) -> Iterator[tuple[tuple[ast.AST, ...], ast.Call]]:
    return ((around, node) for around, node in _walk(tree) if isinstance(node, ast.Call))
