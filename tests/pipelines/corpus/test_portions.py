"""Portions of the input, keys of rows, and what decisions do to a row."""

from __future__ import annotations

import dataclasses

from tokenmill.pipelines.corpus.apply import decided
from tokenmill.pipelines.corpus.parse import CorpusParser
from tokenmill.pipelines.corpus.portions import Decision, portion_of, portions_of, row_key, row_of
from tokenmill.pipelines.transforms.sources import Piece
from tokenmill.schemas.corpus import RefusedDocument

DOCUMENT = CorpusParser()({"text": "One two three.", "id": 7}, "web/a.jsonl", 3).document


def test_small_files_are_put_together_and_parts_of_large_ones_stay_apart():
    files = [Piece(f"{n}.html", f"web/{n}.html") for n in range(640)]
    parts = [Piece("a.parquet", "web/a.parquet", row_group=n) for n in range(3)]
    portions = list(portions_of([*files[:320], *parts, *files[320:]]))
    assert [piece for portion in portions for piece in portion.pieces] == [*files[:320], *parts, *files[320:]]
    assert [portion.number for portion in portions] == list(range(len(portions)))
    assert len(portions) == 32 + 3 + 32 and max(len(portion.pieces) for portion in portions) == 10
    assert [len(portion.pieces) for portion in portions_of(files[:5])] == [1] * 5


def test_a_key_tells_the_portion_and_the_row():
    key = row_key(90_000, 4_000_000_000)
    assert key < 1 << 63 and (portion_of(key), row_of(key)) == (90_000, 4_000_000_000)


def test_a_decision_with_a_reason_drops_the_row_and_says_what_it_repeats():
    made = decided(DOCUMENT, [Decision(3, "near_duplicate", "near_duplicate", "the same", "One", "abc", 0.91)])
    assert isinstance(made, RefusedDocument)
    assert (made.reason, made.duplicate_of, made.similarity) == ("near_duplicate", "abc", 0.91)
    assert made.verdicts[-1].quote == "One" and made.id == DOCUMENT.id


def test_cuts_of_several_decisions_are_taken_out():
    cuts = [Decision(3, "repeated_span", cuts=((4, 8),)), Decision(3, "repeated_span", cuts=((0, 4), (4, 8)))]
    made = decided(DOCUMENT, cuts)
    assert not isinstance(made, RefusedDocument)
    assert made.text == "three." and made.verdicts[-1].passed and made.tokens < 5
    assert decided(DOCUMENT, []) == DOCUMENT


def test_of_several_drops_the_order_of_arrival_does_not_matter():
    drops = [Decision(3, "b", "b"), Decision(3, "a", "a", of="z"), Decision(3, "a", "a", of="y")]
    assert decided(DOCUMENT, drops) == decided(DOCUMENT, drops[::-1])


def test_rows_of_one_source_share_a_lineage():
    parse = CorpusParser()
    synthetic = parse(
        {"text": "Anew.", "source_text": "One two three.", "source_id": "d1"}, "math/n.parquet", 0
    ).document
    assert synthetic.synthetic and synthetic.source_id == "d1" and synthetic.lineage == DOCUMENT.lineage
    assert not DOCUMENT.synthetic and dataclasses.replace(DOCUMENT, domain="math").domain != DOCUMENT.domain
