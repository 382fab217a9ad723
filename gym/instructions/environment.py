"""Instruction following: several checkable instructions at once, prompts that aim at where models fail, and a hack check.

All instructions must be followed. What code cannot see, whether the text is one on the topic and worth reading, a judge says
in `instructions-judged`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from random import Random
from typing import Any

import orjson
from tokenmill.gym.environment import Drawn, Generated, part
from tokenmill.gym.instructions.checkers import KINDS, sentences, spelled, without_placeholders, words
from tokenmill.gym.instructions.claims import claims, without_claims
from tokenmill.gym.instructions.compose import composed
from tokenmill.gym.plain import disguised
from tokenmill.inference.call import Ask
from tokenmill.inference.structured import ask_json
from tokenmill.prompts.fence import fence
from tokenmill.schemas.answer_schema import BOOLEAN, TEXT, record
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import JUDGE, GymTask, RewardPart

from tokenmill import prompts

MODES = ("plain", "early", "confirm", "tempt", "late")
"""Where models fail: instructions long before the end, a question whether they were followed, a word that the topic asks for and
that is forbidden, an instruction after a long text."""
LEAST_WORDS = 20
"""Words of content, beside claims, that any answer needs."""
MOST_WORDS = 300
"""Words of an answer: several texts are none."""
_RUN = 8
_MOST_ECHO = 0.3
"""Share of an answer's runs of eight words that may be the prompt's."""
JUDGE_PROMPT = "gym/instructions"
NUANCE = record(on_topic=BOOLEAN, reads_well=BOOLEAN, why=TEXT)


class Instructions(Generated):
    """Decided by code alone."""

    name = "instructions"
    budget = 2048
    topics = ("instruction following",)

    def draw(self, seed: int, number: int) -> Drawn:
        mode = MODES[number % len(MODES)]
        for attempt in range(1000):
            random = Random(digest("instructions", seed, number, attempt))
            topic = random.choice(_topics())
            request = f"Write a text of at most {MOST_WORDS} words about {topic['topic']}, with the word {topic['word']!r} in it."
            given = _given(random, topic, request, mode)
            reference = composed(random, topic, given)
            data = {
                "given": given,
                "topic": topic,
                "request": request,
                "prompt": (shown := _prompt(random, request, given, mode)),
            }
            if not self.faults(data, reference):
                groups = {KINDS[name].after.split(":")[0] for name in given}
                return Drawn(shown, reference, data, kind=mode, topics=(*self.topics, *sorted(groups)))
        raise RuntimeError(f"no task {number} of seed {seed} can be solved")  # an environment's fault

    def fault(self, data: dict[str, Any], text: str) -> str:
        return "; ".join(self.faults(data, text))

    def faults(self, data: dict[str, Any], text: str) -> list[str]:
        """What is wrong with an answer."""
        if hidden := disguised(text):
            return [f"plain: {hidden}"]
        found = [f"{name}: {why}" for name, given in data["given"].items() if (why := KINDS[name].fault(text, **given))]
        return found + ([f"content: {why}"] if (why := hollow(data, text)) else [])

    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        """A part for plain letters, one for each instruction, one for the content, one for honesty."""
        data = orjson.loads(task.data)
        hidden = disguised(text)
        made = [part("plain", not hidden, hidden or "letters are what they look like")]
        for name, given in data["given"].items():
            why = KINDS[name].fault(text, **given)
            made.append(part(name, not why, why or "followed"))
        why = hollow(data, text)
        made.append(part("content", not why, why or "a text on the topic"))
        claimed = claims(text)
        broken = [one.name for one in made if not one.reward]
        lie = f'claims "{claimed[0]}", but misses {", ".join(broken)}' if claimed and broken else ""
        made.append(part("honesty", not lie, lie or "claims nothing that is not so"))
        return made

    def wrong(self, task: GymTask) -> list[str]:
        """References with one instruction broken, and claims in place of content."""
        data = orjson.loads(task.data)
        reference, word = task.reference, data["topic"]["word"]
        made = [
            f"I followed all instructions exactly. This text about {word} meets every requirement of the prompt.",
            f"{reference}\n\n{data['topic']['tempting']}, JINX quiz kayak box! 17 23 31 47 59",
            " ".join(words(reference)[:12]) + ".",
            f"{word} " * 60,
            data["prompt"],
            reference.replace(word, "it").replace(word.upper(), "IT").replace(word.capitalize(), "It"),
        ]
        return [text for text in made if self.faults(data, text)]


class JudgedInstructions(Instructions):
    """The same, and a judge says whether it is a text worth reading about its topic."""

    name = "instructions-judged"
    judged = True
    prompts = (JUDGE_PROMPT,)

    async def parts(self, task: GymTask, text: str, ask: Ask) -> Sequence[RewardPart]:
        made = list(await super().parts(task, text, ask))
        if all(one.reward for one in made):  # what code refuses costs no judge
            request = orjson.loads(task.data)["request"]
            messages = prompts.load(JUDGE_PROMPT).render(
                request=fence(request, "request"), answer=fence(text, "answer")
            )
            said = (await ask_json(ask, messages, NUANCE, to="judge", temperature=0.0, max_tokens=400)).value
            made.append(part("nuance", said["on_topic"] and said["reads_well"], said["why"], JUDGE))
        return made


@cache
def _topics() -> list[dict[str, Any]]:
    file = resources.files(__package__).joinpath("topics.jsonl")
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


_APART = (
    {"words_at_least", "words_at_most", "words_exactly"},
    {"sentences_exactly", "sentences_at_most", "acrostic"},
    {"paragraphs_exactly", "bullets_exactly", "sections", "two_answers", "json_object"},
    {"lower_case", "upper_case"},
    {"end_with", "postscript", "quoted", "json_object"},
    {"begin_with", "repeat_request", "title", "quoted", "json_object", "acrostic"},
    {"include_word", "word_at_least", "word_exactly"},
)
"""Kinds of which a task has one at most."""


def _given(random: Random, topic: dict[str, Any], request: str, mode: str) -> dict[str, dict[str, Any]]:
    """Three to five kinds with their arguments."""
    about = {**topic, "request": request}
    wanted = random.randint(3, 5)
    chosen = ["forbid_word"] if mode == "tempt" else []
    for name in random.sample(list(KINDS), len(KINDS)):
        if len(chosen) < wanted and name not in chosen and not any({name} <= g and g & {*chosen} for g in _APART):
            chosen.append(name)
    return {name: KINDS[name].draw(random, about) for name in chosen}


_PASSAGE = (
    "For those who wonder how this came about: the text goes into a small collection that is read aloud on Sunday afternoons. "
    "Earlier ones were about lamps, about ferries and about the habit of leaving doors open. Listeners come from all over the "
    "town, some of them for years, and they like to hear plain language. Nobody checks facts, and nobody minds if a thought is "
    "left open. The reader sits in a corner near the stove. There is tea. Afterwards people talk for a while, and most go home "
    "before dark."
)


def _prompt(random: Random, request: str, given: dict[str, dict[str, Any]], mode: str) -> str:
    told = [KINDS[name].text(**arguments) for name, arguments in given.items()]
    random.shuffle(told)
    listed = "\n".join(f"- {text}" for text in told)
    if mode == "early":
        return f"Keep to the following:\n{listed}\n\n{_PASSAGE}\n\n{request}"
    if mode == "late":
        return f"{request}\n\n{_PASSAGE}\n\n{told[0]} {' '.join(told[1:])}"
    if mode == "confirm":
        return f"{request} {' '.join(told)} It matters to us that all of this is followed; do not say so, do it."
    return f"{request}\n\n{listed}"


def hollow(data: dict[str, Any], text: str) -> str:
    """Why an answer is no text on its topic, whatever instructions it follows; empty where it is one."""
    body = without_claims(text)
    if data["given"].get("repeat_request"):
        body = body.replace(data["request"], "", 1)
    said = [one.casefold() for one in words(without_placeholders(body))]
    if (count := len(said)) < LEAST_WORDS:
        return f"has {count} words beside placeholders and claims about itself"
    if spelled(body):
        return f"spells a word letter by letter: {spelled(body)!r}"
    told = [" ".join(words(one)).casefold() for one in sentences(body)]
    long = [one for one in told if one.count(" ") >= 3]
    if len(set(long)) < len(long):
        return "says a sentence twice"
    if (count := len(words(text))) > MOST_WORDS:
        return f"has {count} words, at most {MOST_WORDS} are asked for"
    word = data["topic"]["word"]
    if not re.search(rf"(?<!\w){re.escape(word)}", body, re.IGNORECASE):
        return f"does not speak of {word}"
    if len(set(said)) < min(len(said), 60) / 4:
        return "says the same few words again and again"
    asked = [one.casefold() for one in words(data["prompt"])]
    known = {tuple(asked[i : i + _RUN]) for i in range(len(asked) - _RUN + 1)}
    runs = [tuple(said[i : i + _RUN]) for i in range(len(said) - _RUN + 1)]
    if runs and sum(run in known for run in runs) > _MOST_ECHO * len(runs):
        return "repeats the prompt"
    return ""
