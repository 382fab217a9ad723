"""Does a capable model, asked as `prefer` asks, rank as a reader would?

    python -m tokenmill.bench.prefer                # from recorded comparisons; prints one JSON object
    python -m tokenmill.bench.prefer --llm SPEC     # the same questions to a model of yours

`data/answers.jsonl`: 14 requests that no program can verify with a strong, a middling and a weak answer each, and 12 questions
with a right answer that names its doubts and a wrong one that is sure; written by one session of a large language model, which
saw neither prompt nor rubrics. `data/comparisons.jsonl`: what two other sessions said of every pair, each in one order of the
answers, to prompt and rubrics of version 1; neither saw the other's order.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from tokenmill.inference.call import Answer, Ask, Message, Usage
from tokenmill.inference.gather import together
from tokenmill.judges.critic.compare import FIRST, SECOND, Compare, Comparison
from tokenmill.judges.critic.rubrics import core, prescriptive

DATA = Path(__file__).with_name("data")
WORTH = {"strong": 2, "middling": 1, "weak": 0, "right_hedged": 1, "wrong_confident": 0}


def rows(name: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (DATA / name).read_bytes().splitlines()]


def pairs() -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """(request, one answer, another) of all pairs."""
    for row in rows("answers.jsonl"):
        yield from ((row, one, other) for one, other in itertools.combinations(row["answers"], 2))


def recorded() -> Ask:
    """An `ask` that gives what was said of a pair, in the order in which it is asked about."""
    texts = {(row["id"], one["name"]): one["text"] for row in rows("answers.jsonl") for one in row["answers"]}
    said = {
        (texts[row["id"], row["first"]], texts[row["id"], row["second"]]): row["said"]
        for row in rows("comparisons.jsonl")
    }

    async def ask(messages: list[Message], **_: Any) -> Answer:
        shown = str(messages[-1]["content"])
        (found,) = (value for (first, second), value in said.items() if -1 < shown.find(first) < shown.find(second))
        return Answer(json.dumps(found), "stop", Usage(), "recorded", from_cache=True)

    return ask


async def compared(ask: Ask) -> list[Comparison]:
    """What the critic says of all pairs."""
    compare = Compare((*core(), *prescriptive()))
    return await together([compare(row["prompt"], one["text"], other["text"], ask) for row, one, other in pairs()])


def figures(comparisons: list[Comparison]) -> dict[str, Any]:
    """How often the better answer won, by kind of pair, and how often the verdict turned round with the order."""
    kinds: dict[str, Counter[str]] = {"quality": Counter(), "hedged": Counter()}
    for (_, one, other), comparison in zip(pairs(), comparisons, strict=True):
        better = FIRST if WORTH[one["quality"]] > WORTH[other["quality"]] else SECOND
        kind = "hedged" if "hedged" in one["quality"] + other["quality"] else "quality"
        outcome = (
            "better_won"
            if comparison.better == better
            else "worse_won"
            if comparison.better in (FIRST, SECOND)
            else "tie"
        )
        kinds[kind][outcome] += 1
    flipped = sum(comparison.flipped for comparison in comparisons)
    return {"pairs": len(comparisons), "flipped": flipped, **{name: dict(found) for name, found in kinds.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.prefer", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--llm", metavar="SPEC", help="ask this model (default: the recorded comparisons)")
    spec = parser.parse_args().llm
    if spec is None:
        print(json.dumps(figures(asyncio.run(compared(recorded())))))
        return
    from tokenmill.inference.roles import Models, Role
    from tokenmill.inference.runtime import obtain, release

    runtime = obtain(Models({"judge": Role(spec)}, cache=str(Path("bench-prefer.sqlite")), run="bench-prefer"))
    try:
        print(json.dumps(figures(runtime.run(compared(runtime.client.ask)))))
    finally:
        release(runtime)


if __name__ == "__main__":
    main()
