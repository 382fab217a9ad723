"""The names of hidden tests, read from their text: nothing that an agent wrote has a say in what the tests are."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tokenmill.schemas.code import CodeFile


def suite_tests(files: Iterable[CodeFile]) -> list[str]:
    """`FILE::NAME` and `FILE::CLASS::NAME` of every test in test files, as pytest names them without parameters.

    Raises:
        ValueError: a test file is no Python.
    """
    names = []
    for file in files:
        base = file.path.rsplit("/", 1)[-1]
        if not (base.startswith("test_") or base.endswith("_test.py")) or not base.endswith(".py"):
            continue
        for node in _parsed(file.content, file.path).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                names.append(f"{file.path}::{node.name}")
            elif isinstance(node, ast.ClassDef) and (node.name.startswith("Test") or _is_case(node)):
                names += [
                    f"{file.path}::{node.name}::{item.name}"
                    for item in node.body
                    if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test")
                ]
    return list(dict.fromkeys(names))


def check_tests(text: str) -> list[str]:
    """`check:1`, `check:2`, ... for the assertions of a `check` function that assert something; `check:1` when it has none
    and decides by ending without an error.

    Raises:
        ValueError: it is no Python, or has no function `check`.
    """
    checks = [n for n in _parsed(text, "test").body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if not checks:
        raise ValueError("the test has no function `check`")
    asserts = [
        n
        for check in checks
        for n in ast.walk(check)
        if isinstance(n, ast.Assert) and not isinstance(n.test, ast.Constant)
    ]
    return [f"check:{number + 1}" for number in range(max(1, len(asserts)))]


def _is_case(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def _parsed(text: str, where: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{where} is no Python: {' '.join(str(error).split())[:200]}") from None
