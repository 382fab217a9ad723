from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.model.quotes import is_sentence_of, plain, stands_in

TEXT = "The bridge cost 1,204 francs — 3.5% “more” than planned; it wasn’t built before 1902. Nobody\ncomplained."


def test_case_whitespace_quote_marks_and_punctuation_do_not_count():
    for quote in (
        "the bridge  cost 1204 francs",
        '3.5 % "more" than planned, it wasn\'t built',
        "Nobody complained",
        "BUILT BEFORE 1902. nobody complained...",
        "“The bridge cost 1,204 francs … than planned”",
    ):
        assert stands_in(quote, TEXT), quote


def test_words_and_numbers_do_count():
    for quote in (
        "the bridge cost 1,205 francs",
        "35% more",
        "3,5% less",
        "bridge was built before 1902",
        "than planned ... the bridge cost",
        "ridge cost",
        "cost 1",
        "1204 fran",
        "",
        " … ",
    ):
        assert not stands_in(quote, TEXT), quote


def test_decimal_commas_and_points_are_the_same_mark():
    assert stands_in("3,5 Prozent", "Es waren 3.5 Prozent.")
    assert not stands_in("35 Prozent", "Es waren 3,5 Prozent.")


def test_whole_sentences():
    assert is_sentence_of("Nobody complained.", "It was late. Nobody complained!")
    assert not is_sentence_of("complained", "It was late. Nobody complained!")
    assert not is_sentence_of("it opened in 1902", "It is a myth that it opened in 1902.")


@given(st.text(), st.text(), st.text())
def test_any_piece_cut_at_word_boundaries_is_found(before, quote, after):
    if plain(quote):
        assert stands_in(
            quote.replace("…", " ").replace("..", " "),
            f"{before} | {quote.replace('…', ' ').replace('..', ' ')} | {after}",
        )
