import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.form.copying import Copying

from tests.judges.pair import REWRITE, SOURCE

copying = Copying()


def test_a_paraphrase_passes_and_a_copy_does_not():
    assert copying(SOURCE, REWRITE).passed
    verdict = copying(SOURCE, SOURCE)
    assert (verdict.passed, verdict.reason) == (False, "copies_source")
    assert verdict.score < 0.2
    (finding,) = verdict.findings
    assert finding.rewrite and finding.rewrite in SOURCE


def test_changed_case_and_punctuation_are_still_a_copy():
    assert not copying(SOURCE, SOURCE.lower().replace(",", " -").replace(".", "!")).passed


def test_a_copied_half_is_refused_with_that_half_as_evidence():
    half = SOURCE.split(". ", 2)[2]
    verdict = copying(SOURCE, "Anna Keller built it for 1,200,000 crowns. " + half)
    assert verdict.reason == "copies_source"
    assert "northern pier had to be replaced" in verdict.findings[0].rewrite


def test_a_long_run_in_a_longer_text_is_refused_by_its_length():
    run = " ".join(f"word{chr(97 + i % 26)}{'xyz'[i // 26]}" for i in range(60))
    frame = " ".join(f"other{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(300))
    source = run + ". " + " ".join(f"third{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(300))
    assert copying(source, f"{frame} {run}").reason == "copies_source"
    assert copying(source, f"{frame} {' '.join(run.split()[:30])}").passed


def test_quotations_of_the_source_may_stay():
    quotation = (
        '"we shall not rest until the last of these rocks has been marked by a light that no storm can put out, and '
        'until every captain who passes it by night knows where he is and where he must not go"'
    )
    source = (
        f"In 1759 the engineer told the council {quotation}. It was voted through on the same evening, and by "
        "the end of the year thirty masons were at work on the rock whenever the tide left it dry."
    )
    rewrite = (
        f"That same evening the councillors agreed; the engineer had promised {quotation}. Thirty masons worked "
        "before the year was out, at each low water."
    )
    assert copying(source, rewrite).passed
    unquoted = source.replace('"', "")
    assert copying(unquoted, rewrite).reason == "copies_source"


def test_names_and_numbers_may_stay():
    names = "Albania 12, Belgium 31, Croatia 44, Denmark 7, Estonia 19, Finland 23, Germany 80, Hungary 11, Iceland 2"
    source = f"In that year the committee, which met for the first time, counted these members by country: {names}."
    rewrite = f"Members by country when the new committee first came together and took a count: {names}."
    assert copying(source, rewrite).passed


def test_short_sources_pass():
    note = "Water boils at 100 °C at sea level and at roughly 88 °C in La Paz."
    assert copying(note, note).passed


def test_unspaced_scripts_are_compared_by_character():
    source = (
        "这座桥于一九零二年五月四日通车，横跨三百米宽的河流，桥上铺设有两条铁路轨道。设计者是曾在维也纳学习的工程师，"
        "造价一百二十万克朗。一九五四年洪水之后，北侧桥墩必须更换。"
    )
    assert copying(source, source).reason == "copies_source"
    assert copying(
        source,
        "河面宽三百米，两条轨道的铁路桥在一九零二年五月开通。工程师在维也纳求过学，花费为一百二十万克朗；北墩因一九五四年的水灾换新。",
    ).passed


@given(st.text(), st.text())
def test_scores_stay_in_range_whatever_the_texts(source, rewrite):
    verdict = copying(source, rewrite)
    assert 0 <= verdict.score <= 1
    assert verdict == copying(source, rewrite)


@pytest.mark.parametrize("kwargs", [{"max_share": 1.0}, {"max_share": -0.1}, {"max_run": 3}])
def test_configuration_is_checked(kwargs):
    with pytest.raises(ValueError, match="Copying"):
        Copying(**kwargs)


CODE = """def settings(flags, environ, file):
    given = {key: value for key, value in flags.items() if value is not None}
    prefixed = {key[4:].lower(): value for key, value in environ.items() if key.startswith("APP_")}
    return ChainMap(given, prefixed, file)"""
PROSE = """Most tools on the command line read what they are set to from a file, from the environment and from their flags, and
whichever of these comes later wins over the ones that came before it in this order."""


def test_code_may_stay_and_the_words_around_it_may_not():
    source = f"{PROSE}\n\n```python\n{CODE}\n```\n"
    reworded = "Three places tell a tool its settings: files, then environment variables, then flags, each overriding."
    assert copying(source, f"{reworded}\n\n```python\n{CODE}\n```").passed
    verdict = copying(source, f"{PROSE}\n\n```python\n{CODE}\n```")
    assert verdict.reason == "copies_source"
    (finding,) = verdict.findings
    assert finding.rewrite in PROSE and "def settings" not in finding.rewrite
    alone = f"```python\n{CODE}\n```"
    assert copying(alone, alone).passed, "a chunk of nothing but code has no other words"


def test_a_fence_around_prose_does_not_make_it_code():
    fenced = f"```\n{PROSE}\n```"
    assert copying(fenced, fenced).reason == "copies_source"


def test_rows_of_short_cells_may_stay_and_long_cells_may_not():
    gases = [("Helium", 2, -268.9, 0.1786), ("Neon", 10, -246.0, 0.9002), ("Argon", 18, -185.8, 1.784)]
    head = "| Gas | Atomic number | Boiling point in degrees | Density in grams per litre |\n|---|---|---|---|\n"
    table = head + "\n".join(f"| {' | '.join(map(str, gas))} |" for gas in gases)
    assert copying(f"{PROSE}\n\n{table}", f"Settings come from three places, later ones first.\n\n{table}").passed
    told = f"| Tool | What it does |\n|---|---|\n| ls | {PROSE.replace(chr(10), ' ')} |"
    assert copying(told, told).reason == "copies_source"
