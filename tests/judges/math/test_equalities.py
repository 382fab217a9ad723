"""Equalities: true statements pass in every notation, false ones are refused, the rest is left alone."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.judges.math import Equalities
from tokenmill.judges.math.mathml import from_mathml

TRUE = [
    r"3 \times 4 = 12",
    r"$3 \times 4 = 12$ and so on",
    "12*5=60",
    "Natalia sold 48/2 = <<48/2=24>>24 clips",
    r"\[\begin{aligned} a &= 3+4 \\ &= 7 \end{aligned}\]",
    "3 + 4\n= 7",
    "10/3 ≈ 3.33",
    "10/3 = 3.33",
    "2/3 = 0.66",
    "10/3 = 3.33 and 3.33*3 = 10",
    r"\frac{10}{3} \approx 3.3",
    r"\frac12 + \frac12 = 1",
    "25% of 80 = 20",
    "100 - 50 = 50% left",
    r"$\frac{3}{4} = 75\%$",
    "3:4 = 6:8",
    "1/2 of the 80 apples = 40 apples",
    "14 pieces/house * 60 houses = 840 pieces",
    "90 minutes = 1.5 hours",
    "75 cents * 4 = $3",
    "5 feet + 6 inches = 66 inches",
    "100 minutes = 1.67 hours",
    "20 minutes = 0.33 hours",
    "200 minutes = 3.33 hours",
    "1000 seconds / 60 = 16.7 minutes",
    r"$100 \text{ minutes} = 1.67 \text{ hours}$",
    "0.936 hours ≈ 56 minutes",
    "0.936 hours * 60 = about 56 minutes",
    "1 hour 40 minutes = 100 minutes",
    "4 hours and 30 minutes is the same as 4*60+30 minutes",
    "100 / 60 = 1 hour 40 minutes",
    "90 km/h = 25 m/s",
    "50 km/h = 13.9 m/s",
    "14 percent of 50 is 7.",
    r"$21^7 \approx 2 \times 10^9$",
    "the constant log(10) = 2.302585",
    "the area is pi * 5^2 = 78.54 cm^2",
    r"$\log(1000) = 3$",
    "25% of the 80 students is 20 students.",
    "Half of 80 is 40, so that is what she has.",
    "three quarters of 20 is 15",
    "twice 5 = 10",
    "48 / 2 gives 24 clips",
    "16 + 12 = $28 million",
    "1.5 million + 500 thousand = 2 million",
    "x = 5, and then 2x = 10",
    "(x+1)^2 = x^2 + 2x + 1",
    r"$\sin^2 x + \cos^2 x = 1$",
    r"$\sqrt{2} \cdot \sqrt{8} = 4$",
    "5 < 7",
    "7 ≠ 8",
    "5! = 120",
    r"\binom{5}{2} = 10",
    r"2\frac{1}{2} + 1 = 3.5",
    "½ + ½ = 1",
    "5² = 25",
    "**5 * 3 = 15**",
    "3 plus 4 equals 7",
    "12 divided by 3 is equal to 4",
    "8 games x 2 hours per game = 16 hours",
    "Starting with $100, he paid $20, leaving him with $100-$20=$80.",
    r"$12 \text{ apples} \times 3 = 36 \text{ apples}$",
    r"$1{,}000 + 1 = 1{,}001$",
    "<math><mn>3</mn><mo>+</mo><mfrac><mn>8</mn><mn>2</mn></mfrac><mo>=</mo><mn>7</mn></math>",
]
FALSE = [
    (r"3 \times 4 = 13", "12", "13"),
    ("12*5=61", "60", "61"),
    ("<<48/2=25>>", "24", "25"),
    ("4.5*3 = 13.6", "13.5", "13.6"),
    ("10/3 ≈ 3.5", "10/3", "3.5"),
    ("25% of 80 = 25", "20", "25"),
    ("90 minutes * 2 = 4 hours", "180", "4"),
    ("2 hours = 130 minutes", "2", "130"),
    ("100 minutes = 1.8 hours", "100", "1.8"),
    ("1 hour 40 minutes = 110 minutes", "5/3", "110"),
    (r"$21^7 \approx 3 \times 10^9$", "1801088541", "3000000000"),
    ("the constant log(10) = 2.4", "1", "2.4"),
    ("90 km/h = 20 m/s", "90", "20"),
    ("14 percent of 50 is 8.", "7", "8"),
    ("Half of 80 is 30.", "40", "30"),
    ("48 / 2 gives 25 clips", "24", "25"),
    # One side has a unit of time, the other none: nothing may be converted.
    ("3 x 112 = 1344 bales of hay per month", "336", "1344"),
    ("x = 5, and then 2x = 11", "10", "11"),
    ("7 < 5", "7", "5"),
    (r"\sqrt{16} = 5", "4", "5"),
    (r"$\sqrt{2} = 1.5$", "1.41421", "1.5"),
    ("2^{10} = 1000", "1024", "1000"),
    ("Total = 3*4 = 12 + 1 = 14", "12", "13"),
    (r"We have $\frac{1}{2} + \frac{1}{3} = \frac{2}{5}$", "5/6", "0.4"),
    (r"\[\begin{aligned} a &= 3+4 \\ &= 8 \end{aligned}\]", "7", "8"),
    ("1,200 + 300 = 1,600", "1500", "1600"),
    ("-3 + 5 = 3", "2", "3"),
    ("3 plus 4 equals 8", "7", "8"),
    ("<math><mn>3</mn><mo>+</mo><mn>4</mn><mo>=</mo><mn>8</mn></math>", "7", "8"),
    (r"$\pi(3)^2 = 5\pi$", "28.2743", "15.708"),
    ("$f(2) = 4$, and therefore $f(2) + 1 = 6$", "5", "6"),
    ("2^200 = 2^200 + 1", "1606938044258990…", "1606938044258990…"),
]
UNDECIDED = [
    "2x + 4 = 10",
    "1 box = 12 pencils",
    "8 = 5 + the rest",
    "bonus + 3*4 = 15",
    "twice as many as 5 = 10",
    "7/3 weeks = 16 days",
    "0.936 hours = 56 minutes",
    "7/2 is 3 with one left over",
    "f'(x) = 4x, so f'(3) = 12",
    "a half turn is pi = 180 degrees",
    "corr(3) = 2",
    "3 * 4 is 2 more than 10",
    "half of 20 - 4 = 8",
    "numbers up to 15**15 + 10**4 are 10**6 power smooth",
    "3:30 + 2 hours = 5:30",
    "17 / 5 = 3 remainder 2",
    r"\sum_{i=1}^{n} i = n(n+1)/2",
    "For the group of 3 = 4 + 5 people",
]


@pytest.mark.parametrize("text", TRUE)
def test_true_statements_are_proved(text: str) -> None:
    statements = Equalities().statements(from_mathml(text))
    assert statements
    assert "true" in {s.truth.value for s in statements}
    assert Equalities()(text).passed


@pytest.mark.parametrize(("text", "left", "right"), FALSE)
def test_false_statements_are_refused_with_both_values(text: str, left: str, right: str) -> None:
    verdict = Equalities()(text)
    assert (verdict.check, verdict.passed, verdict.reason) == ("equalities", False, "false_equality")
    assert verdict.score < 1
    details = " ".join(f.detail for f in verdict.findings)
    assert f"is {left}" in details
    assert f"is {right}" in details


@pytest.mark.parametrize("text", UNDECIDED)
def test_what_cannot_be_decided_is_not_refused(text: str) -> None:
    assert all(s.truth.value == "undecided" for s in Equalities().statements(text))
    assert Equalities()(text).passed


@pytest.mark.parametrize("text", ["It starts with $V(0) = 45$ litres.", "$h(1/2) = 3$, $h(0) = 2$, $P(2, 3) = 6$"])
def test_values_of_functions_are_no_products(text: str) -> None:
    assert Equalities()(text).passed


@pytest.mark.parametrize(
    "text",
    ["(x+1)^2 = x^2 + 2x + 2", "Expanding the square, (x+1)^2 = x^2 + x + 1.", "Simplify: 3(x-2) = 3x - 2."],
)
def test_false_identities_are_refused(text: str) -> None:
    assert not Equalities()(text).passed


def test_findings_quote_the_note_verbatim() -> None:
    note = "First $4 + 4 = 8$.\nThen, as before, $8 \\times 3 = 25$."
    (finding,) = Equalities()(note).findings
    assert finding.rewrite == r"8 \times 3 = 25"
    assert finding.rewrite in note


def test_a_disowned_slip_is_no_claim_but_the_next_section_is() -> None:
    assert Equalities()("A common slip is to add first, which would give 3+4*2 = 14.").passed
    assert Equalities()("## A common slip\nAdd first.\n\nThen 3+4*2 = 14.").passed
    assert not Equalities()("## A common slip\nAdd first.\n\n## Result\nSo 3+4*2 = 14.").passed


def test_a_condition_on_a_symbol_does_not_contradict_its_value_in_another_case() -> None:
    assert Equalities()("Set x[0] = 1; x[1] = 2.").passed
    assert Equalities()("k = 0 is the main diagonal, k > 0 above it, k < 0 below it.").passed
    assert Equalities()(r"It is 1 for $h = 0$, else $0 < h < 1$ and $h \ne 0$.").passed
    assert not Equalities()("x = 5, and therefore 2x < 9.").passed


def test_a_symbol_with_two_values_is_unknown() -> None:
    assert Equalities()("x = 2 or x = 3. Hence 2x = 6.").passed
    assert Equalities()("x = 2, 3. Hence 2x = 6.").passed
    assert Equalities()("If x = 0 then 3x + 1 = 1. But 3x + 1 = 4 has another solution.").passed


def test_whole_numbers_may_be_rounded_only_in_words() -> None:
    assert Equalities()("7/2 = 4 buses, rounded up.").passed
    assert not Equalities()("7/2 = 4 buses.").passed
    assert not Equalities()("8/2 = 5 buses, rounded up.").passed


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("2.500 + 1,5 = 2.501,5", "de"),
        ("১,৫০০ + ২ = ১,৫০২", "bn"),
        ("１００×３＝３００", "ja"),
        ("1 500 + 2 = 1 502", "fr"),
    ],
)
def test_other_languages_digits_and_separators(text: str, language: str) -> None:
    assert [s.truth.value for s in Equalities().statements(text, language)] == ["true"]


numbers = st.integers(min_value=-999, max_value=999)


def _show(value: int) -> str:
    return f"({value})" if value < 0 else str(value)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, str, Fraction]:
    """Plain text, LaTeX and value of a random rational expression."""
    if depth == 0 or draw(st.booleans()):
        value = draw(numbers)
        return _show(value), _show(value), Fraction(value)
    (a, la, x), (b, lb, y) = draw(expressions(depth=depth - 1)), draw(expressions(depth=depth - 1))
    operator = draw(st.sampled_from("+-*/" if y else "+-*"))
    value = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else x}[operator]
    latex = rf"\frac{{{la}}}{{{lb}}}" if operator == "/" else rf"({la} {operator.replace('*', chr(92) + 'cdot ')} {lb})"
    return f"({a} {operator} {b})", latex, value


@settings(max_examples=150, deadline=None)
@given(expressions())
def test_python_agrees_with_our_arithmetic(drawn: tuple[str, str, Fraction]) -> None:
    plain, latex, value = drawn
    result = f"{value.numerator}/{value.denominator}"
    wrong = f"{value.numerator + value.denominator}/{value.denominator}"
    for form in (f"0 + {plain} = RESULT", f"$0 + {latex} = RESULT$"):
        assert [s.truth.value for s in Equalities().statements(form.replace("RESULT", result))] == ["true"]
        assert not Equalities()(form.replace("RESULT", wrong)).passed


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789+-*/=^(){}[]$\\%.,:;!<> xyabfrcsqt\n|&_≈π√½", max_size=120))
def test_any_text_is_read_without_an_error(text: str) -> None:
    verdict = Equalities()(text)
    assert 0 <= verdict.score <= 1
