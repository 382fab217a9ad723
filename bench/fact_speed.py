"""How long does the fact check take for a paraphrase, on one core?

    python -m tokenmill.bench.fact_speed

The pairs are the fidelity bench's honest ones: Wikipedia paraphrases, and the foreign set by language. In each pass the texts
end in other white space, so that the check remembers none of them; `questions` of a pair just checked shares the reading with
the check, as in the pipeline.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tokenmill.bench.fidelity.cases import Case, foreign_cases, planted_cases
from tokenmill.bench.fidelity.data import HALVES
from tokenmill.judges.facts.check import FactCheck, questions

REPEATS = 3


def microseconds(cases: Sequence[Case]) -> tuple[float, float]:
    """Processor time per pair of the check, and of `questions` after it; each the best of `REPEATS` passes."""
    check, best = FactCheck(), [float("inf")] * 2
    for number in range(REPEATS + 1):
        spent = [0.0, 0.0]
        for case in cases:
            told = (case.source + " " * number, case.rewrite + " " * number, case.title, case.language)
            start = time.process_time()
            check(*told)
            between = time.process_time()
            questions(*told)
            spent[0] += between - start
            spent[1] += time.process_time() - between
        if number:  # the first pass also loads the tables of the language
            best = [min(pair) for pair in zip(best, spent, strict=True)]
    return best[0] / len(cases) * 1e6, best[1] / len(cases) * 1e6


def main() -> None:
    groups = {"en, Wikipedia": [case for half in HALVES for case in planted_cases(half) if not case.faulty]}
    for case in (case for half in HALVES for case in foreign_cases(half) if not case.faulty):
        groups.setdefault(case.language, []).append(case)
    print("| pairs | | characters of a source | FactCheck, µs | questions, µs |\n|---|---|---|---|---|")
    for name, cases in groups.items():
        length = sum(len(case.source) for case in cases) / len(cases)
        first, second = microseconds(cases)
        print(f"| {name} | {len(cases)} | {length:.0f} | {first:.0f} | {second:.0f} |")


if __name__ == "__main__":
    main()
