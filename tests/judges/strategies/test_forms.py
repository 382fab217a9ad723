"""The checks of strategies: what each form refuses, and that an honest text passes."""

import pytest
from tokenmill.judges.strategies.fitting import CHECKS

SOURCE = (
    "The Harrow Bridge was opened in 1906 and is 120 metres long. It was designed by Ada Lindqvist and cost 85,000 crowns. "
    "The Mill Bridge, built in 1921 by Otto Brandt, is 64 metres long and carries one railway track. "
    "In its first year 14,200 travellers crossed the Harrow Bridge."
)
TABLE = """### The two bridges

| Bridge | Opened | Length | Designer |
|---|---|---|---|
| Harrow Bridge | 1906 | 120 m | Ada Lindqvist |
| Mill Bridge | 1921 | 64 metres | Otto Brandt |"""
PROBLEM = """### Problem
The Harrow Bridge is 120 metres long and the Mill Bridge is 64 metres long. How much longer is the Harrow Bridge, and how
long are both together?

### Solution
The difference is 120 - 64 = 56 metres. Together they have 120 + 64 = 184 metres.

### Answer
The Harrow Bridge is 56 metres longer; together they are 184 metres long."""
EXTRACT = """The Harrow Bridge was opened in 1906 and is 120 metres long.

In its first year 14,200 travellers crossed the Harrow Bridge."""
PAIRS = """Question: When was the Harrow Bridge opened?
Answer: It was opened in 1906.

Question: Who built the Mill Bridge?
Answer: Otto Brandt built it in 1921."""
PAGE = """Home | News | Sport | Contact
We use cookies to give you the best experience. By continuing you agree to our use of cookies.
Accept all cookies
The old ferry at Norrland stopped running in 1955, when a road bridge was opened two kilometres upstream of the landing.
Its last ferryman, Nils Berg, kept the boat in his barn and showed it to visitors who asked for the story of the crossing.
Advertisement
Share this article on Facebook
Sign up for our newsletter and get updates in your inbox
The museum bought the boat in 1983 and restored its hull with timber from the same forest that the builders had used.
© 2021 Norrland Gazette. All rights reserved."""
CLEAN = """When a road bridge was opened two kilometres upstream in 1955, the ferry at Norrland ceased to run. Nils Berg, who
had been its last ferryman, stored the boat in a barn and let visitors see it when they wanted to hear about the crossing.

In 1983 the museum acquired the boat; its hull was restored with timber that came from the forest its builders had used."""


def judged(check, text, source=SOURCE, context="", language="en"):
    return CHECKS[check](source, text, context, language)


@pytest.mark.parametrize(
    ("check", "text", "source"),
    [
        ("tables", TABLE, SOURCE),
        ("word_problems", PROBLEM, SOURCE),
        ("word_problems", f"{PROBLEM}\n\n{PROBLEM}", SOURCE),
        ("verbatim", EXTRACT, SOURCE),
        ("verbatim", f"- {SOURCE}", SOURCE),
        ("pairs", PAIRS, SOURCE),
        ("cleaned", CLEAN, PAGE),
    ],
)
def test_an_honest_text_passes(check, text, source):
    verdict = judged(check, text, source)
    assert verdict.passed, verdict.findings


@pytest.mark.parametrize(
    ("of", "into", "reason", "shown"),
    [
        ("120 m", "210 m", "cell_unsupported", "210 m"),
        ("1921", "1912", "cell_unsupported", "1912"),
        ("64 metres", "64 miles", "cell_unsupported", "64 miles"),
        ("Otto Brandt", "Karl Jansky", "cell_unsupported", "Karl Jansky"),
        ("| 1906 |", "| 1921 |", "cell_misplaced", "| Harrow Bridge | 1921 |"),
        ("| Ada Lindqvist |", "| Otto Brandt |", "cell_misplaced", "| Harrow Bridge |"),
        ("| Ada Lindqvist |", "| unknown |", "table_broken", "| unknown |"),
        ("| Ada Lindqvist |", "|", "table_broken", "| Harrow Bridge |"),
        ("|---|---|---|---|\n", "", "table_broken", "| Bridge |"),
        ("### The two bridges", "Here are the two bridges.", "table_broken", "Here are"),
    ],
)
def test_a_table_with_a_changed_cell_is_refused(of, into, reason, shown):
    assert of in TABLE
    verdict = judged("tables", TABLE.replace(of, into, 1))
    assert (verdict.reason, verdict.passed) == (reason, False)
    assert shown in verdict.findings[0].rewrite


