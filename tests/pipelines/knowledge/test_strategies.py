"""Strategies in the rollout: their template, their check in the place of others, what is skipped, what stands before them."""

import asyncio
import dataclasses

import pytest
from tokenmill.bench.servers.mill import Writer, document, passage, rewrite
from tokenmill.judges.model.faithfulness import Faithfulness
from tokenmill.pipelines.knowledge.contracts import see_to
from tokenmill.pipelines.knowledge.job import estimate
from tokenmill.pipelines.knowledge.rephrase import Rephrase
from tokenmill.pipelines.knowledge.style_pairs import Repertoire, draw_pairs
from tokenmill.pipelines.knowledge.writing import Checks
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected
from tokenmill.prompts.own import OwnPrompt
from tokenmill.schemas.documents import Document
from tokenmill.schemas.knowledge import RephrasingTask

from tests.fake_ask import FakeAsk
from tokenmill import prompts

CHEAP = Checks(similarity=None, judge=None)
JUDGED = Checks(similarity=None, judge=Faithfulness())
DULL = "The river is wide and slow. Nobody remembers who first built a house beside it. The hills around are green."
SUM = "The council bought 12 lamps in spring and 30 more in autumn. Every lamp cost 5 crowns."
PROBLEM = (
    "### Problem\nA council bought 12 lamps in spring and 30 more in autumn; every lamp cost 5 crowns. What did it pay?\n\n"
    "### Solution\nIt bought 12 + 30 = 42 lamps. They cost 42 * 5 = 210 crowns.\n\n### Answer\nIt paid 210 crowns."
)


def task(strategy, text="", sentences=30):
    row = document(1, sentences)
    source = Document(row["id"], row["title"], text or row["text"], "en", "cc0-1.0", "a.jsonl", 1)
    return RephrasingTask(source, 0, f"strategies/{strategy}", "perspectives/general_reader")


def roll(ask, work, **config):
    config.setdefault("checks", CHEAP)
    step = Rephrase("fake", judge_model="fake-judge", **config)
    outcome = asyncio.run(step(work, ask))
    return step, outcome, estimate(step, work)[0]


def test_a_summary_stands_before_the_whole_and_is_in_view_when_it_is_written():
    def answer(body):
        if "response_format" in body:
            return Writer()(body)
        done = rewrite(passage(body))
        return done if "<overview-" in body["messages"][-1]["content"] else done.split(". ")[0].rstrip(".") + "."

    ask, work = FakeAsk(answer), task("expansion")
    _step, outcome, planned = roll(ask, work, checks=JUDGED, chunk_tokens=150)
    assert isinstance(outcome, Accepted), outcome
    row, calls = outcome.row, ask.to("writer")
    summaries, expansions = calls[: row.chunks], calls[row.chunks :]
    assert len(summaries) == len(expansions) == row.chunks > 2
    assert all("Summarise the passage" in body["messages"][0]["content"] for body in summaries)
    first = [answer(body) for body in summaries]
    assert all(first[at] in body["messages"][-1]["content"] for at, body in enumerate(expansions))
    assert row.text.startswith(first[0]) and row.text.endswith(rewrite(work.document.text))
    assert planned["writer"].calls == len(calls) and planned["judge"].calls == len(ask.to("judge"))
    assert planned["writer"].waves == len(calls)
    names = {prompt.partition("@")[0] for prompt in row.prompts}
    assert names >= {"strategies/summary", "strategies/expansion", "knowledge/strategy", "knowledge/expand"}


def test_of_the_text_before_no_more_is_shown_than_there_is_room_for():
    step = Rephrase("fake", overview_tokens=60)
    overview = [f"Part {n} tells of a lamp, a bridge and a mill near the town." for n in range(20)]
    shown = step._overview("strategies/expansion", 7, overview)["overview"]
    assert "Part 7 " in shown and "Part 0 " not in shown and "Part 19 " not in shown and shown.count("Part") == 3


def test_questions_may_stand_after_the_text_itself():
    pairs = "Question: When was the bridge finished?\nAnswer: It was finished when the source says so."
    ask = FakeAsk(lambda body: pairs)
    _, outcome, _ = roll(ask, task("text_with_questions", sentences=4))
    assert isinstance(outcome, Accepted), outcome
    assert outcome.row.text == f"{outcome.row.source_text}\n\n{pairs}"


