"""One document on its way through the checks: what `docs/tour.md` shows.

    python examples/tour.py            # print the tour
    python examples/tour.py --write    # put what it prints into docs/tour.md

The document is `metre` of `articles.jsonl`. The models' answers are scripted, so that the tour needs none: texts that a
writer and a judge might well have written, two of them with a fault. Everything else is the product itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

logging.basicConfig(level=logging.ERROR)  # Beam warns of Google's clients, which nobody needs here
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # from a checkout, without installing

from tokenmill.inference.call import Answer, Usage  # noqa: E402
from tokenmill.judges.embedding.similarity import Similarity  # noqa: E402
from tokenmill.judges.facts.check import FactCheck  # noqa: E402
from tokenmill.judges.form.checks import FormChecks  # noqa: E402
from tokenmill.judges.form.language import detect  # noqa: E402
from tokenmill.judges.model.faithfulness import CHECK  # noqa: E402
from tokenmill.judges.structure.check import Structure  # noqa: E402
from tokenmill.pipelines.knowledge.content import kind_of  # noqa: E402
from tokenmill.pipelines.knowledge.rephrase import Rephrase  # noqa: E402
from tokenmill.pipelines.knowledge.style_pairs import draw_pairs  # noqa: E402
from tokenmill.pipelines.knowledge.writing import Checks  # noqa: E402
from tokenmill.pipelines.rollouts.chunking import Chunk, chunk, count_tokens  # noqa: E402
from tokenmill.pipelines.transforms.documents import DocumentParser  # noqa: E402
from tokenmill.schemas.knowledge import RephrasingTask  # noqa: E402
from tokenmill.schemas.verdicts import Judgement, Verdict  # noqa: E402

PAGE = HERE.parent / "docs" / "tour.md"
SEED = 19
"""Of the draw: the first that gives the document study notes, which the scripted answers are."""
CHUNK_TOKENS = 96
"""Smaller than the default of 256, so that a short document has several chunks."""

REWRITES = {
    (0, 0): """\
**Four definitions**
- The metre has had four definitions.
- 1791: the French Academy of Sciences proposed one ten-millionth of the way from the North Pole to the equator, taken along
  the meridian through Paris.
- 1792 to 1798: Jean-Baptiste Delambre and Pierre Méchain surveyed the arc from Dunkirk to Barcelona.
- 1799: a platinum bar of that length went into the archives.
  - It fell short by about 0.2 millimetres, since the flattening of the Earth had not been reckoned rightly.""",
    (1, 0): """\
**The second bar**
- 1898: the metre was now the distance between two lines on a new bar, measured at the temperature of melting ice.
- Material: 90 percent platinum, 10 percent iridium, cast by Johnson Matthey.
- Place: the International Bureau of Weights and Measures in Sèvres near Paris.
- The member states drew lots for copies.
- Weakness of a bar: it can get lost, and comparing it means travelling to it.
- 1960: new definition, 1,650,763.73 wavelengths, in a vacuum, of an orange-red line of the krypton-86 atom.""",
    (1, 1): """\
**The second bar**
- 1889: the metre was now the distance between two lines on a new bar, measured at the temperature of melting ice.
- Material: 90 percent platinum, 10 percent iridium, cast by Johnson Matthey.
- Place: the International Bureau of Weights and Measures in Sèvres near Paris.
- The member states drew lots for copies.
- Weakness of a bar: it can get lost, and comparing it means travelling to it.
- 1960: new definition, 1,650,763.73 wavelengths, in a vacuum, of an orange-red line of the krypton-86 atom.""",
    (1, 2): """\
**The second bar**
- 1889: the metre was now the distance between two lines on a new bar, measured at the temperature of melting ice.
- Material: 90 percent platinum, 10 percent iridium.
- Place: the International Bureau of Weights and Measures in Sèvres near Paris.
- The member states drew lots for copies.
- Weakness of a bar: it can get lost, and comparing it means travelling to it.
- 1960: new definition, 1,650,763.73 wavelengths, in a vacuum, of an orange-red line of the krypton-86 atom.""",
    (2, 0): """\
