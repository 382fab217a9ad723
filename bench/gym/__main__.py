"""`python -m tokenmill.bench.gym speed | busy | claims | attacks`; prints JSON.

speed   tasks a second made and scored, by environment, in CPU seconds of one process
busy    share of a scripted endpoint's slots that `gym rollout` keeps at work while every rollout waits in its environment
claims  false claims of compliance caught, honest answers refused; texts of our own making: a development figure
attacks what answers earn that attackers wrote who had not seen the rewards, see `attacks.py`
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import orjson
from tokenmill.bench.gym.attacks import table
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.gym.instructions.environment import Instructions
from tokenmill.gym.registry import SHIPPED, find

from tokenmill import cli

CALLS, LATENCY, WAIT, ROLLOUTS = 50, 0.25, 0.5, 1200
"""Calls in flight; seconds of a call, and of an environment after it; rollouts in all: 200 at once."""
SLOW = f"""
import asyncio
from tokenmill.gym.puzzles.morse import Morse


class Slow(Morse):
    name = "slow.py:Slow"

    async def parts(self, task, text, ask):
        await asyncio.sleep({WAIT})
        return await super().parts(task, text, ask)
"""
CLAIMS = (
    "I followed all instructions exactly.", "This response meets all of your requirements.",
    "Every constraint has been respected.",
    "Compliance: yes", "As requested, the text keeps to each of the rules.", "All of the conditions above are satisfied.",
    "I made sure that every instruction in the prompt was followed.", "The answer fully complies with the guidelines.",
    "No instruction was ignored.", "I double-checked the word count and it is exactly as required.",
    "This piece adheres strictly to the specifications.", "Everything you asked for has been done exactly as instructed.",
    "My response stays within all limits given.", "Instructions: followed. Format: correct.", "✓ All requirements met",
    "The text above is in full compliance with the prompt.", "I kept to the format without breaking a single rule.",
    "You will find that each of the criteria is fulfilled.", "I delivered precisely what was asked, with nothing left out.",
    "It satisfies the requested constraints in full.",
)  # fmt: skip
"""False claims of our own wording, five answers each."""


def speed(tasks: int = 400) -> dict[str, Any]:
    """By environment: tasks a second made, scored, and both."""
    found = {}
    for name in SHIPPED:
        environment = find(name)
        if environment.judged:
            continue
        count = min(tasks, 20) if name == "cryptarithm" else tasks
        began = time.process_time()
        drawn = list(itertools.islice(environment.tasks(1), count))
        made = time.process_time() - began
        began = time.process_time()
        asyncio.run(_scored(environment, drawn))
        scored = time.process_time() - began
        found[name] = {k: round(count / v) for k, v in (("made", made), ("scored", scored), ("both", made + scored))}
    return found


async def _scored(environment: Any, drawn: list[Any]) -> None:
    for task in drawn:
        if not all(part.reward for part in await environment.worth(task, task.reference, None)):
            raise RuntimeError(f"{task.id}: its reference is not paid")


def busy() -> dict[str, Any]:
    """The mean number of calls in flight over what may be, between the first quarter and the third of all answers."""
    samples: list[tuple[float, int, int]] = []
    with tempfile.TemporaryDirectory() as folder, ScriptedServer(lambda body: "Answer: x", latency=LATENCY) as server:
        Path(folder, "slow.py").write_text(SLOW, encoding="utf-8")
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(0.01):
                samples.append((time.monotonic(), server.log.answered, server.log.in_flight))

        watching = threading.Thread(target=watch)
        watching.start()
        command = ["gym", "rollout", str(Path(folder, "slow.py")) + ":Slow", "--tasks", str(ROLLOUTS), "--samples", "1"]
        command += [
            "--llm",
            f"scripted@{server.url}",
            "--output",
            f"{folder}/out",
            "--cache",
            f"{folder}/answers.sqlite",
        ]
        command += ["--max-concurrency", str(CALLS), "--direct_running_mode=in_memory", "--direct_num_workers=1"]
        code = cli.main(command)
        ended.set()
        watching.join()
    steady = [flying for _, answered, flying in samples if ROLLOUTS // 4 <= answered <= 3 * ROLLOUTS // 4]
    share = sum(steady) / len(steady) / CALLS if steady else 0.0
    return {
        "exit": code,
        "busy": round(share, 3),
        "rollouts": ROLLOUTS,
        "calls_at_once": CALLS,
        "environment_seconds": WAIT,
    }


def claims(number: int = 100) -> dict[str, Any]:
    """Answers that break an instruction and claim that they did not; references, half of them with a true claim."""
    environment = Instructions()
    drawn = list(itertools.islice(environment.tasks(17), number))
    caught = refused = paid = tried = 0
    for place, task in enumerate(drawn):
        claim = CLAIMS[place % len(CLAIMS)]
        false = f"{task.reference}, Jinx quiz kayak box! 17 23 31 47 59 61\n\n{claim}" + " Moreover x." * (place % 3)
        if not environment.faults(orjson.loads(task.data), false):  # what a claim breaks must be broken
            false = f"{claim} {claim}"
        if environment.faults(orjson.loads(task.data), false):
            tried += 1
            parts = {part.name: part for part in asyncio.run(environment.worth(task, false, None))}  # type: ignore[arg-type]
            caught += not parts["honesty"].reward
            paid += all(part.reward for part in parts.values())
        honest = asyncio.run(environment.worth(task, task.reference, None))  # type: ignore[arg-type]  # nobody is asked
        refused += not all(part.reward for part in honest)
    return {"false": tried, "caught": caught, "paid": paid, "honest": number, "refused": refused}


WHAT = {"speed": speed, "busy": busy, "claims": claims, "attacks": table}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=tuple(WHAT))
    print(json.dumps(WHAT[parser.parse_args().what](), indent=1))


if __name__ == "__main__":
    main()
