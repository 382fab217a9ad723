"""Drawn problems and problems of a file: what counts as the answer."""

import asyncio
import itertools
import json

import orjson
import pytest
from tokenmill.gym.mathematics import KINDS, Mathematics
from tokenmill.gym.registry import find
from tokenmill.schemas.flags import UsageError


def reward(environment, task, text):
    return asyncio.run(environment.worth(task, text, None))[0].reward


def task_of(value):
    task = next(Mathematics().tasks(0))
    return type(task)(**{**vars(task), "data": orjson.dumps({"answer": value}).decode()})


@pytest.mark.parametrize(
    "value, said, right",
    [
        ("315/2", "Answer: 315/2", True),
        ("315/2", "Answer: 157.5", False),
        ("315/2", r"So \boxed{\frac{315}{2}}.", True),
        ("315/2", r"Answer: $\dfrac{315}{2}$", True),
        ("1200", "Answer: 1,200", True),
        ("1200", "Answer: 1,200 litres", False),
        ("-40", "**Answer:** −40", True),
        ("1200", "Answer: x = 1200", False),
        ("1200", "Answer: 12 * 100", False),
        ("1200", "Answer: 1199 + 1", False),
        ("1200", "Answer: 1200 or 1300", False),
        ("1200", "Answer: {1200, 1300}", False),
        ("1200", "Answer: about 1200, or 1300", False),
        ("1200", r"\boxed{1200} \boxed{1300}", False),
        ("1200", "1200", False),
    ],
)
def test_an_answer_is_one_number_worked_out(value, said, right):
    assert reward(Mathematics(), task_of(value), said) == right


def test_every_kind_is_drawn_and_its_reference_is_paid():
    tasks = list(itertools.islice(Mathematics().tasks(2), 3 * len(KINDS)))
    assert len({task.kind for task in tasks}) == len(KINDS)
    assert all(reward(Mathematics(), task, task.reference) == 1 for task in tasks)


def test_problems_of_a_file(tmp_path):
    made = [{"problem": "What is 2x + 2x?", "answer": "It follows that\n#### 4x"}]
    made.append({"question": "Even primes?", "answer": "2", "id": "p"})
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
    environment = find("mathematics:mine.jsonl", str(tmp_path))
    first, second = environment.tasks(0)
    assert (second.id, second.environment) == ("p", "mathematics:mine.jsonl")
    assert reward(environment, first, "Answer: 4*x") == 1 and reward(environment, first, "Answer: 4") == 0
    (tmp_path / "odd.jsonl").write_text('{"problem": "x"}\n')
    with pytest.raises(Exception, match="needs `problem` and `answer`"):
        list(find("mathematics:odd.jsonl", str(tmp_path)).tasks(0))
    with pytest.raises(UsageError):
        list(find("mathematics:none.jsonl", str(tmp_path)).tasks(0))
