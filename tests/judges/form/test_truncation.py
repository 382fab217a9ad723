import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.judges.form.truncation import Truncation

from tests.judges.pair import REWRITE, SOURCE

truncation = Truncation()

COMPLETE = [
    "It was opened in 1902 (on 4 May).",
    'He said: "It stands."',
    "He said: “It stands.”",
    "Er sagte: „Sie steht.“",
    "Il a dit : « Elle tient. »",
    "Is it still there?",
    "- opened in 1902\n- rebuilt in 1954",
    "1. Mix the flour.\n2. Wait a day.",
    "- **1902:** The bridge was opened.\n- **1954:** The pier was replaced.",
    "| Opening | 1902 |\n|---|---|\n| Pier | 1954 |",
    "The cost is\n$$\nn \\log n\n$$",
    "Compute it so:\n```\nlow + 1\n```",
    "**It stands to this day.**",
    "The interval [0, 1) is half open, and so is (2, 3].",
    "Choose a) the first or b) the second.",
    'The pipe is 10" wide.',
    "它今天还在。",
    "यह आज भी है।",
    "สะพานเปิดในปี พ.ศ. 2445",
    "It was opened in 1902.\n\nBest wishes,\nAnna",
    "It was opened in 1902.\n\nYours sincerely,",
    "It was opened in 1902. Love, Pam",
    "Sie steht bis heute.\n\nHerzlich, dein alter Freund",
    "它今天还在。\n\n祝好",
    "答：它今天还在。（依据第八条至第十条）",
    "Opened in 1902, rebuilt in 1954 and still there today",
    "It was opened in 1902.\n- How to sign in",
    "Write the sign '\"' behind the 10.",
    "Copy it all. Type\nfind . -print0 | cpio -pvdm --null --sparse /dest",
    "- Opened in 1902. Still the only bridge across the river\n- Rebuilt in 1954. Now under the care of the town",
]
CUT = [
    "It was opened in 1902 and rebuilt in",
    "It was opened in 1902, and later on;",
    "It was opened in the",
    "- opened in 1902.\n- rebuilt in the",
    "- The bridge was opened.\n- The pier was repl",
    "It stands (since 1902",
    'He said: "It stands and',
    "He said: “It stands",
    "Compute it so:\n```\nlow + 1.",
    "It was opened in 1902. A new pier for the ships came",
    "It was opened in 1902. The old pier was replaced long after the war had ended.\nThe new one was built by the same firm "
    "as the bridge",
    "它今天还在。桥在一九〇二年建成后又过了五十年",
    "Die Brücke wurde 1902 eröffnet und",
    "Новый мост открыли весной, в",
    "It was opened in 1902.\n\n## After the flood",
    "| Opening | 1902 |\n| Pier |",
]


@pytest.mark.parametrize("text", COMPLETE)
def test_complete_endings(text):
    assert truncation(SOURCE, text).passed


@pytest.mark.parametrize("text", CUT)
def test_cut_endings(text):
    verdict = truncation(SOURCE, text)
    assert verdict.reason == "stops_in_the_middle"
    assert text.endswith(verdict.findings[0].rewrite)


def test_a_last_line_of_the_source_may_be_the_last_line():
    source = "Become root and install it.\n\n# apt-get install gdb gdb-doc"
    assert truncation(f"{source}\n\nThat is all.", source).passed


def test_the_token_limit_is_a_cut_even_after_a_full_stop():
    assert truncation(SOURCE, REWRITE).passed
    assert truncation(SOURCE, REWRITE, "length").reason == "stops_in_the_middle"


def test_a_source_without_a_full_stop_needs_none_in_the_rewrite():
    assert truncation("Opening hours: 9 to 5", "Open from 9 to 5").passed
    assert not truncation("Opening hours: 9 to 5", "We are open from 9 to").passed
    assert truncation("These are the rules:", "The rules are the following:").passed


@pytest.mark.parametrize("part", [0.5, 0.7, 0.9])
def test_any_honest_rewrite_cut_inside_a_sentence_is_seen(part):
    at = int(len(REWRITE) * part)
    while REWRITE[at - 1] in ". ":
        at += 1
    assert truncation(SOURCE, REWRITE[:at]).reason == "stops_in_the_middle"


@pytest.mark.parametrize(
    "loop",
    [
        "The bridge is old and strong. " * 8,
        "the " * 60,
        "It was opened in 1902 and " * 6 + "so on.",
        " ".join(f"word{i}" for i in range(40)).join(["", " "]) * 3 + "end.",
        "ha" * 300 + ".",
        "=" * 500,
        "桥很旧也很坚固。" * 10,
    ],
)
def test_loops(loop):
    assert truncation(SOURCE, loop).reason == "repeats_itself"
    assert truncation(SOURCE, f"{REWRITE} {loop}").reason == "repeats_itself"


def test_loops_that_the_source_has_are_its_own():
    refrain = "Row, row, row your boat gently down the stream. " * 5
    assert truncation(refrain, refrain).passed


def test_parallel_sentences_are_no_loop():
    text = " ".join(
        f"**Q:** When was the {thing} opened?\n**A:** The {thing} was opened in {year}.\n"
        for thing, year in (("bridge", 1902), ("tunnel", 1911), ("canal", 1869), ("harbour", 1755), ("tower", 1759))
    )
    assert truncation(SOURCE, text).passed


def test_saying_again_what_already_stands_there():
    before = (
        "Long ago the town had only a ferry, and whoever missed it at night had to wait until morning came. " + REWRITE
    )
    assert truncation(SOURCE, REWRITE, "stop", "Title\nsomething else altogether").passed
    again = "Long ago the town had only a ferry, and whoever missed it at night had to wait until morning came."
    other = (
        "A dam was built in 1960, far upstream, by the next generation of engineers, who had learned from the flood."
    )
    assert (
        truncation("In 1960 a dam followed upstream.", f"{other} {REWRITE}", "stop", before).reason == "repeats_itself"
    )
    assert truncation("In 1960 a dam followed upstream.", f"{other} {again[:40]}.", "stop", before).passed


@given(st.text(), st.text())
def test_never_raises(source, rewrite):
    verdict = truncation(source, rewrite)
    assert verdict.reason in ("", "stops_in_the_middle", "repeats_itself")


def test_configuration_is_checked():
    with pytest.raises(ValueError, match="max_repeated"):
        Truncation(max_repeated=0)


def test_a_filtered_answer_is_a_cut_even_after_a_full_stop():
    assert Truncation()("One thing is so. Two is not.", "One is so.", "content_filter").reason == "stops_in_the_middle"


@pytest.mark.parametrize("source", ["Overview", "A list:", "It is so."])
def test_no_text_at_all_is_no_rewrite(source):
    verdict = Truncation()(source, " ")
    assert verdict.reason == "stops_in_the_middle" and "no text" in verdict.findings[0].detail
