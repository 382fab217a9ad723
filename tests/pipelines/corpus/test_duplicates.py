"""Which documents of a corpus repeat others, decided over all of them in groups of numbers."""

import itertools
import random
from collections import Counter

import apache_beam as beam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.corpus import copies, near, packed, settle, spans
from tokenmill.pipelines.corpus.copies import DROP
from tokenmill.pipelines.corpus.duplicates import DecideDuplicates

from tests.pipelines.corpus.cleaned import cleaned, document
from tests.pipelines.direct import collect

VOCABULARY = [f"word{n}" for n in range(4000)]
MARK = "unmistakable"


def prose(draw, words):
    return [draw.choice(VOCABULARY) for _ in range(words)]


def edited(draw, text, every):
    return [draw.choice(VOCABULARY) if place % every == every - 1 else word for place, word in enumerate(text)]


@pytest.fixture(scope="module")
def corpus():
    """40 pages; of some a longer edition, copies, another page of the same address, a quotation of 60 words."""
    draw, rows = random.Random(4), []
    for n in range(40):
        page = [MARK, *prose(draw, 300)]
        rows.append(document(f"page-{n:02d}", " ".join(page), url=f"http://pages.org/{n}"))
        if n % 4 == 0:
            rows.append(document(f"longer-{n:02d}", " ".join([*edited(draw, page, 150), *prose(draw, 10)])))
        if n % 5 == 0:
            rows.append(document(f"copy-{n:02d}", "\n\n".join(page), synthetic=True, url=f"http://pages.org/{n}"))
        if n % 7 == 0:
            rows.append(document(f"moved-{n:02d}", " ".join(prose(draw, 200)), url=f"https://www.pages.org/{n}/"))
        if n % 6 == 1:
            quoting = [*prose(draw, 100), *page[100:160], *prose(draw, 90)]
            rows.append(document(f"quotes-{n:02d}", " ".join(quoting)))
            rows.append(document(f"code-{n:02d}", " ".join([*prose(draw, 10), *quoting[60:180]]), domain="code"))
    draw.shuffle(rows)
    return rows


def decided(rows, folder, *, prints=None, processes=0, portion_rows=10, **settings):
    """Decisions by id of the row that they fall on."""
    made = prints or cleaned(rows, folder, portion_rows)
    (folder / "prints").mkdir(exist_ok=True)
    build = lambda root: {"found": root | beam.Create(made) | DecideDuplicates(str(folder), **settings)}  # noqa: E731
    found = collect(build, processes=processes)["found"]
    ids = {one.key: rows[(one.key >> 32) * portion_rows + (one.key & 0xFFFFFFFF)].id for one in found}
    assert len(ids) == len(found), "one decision for a row"
    return {ids[one.key]: one for one in found}


class Watch:
    """Writes down the kind of each pair that comes to a grouping, its bytes, and the words of documents in it."""

    def __init__(self, path):
        self.path = path

    def __call__(self, pair):
        key, value = pair
        seen = value if isinstance(value, bytes) else repr(value).encode()
        words = seen.count(MARK.encode()) + seen.count(b"word")
        with open(self.path, "a") as file:  # noqa: PTH123
            file.write(f"{type(key).__name__}/{type(value).__name__} {len(seen)} {words}\n")
        return pair


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory):
    return tmp_path_factory.mktemp("watched") / "shuffled"


@pytest.fixture(scope="module")
def found(corpus, shuffled, tmp_path_factory):
    apply, patch, number = beam.Pipeline._apply_internal, pytest.MonkeyPatch(), itertools.count()

    def watched(self, transform, rows=None, label=None):
        inside = "DecideDuplicates" in self._current_transform().full_label
        if inside and isinstance(transform, beam.GroupByKey) and not label:
            rows = rows | f"Watch {next(number)}" >> beam.Map(Watch(str(shuffled)))
        return apply(self, transform, rows, label)

    patch.setattr(beam.Pipeline, "_apply_internal", watched)
    try:
        return decided(corpus, tmp_path_factory.mktemp("corpus"))
    finally:
        patch.undo()


def test_copies_near_copies_and_pages_of_one_address_are_dropped_for_a_row_that_stays(corpus, found):
    dropped = {id: one for id, one in found.items() if one.reason}
    assert {id for id in dropped if id.startswith("copy")} == {
        row.id for row in corpus if row.id.startswith("copy")
    } - {one.of for one in dropped.values()}
    expected = {f"page-{n:02d}" for n in range(0, 40, 4)}
    assert {id for id, one in dropped.items() if one.reason == "near_duplicate" and id.startswith("page")} >= {
        id for id in expected if dropped.get(id) and dropped[id].reason == "near_duplicate"
    }
    for n in range(40):
        group = [f"{kind}-{n:02d}" for kind in ("page", "longer", "copy")]
        there = [id for id in group if id in {row.id for row in corpus}]
        assert len([id for id in there if id not in dropped]) == 1, "one of each stays"
        if f"longer-{n:02d}" in there:
            assert f"longer-{n:02d}" not in dropped, "the longer one"
    assert all(one.of not in dropped for one in dropped.values())
    reasons = Counter(one.reason for one in dropped.values())
    assert reasons["same_address"] == 6 and reasons["near_duplicate"] >= 10 and reasons["exact_duplicate"] >= 5


