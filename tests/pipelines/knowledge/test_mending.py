"""What a judge or the whole reading finds wrong is mended where it stands."""

import asyncio
import dataclasses
import re

import pytest
from tokenmill.bench.servers.mill import Writer, document, passage, rewrite
from tokenmill.judges.entailment.check import Entailment
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.writing import Checks
from tokenmill.pipelines.rollouts.chunking import chunk
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.schemas.documents import Document
from tokenmill.schemas.knowledge import RephrasingTask

from tests.fake_ask import FakeAsk
from tests.judges.entailment import tiny

JUDGED = Checks(similarity=None, judge=Faithfulness())


def task(sentences=24, style="styles/news", text=None):
    row = document(1, sentences)
    source = Document(row["id"], "A Title Of Its Own", text or row["text"], "en", "cc0-1.0", "a.jsonl", 1)
    return RephrasingTask(source, 0, style, "perspectives/expert")


def roll(ask, work, **config):
    config = {"checks": JUDGED, "chunk_tokens": 100, **config}
    return asyncio.run(Rephrase("fake", judge_model="fake-judge", **config)(work, ask))


def block(label, body):
    found = re.search(rf"<{label}-(\w+)>\n(.*?)\n</{label}-\1>", body["messages"][-1]["content"], re.DOTALL)
    return found[2] if found else ""


def fault(rewrite_quote, severity="major", source_quote="", claim="It is not so."):
    return {"claim": claim, "source_quote": source_quote, "rewrite_quote": rewrite_quote, "severity": severity}


class Judge:
    """Answers readings one after the other from functions of what it is shown; content in the end."""

    def __init__(self, *answers):
        self.answers, self.read = list(answers), []

    def __call__(self, body):
        self.read.append(body)
        return self.answers.pop(0)(body) if self.answers else {}


def sentence(text, place=0):
    return text.split(". ")[place].strip().rstrip(".")


def test_every_seam_is_judged_once_also_where_windows_meet():
    judge = Judge()
    ask, work = FakeAsk(Writer(judge=judge)), task(40)
    row = roll(ask, work, judged_tokens=250).row
    seams = [line for body in judge.read for line in block("seams", body).splitlines()]
    parts = [rewrite(part.body) for part in chunk(work.document.text, 100)]
    assert len(seams) == row.chunks - 1 > len(judge.read) > 1
    for line, earlier, later in zip(seams, parts, parts[1:], strict=False):
        left, right = re.fullmatch(r"\d+\. … (.*) \| (.*) …", line).groups()
        assert " ".join(earlier.split()).endswith(left) and " ".join(later.split()).startswith(right)
    assert [bool(block("rewrite-before", body)) for body in judge.read] == [False] + [True] * (len(judge.read) - 1)


def test_one_chunk_has_no_seam():
    judge = Judge()
    roll(FakeAsk(Writer(judge=judge)), task(4), chunk_tokens=500)
    (body,) = judge.read
    assert "seam" not in body["messages"][-1]["content"]
    assert "seams" not in body["response_format"]["json_schema"]["schema"]["properties"]


def test_what_is_said_again_after_a_seam_is_mended_in_the_later_part():
    work = task(24)
    chunks = chunk(work.document.text, 100)
    twice = sentence(rewrite(chunks[0].body), -1) + "."

    def answer(body):
        if "response_format" in body:
            return scripted(body)
        text = rewrite(passage(body))
        first = passage(body) == chunks[1].body and "<corrections-" not in body["messages"][-1]["content"]
        return f"{twice} {text}" if first else text

    def repetition(body):
        seam = {
            "seam": 1,
            "fault": "repetition",
            "claim": "It is said twice.",
            "earlier_quote": twice,
            "later_quote": twice,
        }
        return {"seams": [seam]}

    judge = Judge(repetition)
    scripted = Writer(judge=judge)
    ask = FakeAsk(answer)
    row = roll(ask, work).row
    assert row.text == rewrite(work.document.text)
    mended = [body for body in ask.to("writer") if "<corrections-" in body["messages"][-1]["content"]]
    assert [passage(body) for body in mended] == [chunks[1].body], "the part before stays as it is"
    assert "Mend the seam to the text before: repetition: It is said twice." in block("corrections", mended[0])
    assert block("rewritten-so-far", mended[0]).endswith(twice) and twice in block("rewrite", mended[0])
    assert [j.reason for j in row.verdicts if not j.passed] == ["broken_seam"]
    again = block("seams", judge.read[1]).splitlines()
    assert len(again) == 2, "both seams of the mended part are read again"


def test_a_seam_that_is_not_there_or_misquoted_does_not_count():
    def wrong(body):
        base = {"fault": "missing_link", "claim": "c", "earlier_quote": "", "later_quote": "nothing of the kind"}
        return {"seams": [{**base, "seam": 1}, {**base, "seam": 77, "later_quote": sentence(block("rewrite", body))}]}

    judge = Judge(wrong, lambda body: {})
    assert isinstance(roll(FakeAsk(Writer(judge=judge)), task(24)), Accepted)
    complaint = judge.read[1]["messages"][-1]["content"]
    assert 'not in the rewrite: "nothing of the kind"' in complaint and "there is no seam 77" in complaint


