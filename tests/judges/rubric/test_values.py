"""Values found in what was said, whatever their notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.rubric.values import tells


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("It costs $1,240.50 in all.", 1240.5),
        ("It costs 1240.5", "$1,240.50"),
        ("Es kostet 1.240,50 €", 1240.5),
        ("**1 240.50** USD", 1240.5),
        ("twelve items", 12),
        ("about 1.2 million people", 1_200_000),
        ("that is $1.2k", 1200),
        ("15% off", 0.15),
        ("rooms 12, 14 and 16", 14),
        ("minus -5 degrees", -5),
        ("on March 4th at 3:30 pm", "2026-03-04T15:30:00"),
        ("on 4 march 2026", "2026-03-04"),
        ("04.03.2026, 15:30", "2026-03-04T15:30"),
        ("3/4/2026", "2026-03-04"),
        ("at noon", "12:00"),
        ("at 6pm", "18:00"),
        ("booking bk10293", "BK-10293"),
        ("Your code is 008 213.", "008213"),
        ("a five-night stay", "5 nights"),
        ("to Sao Paulo", "São Paulo"),
        ("The gate is B12.", "B12"),
    ],
)
def test_told(text, value):
    assert tells(text, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12,405.0", 1240.5),
        ("1. Apples\n2. Pears", 2),
        ("on Wednesday, 4 March 2027", "2026-03-04"),
        ("March 14", "2026-03-04"),
        ("at 3:30", "15:31"),
        ("at 3:30 am", "15:30"),
        ("booking BK-10294", "BK-10293"),
        ("booking BK-102935", "BK-10293"),
        ("order 42", "0042"),
        ("", "x"),
        ("five nights", "5 rooms"),
    ],
)
def test_not_told(text, value):
    assert not tells(text, value)


@given(st.integers(100, 10**9), st.integers(0, 99))
def test_an_amount_is_found_in_every_notation_and_its_neighbour_in_none(whole, cents):
    value = float(f"{whole}.{cents:02d}")
    american = f"{value:,.2f}"
    continental = american.translate(str.maketrans(",.", ".,"))
    for said in (f"${american}", f"{continental} €", f"{value:.2f} dollars", american.replace(",", "\u202f")):
        assert tells(f"The total is {said}.", value), said
        assert not tells(f"The total is {said}.", value + 1), said


@given(st.text(max_size=200), st.text(max_size=30) | st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_can_be_searched(text, value):
    assert tells(text, value) in (True, False)
