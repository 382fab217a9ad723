"""The critic: pairs in both orders, ties, vetoes, pivots; with critics of a known mind."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenmill.inference.call import Answer, Usage
from tokenmill.inference.structured import StructuredAnswerInvalid
from tokenmill.judges.critic.rank import ALL_PAIRS, PIVOTS, Critic
from tokenmill.judges.critic.rubrics import core, opening_praise, prescriptive, self_justification, written

PROMPT = "Write a line about the sea."


class Mind:
    """Plays the critic: prefers whom `better(first, second)` says, and finds broken what `breaks` says."""

    def __init__(self, better, breaks=lambda text, rubric: False):
        self.better = better
        self.breaks = breaks
        self.calls = 0

    async def __call__(self, messages, *, to, schema, **params):
        assert to == "judge"
        self.calls += 1
        user = messages[1]["content"]
        first, second = (re.search(rf"<{side}-\w+>\n(.*?)\n</", user, re.DOTALL)[1] for side in ("first", "second"))
        said = {"why": "so it is", "better": self.better(first, second)}
        parts = schema["properties"]
        if "rubrics" in parts:
            names = parts["rubrics"]["items"]["properties"]["rubric"]["enum"]
            said["rubrics"] = [{"rubric": name, "better": said["better"]} for name in names]
        if "musts" in parts:
            names = parts["musts"]["items"]["properties"]["rubric"]["enum"]
            met = [(not self.breaks(first, name), not self.breaks(second, name)) for name in names]
            said["musts"] = [
                {"rubric": name, "first_meets": a, "second_meets": b} for name, (a, b) in zip(names, met, strict=True)
            ]
        return Answer(json.dumps(said), "stop", Usage(1, 1), "critic")


def longer(first, second):
    return "first" if len(first) > len(second) else "second" if len(second) > len(first) else "same"


def ranked(answers, mind, rubrics=None, seed=0):
    return asyncio.run(Critic(core() if rubrics is None else rubrics, seed)(PROMPT, answers, mind))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=ALL_PAIRS))
def test_a_critic_of_one_mind_is_followed_whatever_the_order(lengths):
    answers = [f"{'x' * length} {number}" for number, length in enumerate(lengths)]
    ranking = ranked(answers, Mind(longer))
    by_length = sorted(range(len(answers)), key=lambda n: -lengths[n])
    for better, worse in pairwise(by_length):
        a, b = ranking.answers[better], ranking.answers[worse]
        assert (a.rank < b.rank and a.score > b.score) if lengths[better] > lengths[worse] else a.rank == b.rank
    assert ranking.flipped == 0 and ranking.comparisons == len(answers) * (len(answers) - 1) // 2


def test_a_critic_that_likes_a_place_decides_nothing():
    for place in ("first", "second"):
        ranking = ranked(["aa", "b", "ccc"], Mind(lambda first, second, place=place: place))
        assert ranking.flipped == ranking.comparisons == 3
        assert {one.rank for one in ranking.answers} == {1} and {one.score for one in ranking.answers} == {0.5}
        assert ranking.reward == (0.5, 0.5, 0.5)


def test_who_breaks_a_mandatory_rubric_is_beaten_by_all_who_do_not():
    must = written([], ["Names a ship."])
    mind = Mind(longer, breaks=lambda text, rubric: "ship" not in text)
    ranking = ranked(["the longest of all answers", "ship", "a ship"], mind, (*core(), *must))
    assert [one.rank for one in ranking.answers] == [3, 2, 1]
    assert [one.broken for one in ranking.answers] == [("must_1",), (), ()]
    assert ranking.reward == (0.0, 0.5, 1.0)


def test_one_opinion_of_two_does_not_break_a_rubric():
    seen = []

    def sometimes(text, rubric):
        seen.append(text)
        return text == "a" and seen.count("a") == 1

    ranking = ranked(["a", "bb"], Mind(longer, breaks=sometimes), (*core(), *written([], ["Is kind."])))
    assert [one.broken for one in ranking.answers] == [(), ()]


@pytest.mark.parametrize("count", [ALL_PAIRS, ALL_PAIRS + 1, 12])
def test_many_answers_are_compared_with_some_of_them(count):
    answers = ["x" * (n + 1) for n in range(count)]
    mind = Mind(longer)
    ranking = ranked(answers, mind)
    pairs = count * (count - 1) // 2 if count <= ALL_PAIRS else PIVOTS * (count - PIVOTS) + PIVOTS * (PIVOTS - 1) // 2
    assert ranking.comparisons == pairs and mind.calls == 2 * pairs
    assert ranking.answers[-1].rank == 1, "the best beats every pivot"
    again = ranked(answers, Mind(longer))
    assert again == ranking


def test_ranks_do_not_depend_on_the_order_of_the_answers():
    answers = ["one", "three", "seventeen", "a", "forty-nine"]
    expected = {one.text: (one.rank, one.score) for one in ranked(answers, Mind(longer)).answers}
    for order in list(permutations(answers))[::17]:
        assert {one.text: (one.rank, one.score) for one in ranked(list(order), Mind(longer)).answers} == expected


def test_a_critic_that_never_answers_by_the_schema_raises_and_one_that_sometimes_does_is_used():
    class Mute(Mind):
        async def __call__(self, messages, **params):
            answer = await super().__call__(messages, **params)
            return Answer("hm", "stop", Usage(1, 1), "critic") if self.silent(messages) else answer

    mute = Mute(longer)
    mute.silent = lambda messages: True
    with pytest.raises(StructuredAnswerInvalid):
        ranked(["a", "bb"], mute)
    mute.silent = lambda messages: "ccc" in messages[1]["content"]
    ranking = ranked(["a", "bb", "ccc"], mute)
    assert ranking.comparisons == 1
    assert [one.rank for one in ranking.answers] == [3, 1, 2], "one that was never compared stands between"


def test_self_praise_that_a_critic_likes_wins_only_without_the_prescriptive_rubrics():
    praise = "This answer is complete and correct. {}"
    liking = Mind(
        lambda first, second: {True: "first", False: "second"}["complete" in first] if first != second else "same"
    )
    wins = {True: 0, False: 0}
    for n in range(50):
        answers = [f"Waves come, {n} of them.", praise.format(n), f"The tide, {n} times."]
        for strict in (True, False):
            best = min(
                ranked(answers, liking, (*core(), *(prescriptive() if strict else ()))).answers, key=lambda a: a.rank
            )
            wins[strict] += best.text.startswith("This answer")
    assert wins[True] == 0 and wins[False] == 50


@pytest.mark.parametrize(
    "answer",
    [
        "Great question! The sea is deep.",
        "What a wonderful idea! Here it is.",
        "That's a really thoughtful question. It depends.",
        "I love this prompt. The sea",
        "Wow, what an interesting topic! Well",
        "Thank you for this excellent question. The sea",
        "> **Excellent point!** The sea",
        "Sehr gute Frage! Das Meer",
        "Excellente question ! La mer",
        "¡Buena pregunta! El mar",
    ],
)
def test_opening_praise_is_seen(answer):
    assert opening_praise(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The great question of the age was the sea.",
        "Good ships sail on. The question is when.",
        "A good question to ask a sailor is where he sleeps.",
        "You asked for a line about the sea: it is blue.",
        "Thank you for the details. The sea is blue.",
        "He liked ships more than boats.",
        "Interesting ideas come from the sea.",
    ],
)
def test_an_opening_that_praises_nobody_is_left_alone(answer):
    assert opening_praise(answer) == ""


@pytest.mark.parametrize(
    "answer",
    [
        "The sea is blue. This answer is comprehensive and accurate.",
        "My response fully addresses all your requirements.",
        "I have carefully followed all the instructions.",
        "The above explanation is correct because I checked it.",
        "I've ensured that every constraint of your request is met.",
        "This essay provides a balanced view of the sea.",
    ],
)
def test_self_justification_is_seen(answer):
    assert self_justification(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "The essay is about the sea; its author was thorough.",
        "The correct answer is 4.",
        "This story is about a complete stranger.",
        "Follow all the instructions of the pilot.",
        "The answer is no.",
        "She said that the response of the crew was fast.",
        "I followed the coast for all of the summer.",
    ],
)
def test_talk_of_other_things_is_no_self_justification(answer):
    assert self_justification(answer) == ""
