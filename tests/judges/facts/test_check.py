from __future__ import annotations

import time

import pytest
from tokenmill.judges.facts.check import CHECK, MAX_QUESTIONS, REASONS, FactCheck, differing_spans, questions

from tests.judges.facts.equivalents import DIFFERENT, SENTENCES

SOURCE = "The bridge in Bergen was opened in 1956. It cost 45 million kroner."
CODE = "Run this:\n```sh\ngit push --force origin\n```\n"


@pytest.mark.parametrize(("language", "source", "rewrite"), DIFFERENT)
def test_a_contradiction_is_refused(language: str, source: str, rewrite: str) -> None:
    verdict = FactCheck()(source, rewrite, "", language)
    assert not verdict.passed and verdict.check == CHECK and verdict.reason in REASONS and verdict.score < 1
    finding = verdict.findings[0]
    assert finding.rewrite in rewrite and finding.source in source and finding.source


@pytest.mark.parametrize(("language", "one", "other"), SENTENCES)
def test_what_is_told_otherwise_is_not_refused(language: str, one: str, other: str) -> None:
    assert FactCheck()(one, other, "", language).passed
    assert FactCheck()(other, one, "", language).passed


def test_a_faithful_rewrite_passes_with_no_question() -> None:
    rewrite = "In 1956 the bridge was opened in Bergen, and it had cost 45 million kroner."
    assert FactCheck()(SOURCE, rewrite).score == 1.0
    assert not questions(SOURCE, rewrite)


def test_a_changed_flag_in_code_is_refused() -> None:
    verdict = FactCheck()(CODE, CODE.replace("--force", "--tags"))
    assert verdict.reason == "code_changed"
    assert verdict.findings[0].detail == 'The source says "--force" where the rewrite says "--tags".'
    assert not FactCheck()("Run `tar -xzf a.tgz -C /opt`.", "Run `tar -xjf a.tgz -C /opt`.").passed
    assert FactCheck()(CODE, "Push with `git push --force origin`.").passed
    assert FactCheck()("Push it by force.", "Use `git push --force`.").passed


def test_other_code_is_asked_about_and_not_refused() -> None:
    rewrite = CODE + "It is `git.push` that does it, as in\n```sh\ngit push --dry-run --verbose mirror\n```\n"
    assert FactCheck()(CODE, rewrite).passed
    assert [question.kind for question in questions(CODE, rewrite)].count("code_changed") >= 2


@pytest.mark.parametrize(
    ("source", "rewrite", "kind"),
    [
        ("The fire may have been set by workers.", "The fire was set by workers.", "hedge_changed"),
        (
            "He wrote 40 songs, most of which were lost later.",
            "He wrote 40 songs, which were lost later.",
            "quantifier_changed",
        ),
        (
            "She was one of the greatest singers of Norway.",
            "She was the greatest singer of Norway.",
            "quantifier_changed",
        ),
        (
            "The rates of relapse did not differ significantly.",
            "The treated had a lower rate of relapse.",
            "negation_changed",
        ),
    ],
)
def test_a_marker_that_went_is_asked_about(source: str, rewrite: str, kind: str) -> None:
    assert FactCheck()(source, rewrite).passed
    assert kind in {question.kind for question in questions(source, rewrite)}


def test_an_addition_is_asked_about_and_not_refused() -> None:
    rewrite = SOURCE + " Some 300 guests came with Haakon."
    assert FactCheck()(SOURCE, rewrite).passed
    asked = questions(SOURCE, rewrite)
    assert {"number_added", "name_added"} <= {question.kind for question in asked}
    assert all(question.source in SOURCE and question.rewrite in rewrite for question in asked)


def test_a_quotation_of_other_words_is_asked_about() -> None:
    source = 'She said: "We will never sell this old house."'
    same = questions(source, 'The woman told them, "We will never sell this old house."')
    assert "quotation" not in {question.kind for question in same}
    asked = questions(source, 'The woman told them, "We might sell the house next year."')
    assert asked[0].kind == "quotation"


SPOKEN = 'Anna Berg said: "We will never sell this old house." But Tom Hill said: "The town must buy it from us soon."'


@pytest.mark.parametrize(
    "swapped",
    [
        SPOKEN.replace("Anna Berg", "X").replace("Tom Hill", "Anna Berg").replace("X", "Tom Hill"),
        '"We will never sell this old house," said Tom Hill. "The town must buy it from us soon," said Anna Berg.',
    ],
)
def test_a_quotation_of_another_speaker_is_asked_about(swapped: str) -> None:
    asked = [question for question in questions(SPOKEN, swapped) if question.kind == "quotation"]
    assert len(asked) == 2
    assert any("Hill" in q.text and "never sell" in q.rewrite and q.rewrite in swapped for q in asked)
    same = '"We will never sell this old house," said Anna Berg. "The town must buy it from us soon," said Tom Hill.'
    assert not [question for question in questions(SPOKEN, same) if question.kind == "quotation"]


def test_mere_grammar_is_not_asked_about() -> None:
    rewrite = "First, one should know that the bridge in Bergen was opened in 1956. It cost 45 million kroner."
    assert not questions(SOURCE, rewrite)
    assert [q.kind for q in questions(SOURCE, SOURCE + " It has two towers.")] == ["number_added"]


def test_a_question_is_short_and_quotes_where_it_points() -> None:
    rewrite = SOURCE + " In the year after, as many as 300 guests came to see the bridge from every part of the land."
    (asked,) = questions(SOURCE, rewrite)
    assert asked.text == 'Rewrite: "300" in "after, as many as 300 guests came to see". In the source, too?'
    assert asked.rewrite in rewrite and len(asked.rewrite) > 60 and not asked.source


def test_questions_are_bounded_and_the_gravest_come_first() -> None:
    asked = questions(SOURCE, " ".join(f"Then {n} men saw Zork{'k' * n}." for n in range(101, 150)))
    assert len(asked) == MAX_QUESTIONS and asked[0].kind == "number_added"


def test_the_report_marks_what_differs() -> None:
    rewrite = "The bridge in Oslo was opened in 1956. It was loved by 78 men."
    lost, added = differing_spans(SOURCE, rewrite)
    assert {SOURCE[start:end] for start, end, _ in lost} == {"Bergen", "45 million"}
    assert {rewrite[start:end] for start, end, _ in added} == {"Oslo", "78"}
    assert lost == sorted(lost) and added == sorted(added)
    assert differing_spans(SOURCE, SOURCE) == ([], [])


@pytest.mark.parametrize(
    "piece", ["```a ", "`a", '"aa bb cc ', "Aa Bb 7 cd. ", "Name 1,", "**a", "# A\n", "not ", "7 "]
)
def test_hostile_texts_take_no_long_time(piece: str) -> None:
    text = (piece * 20_000)[:20_000]
    FactCheck()("a", "b")
    began = time.process_time()
    for source, rewrite in ((SOURCE, text), (text, SOURCE), (text, text[5:])):
        FactCheck()(source, rewrite)
        questions(source, rewrite)
    assert time.process_time() - began < 6
