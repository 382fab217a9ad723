"""Logic riddles with exactly one answer, drawn by code: none is anybody's joke, so none can be known by heart.

Every answer is a whole arrangement, so that a guess is right at most once in a hundred times.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import orjson
from tokenmill.gym.answers import LINE, stated
from tokenmill.gym.environment import Drawn, Generated
from tokenmill.gym.puzzles.words import NAMES
from tokenmill.schemas.draws import digest
from tokenmill.schemas.gym import GymTask

PEOPLE, ISLANDERS = 5, 7
Arrangement = tuple[str, ...]
_LIST = re.compile(r"(?:\d[.)] *)?[^\W\d_]+(?:(?: *[,;>→–-] *(?:and )?| +and +| +)(?:\d[.)] *)?[^\W\d_]+)*")
"""Names with one kind of sign or another between, perhaps numbered."""
Clue = tuple[str, Callable[[Arrangement], bool]]


class Riddles(Generated):
    """Who stands where in a queue, and who of the islanders lies."""

    name = "riddles"
    budget = 8192
    topics = ("logic", "deduction")

    def draw(self, seed: int, number: int) -> Drawn:
        random = Random(digest(self.name, seed, number))
        return _islanders(random) if number % 2 else _queue(random)

    def fault(self, data: dict[str, Any], text: str) -> str:
        line = stated(text)
        if not _LIST.fullmatch(line.replace("*", "")):
            return "is no list of names"
        said = [word.casefold() for word in re.findall(r"[^\W\d_]+", line) if word.casefold() != "and"]
        if (numbers := re.findall(r"\d+", line)) and numbers != [str(n + 1) for n in range(len(said))]:
            return f"numbers the names {', '.join(numbers)}"
        wanted = [word.casefold() for word in data["answer"]]
        if data["kind"] == "islanders":
            said = sorted(said) if len(said) == len(set(said)) else []
        return "" if said == wanted else f"not {' '.join(data['answer'])}"

    def wrong(self, task: GymTask) -> list[str]:
        data = orjson.loads(task.data)
        answer = data["answer"]
        made = [answer[:-1], [*answer, answer[0]]]
        if data["kind"] == "queue":
            made += [answer[::-1], [answer[1], answer[0], *answer[2:]], sorted(answer, key=lambda n: n[::-1])]
        else:
            others = [name for name in data["people"] if name.casefold() not in {a.casefold() for a in answer}]
            made += [others, data["people"], [*answer, *others[:1]]]
        right = sorted(answer) if data["kind"] == "islanders" else answer
        return [
            f"Answer: {', '.join(m)}" for m in made if m and (sorted(m) if data["kind"] == "islanders" else m) != right
        ]


def _queue(random: Random) -> Drawn:
    people = random.sample(NAMES, PEOPLE)
    truth = tuple(random.sample(people, PEOPLE))
    left = list(itertools.permutations(people))
    chosen: list[str] = []
    clues = _queue_clues(truth, people)
    random.shuffle(clues)
    for text, holds in clues:
        fits = [one for one in left if holds(one)]
        if len(fits) < len(left):
            left, chosen = fits, [*chosen, text]
        if len(left) == 1:
            break
    told = "\n".join(f"- {text}" for text in chosen)
    prompt = (
        f"{', '.join(sorted(people))} stand in a queue, one behind the other.\n{told}\nIn which order do they stand? Give the "
        f"names from the front to the back, with commas between. {LINE}"
    )
    return Drawn(
        prompt, f"Answer: {', '.join(truth)}", {"kind": "queue", "answer": truth, "people": people}, kind="queue"
    )


def _queue_clues(truth: Arrangement, people: list[str]) -> list[Clue]:
    at = {name: place for place, name in enumerate(truth)}
    clues: list[Clue] = []
    for a, b in itertools.permutations(people, 2):
        gap = at[b] - at[a]
        if gap > 0:
            clues.append((f"{a} stands somewhere in front of {b}.", partial(_in_front, a, b)))
        if gap == 1:
            clues.append((f"{a} and {b} stand next to each other.", partial(_apart, a, b, 1)))
        elif gap > 1:
            between = "stands one person" if gap == 2 else f"stand {gap - 1} people"
            clues.append((f"Between {a} and {b} {between}.", partial(_apart, a, b, gap)))
    for name in people:
        for place, word in ((0, "at the front"), (PEOPLE - 1, "at the back")):
            if at[name] != place:
                clues.append((f"{name} does not stand {word}.", partial(_not_at, name, place)))
    return clues


def _in_front(a: str, b: str, queue: Arrangement) -> bool:
    return queue.index(a) < queue.index(b)


def _apart(a: str, b: str, gap: int, queue: Arrangement) -> bool:
    return abs(queue.index(a) - queue.index(b)) == gap


def _not_at(name: str, place: int, queue: Arrangement) -> bool:
    return queue.index(name) != place


def _islanders(random: Random) -> Drawn:
    """Everybody always lies or never does, and says something of others."""
    people = random.sample(NAMES, ISLANDERS)
    while True:
        honest = {name: random.random() < 0.5 for name in people}
        if not 2 <= sum(honest.values()) <= ISLANDERS - 2:
            continue
        said = [_statement(random, name, people, honest) for name in people]
        worlds = [
            world
            for bits in itertools.product((False, True), repeat=ISLANDERS)
            if all(
                test(world := dict(zip(people, bits, strict=True))) == world[name]
                for name, (_, test) in zip(people, said, strict=True)
            )
        ]
        if len(worlds) == 1:
            break
    liars = sorted((name for name in people if not honest[name]), key=str.casefold)
    told = "\n".join(f'- {name} says: "{text}"' for name, (text, _) in zip(people, said, strict=True))
    prompt = (
        f"On an island everybody either always tells the truth or always lies. You meet {ISLANDERS} islanders:\n{told}\nWho of "
        f"them lie? Give all their names, with commas between. {LINE}"
    )
    return Drawn(
        prompt,
        f"Answer: {', '.join(liars)}",
        {"kind": "islanders", "answer": liars, "people": people},
        kind="islanders",
    )


def _statement(
    random: Random, speaker: str, people: list[str], honest: dict[str, bool]
) -> tuple[str, Callable[[dict[str, bool]], bool]]:
    a, b = random.sample([name for name in people if name != speaker], 2)
    forms: list[tuple[str, Callable[[dict[str, bool]], bool]]] = [
        (f"{a} lies.", lambda w: not w[a]),
        (f"{a} tells the truth.", lambda w: w[a]),
        (f"{a} and {b} are of the same kind.", lambda w: w[a] == w[b]),
        (f"{a} lies, and so does {b}.", lambda w: not w[a] and not w[b]),
        (f"At least one of {a} and {b} tells the truth.", lambda w: w[a] or w[b]),
        (f"{a} tells the truth, but {b} lies.", lambda w: w[a] and not w[b]),
    ]
    fitting = [form for form in forms if form[1](honest) == honest[speaker]]
    return random.choice(fitting)
