"""Sudoku of 4, 6 and 9 with exactly one solution."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import BLOCK, stated_block
from tokenmill.gym.environment import Drawn, Generated
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

Grid = list[list[int]]
SIZES = {4: (2, 2, 6), 6: (2, 3, 14), 9: (3, 3, 30)}
"""By size: rows and columns of a box, and the least numbers that are left."""
_RULE = re.compile(r"^[\s\-+|=]*$")


class Sudoku(Generated):
    """Grids with one solution; an answer is the whole grid."""

    name = "sudoku"
    budget = 8192
    topics = ("logic", "constraints")

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        size = (4, 6, 9)[number % 3]
        rows, columns, least = SIZES[size]
        full = _filled(random, rows, columns)
        puzzle = _dug(random, full, rows, columns, least)
        shown = "\n".join(" ".join(str(cell or ".") for cell in row) for row in puzzle)
        prompt = (
            f"Complete this {size}x{size} sudoku: every row, every column and every box of {rows} rows and {columns} columns "
            f"holds each number from 1 to {size} once.\n\n{shown}\n\nWrite the grid with one row a line and a space between "
            f"numbers. {BLOCK}"
        )
        data = {"puzzle": puzzle, "rows": rows, "columns": columns}
        return Drawn(prompt, "Answer:\n" + _shown(full), data, kind=f"sudoku_{size}")

    def fault(self, data: dict[str, Any], text: str) -> str:
        puzzle: Grid = data["puzzle"]
        size, rows, columns = len(puzzle), data["rows"], data["columns"]
        grid = _read(stated_block(text), size)
        if grid is None:
            return f"no grid of {size} rows with {size} numbers each is stated"
        if any(
            given and given != cell for a, b in zip(puzzle, grid, strict=True) for given, cell in zip(a, b, strict=True)
        ):
            return "a given number was changed"
        wanted = set(range(1, size + 1))
        for i in range(size):
            box = [grid[r][c] for r, c in _box(i, rows, columns)]
            for what, cells in (("row", grid[i]), ("column", [row[i] for row in grid]), ("box", box)):
                if set(cells) != wanted:
                    return f"{what} {i + 1} does not hold each number once"
        return ""

    def wrong(self, task: GymTask) -> list[str]:
        data = orjson.loads(task.data)
        puzzle: Grid = data["puzzle"]
        size = len(puzzle)
        full = _read(stated_block(task.reference), size)
        assert full is not None
        open_cells = [(r, c) for r in range(size) for c in range(size) if not puzzle[r][c]]
        made = [puzzle, [[r + 1] * size for r in range(size)], full[::-1], full[:-1], [row[::-1] for row in full]]
        made.append([[(i + j) % size + 1 for j in range(size)] for i in range(size)])
        for r, c in open_cells[:3]:
            other = [list(row) for row in full]
            other[r][c] = other[r][c] % size + 1
            made.append(other)
        return ["Answer:\n" + _shown(grid) for grid in made if grid != full]


def _shown(grid: Grid) -> str:
    return "\n".join(" ".join(str(cell or ".") for cell in row) for row in grid)


def _read(block: str, size: int) -> Grid | None:
    lines = [line for line in block.splitlines() if not _RULE.match(line) and line.strip("` ")]
    grid = []
    for line in lines:
        text = line.replace("|", " ").strip()
        if re.sub(r"[\d\s,]", "", text):
            return None
        cells = text.replace(",", " ").split()
        if len(cells) == 1:
            cells = list(cells[0])
        if len(cells) != size or any(len(cell) != 1 for cell in cells):
            return None
        grid.append([int(cell) for cell in cells])
    return grid if len(grid) == size else None


def _box(number: int, rows: int, columns: int) -> list[tuple[int, int]]:
    size = rows * columns
    across = size // columns
    top, left = number // across * rows, number % across * columns
    return [(top + r, left + c) for r in range(rows) for c in range(columns)]


def _filled(random: Random, rows: int, columns: int) -> Grid:
    """A solved grid: the usual pattern with its numbers, rows, columns, bands and stacks in a drawn order."""
    size = rows * columns
    bands, stacks = list(range(columns)), list(range(rows))
    random.shuffle(bands)
    random.shuffle(stacks)
    order = [band * rows + row for band in bands for row in random.sample(range(rows), rows)]
    across = [stack * columns + column for stack in stacks for column in random.sample(range(columns), columns)]
    numbers = random.sample(range(1, size + 1), size)
    return [[numbers[(columns * (r % rows) + r // rows + c) % size] for c in across] for r in order]


def _dug(random: Random, full: Grid, rows: int, columns: int, least: int) -> Grid:
    """The grid with numbers taken out, one after the other, as long as the solution stays the only one."""
    size, puzzle = len(full), [list(row) for row in full]
    left = size * size
    for place in random.sample(range(size * size), size * size):
        if left <= least:
            break
        r, c = divmod(place, size)
        kept, puzzle[r][c] = puzzle[r][c], 0
        if _count(puzzle, rows, columns, 2) == 1:
            left -= 1
        else:
            puzzle[r][c] = kept
    return puzzle


def _count(puzzle: Grid, rows: int, columns: int, most: int) -> int:
    """Solutions of a puzzle, counted up to `most`."""
    size = rows * columns
    across, whole = size // columns, (1 << size) - 1
    in_row, in_column, in_box = [0] * size, [0] * size, [0] * size
    todo = []
    for r in range(size):
        for c in range(size):
            box = r // rows * across + c // columns
            if puzzle[r][c]:
                bit = 1 << (puzzle[r][c] - 1)
                in_row[r] |= bit
                in_column[c] |= bit
                in_box[box] |= bit
            else:
                todo.append((r, c, box))

    def search(found: int) -> int:
        if not todo:
            return found + 1
        best, choices = 0, whole
        fewest = size + 1
        for at, (r, c, box) in enumerate(todo):
            open_ = whole & ~(in_row[r] | in_column[c] | in_box[box])
            count = open_.bit_count()
            if count < fewest:
                best, choices, fewest = at, open_, count
                if count <= 1:
                    break
        if not choices:
            return found
        r, c, box = todo.pop(best)
        while choices and found < most:
            bit = choices & -choices
            choices ^= bit
            in_row[r] |= bit
            in_column[c] |= bit
            in_box[box] |= bit
            found = search(found)
            in_row[r] ^= bit
            in_column[c] ^= bit
            in_box[box] ^= bit
        todo.insert(best, (r, c, box))
        return found

    return search(0)