def test_the_judge_knows_the_source_before_and_nothing_that_was_made_of_it():
    judge = Judge()
    work = task(40)
    roll(FakeAsk(Writer(judge=judge)), work, judged_tokens=250)
    for body in judge.read[1:]:
        context = block("context", body).removeprefix("… ")
        assert context and context in work.document.text
        assert "no source, to be looked at for the seams alone" in body["messages"][-1]["content"]
    assert all(body["messages"][-1]["content"].count("A Title Of Its Own") == 1 for body in judge.read)


def test_attempts_at_a_chunk_are_numbered_one_after_the_other():
    def wrong(place):
        return lambda body: {"unsupported": [fault(sentence(block("rewrite", body), place))]}

    spoiled = []

    def answer(body):
        if "response_format" in body:
            return scripted(body)
        text = rewrite(passage(body))
        if not spoiled:
            spoiled.append(text)
            return text.rsplit(" ", 3)[0]  # stops in the middle
        return text

    scripted = Writer(judge=Judge(wrong(0), wrong(1)))
    ask = FakeAsk(answer)
    row = roll(ask, task(4), chunk_tokens=500).row
    assert [body["attempt"] for body in ask.to("writer")] == [0, 1, 2, 3]
    assert [body["seed"] for body in ask.to("writer")] == [0, 1, 2, 3]
    assert row.attempts == 4
    assert [(j.check, j.attempt) for j in row.verdicts if not j.passed] == [
        ("truncation", 0),
        ("faithfulness", 0),
        ("faithfulness", 1),
    ]


@pytest.mark.parametrize("repairs", [0, 1, 2])
def test_a_chunk_is_mended_as_often_as_repairs_say(repairs):
    judge = Judge(*[lambda body: {"unsupported": [fault(sentence(block("rewrite", body)))]}] * 9)
    ask = FakeAsk(Writer(judge=judge))
    outcome = roll(ask, task(4), chunk_tokens=500, repairs=repairs)
    assert isinstance(outcome, Rejected) and outcome.reason == "unsupported_claim"
    assert outcome.row.attempts == 1 + repairs and len(judge.read) == 1 + repairs


def test_another_form_is_written_anew_and_not_mended_in_place():
    judge = Judge(lambda body: {"form_kept": False, "form_fault": "It is a poem."})
    ask = FakeAsk(Writer(judge=judge))
    row = roll(ask, task(4), chunk_tokens=500).row
    again = ask.to("writer")[1]
    assert "The form asked for: as a news report" in judge.read[0]["messages"][-1]["content"]
    assert again["messages"][0] == ask.to("writer")[0]["messages"][0] and not block("rewrite", again)
    assert "Keep to the form: It is a poem." in block("corrections", again)
    assert [j.reason for j in row.verdicts if not j.passed] == ["other_form"]


def test_a_true_fact_is_not_asked_to_be_removed():
    """As the judge words it, a claim may begin with what is right."""
    claim = "The mill was first run by Roso, not by Filipovic."
    judge = Judge(lambda body: {"unsupported": [fault(sentence(block("rewrite", body)), claim=claim)]})
    ask = FakeAsk(Writer(judge=judge))
    roll(ask, task(4), chunk_tokens=500)
    asked = ask.to("writer")[1]
    assert f"Say here what the source says, and no more: {claim}" in block("corrections", asked)
    assert "emove" not in block("corrections", asked)
    assert "A fact that the source does state is never removed." in asked["messages"][0]["content"]


class TestMinorFaults:
    def test_as_many_as_are_tolerated_pass_and_the_row_says_how_many(self):
        judge = Judge(lambda body: {"unsupported": [fault(sentence(block("rewrite", body)), "minor")]})
        row = roll(FakeAsk(Writer(judge=judge)), task(4), chunk_tokens=500).row
        assert row.minor_faults == 1 and row.attempts == 1

    def test_none_may_be_tolerated(self):
        judge = Judge(lambda body: {"unsupported": [fault(sentence(block("rewrite", body)), "minor")]})
        checks = dataclasses.replace(JUDGED, judge=Faithfulness(tolerated_minor=0))
        row = roll(FakeAsk(Writer(judge=judge)), task(4), chunk_tokens=500, checks=checks).row
        assert row.minor_faults == 0 and row.attempts == 2

    def test_they_are_mended_with_a_major_one(self):
        def both(body):
            text = block("rewrite", body)
            return {"unsupported": [fault(sentence(text)), fault(sentence(text, 2), "minor", claim="A shade off.")]}

        ask = FakeAsk(Writer(judge=Judge(both)))
        row = roll(ask, task(4), chunk_tokens=500).row
        assert "(minor): A shade off." in block("corrections", ask.to("writer")[1])
        assert row.minor_faults == 0 and row.attempts == 2

    def test_one_that_was_let_pass_is_mended_when_its_chunk_is_written_again_later(self):
        work = copied()
        minor = Judge(lambda body: {"unsupported": [fault(sentence(block("rewrite", body)), "minor", claim="Shade.")]})
        ask = FakeAsk(copier(work, Writer(judge=minor)))
        row = roll(ask, work, chunk_tokens=20).row
        mended = [body for body in ask.to("writer") if "<corrections-" in body["messages"][-1]["content"]]
        assert "(minor): Shade." in block("corrections", mended[0])
        assert row.minor_faults == 0


