"""No module imports one that imports it, and no room imports from the floors above it."""

import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_USE = {
    "schemas": set(),
    "prompts": {"schemas"},
    "inference": {"schemas", "prompts"},
    "judges": {"schemas", "prompts", "inference"},
    "tools_repo": {"schemas", "prompts", "inference", "judges"},
    "gym": {"schemas", "prompts", "inference", "judges", "tools_repo"},
    "pipelines": {"schemas", "prompts", "inference", "judges", "tools_repo", "gym"},
    "training": {"schemas"},
}


def modules():
    for room in MAY_USE:
        for path in (ROOT / room).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(("tokenmill", *parts)).removesuffix(".__init__"), path


MODULES = dict(modules())


def imported(path):
    """Our modules that a file imports, be it late or for its types only."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tokenmill."):
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                yield whole if whole in MODULES else node.module


def test_imports_make_no_circle():
    graph = {module: set(imported(path)) for module, path in MODULES.items()}
    assert len(graph) > 200
    tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names them


@pytest.mark.parametrize("room", MAY_USE)
def test_no_import_runs_upward(room):
    for module, path in MODULES.items():
        if module.split(".")[1] == room:
            used = {name.split(".")[1] for name in imported(path)} - {room}
            assert used <= MAY_USE[room], module
