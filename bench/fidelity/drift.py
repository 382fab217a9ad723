"""What does the embedding check catch that no other does, and which of its verdicts need the transformer?

    python -m tokenmill.bench.fidelity.drift [--half dev] [--paraphrases 200]

A rewrite on something else is an honest version of another passage: of another article (planted set), of the same article, or of
another passage in the same language (foreign set). All are drawn by hash.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tokenmill.bench.fidelity.cases import Case, foreign_cases, planted_cases
from tokenmill.bench.fidelity.data import HALVES
from tokenmill.bench.fidelity.table import Table
from tokenmill.judges.embedding import static
from tokenmill.judges.embedding.similarity import Similarity
from tokenmill.judges.facts.check import FactCheck
from tokenmill.judges.form.checks import FormChecks
from tokenmill.schemas.draws import shuffled
from tokenmill.schemas.verdicts import first_refusal

COLUMNS = ("form or facts", "embeddings", "embeddings alone", "settled by words", "of those refused by the transformer")


@dataclass(frozen=True)
class Outcome:
    """What the checks make of one pair."""

    code: bool
    """Whether form or facts refuse it;"""
    transformer: bool
    """whether the transformer would, if it read every pair;"""
    words: bool
    """and whether the pair passes by its words alone."""

    @property
    def embeddings(self) -> bool:
        """Whether the embedding check refuses it."""
        return self.transformer and not self.words

    def columns(self) -> dict[str, bool]:
        row = dict(
            zip(COLUMNS, (self.code, self.embeddings, self.embeddings and not self.code, self.words), strict=False)
        )
        return row | ({COLUMNS[4]: self.transformer} if self.words else {})


def groups(half: str, paraphrases: int) -> Iterator[tuple[str, list[Case]]]:
    """Names and pairs: honest ones, and rewrites on something else."""
    every = [case for case in planted_cases(half) if not case.faulty]
    some = shuffled(every, "drift", first=paraphrases)
    yield "planted, honest", some
    yield "planted, another article", _exchanged(some, every, lambda a, b: a.title != b.title)
    yield "planted, same article", _exchanged(some, every, lambda a, b: a.title == b.title and a.source != b.source)
    foreign = foreign_cases(half)
    for language in dict.fromkeys(case.language for case in foreign):
        mine = [case for case in foreign if case.language == language]
        honest = [case for case in mine if not case.faulty]
        yield f"foreign, {language}, honest", honest
        yield f"foreign, {language}, with a slip", [case for case in mine if case.faulty]
        yield f"foreign, {language}, another passage", _exchanged(honest, honest, lambda a, b: a.source != b.source)


def _exchanged(cases: Sequence[Case], others: Sequence[Case], fits: Callable[[Case, Case], bool]) -> list[Case]:
    """The cases with the rewrite of another that fits, drawn by hash."""
    found = []
    for case in cases:
        fitting = [other for other in others if fits(case, other)]
        if fitting:
            (other,) = shuffled(fitting, "drift", case.id, first=1)
            found.append(replace(case, rewrite=other.rewrite))
    return found


async def outcomes(cases: Sequence[Case]) -> list[Outcome]:
    """What the checks make of each pair."""
    check, reads_all = Similarity(), Similarity(alike=2.0)
    form, facts = FormChecks(), FactCheck()
    judged = await asyncio.gather(*(reads_all(case.source, case.rewrite) for case in cases))
    found = []
    for case, verdict in zip(cases, judged, strict=True):
        told = (case.source, case.rewrite)
        verdicts = [*form(*told, language=case.language, context=case.title), facts(*told, case.title, case.language)]
        likeness = static.cosine(*told)
        words = likeness is not None and likeness >= check.alike
        found.append(Outcome(first_refusal(verdicts) is not None, not verdict.passed, words))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.bench.fidelity.drift", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--half", choices=HALVES, default="dev")
    parser.add_argument("--paraphrases", type=int, default=200, help="of the planted set, drawn by hash")
    args = parser.parse_args(argv)
    table = Table("text", COLUMNS)
    for name, cases in groups(args.half, args.paraphrases):
        for outcome in asyncio.run(outcomes(cases)):
            table.count(name, outcome.columns())
    print(table.markdown())


if __name__ == "__main__":
    main()
