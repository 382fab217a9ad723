"""Own puzzles: what they pay for and what not, decided by rules that are written out here a second time."""

import asyncio
import itertools

import orjson
import pytest
from tokenmill.gym.puzzles.cryptarithm import Cryptarithm, count
from tokenmill.gym.puzzles.game24 import Game24, NotAnExpression, evaluated, solution
from tokenmill.gym.puzzles.morse import Morse, encoded
from tokenmill.gym.puzzles.riddles import Riddles
from tokenmill.gym.puzzles.sudoku import Sudoku
from tokenmill.gym.puzzles.tables import Tables


def tasks(environment, number=6, seed=3):
    return list(itertools.islice(environment.tasks(seed), number))


def reward(environment, task, text):
    (part,) = asyncio.run(environment.worth(task, text, None))
    return part.reward


def drawn24(*numbers):
    return tasks(Game24(), 1)[0].__class__(
        id="x",
        environment="game24",
        kind="game24",
        prompt="",
        budget=1,
        data=orjson.dumps({"numbers": numbers}).decode(),
    )


@pytest.mark.parametrize(
    "said, right",
    [
        ("(7 - 4) * 8", False),  # other numbers
        ("(7 - 4) * (4 + 4)", True),
        ("(7 - 4/4) * 4", True),
        ("4 × (7 − 4 ÷ 4) = 24", True),
        ("**4 * (7 - 4/4)**", True),
        ("4*7 - 4*1", False),
        ("44 - 7 - 4", False),
        ("4 * (7 - 4/4) + 0", False),
        ("4 ** 7 - 4 / 4", False),
        ("7 / (4 - 4) * 4", False),
        ("24", False),
        ("4 * (7 - 4//4)", False),
        ("__import__('os').getpid()", False),
        ("4 * (7 - 4/4) or 24", False),
    ],
)
def test_24_wants_each_number_once_and_exact_arithmetic(said, right):
    assert reward(Game24(), drawn24(7, 4, 4, 4), f"So it is.\nAnswer: {said}") == right


def test_24_is_not_rounded():
    assert reward(Game24(), drawn24(3, 3, 8, 8), "Answer: 8 / (3 - 8 / 3)") == 1  # 23.999999999999989 in floating point
    assert reward(Game24(), drawn24(3, 3, 8, 8), "Answer: 8 / (3 - 8 / 3) * 1") == 0


def test_24_knows_what_cannot_be_made():
    assert solution((1, 1, 1, 1)) == "" and solution((3, 3, 8, 8))
    with pytest.raises(NotAnExpression):
        evaluated("-(1)")


def test_the_answer_must_be_the_only_one_and_the_last():
    task = drawn24(7, 4, 4, 4)
    right, wrong = "Answer: 4 * (7 - 4/4)", "Answer: 4 + 4"
    assert reward(Game24(), task, f"{right}\n{right}") == 1
    for text in (f"{wrong}\n{right}", f"{right}\n{wrong}", f"{right}\nor not", right.removeprefix("Answer: ")):
        assert reward(Game24(), task, text) == 0, text


def solutions(puzzle, rows, columns):
    """All solutions of a sudoku, by plain trial."""
    size = len(puzzle)
    spot = next(((r, c) for r in range(size) for c in range(size) if not puzzle[r][c]), None)
    if spot is None:
        return 1
    r, c = spot
    found = 0
    for value in range(1, size + 1):
        box = [
            puzzle[i][j]
            for i in range(size)
            for j in range(size)
            if i // rows == r // rows and j // columns == c // columns
        ]
        if value not in puzzle[r] and all(row[c] != value for row in puzzle) and value not in box:
            puzzle[r][c] = value
            found += solutions(puzzle, rows, columns)
            puzzle[r][c] = 0
    return found


def test_a_sudoku_has_one_solution_and_its_givens_stay():
    for task in tasks(Sudoku(), 9):
        data = orjson.loads(task.data)
        if task.kind != "sudoku_9":
            assert solutions([list(row) for row in data["puzzle"]], data["rows"], data["columns"]) == 1
        assert reward(Sudoku(), task, f"Here it is.\n{task.reference}") == 1
        piped = task.reference.replace(" ", " | ")
        assert reward(Sudoku(), task, piped) == 1
        swapped = task.reference.translate(str.maketrans("12", "21"))
        assert reward(Sudoku(), task, swapped) == 0  # a grid that is valid, but not with these givens


def test_a_cryptarithm_has_one_solution():
    assert count(["SEND", "MORE", "MONEY"], 5) == 1
    assert count(["AB", "CD", "EF"], 5) == 5  # many, counted up to five
    for task in tasks(Cryptarithm(), 3):
        words = orjson.loads(task.data)["words"]
        letters = sorted({*"".join(words)})
        if len(letters) <= 6:
            fits = 0
            for digits in itertools.permutations(range(10), len(letters)):
                value = dict(zip(letters, map(str, digits), strict=True))
                a, b, c = ("".join(value[x] for x in word) for word in words)
                fits += "0" not in (a[0], b[0], c[0]) and int(a) + int(b) == int(c)
            assert fits == 1
        assert reward(Cryptarithm(), task, task.reference) == 1


def test_morse_is_the_international_code():
    assert encoded("SOS 73") == "... --- ... / --... ...--"
    decode, encode = tasks(Morse(), 2)
    assert reward(Morse(), decode, decode.reference.lower()) == 1
    assert reward(Morse(), encode, encode.reference.replace("-", "−").replace(".", "·")) == 1
    assert reward(Morse(), encode, encode.reference.replace(" / ", " ")) == 0


def test_a_table_is_read_by_its_numbers():
    for task in tasks(Tables(), 8):
        right = orjson.loads(task.data)["answer"]
        assert reward(Tables(), task, f"Answer: {right} euros") == 1
        assert reward(Tables(), task, f"Answer: {right}0") == 0


def test_the_total_of_a_city_is_the_sum_over_both_tables():
    task = tasks(Tables(), 1)[0]
    blocks = [part for part in task.prompt.split("\n\n") if part.startswith("|")]
    customers, products, orders = (
        [[c.strip() for c in line.strip("|").split("|")] for line in b.splitlines()[2:]] for b in blocks
    )
    city = task.prompt.split("all customers from ")[1].split(" spend")[0]
    there = {row[0] for row in customers if row[2] == city}
    price = {row[0]: int(row[2]) for row in products}
    assert task.reference == f"Answer: {sum(int(o[3]) * price[o[2]] for o in orders if o[1] in there)}"


def test_a_riddle_wants_the_whole_arrangement():
    queue, islanders = tasks(Riddles(), 2)
    people = orjson.loads(queue.data)["answer"]
    assert reward(Riddles(), queue, f"Answer: {' '.join(people)}") == 1
    assert reward(Riddles(), queue, f"Answer: {', '.join(people[::-1])}") == 0
    liars = orjson.loads(islanders.data)["answer"]
    assert reward(Riddles(), islanders, f"Answer: {', '.join(liars[::-1])}") == 1  # a set has no order
    assert reward(Riddles(), islanders, f"Answer: {', '.join(orjson.loads(islanders.data)['people'])}") == 0