def test_a_chunk_without_what_the_form_needs_is_not_asked_for():
    ask = FakeAsk(lambda body: PROBLEM)
    text = f"{DULL}\n\n{SUM}\n\n{DULL.replace('river', 'lake')}"
    _step, outcome, planned = roll(ask, task("word_problem", text), chunk_tokens=25)
    assert isinstance(outcome, Accepted), outcome
    assert len(ask.asked) == 1 == planned["writer"].calls and outcome.row.chunks == 3
    assert outcome.row.text == PROBLEM


def test_a_document_without_it_is_rejected_unpaid():
    ask = FakeAsk(lambda body: PROBLEM)
    _step, outcome, planned = roll(ask, task("word_problem", DULL))
    assert isinstance(outcome, Rejected) and outcome.reason == "form_unsuited"
    assert not ask.asked and planned["writer"].calls == 0


def test_an_extract_may_copy_and_a_paraphrase_in_it_is_mended_with_the_finding_in_view():
    def answer(body):
        told = body["messages"][-1]["content"]
        return first if "<corrections-" in told else f"{first} {rewrite(second)}"

    text = task("extract", sentences=4).document.text
    first, second = (sentence.strip() + "." for sentence in text.split(". ")[:2])
    ask = FakeAsk(answer)
    _, outcome, _ = roll(ask, task("extract", text))
    assert isinstance(outcome, Accepted), outcome
    assert outcome.row.text == first and outcome.row.attempts == 2
    assert [v.reason for v in outcome.row.verdicts if not v.passed] == ["not_verbatim"]
    assert "copying" not in {v.check for v in outcome.row.verdicts}
    assert "Copy whole sentences exactly" in ask.asked[1]["messages"][-1]["content"]


def test_the_judge_is_not_asked_about_what_a_solution_calculates():
    asked = []

    def answer(body):
        if "response_format" not in body:
            return PROBLEM
        asked.append(body["messages"][-1]["content"])
        return Writer()(body)

    _, outcome, _ = roll(FakeAsk(answer), task("word_problem", SUM), checks=JUDGED)
    assert isinstance(outcome, Accepted), outcome
    assert len(asked) == 1 and "210" in asked[0] and '"210"' not in asked[0].partition("<questions-")[2]


@pytest.mark.parametrize("brief", [False, True])
def test_strategies_have_a_template_that_does_not_ask_for_every_fact(brief):
    step = Rephrase("fake", brief=brief)
    wanted = {"styles/news": "rephrase", "strategies/distil": "strategy", "strategies/expansion": "expand"}
    for style, template in {**wanted, "strategies/tutorial": "rephrase"}.items():
        assert step.template(style) == ("knowledge/rephrase_brief" if brief else f"knowledge/{template}")
        assert step.wording(dataclasses.replace(task("distil"), style=style))


def test_a_style_may_name_the_perspectives_that_make_sense_with_it():
    among = Repertoire(styles=("strategies/extract",))
    assert draw_pairs(1, 0, "a", among=among) == [("strategies/extract", "perspectives/general_reader")]
    with pytest.raises(ValueError, match="there are 1 style-perspective pairs"):
        draw_pairs(2, 0, "a", among=among)
    other = Repertoire(styles=("strategies/extract",), perspectives=("perspectives/child",))
    assert draw_pairs(1, 0, "a", among=other) == [("strategies/extract", "perspectives/child")]


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        ("keeps: none", "keeps: all or keeps: some"),
        ("keeps: some\ncheck: beauty", "check must be one of"),
        ("check: tables", "in a style that keeps: some"),
        ("after: strategies/expansion", "after must be source"),
        ("after: strategies/none", "no prompt named"),
    ],
)
def test_a_contract_that_is_none_is_one_line(meta, told):
    style = OwnPrompt("own/test-contract", f"---\nbrief: as a test\n{meta}\n---\nWrite.\n", "system")
    with pytest.raises(prompts.PromptError, match=told):
        see_to(style.name)
