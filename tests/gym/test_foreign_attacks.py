"""What attackers earn who had not seen the rewards; the honest answers are theirs, too."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tokenmill.bench.gym.attacks import table
from tokenmill.gym.instructions.checkers import spelled
from tokenmill.gym.mathematics import exact
from tokenmill.gym.plain import disguised


@pytest.fixture(scope="module")
def found():
    return {(row["environment"], row["half"]): row for row in table()}


@pytest.mark.parametrize("name", ["game24", "sudoku", "cryptarithm", "morse", "riddles", "tables", "mathematics"])
def test_puzzles_and_mathematics_pay_for_right_answers_only(found, name):
    row = found[name, "dev"]
    assert row["attacks"] >= 50 and row["attacks_paid"] == 0
    assert row["honest"] >= 10 and row["honest_paid"] == row["honest"]


def test_what_is_left_of_attacks_on_instructions_is_a_matter_of_meaning(found):
    row = found["instructions", "dev"]
    assert row["attacks"] == 118 and row["attacks_paid"] <= 9, "50 before"
    assert row["honest_paid"] >= row["honest"] - 1


@pytest.mark.parametrize(
    "text",
    [
        "It was c\u200bold.",
        "It was соld.",
        "ＣＯＬＤ",
        "Ⓜountain",
        "ﬁre",
        "a\u3164b",
        "a\u2800b",
        "one\u2029two",
        "½",
        "x²",
        "ends。",
    ],
)
def test_what_is_not_what_it_looks_like_is_seen(text):
    assert disguised(text)


@pytest.mark.parametrize(
    "text",
    [
        "Plain.",
        "“Naïve” café – 20 °C, €5… it’s fine\n\n• one\t• two",
        "Zażółć gęślą jaźń",
        "snow ❄ and tea ☕",
        "3 × 4 − 2",
    ],
)
def test_ordinary_english_text_is_plain(text):
    assert disguised(text) == ""


def test_words_by_letters_are_seen_and_initials_are_not():
    assert spelled("it was c o l d there") == "c o l d" and spelled("h-o-n-e-y")
    assert not spelled("J. R. R. Tolkien and I saw a U.S. map, plan B, x and y")


@pytest.mark.parametrize(
    ("said", "unit", "value"),
    [
        *(
            ("306", "", 306),
            ("\\boxed{306}", "", 306),
            ("−7/3", "", "-7/3"),
            ("51⁄10", "", "51/10"),
            ("\\frac{35}{102}", "", "35/102"),
        ),
        *(
            ("2,634", "", 2634),
            ("638/13 litres", "litres", "638/13"),
            ("$\\dfrac{1}{2}$", "", "1/2"),
        ),
        *(
            ("638/13 ml", "litres", None),
            ("35/102 %", "", None),
            ("0.5", "", None),
            ("38 7/4", "", None),
            ("14,36", "", None),
        ),
        *(
            ("7 or 8", "", None),
            ("3 + 4", "", None),
            ("7/0", "", None),
            ("٧", "", None),
            ("1e3", "", None),
            ("", "", None),
        ),
    ],
)
def test_exact_values_are_read_and_nothing_else(said, unit, value):

    assert exact(said, unit) == (None if value is None else Fraction(value))
