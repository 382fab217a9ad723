"""The bench on coding tasks: wrong solutions are wrong, and a verdict that lets one pass is told."""

import ast
import asyncio
import json

import pytest
from tokenmill.bench.agentic import humaneval
from tokenmill.bench.agentic.mutants import PLANTED, compares_plainly, mutants, planted, wrong_ones

from tests.tools_repo.sandboxed import runtime

RUNTIME = runtime()
SOLUTION = (
    "def least(xs):\n    best = xs[0]\n    for x in xs:\n        if x < best:\n            best = x\n    return best\n"
)
TEST = "def check(candidate):\n    assert candidate([3, 1, 2]) == 1\n    assert candidate([5]) == 5\n"
TASK = {
    "task_id": "t/1",
    "prompt": SOLUTION.split("    best")[0],
    "entry_point": "least",
    "canonical_solution": "    best" + SOLUTION.split("    best", 1)[1],
    "test": TEST,
}


def test_mutants_differ_from_the_reference_and_those_that_do_not_matter_are_left_out():
    made = mutants(SOLUTION, "least", 20, "seed")
    assert made == mutants(SOLUTION, "least", 20, "seed") and len(dict((text, kind) for kind, text in made)) == len(
        made
    )
    assert all(ast.dump(ast.parse(text)) != ast.dump(ast.parse(SOLUTION)) for _, text in made)
    wrong = asyncio.run(wrong_ones(RUNTIME, SOLUTION, TEST, "least", made))
    kinds = [kind for kind, text in made if "x <= best" in text]
    assert kinds == ["swapped comparison"] and not any("x <= best" in text for _, text in wrong)
    assert {kind for kind, _ in wrong} == {"off by one", "negated condition"}, wrong


def test_every_planted_solution_is_python():
    texts = dict(planted(SOLUTION, "least"))
    assert texts.keys() == PLANTED.keys() and all(ast.parse(text) for text in texts.values())


@pytest.mark.parametrize(
    "line, plain", [("candidate(1) == 2", True), ("abs(candidate(1) - 2) < 1e-6", False), ("candidate(1) != 2", False)]
)
def test_only_plain_comparisons_prove_a_mutant_wrong(line, plain):
    assert compares_plainly(f"def check(candidate):\n    assert {line}\n") is plain


def test_the_bench_passes_and_says_when_it_does_not(tmp_path, capsys):
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(TASK) + "\n")
    assert humaneval.main([str(file), "--mutants", "2"]) == 0
    told = capsys.readouterr().out
    assert "| reference | 1 | 1 |" in told and "| returns None | 1 | 0 |" in told and "0 |\n\n2 mutants" in told
    file.write_text(json.dumps({**TASK, "test": "def check(candidate):\n    candidate([1])\n"}) + "\n")
    assert humaneval.main([str(file), "--mutants", "0"]) == 1  # a test that asserts nothing lets wrong ones pass
    assert "survived: t/1: returns None" in capsys.readouterr().err