def copied():
    """A document of single sentences, too short to be called copies each."""
    return task(text="\n\n".join(document(5, 12, paragraph=1)["text"].split("\n\n")))


def copier(work, scripted):
    """Copies the first half of the document's chunks until it is asked to correct that."""
    half = len(work.document.text) // 2

    def answer(body):
        if "response_format" in body:
            return scripted(body)
        text = passage(body)
        if work.document.text.index(text) < half and "<corrections-" not in body["messages"][-1]["content"]:
            return text
        return rewrite(text)

    return answer


@pytest.mark.parametrize("judge", [None, Faithfulness()])
def test_what_only_the_whole_shows_to_be_wrong_is_mended(judge):
    work = copied()
    ask = FakeAsk(copier(work, Writer()))
    outcome = roll(ask, work, chunk_tokens=20, checks=dataclasses.replace(JUDGED, judge=judge))
    assert isinstance(outcome, Accepted)
    refusals = [j for j in outcome.row.verdicts if not j.passed]
    assert refusals and {(j.reason, j.chunk) for j in refusals} == {("copies_source", -1)}
    mended = [body for body in ask.to("writer") if "<corrections-" in body["messages"][-1]["content"]]
    assert mended and "Say this in other words" in block("corrections", mended[0])
    readings = len(ask.to("judge"))
    assert readings > 1 if judge else readings == 0, "what was mended is judged again"


def test_the_whole_is_refused_when_its_chunks_cannot_be_mended_any_more():
    work = copied()
    outcome = roll(
        FakeAsk(lambda body: passage(body)), work, chunk_tokens=20, checks=Checks(similarity=None, judge=None)
    )
    assert isinstance(outcome, Rejected) and outcome.reason == "copies_source" and outcome.row.refused_chunk == -1


def test_lost_headings_are_put_back_where_the_style_has_room_for_them():
    body = document(3, 4)["text"]
    text = f"## Mills and bridges\n\n{body}"

    def answer(asked):
        if "<corrections-" in asked["messages"][-1]["content"]:
            return f"## On mills\n\n{rewrite(body)}"
        return rewrite(body)

    ask = FakeAsk(answer)
    plain = dataclasses.replace(JUDGED, judge=None)
    row = roll(ask, task(style="styles/textbook", text=text), chunk_tokens=500, checks=plain).row
    assert row.text.startswith("## On mills") and row.attempts == 2
    assert 'Keep a heading for what stands under "Mills and bridges"' in block("corrections", ask.asked[1])
    assert block("rewrite", ask.asked[1]) == rewrite(body), "mended, not written anew"
    assert roll(FakeAsk(answer), task(text=text), chunk_tokens=500, checks=plain).row.attempts == 1, (
        "news has no headings"
    )


@pytest.fixture(scope="module")
def against(tmp_path_factory):
    return Entailment(str(tiny.save(tmp_path_factory.mktemp("nli") / "m", favoured="contradiction")))


class TestEntailment:
    def test_without_a_judge_a_clear_contradiction_is_mended_or_refused(self, against):
        ask = FakeAsk(Writer())
        checks = Checks(similarity=None, judge=None, entailment=against)
        outcome = roll(ask, task(4), chunk_tokens=500, checks=checks)
        assert isinstance(outcome, Rejected) and outcome.reason == "contradicts_source"
        assert len(ask.asked) == 3
        shown = block("corrections", ask.asked[1])
        assert "Say what the source says" in shown and '(the source: "' in shown and '(your text: "' in shown
        assert block("rewrite", ask.asked[1])

    def test_with_a_judge_it_is_a_question_and_the_judge_decides(self, against):
        judge = Judge()
        checks = Checks(similarity=None, judge=Faithfulness(), entailment=against)
        row = roll(FakeAsk(Writer(judge=judge)), task(4), chunk_tokens=500, checks=checks).row
        assert row.attempts == 1
        assert block("questions", judge.read[0]).count("Do the two agree?") == 4
        (verdict,) = [j for j in row.verdicts if j.check == "entailment"]
        assert verdict.passed and verdict.score < 0.01


def test_a_row_says_where_it_is_from_and_how_its_text_compares():
    work = task(24)
    named = dataclasses.replace(work.document, source="The Chronicle", url="https://example.org/1")
    row = roll(FakeAsk(Writer()), dataclasses.replace(work, document=named, kind="dated")).row
    assert (row.source, row.url, row.source_kind) == ("The Chronicle", "https://example.org/1", "dated")
    assert row.source_tokens > row.chunks * 50 and row.tokens > 100
    assert row.length_ratio == round(len(row.text) / len(row.source_text), 4)
    assert row.copy_rate == 0 and row.sibling_similarity is None
