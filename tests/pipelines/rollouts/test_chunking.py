import string
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.bench.servers.mill import document
from tokenmill.pipelines.rollouts.chunking import chunk, count_tokens, join

SENTENCE = st.builds(
    lambda words, end: " ".join(words).capitalize() + end,
    st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=9), min_size=2, max_size=30),
    st.sampled_from([".", "?", "!"]),
)
PARAGRAPH = st.lists(SENTENCE, min_size=1, max_size=8).map(" ".join)
DOCUMENT = st.lists(PARAGRAPH, min_size=1, max_size=8).map("\n\n".join)


@settings(max_examples=80, deadline=None)
@given(DOCUMENT, st.integers(8, 120))
def test_chunks_concatenate_to_the_document_and_end_with_sentences(text, target):
    chunks = chunk(text, target)
    assert "".join(c.text for c in chunks) == text
    assert all(c.body for c in chunks)
    assert all(c.body[-1] in ".?!" for c in chunks)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=2000), st.integers(1, 50))
def test_any_text_at_all_is_cut_without_loss(text, target):
    assert "".join(c.text for c in chunk(text, target)) == text


def test_a_long_document_is_cut_without_loss():
    text = document(1, 900)["text"]
    chunks = chunk(text)
    assert "".join(c.text for c in chunks) == text
    assert all(c.body.endswith(".") for c in chunks) and len(chunks) > 50


@settings(max_examples=60, deadline=None)
@given(DOCUMENT)
def test_chunks_keep_near_the_target(text):
    chunks = chunk(text, 100)
    longest = max(count_tokens(s) for s in text.replace("\n\n", " ").split(". "))
    assert all(c.tokens <= max(125, longest + 20) * 1.5 for c in chunks)


def test_a_two_line_note_is_one_chunk():
    note = "Buy milk.\nCall Ada at 5."
    (only,) = chunk(note)
    assert only.body == note


def test_a_sentence_longer_than_the_target_stays_whole():
    long = "It was " + "very " * 900 + "late."
    chunks = chunk(f"A first sentence stands here. {long} And a last one follows it here.", 50)
    assert [c.body for c in chunks if long in c.text]


def test_a_heading_stays_with_its_text():
    part = "The river rises in the hills and flows north for a long way. " * 6
    text = f"# Course\n\n{part}\n\n# Fauna\n\n{part}\n\nHistory of use\n\n{part}"
    chunks = chunk(text, 80)
    assert len(chunks) > 2
    for c in chunks:
        assert not c.body.endswith(("# Course", "# Fauna", "History of use"))


def test_abbreviations_and_initials_do_not_end_sentences():
    text = "Dr. J. R. Smith paid approx. 3 U.S. dollars on Jan. 5 at St. Ives. " * 12
    assert all(c.body.endswith("St. Ives.") for c in chunk(text, 40))


def test_code_blocks_are_not_cut():
    code = "```python\n" + "x = 1. \ny = 2. \n" * 30 + "```\n"
    chunks = chunk("Some words come first. " * 20 + "\n\n" + code + "\nSome words follow. " * 20, 60)
    assert sum(code.strip() in c.text for c in chunks) == 1


def test_other_scripts_are_cut_at_their_own_full_stops():
    chunks = chunk("これは長い文章の一文です。" * 60, 100, "ja")
    assert len(chunks) > 3
    assert all(c.body.endswith("。") for c in chunks)


@pytest.mark.parametrize(
    "text", ["He“llo“ W“orld.“ ", "He«llo« W«orld.« ", "x“", "word ", "a\n", "a. ", '"Hi," he said. ']
)
def test_the_time_for_a_huge_paragraph_grows_with_its_length(text):
    whole = text * (200_000 // len(text))
    start = time.process_time()
    assert "".join(c.text for c in chunk(whole)) == whole
    assert time.process_time() - start < 2


def test_a_huge_paragraph_is_cut_at_sentences_and_nowhere_else():
    sentence = "Dr. J. R. Smith paid approx. 3 U.S. dollars on Jan. 5 at “St. Ives”. "
    chunks = chunk(sentence * 2000, 100)
    assert len(chunks) > 100 and all(c.body.endswith("Ives”.") and c.body.startswith("Dr. J.") for c in chunks)
    long = "It was " + "very “ " * 10_000 + "late."
    chunks = chunk(f"A first sentence stands here. {long} And a last one follows it here.", 50)
    assert sum(long in c.body for c in chunks) == 1


def test_the_target_is_checked():
    with pytest.raises(ValueError, match="at least one"):
        chunk("text", 0)


def test_join_follows_the_source_and_the_form():
    assert join("", "A.", new_paragraph=True) == "A."
    assert join("A.", "B.", new_paragraph=False) == "A. B."
    assert join("A.", "B.", new_paragraph=True) == "A.\n\nB."
    assert join("A.\n\nB.", "C.\n\nD.", new_paragraph=False) == "A.\n\nB. C.\n\nD."
    for before, after in [
        ("Q: a?\nA: b.", "C."),
        ("A.", "**Host:** B."),
        ("- one", "- two"),
        ("Ada: yes.", "Bob: no."),
    ]:
        assert join(before, after, new_paragraph=False) == f"{before}\n\n{after}"


def test_lines_without_the_end_of_a_sentence_are_cut_between_lines():
    lines = [f"{word} {number} meets another\n" for number in range(400) for word in ("Alder", "birch", "Cedar")]
    text = "".join(lines)
    chunks = chunk(text, 100)
    assert "".join(c.text for c in chunks) == text
    assert max(c.tokens for c in chunks) <= 125 and len(chunks) < 120
    assert all(c.text.splitlines(keepends=True)[0] in lines for c in chunks)


def test_a_sentence_that_is_wrapped_stays_whole():
    sentence = "The keeper of the light " + "wrote one more line\n" * 60 + "and slept."
    text = f"{sentence} {sentence}"
    assert [c.body for c in chunk(text, 100)] == [sentence, sentence]
