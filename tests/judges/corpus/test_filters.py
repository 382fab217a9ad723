"""The published filters: every rule refuses what it is for, with the figure and a quotation, and leaves prose alone."""

from __future__ import annotations

import pytest
from tokenmill.judges.corpus.c4 import C4
from tokenmill.judges.corpus.fineweb import FineWeb
from tokenmill.judges.corpus.gopher import GopherQuality, GopherRepetition
from tokenmill.judges.corpus.plain import Languages, Mathematics, Toxicity, word_list
from tokenmill.judges.corpus.words import Words
from tokenmill.pipelines.corpus.parse import CorpusParser

PROSE = """Lamps were lit along the harbour when the last of the boats came in, and the crews began to unload what they had
caught in two days at sea.

Nobody had expected so much herring this late in the year. The buyers, who had gone home, were sent for; ice was brought
from the store behind the church, and by ten o'clock the whole quay smelled of fish.

It was the first good catch since spring. Old Marten, who has kept the books of the port for forty years, wrote the figure
down twice, because he thought that he had misread it. He had not."""


def said(check, text, language="en"):
    document = CorpusParser()({"text": text, "language": language}, "web/a.jsonl", 0).document
    return check(document, Words(document.text))


@pytest.mark.parametrize("check", [GopherQuality(), GopherRepetition(), C4(), FineWeb()])
def test_prose_passes(check):
    assert said(check, PROSE).passed


WORDS = "The boats of the harbour have to be painted and that takes a week with good weather. "
QUALITY = {
    "too_few_words": WORDS * 2,
    "odd_word_length": "a be of to " * 20 + "i o u " * 20,
    "too_many_symbols": WORDS * 4 + "# " * 20,
    "mostly_bullets": ("- " + WORDS + "\n") * 5,
    "mostly_cut_lines": (WORDS.strip() + "…\n") * 2 + WORDS * 3,
    "few_letters": WORDS * 4 + "12 345 6 78 " * 12,
    "few_stop_words": "boats harbour painted weather week good quay herring church store " * 6,
}


@pytest.mark.parametrize("reason", QUALITY)
def test_gopher_quality(reason):
    verdict = said(GopherQuality(), QUALITY[reason])
    (finding,) = verdict.findings
    assert verdict.reason == reason and finding.detail
    assert finding.source in QUALITY[reason].strip() or finding.source.strip() in QUALITY[reason]


def test_rules_on_english_and_on_spaces_leave_other_languages_alone():
    assert said(GopherQuality(), QUALITY["few_stop_words"], "de").passed
    chinese = "今天的天气非常好，我们决定去公园散步，看看那里的花和树。" * 4
    assert said(GopherQuality(), chinese, "zh").passed
    assert said(GopherQuality(max_words=60), PROSE).reason == "too_many_words"


REPETITION = {
    "repeated_lines": PROSE + "\n" + "Subscribe to our letter!\n" * 8,
    "frequent_phrase": " ".join(f"red boat {word}" for word in PROSE.split()[:40]),
    "repeated_phrases": PROSE[:300] + " and " + PROSE[100:260],
}


@pytest.mark.parametrize("reason", REPETITION)
def test_gopher_repetition(reason):
    verdict = said(GopherRepetition(), REPETITION[reason])
    assert verdict.reason == reason
    assert verdict.findings[0].source in REPETITION[reason]


def test_a_run_that_overlaps_itself_is_counted_once():
    verdict = said(GopherRepetition(frequent=()), "one two three four five " * 10)
    assert verdict.reason == "repeated_phrases" and 0 <= verdict.score < 0.3


def test_c4():
    assert said(C4(), PROSE + "\nLorem ipsum dolor sit amet.").reason == "filler_text"
    assert said(C4(), PROSE + "\nfunction go(a) { return a }").reason == "curly_bracket"
    assert said(C4(), "One two three. Four five six. Seven eight nine.").reason == "too_few_sentences"
    cookies = "\n".join(["This site uses cookies to serve you."] * 9 + ["One line of text stands here."])
    assert said(C4(), cookies).reason == "too_few_sentences"
    assert said(C4(full_stops=True), PROSE.replace(".", ";")).reason == "too_few_sentences"
    assert said(C4(), 'He came. [12] She went! Who? They did. "So it is." All of it ended there.').passed


FINEWEB = {
    "unended_lines": "\n".join(f"{word} as it stands in the long list of all items" for word in PROSE.split()[:30]),
    "short_lines": "\n".join(f"{word} it is." for word in PROSE.split()[:30]),
    "repeats_lines": PROSE + "\nShare this page with all of your friends today.\n" * 2,
    "mostly_line_breaks": "\n".join(f"{word}\n\n\n\nlong-word-of-more-than-thirty-characters." for word in "abcdefgh"),
}


@pytest.mark.parametrize("reason", FINEWEB)
def test_fineweb(reason):
    verdict = said(FineWeb(max_repeated=1.0) if reason == "mostly_line_breaks" else FineWeb(), FINEWEB[reason])
    assert verdict.reason == reason


def test_languages_toxic_words_and_false_statements():
    assert said(Languages(("de",)), PROSE).reason == "other_language" and said(Languages(("en",)), PROSE).passed
    listed = Toxicity(word_list(["# a comment", "", "herring", "good catch"]))
    assert listed.listed == ("herring", "good catch") and said(listed, PROSE).passed
    verdict = said(listed, PROSE + " Herring! A good catch, a GOOD catch.")
    assert verdict.reason == "toxic_words" and verdict.findings[0].source == "herring"
    with pytest.raises(ValueError, match="no words"):
        Toxicity(())
    wrong = said(Mathematics(), "So 12 * 12 = 146 eggs are left.")
    assert wrong.reason == "false_statement" and "146" in wrong.findings[0].detail + wrong.findings[0].source
    assert said(Mathematics(), "So 12 * 12 = 144 eggs are left.").passed
    assert said(Mathematics(), "1 = 1; " * 6000).reason == "too_many_statements"
