import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.pipelines.knowledge.style_pairs import draw_pairs, pairs

from tokenmill import prompts


def test_there_are_at_least_twelve_styles_and_all_load():
    styles = {style for style, _ in pairs()}
    assert len(styles) >= 12
    texts = [prompts.load(name).text for pair in pairs() for name in pair]
    assert all(len(text) > 100 for text in texts)
    assert len({prompts.load(style).text for style in styles}) == len(styles)


@given(st.integers(1, 12), st.integers(), st.text(max_size=20))
def test_a_documents_pairs_differ_and_styles_come_once_first(count, seed, id):
    drawn = draw_pairs(count, seed, id)
    assert len(set(drawn)) == count
    assert len({style for style, _ in drawn}) == count
    assert drawn == draw_pairs(count, seed, id)
    assert draw_pairs(count + 1, seed, id)[:count] == drawn


def test_excluded_pairs_are_never_drawn():
    for style, perspective in pairs():
        assert style.removeprefix("styles/") not in (prompts.load(perspective).meta.get("excludes") or ())


def test_styles_are_drawn_about_equally_often():
    from collections import Counter

    counts = Counter(style for i in range(3000) for style, _ in draw_pairs(2, 0, f"doc-{i}"))
    mean = 6000 / len(counts)
    assert all(0.6 * mean < n < 1.5 * mean for n in counts.values())


def test_more_pairs_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="style-perspective pairs"):
        draw_pairs(10_000, 0, "a")
