"""Numbers used, formulas kept, sources consistent."""

from __future__ import annotations

import pytest
from tokenmill.judges.math import FormulasKept, NumbersUsed, SourceConsistent

PROBLEM = (
    "A shop sells 48 clips at $1,200 for three dozen. It gives 20% off for 2 hours, half of them at 3/4 of the price."
)


def test_every_number_used_in_some_form() -> None:
    note = "48 clips; 1200 dollars; 3 * 12 = 36; 0.8 of the price; for 120 minutes; 0.75 of it."
    verdict = NumbersUsed()(PROBLEM, note)
    assert verdict.passed, verdict.findings


@pytest.mark.parametrize(("dropped", "text"), [("48", "48"), ("1200", "1,200"), ("0.8", "20%"), ("0.75", "3/4")])
def test_a_dropped_number_is_named(dropped: str, text: str) -> None:
    note = "48 clips; 1200 dollars; 3 * 12 = 36; 0.8 of the price; 0.75 of it."
    verdict = NumbersUsed()("Costs: 48, 1,200, 20%, 3/4.", note.replace(dropped, "some"))
    assert verdict.reason == "number_unused"
    assert [text in f.detail for f in verdict.findings] == [True]
    assert verdict.score == pytest.approx(3 / 4)


def test_a_declared_unused_number_is_accounted_for() -> None:
    problem, note = "Her 17 cats eat 5 cans. How many in 4 days?", "5 * 4 = 20"
    assert not NumbersUsed()(problem, note).passed
    assert NumbersUsed()(problem, note, unused=["17 (the number of cats)"]).passed


TRANSLATED = [
    ("Ein Haus kostet 80.000 US-Dollar, plus 2,5 %.", "A house costs $80,000, plus 2.5%.", "de"),
    ("8万ドルで家を購入し、16個", "bought a house for $80,000 and sixteen", "ja"),
    ("৮০,০০০ টাকা এবং ৩টি", "80,000 taka and three", "bn"),
    ("Sei $x_1 = 2{,}5$ und $f(x) = 3x$.", "Let $x_1 = 2.5$ and $f(x) = 3 x$.", "de"),
    (r"$5 \text{ Äpfel} \times 3$", r"$5 \text{ apples} \times 3$", "de"),
    ("Rechne `a = b + 1` und\n```py\nx = 1\n```", "Compute `a = b + 1` and\n```py\nx = 1\n```", "de"),
    ("So 3 x 4 = 12 Eier", "So 3 x 4 = 12 eggs", "de"),
    ("Punkt $P(3,5)$ mit $x \\in [0,1]$", "The point $P(3,5)$ with $x \\in [0,1]$", "de"),
    (r"$a_{1,2}$ de $\{1,2,\dots,n\}$ sur $]0,1[$", r"$a_{1,2}$ of $\{1,2,\dots,n\}$ on $]0,1[$", "fr"),
    ("$x = 1\\,234{,}5$", "$x = 1{,}234.5$", "ru"),
    ("۳٫۵ کیلو", "3.5 kilos", "fa"),
]


@pytest.mark.parametrize(("source", "translation", "language"), TRANSLATED)
def test_a_faithful_translation_keeps_everything(source: str, translation: str, language: str) -> None:
    verdict = FormulasKept()(source, translation, language)
    assert verdict.passed, verdict.findings


LOST = [
    ("Ein Haus kostet 80.000 US-Dollar.", "A house costs $80.", "de", "number_lost"),
    ("2,5 % von 4", "2.5 of 4", "de", "number_lost"),
    ("Sei $f(x) = 3x$.", "Let $f(x) = 4x$.", "de", "formula_lost"),
    ("Sei $f(x) = 3x$.", "Let $F(x) = 3x$.", "de", "formula_lost"),
    ("Sei $f(x) = 3x$.", "Let f be three times x.", "de", "formula_lost"),
    ("So 3 x 4 = 12 Eier", "So 3 x 4 = 13 eggs", "de", "formula_lost"),
    ("`a = b + 1`", "`a = c + 1`", "de", "code_lost"),
    ("3 Hunde und 3 Katzen", "3 dogs and cats", "de", "number_lost"),
]


@pytest.mark.parametrize(("source", "translation", "language", "reason"), LOST)
def test_a_lost_piece_is_refused(source: str, translation: str, language: str, reason: str) -> None:
    verdict = FormulasKept()(source, translation, language)
    assert verdict.reason == reason
    assert verdict.findings[0].source
    assert verdict.score < 1


ENGLISH = [
    ("Ein Sack wiegt 3,5 kg.", "3.5", "de"),
    ("Ein Haus hat 1.200 Steine.", "1,200", "de"),
    ("Il y a 12 500,25 habitants.", "12,500.25", "fr"),
    ("Es gilt $x = 3,50$.", "$x = 3.50$", "de"),
    ("Also $\\frac{3,5}{2}$.", "$\\frac{3.5}{2}$", "de"),
    ("Im Jahr 1998.", "1998", "de"),
    ("Il pèse 3.5 kg pour 1,200 euros.", "1,200", "en"),
]


@pytest.mark.parametrize(("source", "number", "language"), ENGLISH)
def test_what_is_lost_is_named_as_english_writes_it(source: str, number: str, language: str) -> None:
    found = [f.detail for f in FormulasKept()(source, "There is one.", language).findings]
    assert [detail for detail in found if detail.endswith(f" {number}.")], found
    obedient = " and ".join(detail.removeprefix("Keep the ").split(" ", 1)[1].removesuffix(".") for detail in found)
    assert FormulasKept()(source, obedient, language).passed, "a writer who does what the finding says is accepted"


def test_a_copied_number_is_refused_where_english_reads_another() -> None:
    assert FormulasKept()("Es gilt $x = 3,5$.", "We have $x = 3,5$.", "de").reason == "formula_lost"
    assert FormulasKept()("Es sind 1.200 Steine.", "There are 1.200 bricks.", "de").reason == "number_lost"


def test_an_ambiguous_numeral_without_language_has_both_readings() -> None:
    assert FormulasKept()("80.000", "80,000", language="").passed
    assert not FormulasKept()("80.000", "80,000", language="en").passed


GOOD = "She sold 48/2 = <<48/2=24>>24 clips in May.\nIn all 48+24 = <<48+24=72>>72 clips.\n#### 72"


def test_a_right_source_is_consistent() -> None:
    assert SourceConsistent()(GOOD).passed
    assert SourceConsistent()(GOOD.split("####")[0], "72 clips").passed


@pytest.mark.parametrize(
    ("worked", "quote"),
    [
        (GOOD.replace("#### 72", "#### 71"), "71"),
        (GOOD.replace(">>24", ">>25"), "24"),
        (GOOD.replace("<<48/2=24>>24", "26"), "26"),
    ],
)
def test_a_wrong_source_is_refused_with_evidence(worked: str, quote: str) -> None:
    verdict = SourceConsistent()(worked)
    assert verdict.reason == "source_wrong"
    assert any(quote in f.detail for f in verdict.findings)