**Light as the measure**
- Since 1983: the metre is how far light gets in a vacuum in 1/299,792,458 of a second.
- Nobody has to measure the speed of light any more: by definition it is exactly 299,792,458 metres per second.
- Whoever measures time precisely can make a metre, and laboratories everywhere do so daily.""",
    (2, 1): """\
**Light as the measure**
- Since 1983: the metre is how far light gets in a vacuum in 1/299,792,458 of a second.
- Nobody has to measure the speed of light any more: by definition it is exactly 299,792,458 metres per second.
- Whoever measures time precisely can make a metre, too.""",
}
"""What the writer answers for each (chunk, attempt)."""
COMPLAINT = {
    "answers": [{"question": 1, "verdict": "added"}],
    "unsupported": [
        {
            "claim": "The source does not say that laboratories make metres, let alone daily.",
            "source_quote": "",
            "rewrite_quote": "laboratories everywhere do so daily",
            "severity": "major",
        },
        {
            "claim": "The source does not call light fast.",
            "source_quote": "",
            "rewrite_quote": "light, the fastest thing there is",
            "severity": "major",
        },
    ],
    "missing": [],
    "seams": [],
    "form_kept": True,
    "form_fault": "",
}
"""What the judge answers about the first writing of the last chunk. The quotation of its second claim stands nowhere."""
CONTENT = {"answers": [], "unsupported": [], "missing": [], "seams": [], "form_kept": True, "form_fault": ""}


class Scripted:
    """Plays writer and judge; the rollout takes it for the endpoint."""

    def __init__(self, chunks: Sequence[Chunk] = ()) -> None:
        self.chunks = chunks
        self.calls: list[str] = []
        self.prompts: list[str] = []

    async def __call__(self, messages: list[dict[str, str]], *, to: str = "writer", **_: Any) -> Answer:
        asked = messages[-1]["content"]
        self.prompts.append(asked)
        if to == "judge":
            texts = messages[1]["content"]
            text = json.dumps(COMPLAINT if "laboratories everywhere" in texts else CONTENT)
            judged = re.search(r"<rewrite-(\w+)>\n.*?</rewrite-\1>", texts, re.DOTALL)[0]
            read = [
                f"chunk {index}, attempt {number}" for (index, number), text_ in REWRITES.items() if text_ in judged
            ]
            again = ", asked for its quotations" if len(messages) > 2 else ""
            self.calls.append(f"judge   reads {'; '.join(read)}{again}")
        else:
            passage = re.search(r"<passage-.*</passage-\w+>", asked, re.DOTALL)[0]
            index = next(n for n, part in enumerate(self.chunks) if part.body in passage)
            tried = f"writer  writes chunk {index}, attempt "
            number = sum(call.startswith(tried) for call in self.calls)
            text = REWRITES[index, number]
            self.calls.append(f"{tried}{number}")
        prompt = sum(count_tokens(message["content"]) for message in messages)
        return Answer(text, "stop", Usage(prompt, count_tokens(text)), "scripted")


def document() -> Any:
    """The document, read as the pipeline reads it."""
    rows = [json.loads(line) for line in (HERE / "articles.jsonl").read_text(encoding="utf-8").splitlines()]
    number = next(number for number, row in enumerate(rows) if row["id"] == "metre")
    return DocumentParser()(rows[number], "articles.jsonl", number)


async def tour() -> dict[str, str]:
    """What each stop shows, by its name."""
    metre = document()
    tokens = count_tokens(metre.text)
    kind = kind_of(metre.text, tokens)
    style, perspective = draw_pairs(1, SEED, metre.id, kind, tokens)[0]
    chunks = chunk(metre.text, CHUNK_TOKENS, metre.language)
    step = Rephrase("scripted", "scripted", seed=SEED, chunk_tokens=CHUNK_TOKENS, checks=Checks())
    task = RephrasingTask(metre, 0, style, perspective, kind)
    first, second = chunks[1].body, chunks[2].body
    shown: dict[str, str] = {}

    shown["document"] = (
        f"id {metre.id}, title {metre.title!r}, {len(metre.text.split())} words, language {metre.language}, "
        f"licence {metre.license}\nlanguage as it would be detected: {detect(metre.text)}\n\n{_wrapped(metre.text)}"
    )
    shown["draw"] = f"kind {kind}, {tokens} tokens\n{style}\n{perspective}"
    shown["chunks"] = "\n".join(f"chunk {n}: {c.tokens:3} tokens  {c.body[:70]}…" for n, c in enumerate(chunks))
    messages = step.messages(task, chunks, 1, chunks[0].text, REWRITES[0, 0])
    shown["prompt"] = f"# user\n{messages[1]['content']}"

    def cheap_checks(source: str, rewrite: str) -> list[Verdict]:
        form = FormChecks()(source, rewrite, language=metre.language)
        return [*form, Structure()(source, rewrite, metre.title), FactCheck()(source, rewrite, metre.title)]

    refused = cheap_checks(first, REWRITES[1, 0])
    shown["first"] = f"{REWRITES[1, 0]}\n\n{_verdicts(refused)}"
    ask = Scripted(chunks)
    outcome = await step(task, ask)
    again = ask.prompts[ask.calls.index("writer  writes chunk 1, attempt 1")]
    shown["corrections"] = re.search(r"<corrections-.*</corrections-\w+>", again, re.DOTALL)[0]
    mended = [*cheap_checks(first, REWRITES[1, 1]), await Similarity()(first, REWRITES[1, 1])]
    shown["second"] = _verdicts(mended)

    passed = [*cheap_checks(second, REWRITES[2, 0]), await Similarity()(second, REWRITES[2, 0])]
    shown["claim"] = f"{REWRITES[2, 0]}\n\n{_verdicts(passed)}"
    judged = next(prompt for prompt in ask.prompts if "<questions-" in prompt)
    shown["questions"] = re.search(r"<questions-.*</questions-\w+>", judged, re.DOTALL)[0]
    shown["seams"] = re.search(r"<seams-.*</seams-\w+>", judged, re.DOTALL)[0]
    shown["judged"] = _verdicts([v for v in outcome.row.verdicts if v.check == CHECK and not v.passed])

    shown["calls"] = "\n".join(f"{number:2}  {call}" for number, call in enumerate(ask.calls, 1))
    row = outcome.row
    columns = (
        "id",
        "source_kind",
        "style",
        "perspective",
        "prompts",
        "source_tokens",
        "tokens",
        "length_ratio",
        "copy_rate",
    )
    columns += ("minor_faults", "chunks", "attempts", "prompt_tokens", "completion_tokens")
    shown["row"] = "\n".join(
        [type(row).__name__, *(f"  {name:<18} {getattr(row, name)}" for name in columns), "  verdicts"]
        + [
            f"    {v.check:<13} chunk {v.chunk:2}  attempt {v.attempt}  {v.score:.2f}  {v.reason or 'passed'}"
            for v in row.verdicts
        ]
    )
    shown["text"] = row.text
    return shown


def _verdicts(verdicts: Sequence[Verdict | Judgement]) -> str:
    lines = []
    for verdict in verdicts:
        lines.append(f"{verdict.check:<13} {verdict.score:.2f}  {'passed' if verdict.passed else verdict.reason}")
        lines += [f"{'':15} {finding.kind}: {finding.detail}" for finding in verdict.findings]
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return "\n\n".join(textwrap.fill(paragraph, 110) for paragraph in text.split("\n\n"))


def fill(page: str, shown: dict[str, str]) -> str:
    """A page whose blocks between `<!-- tour: NAME -->` and `<!-- end -->` are what the tour shows.

    Raises:
        KeyError: a block that the tour does not have.
    """

    def block(match: re.Match[str]) -> str:
        return f"<!-- tour: {match[1]} -->\n\n```text\n{shown[match[1]]}\n```\n\n<!-- end -->"

    return re.sub(r"<!-- tour: (\w+) -->.*?<!-- end -->", block, page, flags=re.DOTALL)


if __name__ == "__main__":
    made = asyncio.run(tour())
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")
    else:
        print("\n\n".join(f"== {name}\n\n{text}" for name, text in made.items()))
