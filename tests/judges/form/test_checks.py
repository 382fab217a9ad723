import pickle
import time

import pytest
from tokenmill.judges.form import phrases
from tokenmill.judges.form.checks import FormChecks
from tokenmill.judges.form.copying import Copying
from tokenmill.judges.form.length import Length
from tokenmill.judges.form.words import split, words

from tests.judges.pair import REWRITE, SOURCE

CHECKS = {"injection", "commentary", "language", "truncation", "length", "copying"}


def reasons(rewrite, source=SOURCE, **kwargs):
    return {v.reason for v in FormChecks()(source, rewrite, language="en", **kwargs) if not v.passed}


def test_every_check_speaks_and_an_honest_rewrite_passes():
    verdicts = FormChecks()(SOURCE, REWRITE, language="en", context="Bridges", prompt_text="Rewrite it.")
    assert {v.check for v in verdicts} == CHECKS
    assert len(verdicts) == len(CHECKS)
    assert all(v.passed for v in verdicts)


def test_faults_are_reported_together():
    assert reasons(f"Here is the rewritten text: {SOURCE[:-12]}") == {
        "comments_on_task",
        "copies_source",
        "stops_in_the_middle",
    }
    assert reasons(REWRITE, finish_reason="length") == {"stops_in_the_middle"}
    assert reasons("") >= {"collapses"}


def test_thresholds_are_configuration_and_travel_to_workers():
    lenient = FormChecks(copying=Copying(max_share=0.99, max_run=500), length=Length(minimum=0.0))
    copy = pickle.loads(pickle.dumps(lenient))
    assert copy == lenient
    rewrite = f"{SOURCE} Nobody would have it otherwise."
    assert not all(v.passed for v in FormChecks()(SOURCE, rewrite, language="en"))
    assert all(v.passed for v in copy(SOURCE, rewrite, language="en"))


def test_verdicts_do_not_depend_on_what_was_checked_before():
    before = FormChecks()(SOURCE, REWRITE, language="en")
    for i in range(50):
        FormChecks()(f"{SOURCE} {i}", f"{REWRITE} {i}", language="en")
    assert FormChecks()(SOURCE, REWRITE, language="en") == before


def test_lower_case_words_stand_where_the_spelled_ones_do():
    for text in (SOURCE, "İstanbul’da ǅungla straße – ΣΊΣΥΦΟΣ 桥很旧", "ASCII_only it's"):
        assert len(words(text)) == len(split(text))


def test_phrase_lists_report_what_is_undefined(tmp_path, monkeypatch):
    (tmp_path / "broken.txt").write_text("A = x|y\n[front]\n<B> z\n")
    monkeypatch.setattr(phrases.resources, "files", lambda package: tmp_path)
    with pytest.raises(KeyError, match="B"):
        phrases.load("tokenmill.judges.form", "broken")


@pytest.mark.parametrize(
    "unit",
    ["a", " ", "\n", "(", '"', "#", "<|", "ignore ", "ignore all previous ", "write ", "ai ", "word. ", "桥很旧。", "é",
     "\u200b", "```\n", "| ", "Note: "],
)  # fmt: skip
def test_time_grows_with_length_and_not_faster(unit):
    """Ten times the text may take at most about ten times as long (with slack for a busy machine)."""

    def seconds(length):
        text = unit * (length // len(unit))
        start = time.process_time()
        FormChecks()(text, text, language="en", prompt_text=SOURCE)
        return time.process_time() - start

    seconds(1_000)
    small = min(seconds(20_000) for _ in range(3))
    assert seconds(200_000) < 25 * small + 0.1
