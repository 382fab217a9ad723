import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.form.length import Length

from tests.judges.pair import REWRITE, SOURCE

length = Length()


def test_a_rewrite_of_similar_length_passes():
    assert length(SOURCE, REWRITE).passed
    assert length(SOURCE, SOURCE).score == 1.0


def test_collapse_and_balloon():
    assert length(SOURCE, "A bridge was opened in 1902.").reason == "collapses"
    assert length(SOURCE, REWRITE * 5).reason == "balloons"
    assert length(SOURCE, "").reason == "collapses"


def test_characters_count_too():
    assert length(SOURCE, "x" * 5000).reason == "collapses"
    assert length(SOURCE, " ".join(["x" * 60] * 65)).reason == "balloons"
    assert length(SOURCE, " ".join(["x"] * 40)).reason == "collapses"


def test_short_texts_are_free():
    note = "Water boils at 100 °C."
    assert length(note, "At 100 °C.").passed
    assert length(
        note, "**Q:** At what temperature does water boil?\n**A:** Water boils at a temperature of 100 °C."
    ).passed


def test_unspaced_scripts():
    source = "这座桥于一九零二年五月四日通车，横跨三百米宽的河流，桥上铺设有两条铁路轨道。" * 3
    assert length(source, source[: len(source) // 2]).passed
    assert length(source, source[:10]).reason == "collapses"
    assert length(source, source * 5).reason == "balloons"


@given(st.text(), st.text())
def test_the_score_is_symmetric_and_in_range(one, other):
    assert 0 <= length(one, other).score <= 1
    assert length(one, other).score == length(other, one).score


def test_configuration_is_checked():
    with pytest.raises(ValueError, match="minimum"):
        Length(minimum=1.5)