@pytest.mark.parametrize(
    ("of", "into", "reason"),
    [
        ("is 64 metres long.", "is 66 metres long.", "number_invented"),  # in the problem, against the source
        ("is 64 metres long.", "is 64 metres long and costs 12 crowns a metre.", "number_invented"),
        ("= 184 metres.", "= 184 metres. With 30 more, 184 + 30 = 214.", "number_invented"),  # out of nothing
        ("120 - 64 = 56", "120 - 64 = 66", "false_equality"),
        ("together they are 184", "together they are 187", "answer_not_derived"),
        ("is 56 metres longer; together they are 184 metres long.", "is much longer.", "answer_not_derived"),
        (
            "The difference is 120 - 64 = 56 metres. Together they have 120 + 64 = 184 metres.",
            "See above.",
            "not_calculated",
        ),
        ("### Answer", "Answer:", "problem_broken"),
        ("The Harrow Bridge is 120 metres long and the Mill Bridge is 64 metres long.", "", "problem_broken"),
    ],
)
def test_a_word_problem_with_an_invented_number_or_a_wrong_step_is_refused(of, into, reason):
    assert of in PROBLEM
    verdict = judged("word_problems", PROBLEM.replace(of, into, 1))
    assert verdict.reason == reason and verdict.findings[0].detail


def test_a_cell_may_be_of_a_subject_that_its_sentence_does_not_name():
    source = (
        "Kershaw signed a contract in 2013. The yearly value of $30.7 million was the largest for a player, beating the "
        "$28 million that Roger Clemens received."
    )
    table = "| Player | Yearly value |\n|---|---|\n| Kershaw | $30.7 million |\n| Roger Clemens | $28 million |"
    assert judged("tables", table, source).passed


def test_a_cell_may_not_be_more_exact_than_its_source():
    table = "| Country | Copies |\n|---|---|\n| Venezuela | 43,000 |"
    verdict = judged("tables", table, "In Venezuela the album sold more than 40,000 copies.")
    assert verdict.reason == "cell_unsupported" and "43,000" in verdict.findings[0].rewrite
    assert judged("tables", table.replace("43", "40"), "In Venezuela the album sold more than 40,000 copies.").passed


def test_results_in_millions_and_in_percent_may_be_calculated_with():
    source = "The first contract is worth $215 million over 7 years, the second $180 million; 90 of 195 players have such a one."
    text = (
        f"### Problem\n{source} By how much do they differ a year, if both are as long, and what share of the players is "
        "that?\n\n### Solution\nThe difference is 215 - 180 = 35 million dollars. A year that is 35 / 7 = 5 million dollars. "
        "The share is 90 / 195 * 100 = 46.2 percent.\n\n### Answer\n$5 million a year; 46.2 %."
    )
    verdict = judged("word_problems", text, source)
    assert verdict.passed, verdict.findings
    assert judged("word_problems", text.replace("46.2", "46.9"), source).reason == "false_equality"


def test_a_mean_a_share_and_a_conversion_may_use_numbers_that_nobody_told():
    source = "The mill ran 3 hours on Monday, 5 hours on Tuesday and 4 hours on Friday and used 40 of its 50 sacks."
    text = (
        f"### Problem\n{source} How many minutes did it run a day on average, and what share of the sacks did it use?\n\n"
        "### Solution\nOn average it ran (3 + 5 + 4) / 3 = 4 hours, that is 4 * 60 = 240 minutes. "
        "The share is 40 / 50 * 100 = 80 percent.\n\n### Answer\nIt ran 240 minutes a day and used 80 %."
    )
    verdict = judged("word_problems", text, source)
    assert verdict.passed, verdict.findings


@pytest.mark.parametrize(
    ("text", "fits"),
    [(SOURCE, True), ("The bridge is old, and nobody knows who built it.", False), ("It was opened in 1906.", False)],
)
def test_a_word_problem_needs_numbers(text, fits):
    assert CHECKS["word_problems"].fits(text, "en") is fits


