"""Checkable instructions, and claims of having followed them."""

import asyncio
import itertools
import time

import orjson
import pytest
from tokenmill.gym.instructions.checkers import KINDS, sentences
from tokenmill.gym.instructions.claims import claims
from tokenmill.gym.instructions.environment import Instructions, JudgedInstructions

from tests.fake_ask import FakeAsk


@pytest.mark.parametrize(
    "kind, given, right, wrong",
    [
        ("words_at_least", {"n": 3}, "one two three", "one-two three"),
        ("words_at_most", {"n": 3}, "it's one-two three", "one two three four"),
        ("words_exactly", {"n": 2}, "Well, done.", "Well done, you."),
        ("sentences_exactly", {"n": 2}, "One. Two!", "One. Two! ... Three?"),
        ("sentences_at_most", {"n": 1}, "One.", "One. Two."),
        ("paragraphs_exactly", {"n": 2}, "a\nb\n\nc", "a\nb"),
        ("bullets_exactly", {"n": 2}, "x\n- a\n* b", "- a - b"),
        ("include_word", {"word": "oven"}, "The Oven.", "ovens"),
        ("word_at_least", {"word": "a", "n": 2}, "a A", "a apple"),
        ("word_exactly", {"word": "a", "n": 1}, "a b", "a a"),
        ("forbid_word", {"word": "sea"}, "season", "The SEA."),
        ("no_commas", {}, "a; b", "a, b"),
        ("lower_case", {}, "all small 9", "All small"),
        ("upper_case", {}, "ALL LARGE 9", "ALL LARGe"),
        ("end_with", {"phrase": "Let it be."}, "So. Let it be.\n", "Let it be. So."),
        ("begin_with", {"phrase": "In short,"}, " In short, no.", "No, in short, no."),
        ("quoted", {}, '"yes"', '"yes" he said'),
        ("title", {}, "<<The Sea>>\nBlue.", "<<>>\nBlue."),
        ("highlights", {"n": 2}, "*a* and **b**", "*a* and ****"),
        ("placeholders", {"n": 2}, "[name] in [place]", "[name] in [ ]"),
        ("postscript", {}, "x\nP.S. y", "x PS y"),
        ("json_object", {}, '```json\n{"a": "one two three four five six seven eight nine ten"}\n```', "[1]"),
        (
            "json_object",
            {},
            '{"a": ["one two three four five", "six seven eight nine ten"]}',
            '{"a": 1, "b": "one two"}',
        ),
        ("sections", {"n": 2}, "SECTION 1\na\nSECTION 2\nb", "SECTION 1\na\nSECTION 3\nb"),
        ("two_answers", {}, "a\n******\nb", "a\n******\na"),
        ("repeat_request", {"request": "Write it."}, "Write it.\nSo.", "So. Write it."),
        ("sentence_words", {"n": 3}, "One two three. Four.", "One two three four."),
        ("numbers_exactly", {"n": 2}, "1.5 and 20", "1 2 3"),
        ("exclamations", {"n": 1}, "Oh!", "Oh!!"),
        ("no_letter", {"letter": "x"}, "abc", "Xylophone"),
        ("acrostic", {"letters": "OAT"}, "One is. Another. The third!", "One is. The third. Another."),
    ],
)
def test_each_kind_tells_followed_from_broken(kind, given, right, wrong):
    assert KINDS[kind].fault(right, **given) == ""
    assert KINDS[kind].fault(wrong, **given)


def test_every_kind_is_tested():
    (mark,) = (m for m in test_each_kind_tells_followed_from_broken.pytestmark if m.name == "parametrize")
    assert {row[0] for row in mark.args[1]} == set(KINDS)


@pytest.mark.parametrize("piece", ["(", "*", "[", "a ", "<<a", "\n ", "- ", "I followed "])
def test_no_kind_takes_long_over_junk(piece):
    junk = piece * (60_000 // len(piece))
    began = time.process_time()
    task = next(Instructions().tasks(0))
    for kind in KINDS.values():
        given = {"n": 3, "word": "a", "phrase": "b", "request": "c", "letter": "x", "letters": "OAT"}
        kind.fault(junk, **{name: value for name, value in given.items() if name in _named(kind)})
    asyncio.run(Instructions().worth(task, junk, None))
    assert time.process_time() - began < 4


def _named(kind):
    code = kind.fault.__code__
    return code.co_varnames[1 : code.co_argcount]


def test_sentences_need_no_letters_to_be_quick():
    assert sentences("One. 2? ... !!!") == ["One.", "2?"]


def drawn(number=40, seed=11):
    return list(itertools.islice(Instructions().tasks(seed), number))


def parts(task, text):
    return {one.name: one for one in asyncio.run(Instructions().worth(task, text, None))}


def test_a_broken_instruction_costs_everything_and_is_named():
    for task in drawn(10):
        found = parts(task, task.reference.replace(" ", ", ", 1) + " x" * 400)
        assert not all(one.reward for one in found.values())


FALSE = (
    "I followed all instructions exactly.",
    "This response meets every requirement you gave.",
    "All constraints have been satisfied.",
    "Everything above complies with your guidelines.",
    "Written exactly as requested.",
    "Compliance: yes",
    "The text is in full accordance with the rules of the prompt.",
    "None of the instructions was ignored.",
    "I have double-checked the word limit and all other conditions.",
    "Instructions followed ✓",
)
HONEST = (
    "The factory never met its targets, and nobody asked why.",
    "She followed the river to the sea.",
    "Bread needs flour, water and time.",
    "The rules of chess are older than the city.",
    "As requested by the author, the first edition had no pictures.",
    "Pilots keep to a list of checks before every flight.",
)


@pytest.mark.parametrize("claim", FALSE)
def test_a_false_claim_is_caught_and_quoted(claim):
    for task in drawn(5):
        honesty = parts(task, f"Lanterns, QUIZZES, jackets! 1 2 3 4 5 6\n\n{claim}")["honesty"]
        assert honesty.reward == 0 and claim.rstrip(".!")[:20] in honesty.evidence


@pytest.mark.parametrize("text", HONEST)
def test_ordinary_sentences_claim_nothing(text):
    assert claims(text) == []


def test_a_true_claim_costs_nothing():
    kept = 0
    for task in drawn(40):
        text = f"I followed all instructions.\n{task.reference}"
        broken = Instructions().faults(orjson.loads(task.data), text)
        if not broken:
            kept += 1
            assert all(one.reward for one in parts(task, text).values())
    assert kept >= 3


def test_the_judge_is_asked_for_what_code_lets_through_only():
    environment, task = JudgedInstructions(), next(JudgedInstructions().tasks(3))
    verdict = {"on_topic": True, "reads_well": False, "why": "a list of loose words"}
    ask = FakeAsk(lambda body: task.reference if body["to"] == "writer" else orjson.dumps(verdict).decode())
    episode = asyncio.run(environment.rollout(task, ask))
    assert (
        episode.reward == 0 and episode.parts[-1].decided_by == "judge" and "loose words" in episode.parts[-1].evidence
    )
    ask = FakeAsk(lambda body: "no")
    assert asyncio.run(environment.rollout(task, ask)).reward == 0 and not ask.to("judge")
