"""The floors of the house: who may import whom, and that nobody imports in a circle. Read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = (
    ("schemas", "prompts"),
    ("inference",),
    ("judges",),
    ("tools_repo",),
    ("gym",),
    ("pipelines",),
    ("cli",),
    ("__main__",),
)
"""From the ground up: a room imports from itself and from the floors below it."""
MAY = {
    room: {below for rooms in FLOORS[:number] for below in rooms}
    for number, floor in enumerate(FLOORS)
    for room in floor
} | {"training": {"schemas"}, "bench": {"training", *(room for floor in FLOORS for room in floor)}}
"""Rooms that each room may import from, beside itself and the few names of `tokenmill` itself."""


def modules() -> dict[str, Path]:
    """Every module of the package, by the name that it is imported by."""
    files = [(path, path.relative_to(ROOT)) for room in MAY for path in (ROOT / room).rglob("*.py")]
    files += [(path, path.relative_to(ROOT / "tokenmill")) for path in (ROOT / "tokenmill").glob("*.py")]
    return {
        ".".join(("tokenmill", *inside.with_suffix("").parts)).removesuffix(".__init__"): path for path, inside in files
    }


MODULES = modules()


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """(module or foreign name, line): names of this package are cut to the module that holds them. Imports in functions and
    for type checkers count, too: they say as well who needs to know whom."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        origin = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for parts in ((origin + name).split(".") for name in names):
            prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
            yield next((prefix for prefix in prefixes if prefix in MODULES), ".".join(parts)), node.lineno


def room(module: str) -> str:
    """The room of a module of this package; empty for `tokenmill` itself."""
    return module.split(".")[1] if "." in module else ""


@pytest.mark.parametrize("name", MAY)
def test_a_room_imports_from_lower_floors_only(name):
    mine = [path for module, path in MODULES.items() if room(module) == name]
    assert mine, f"there is no room `{name}`"
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in mine
        for target, line in imported(path)
        if target in MODULES and room(target) not in {"", name, *MAY[name]}
    ]
    allowed = ", ".join(sorted(MAY[name])) or "no other room"
    assert not wrong, f"`{name}` may import from {allowed}:\n" + "\n".join(wrong)


def test_nothing_imports_tests_or_the_script_or_relatively():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in MODULES.values()
        for target, line in imported(path)
        if target.split(".")[0] in ("", "tests", "beam_runner") or target.split(".")[0] in MAY
    ]
    assert not wrong, (
        "import modules of this package as `tokenmill.…`, and neither tests nor the script:\n" + "\n".join(wrong)
    )


def test_no_module_imports_itself_in_a_circle():
    graph = networkx.DiGraph()
    for module, path in MODULES.items():
        for target, line in imported(path):
            if target in MODULES:
                graph.add_edge(module, target, line=line)
    circles = [
        f"{module} (line {graph.edges[module, target]['line']}) -> {target}"
        for component in networkx.strongly_connected_components(graph)
        for module, target in graph.subgraph(component).edges
    ]
    assert not circles, "these modules need each other to be imported:\n" + "\n".join(sorted(circles))
