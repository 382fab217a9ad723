import asyncio
import json
import pickle

import pytest
from tokenmill.judges.entailment.check import MAX_QUESTIONS, Entailment
from tokenmill.judges.entailment.loading import Labels, labels_of
from tokenmill.judges.entailment.scoring import scored
from tokenmill.judges.entailment.sentences import statements

from tests.judges.entailment import tiny

SOURCE = "The bridge was opened in 1902. It cost 900 crowns. Anna Keller built it for the town. It was painted green."
REWRITE = (
    "Teacher: In 1902 the bridge was opened.\nStudent: Who built it?\nTeacher: Anna Keller built it for the town.\n\n"
    "# The bridge of the town\n\nIts price was 900 crowns."
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nli")
    return {
        favoured: str(tiny.save(folder / (favoured or "any"), favoured=favoured)) for favoured in ("", *tiny.LABELS)
    }


def check(model, **config):
    return asyncio.run(Entailment(model, **config)(SOURCE, REWRITE))


def test_statements_are_compared_with_what_says_the_same():
    found = statements(SOURCE, REWRITE)
    assert [one.text for one in found] == [
        "In 1902 the bridge was opened.",
        "Anna Keller built it for the town.",
        "Its price was 900 crowns.",
    ], "no questions, no headings, no labels of speakers"
    assert found[0].nearest == "The bridge was opened in 1902."
    assert found[1].around.startswith("Anna Keller built it")
    assert found[2].nearest == "It cost 900 crowns."


def test_lines_of_a_list_are_statements_and_headings_and_questions_are_not():
    listed = "## How the bridge was built for the town\n- 1902: the bridge of the town was opened to walkers and carts\n- cost"
    assert [one.text[:4] for one in statements(SOURCE, listed)] == ["1902"]
    assert statements(SOURCE, "And do you know in which year the bridge of the town was opened?") == []
    assert statements(SOURCE, "| bridge | opened in 1902 |\n\n```\nThe bridge was opened in 1902.\n```") == []


def test_what_comes_before_is_a_premise_too_and_scripts_without_spaces_are_read():
    assert (
        statements("Nothing.", "The harbour froze over in winter.", "The harbour froze.")[0].nearest
        == "The harbour froze."
    )
    (one,) = statements("橋は一九〇二年に開通した。町は小さい。", "一九〇二年に橋が開通した。")
    assert one.nearest.startswith("橋は一九〇二年")
    assert statements("", "There is nothing to compare with.") == []


def test_only_a_clear_contradiction_refuses_and_it_is_a_question_too(models):
    doubts = check(models["contradiction"])
    assert (doubts.verdict.check, doubts.verdict.reason) == ("entailment", "contradicts_source")
    finding = doubts.verdict.findings[0]
    assert finding.source in SOURCE and finding.rewrite in REWRITE
    assert [q.kind for q in doubts.questions] == ["contradiction"] * 3
    assert doubts.questions[0].rewrite in REWRITE and "Do the two agree?" in doubts.questions[0].text


def test_what_is_not_entailed_refuses_nothing_and_is_a_question(models):
    doubts = check(models["neutral"])
    assert doubts.verdict.passed and doubts.verdict.score < 0.01
    assert [q.kind for q in doubts.questions] == ["unsupported"] * 3
    assert "Does the source say so?" in doubts.questions[0].text


def test_what_is_entailed_is_no_question(models):
    doubts = check(models["entailment"])
    assert doubts.verdict.passed and doubts.verdict.score > 0.99 and not doubts.questions


def test_questions_are_few(models):
    rewrite = " ".join(f"The bridge number {n} was opened then." for n in range(9))
    asked = asyncio.run(Entailment(models["neutral"])(SOURCE, rewrite)).questions
    assert len(asked) == MAX_QUESTIONS


def test_a_score_does_not_depend_on_company_or_batches(models):
    pairs = [(SOURCE[: 20 + n], REWRITE[n : 30 + 2 * n]) for n in range(40)]

    async def all_at_once():
        return await asyncio.gather(*(scored(models[""], 256, [pair]) for pair in pairs))

    together = [one for (one,) in asyncio.run(all_at_once())]
    alone = [asyncio.run(scored(models[""], 256, [pair]))[0] for pair in pairs]
    assert together == alone and len(set(together)) > 20
    assert all(0 <= p <= 1 for one in together for p in one)


def test_long_texts_are_cut_to_what_the_model_reads(models):
    (one,) = asyncio.run(scored(models[""], 256, [("a b c " * 500, "d e f " * 500)]))
    assert 0 < one.entailment < 1


def test_the_order_of_labels_is_the_models(tmp_path):
    labels = ("Entailment", "NEUTRAL", "contradiction")
    assert labels_of(str(tiny.save(tmp_path / "a", labels, favoured="Entailment"))) == Labels(0, 2)
    assert asyncio.run(Entailment(str(tmp_path / "a"))(SOURCE, REWRITE)).verdict.score > 0.99


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"id2label": {"0": "LABEL_0"}}, "its labels are label_0; entailment and contradiction must be among them"),
        ({"id2label": {"0": "entailment", "1": "not_entailment"}}, "contradiction must be among them"),
        ({}, "its labels are none"),
        ([], "cannot be read"),
    ],
)
def test_a_model_of_another_kind_is_one_line(tmp_path, config, told):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(OSError, match=told) as caught:
        Entailment(str(tmp_path)).find()
    assert "\n" not in str(caught.value)


def test_no_such_model_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # read when that was imported
    with pytest.raises(OSError, match="there is no such folder") as caught:
        Entailment("nobody/has-such-a-model").find()
    assert "\n" not in str(caught.value)
    with pytest.raises(OSError, match="no model's configuration"):
        Entailment(str(tmp_path)).find()


@pytest.mark.parametrize("config", [{"contradicted": 0.4}, {"entailed": 0.6}, {"batch_tokens": 0}, {"model": ""}])
def test_configuration_is_checked(config):
    with pytest.raises(ValueError, match="Entailment"):
        Entailment(**{"model": "m", **config})
    assert pickle.loads(pickle.dumps(Entailment("m"))) == Entailment("m")
