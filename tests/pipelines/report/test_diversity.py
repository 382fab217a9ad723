import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.pipelines.report import diversity
from tokenmill.pipelines.report.diversity import Diversity, quantile_of

WORDS = [f"w{n}" for n in range(3000)]


def row(number, text, source="", document=None, **columns):
    return {
        "id": f"{number}",
        "source_id": f"{number if document is None else document}",
        "text": text,
        "source_text": source,
        **columns,
    }


def over(rows, batch=7):
    found = Diversity()
    for start in range(0, len(rows), batch):
        found.offer(pa.RecordBatch.from_pylist(rows[start : start + batch]))
    return found


def words(draw, count=60):
    return " ".join(draw.choices(WORDS, k=count))


def test_texts_that_share_nothing_are_diverse_and_one_text_many_times_is_not():
    draw = random.Random(0)
    diverse = over([row(n, words(draw)) for n in range(40)]).texts
    same = over([row(n, "The same few words stand in each and every one of these texts.") for n in range(40)]).texts
    assert diverse.distinct_4 > 0.99 > 0.05 > same.distinct_4
    assert diverse.self_repetition < 0.01 and same.self_repetition == 1
    assert same.compression > 10 > 3 > diverse.compression > 1


def test_phrases_that_come_again_in_other_documents_are_counted():
    draw = random.Random(1)
    opening = "In this text we will learn all about one thing"  # 7 of its 4-grams, 57 of the rest, 3 over the border
    found = over([row(n, f"{opening} {words(draw)}") for n in range(30)]).texts
    assert found.self_repetition == pytest.approx(7 / 67, abs=0.01)
    one = over([row(n, f"{opening} {words(draw)}", document=0) for n in range(30)]).texts
    assert one.self_repetition == 0, "siblings do not count"


def test_sources_are_measured_beside_them_each_once():
    draw = random.Random(2)
    sources = [words(draw) for _ in range(10)]
    rows = [row(f"{d}/{k}", words(draw), sources[d], d) for d in range(10) for k in range(3)]
    found = over(rows)
    assert (found.texts.texts, found.sources.texts) == (30, 10)
    assert found.sources.distinct_4 > 0.99


@given(st.randoms(use_true_random=False))
@settings(max_examples=10, deadline=None)
def test_the_sample_is_bounded_and_the_same_in_whatever_order(draw):
    rows = [row(n, words(random.Random(n), 20), document=n // 2) for n in range(300)]
    before = diversity.ROWS
    diversity.ROWS = 50
    try:
        first = over(rows)
        draw.shuffle(rows)
        second = over(rows, batch=13)
    finally:
        diversity.ROWS = before
    assert first.texts == second.texts and first.texts.texts == 50


def test_columns_of_rows_are_gathered_over_all_of_them():
    rows = [row(n, "a b c d e", sibling_similarity=None if n % 2 else n / 100, copy_rate=0.5) for n in range(100)]
    found = over(rows)
    assert found.similarity.total() == 50 and quantile_of(found.similarity, 0.5) == pytest.approx(0.48)
    assert quantile_of(found.copied, 0.95) == 0.5
    assert quantile_of(over([]).copied, 0.5) is None


def test_rows_of_other_kinds_have_none():
    found = Diversity()
    found.offer(pa.RecordBatch.from_pylist([{"id": "a", "messages": ["x"]}]))
    assert found.texts is None and found.sources is None
