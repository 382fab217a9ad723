"""Which texts hold an item of a benchmark: any run of 13 words, 8-word runs over 30 % of one, short items whole."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.corpus.contamination import Index, Item, build, contamination
from tokenmill.judges.corpus.words import Words

LONG = " ".join(f"alpha{n}" for n in range(50))
SHORT = "a boat of nine oars left the quiet harbour"
TINY = "seven words are not enough to tell"
PAGE = " ".join(f"page{n}" for n in range(300))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "made"
    build([Item("long", "L-1", LONG), Item("short", "S-1", SHORT), Item("short", "S-2", TINY)], folder)
    return Index(folder)


def found(index, text, source=None):
    verdict, hit = contamination(index, Words(text), None if source is None else Words(source))
    assert verdict.passed == (hit is None)
    return verdict, hit


def words(first, last):
    return " ".join(LONG.split()[first:last])


def test_an_item_in_the_middle_of_a_page_is_refused_and_quoted(index):
    text = f"{PAGE} Q: {LONG.replace(' ', ', ').upper()}! {PAGE}"
    verdict, hit = found(index, text)
    assert (hit.benchmark, hit.item, hit.share) == ("long", "L-1", 1.0)
    (finding,) = verdict.findings
    assert finding.rewrite in text and finding.rewrite.startswith("ALPHA0") and "L-1 of long" in finding.detail
    assert verdict.reason == "contaminated" and hit.counter == "contaminated by long"


def test_thirteen_words_in_a_row_are_enough_and_twelve_are_not(index):
    assert found(index, f"{PAGE} {words(20, 33)} {PAGE}")[1].item == "L-1"
    assert found(index, f"{PAGE} {words(20, 32)} {PAGE}")[1] is None


def test_runs_of_eight_words_count_by_the_share_of_the_item_that_they_cover(index):
    two = f"{words(0, 8)} and then {words(20, 27)}"
    assert found(index, two)[1] is None, "8 of 50 words"
    hit = found(index, f"{words(0, 8)} and then {words(20, 28)}")[1]
    assert hit.share == pytest.approx(16 / 50)
    assert found(index, f"{words(0, 8)} {PAGE} {words(0, 8)}")[1] is None, "the same words twice are no more"


def test_a_short_item_is_found_as_a_whole_only(index):
    assert found(index, f"He says that {SHORT}. {PAGE}")[1].item == "S-1"
    assert found(index, f"{SHORT.replace('harbour', 'bay')} {PAGE}")[1].item == "S-1", "eight of its nine words"
    shorter = " ".join(SHORT.split()[1:8])
    assert found(index, f"{shorter} {PAGE}")[1] is None


def test_what_is_too_short_is_counted_and_not_looked_for(index):
    assert found(index, f"{TINY} {PAGE}")[1] is None
    assert index.benchmarks == {"long": {"items": 1, "too_short": 0}, "short": {"items": 2, "too_short": 1}}


def test_the_text_that_it_was_written_from_decides_for_a_text_in_other_words(index):
    rewritten = "Nothing here is like it."
    assert found(index, rewritten)[1] is None and found(index, rewritten, PAGE)[1] is None
    verdict, hit = found(index, rewritten, f"{PAGE} {LONG}")
    assert hit.item == "L-1" and "written from" in verdict.findings[0].detail
    assert verdict.findings[0].source in f"{PAGE} {LONG}" and not verdict.findings[0].rewrite


def test_case_punctuation_and_the_words_around_do_not_matter(index):
    draw = random.Random(3)
    for _ in range(50):
        first = draw.randrange(37)
        marked = "".join(
            w.upper() + draw.choice((" ", ", ", "; ", "\n\n", " – ")) for w in words(first, first + 13).split()
        )
        assert found(index, f"ünïcode {marked} {PAGE}")[1] is not None


@given(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), min_size=8, max_size=40), st.integers(0, 30))
def test_every_item_of_eight_words_or_more_is_found_verbatim(tmp_path_factory, item, at):
    folder = tmp_path_factory.mktemp("any") / "made"
    build([Item("any", "1", " ".join(item))], folder)
    page = PAGE.split()
    assert Index(folder).find(Words(" ".join([*page[:at], *item, *page[at:]]))) is not None


def test_an_index_of_nothing_finds_nothing(tmp_path):
    build([Item("tiny", "1", "too short")], tmp_path / "made")
    assert found(Index(tmp_path / "made"), PAGE)[1] is None