@pytest.mark.parametrize(
    "text",
    [
        "The Harrow Bridge opened in 1906 and is 120 metres long.",  # a paraphrase
        "The Harrow Bridge was opened in 1906.",  # a piece of a sentence
        f"{EXTRACT}\n\nBoth bridges are well known.",  # something more
        EXTRACT.replace("1906", "1960"),
    ],
)
def test_an_extract_holds_whole_sentences_word_for_word(text):
    verdict = judged("verbatim", text)
    assert verdict.reason == "not_verbatim" and verdict.findings[0].rewrite in " ".join(text.split())


def test_an_extract_may_join_wrapped_lines_and_may_not_take_one_for_a_sentence():
    wrapped = (
        "The ferry at Norrland stopped running in 1955, when a road\nbridge was opened upstream. Nobody was sorry about the "
        "end of\nthe ferry but its last ferryman, who had lived of it for long."
    )
    joined = "The ferry at Norrland stopped running in 1955, when a road bridge was opened upstream."
    assert judged("verbatim", joined, wrapped).passed
    assert judged("verbatim", wrapped, wrapped).passed
    assert not judged("verbatim", "The ferry at Norrland stopped running in 1955, when a road", wrapped).passed


def test_a_sentence_is_copied_once():
    sentence = "The Harrow Bridge was opened in 1906 and is 120 metres long."
    verdict = judged("verbatim", f"{sentence} {sentence}")
    assert verdict.reason == "not_verbatim" and "once" in verdict.findings[0].detail
    assert judged("verbatim", f"{sentence} {sentence}", f"{SOURCE}\n\n{sentence}").passed


def test_typographic_marks_and_lines_of_lists_do_not_count():
    source = "1. It’s “open” – mostly.\n2. Nobody goes there"
    assert judged("verbatim", '- It\'s "open" - mostly.\n- Nobody goes there', source).passed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Question: Who built it?\nAnswer: Otto Brandt.\n\nQuestion: When?", "its answer"),
        ("Frage: Wann?\nAntwort: 1906.\n\nFrage: Wann?\nAntwort: 1921.", "once"),
        ("The bridge was opened in 1906.", "at least one pair"),
        ("Question: Who?\nOtto Brandt built it.", "Begin with"),
        ("Question: Who?\nAnswer: Otto.\n\nQuestion: When?\nQuestion: Where?", "Answer:"),
    ],
)
def test_questions_and_answers_alternate(text, told):
    verdict = judged("pairs", text)
    assert verdict.reason == "pairs_broken" and told in verdict.findings[0].detail


@pytest.mark.parametrize(
    "kept",
    [
        "We use cookies to give you the best experience. By continuing you agree to our use of cookies.",
        "Home | News | Sport | Contact",
        "Advertisement",
        "Sign up for our newsletter and get updates in your inbox",
        "© 2021 Norrland Gazette. All rights reserved.",
        "Share this article on Facebook",
    ],
)
def test_a_cleaned_page_that_still_holds_its_frame_is_refused(kept):
    verdict = judged("cleaned", f"{CLEAN}\n\n{kept}", PAGE)
    assert verdict.reason == "noise_kept" and verdict.findings[0].source in PAGE


@pytest.mark.parametrize("paragraph", [0, 1])
def test_a_cleaned_page_that_lost_a_paragraph_is_refused(paragraph):
    verdict = judged("cleaned", CLEAN.split("\n\n")[paragraph], PAGE)
    assert verdict.reason == "paragraph_lost" and verdict.findings[0].source[:40] in PAGE


def test_a_text_about_cookies_and_a_list_of_short_lines_are_no_noise():
    page = (
        "Browsers keep cookies, small files that a server sends, so that a shop knows its customer when he comes again; "
        "since 2011 European law wants visitors to be asked before any cookie is set that is not needed, and since then "
        "banners have spread that ask for consent, which studies found most people click away without having read a word "
        "of what they say about their data.\n\nFlour\nMilk\nTwo eggs\nA pinch of salt"
    )
    assert judged("cleaned", page, page).passed
    assert CHECKS["cleaned"].fits(page, "en")
    assert not CHECKS["cleaned"].fits("Home\nNews\nContact\nAccept all cookies\n© 2020 Norrland Gazette", "en")