def test_a_dropped_row_says_how_like_it_is_to_the_kept_one(corpus, found):
    text = {row.id: row.text for row in corpus}
    for id, one in found.items():
        if one.reason == "near_duplicate":
            runs = [set(Words(text[name]).grams(5).tolist()) for name in (id, one.of)]
            assert one.similarity == pytest.approx(len(runs[0] & runs[1]) / len(runs[0] | runs[1]), abs=0.12)
            assert one.of in one.detail
        elif one.reason == "exact_duplicate":
            assert one.similarity == 1.0 and text[id].split() == text[one.of].split()
        elif one.reason == "same_address":
            assert one.similarity < 0, "not compared"


def test_a_quotation_of_fifty_words_is_cut_out_of_the_later_document_and_never_out_of_code(corpus, found):
    text = {row.id: row.text for row in corpus}
    cut = {id: one for id, one in found.items() if not one.reason}
    quoting = {row.id for row in corpus if row.id.startswith("quotes")}
    assert len(cut) == len(quoting) and not any(id.startswith("code") for id in cut)
    for id, one in cut.items():
        ((start, end),) = one.cuts
        taken = text[id][start:end].split()
        assert 60 <= len(taken) <= 62 and " ".join(taken[1:59]) in " ".join(text[one.of].split())
        assert one.of not in {other for other, decision in found.items() if decision.reason}
        assert text[id][start : start + 20] == one.quote[:20]


def test_passages_may_stand_in_as_many_documents_as_is_said():
    records = np.array([(5 << 16, row) for row in range(3)] + [(6 << 16, 9)], spans._MARK)
    for most, later in ((1, [1, 2]), (2, [1, 2]), (3, [])):
        blocks = list(spans.share(0, [records[:2].tobytes(), records[2:].tobytes()], most))
        found = np.concatenate([np.empty(0, spans._SHARED), *(np.frombuffer(b, spans._SHARED) for _, b in blocks)])
        assert found["later"].tolist() == later and set(found["first"].tolist()) <= {0}


def test_a_document_of_which_nothing_is_left_is_refused():
    pages = [prose(random.Random(n), 300) for n in range(2)]
    made = " ".join([*pages[0][:120], "and", *pages[1][50:140]])
    decision = spans.decide(3, made, [(f"p{n}", spans._runs(Words(" ".join(page)))) for n, page in enumerate(pages)])
    assert decision.reason == "mostly_repeated" and decision.similarity > 0.9 and decision.of == "p0"


def test_the_order_of_the_rows_and_the_size_of_groups_do_not_matter(corpus, found, tmp_path, monkeypatch):
    for module in (packed, copies, near, spans):
        for name, value in {"PER_GROUP": 40, "MOST": 30, "HELD": 60}.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    assert decided(corpus, tmp_path, prints=cleaned(corpus, tmp_path, 10)[::-1]) == found


def test_no_text_is_shuffled_and_little_else(corpus, found, shuffled):
    """What comes to a grouping is a number and bytes; together less than a kilobyte for each document, and no words."""
    pairs = [line.split() for line in shuffled.read_text().splitlines()]
    assert len(pairs) > 100 and not any(int(words) for *_, words in pairs)
    assert {kind for kind, size, _ in pairs if int(size) > 32} == {"int/bytes"}
    # Of six passages the hashes travel, and the names of the files, of which a large corpus has few.
    assert sum(int(size) for _, size, _ in pairs) / len(corpus) < 3_000


@given(st.sets(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40))
def test_settling_is_the_greedy_choice_in_order_of_preference(pairs):
    edges = [(min(pair), max(pair)) for pair in pairs if len(set(pair)) == 2]
    dropped: set[int] = set()
    for row in range(13):
        if any(later == row and first not in dropped for first, later in edges):
            dropped.add(row)
    made = np.array([(later, first, 100) for first, later in edges], DROP)
    # Thirteen rounds settle any chain among thirteen rows.
    statuses: list[bytes] = []
    for turn in range(14):
        values = [b"E" + made.tobytes(), *(b"S" + block for block in statuses)] if len(made) else []
        asked = [block for _, block in settle.ask(0, values, turn > 0, 1)] if values else []
        statuses = [block for _, block in settle.settle(0, asked)] if asked else []
    settled = np.concatenate([np.empty(0, settle._SETTLED), *(np.frombuffer(b, settle._SETTLED) for b in statuses)])
    assert set(settled["row"][settled["status"] == settle.DROPPED].tolist()) == dropped
    of = settled["of"][settled["status"] == settle.DROPPED].tolist()
    assert not dropped & set(of)


@given(st.integers(0, 2**32), st.integers(50, 90), st.integers(0, 100), st.integers(0, 100))
def test_any_fifty_words_in_a_row_are_cut_whole(seed, length, before, after):
    draw = random.Random(seed)
    shared = prose(draw, length)
    earlier = Words(" ".join([*prose(draw, after), *shared, *prose(draw, before)]))
    text = " ".join([*prose(draw, before), *shared, *prose(draw, after), *prose(draw, 60)])
    decision = spans.decide(7, text, [("first", spans._runs(earlier))])
    assert decision is not None and decision.of == "first" and not decision.reason
    ((start, end),) = decision.cuts
    left = text[:start] + text[end:]
    assert " ".join(shared) in text[start:end] and " ".join(shared) not in left
    assert len(text[start:end].split()) <= length + 4, "and little else: equal words beside it by chance"


def test_forty_nine_words_stay():
    draw = random.Random(5)
    shared = prose(draw, 49)
    text = " ".join(["left", *shared, "right", *prose(draw, 100)])
    assert spans.decide(7, text, [("first", spans._runs(Words(" ".join(["other", *shared, "end"]))))]) is None
