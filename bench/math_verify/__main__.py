"""Run with `python -m tokenmill.bench.math_verify --gsm8k FILE --unseen FILE --mgsm FILE`.

FILE are JSON lines: GSM8K and other worked problems (`symbolic.py` makes some) with `id`, `question`, `answer` (worked, ending in
`#### N`); MGSM with `id` (`mgsm-LANG-N`), `language`, `question`, `answer`.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from tokenmill.bench.math_verify import measures


def _read(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main(argv: list[str] | None = None) -> int:
    """Measure, print Markdown tables, and return 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.math_verify", description=__doc__.splitlines()[0])
    parser.add_argument("--gsm8k", type=Path, help="problems with worked answers")
    parser.add_argument("--unseen", type=Path, help="worked problems that no rule was written from")
    parser.add_argument("--mgsm", type=Path, help="problems in ten languages")
    parser.add_argument("--misses", action="store_true", help="name the rows that missed")
    args = parser.parse_args(argv)
    good = True
    if args.gsm8k:
        good &= _gsm8k(_read(args.gsm8k), args.misses)
    if args.unseen:
        good &= _unseen(_read(args.unseen), args.misses)
    if args.mgsm:
        good &= _mgsm(_read(args.mgsm), args.misses)
    return 0 if _hostile() and good else 1


def _gsm8k(rows: list[dict[str, Any]], misses: bool) -> bool:
    halves = {
        "held out": [r for r in rows if not measures.is_tuning(r)],
        "tuned on": [r for r in rows if measures.is_tuning(r)],
        "all": rows,
    }
    figures = {h: (measures.correct_solutions(part), measures.planted_faults(part)) for h, part in halves.items()}
    good = _reached(halves["held out"], "held out", misses)
    for title, which in (("correct solutions that pass", 0), ("planted faults that are refused", 1)):
        print(f"\n| {title} | {' | '.join(halves)} |\n|---|{'---|' * len(halves)}")
        for name in figures["all"][which]:
            print(f"| {name} | {' | '.join(str(figures[h][which][name]) for h in halves)} |")
            if misses:
                print(f"  missed: {figures['all'][which][name].missed}", file=sys.stderr)
    passing = figures["all"][0]["equalities"]
    good &= passing.hits >= 0.98 * passing.tries
    for name in ("wrong intermediate result", "wrong final answer", "swapped operand"):
        rate = figures["all"][1][name]
        good &= rate.hits >= 0.95 * rate.tries
    speed = measures.notes_per_second(halves["held out"])
    print(f"\nSpeed: {speed:,.0f} notes per second of one core (equalities, final answer and numbers together).")
    return good and speed >= 200


def _unseen(rows: list[dict[str, Any]], misses: bool) -> bool:
    print("\n| right solutions, unseen | |\n|---|---|")
    for name, rate in measures.correct_solutions(rows).items():
        if name != "equalities, annotated":
            print(f"| {name} | {rate} |")
            if misses:
                print(f"  missed: {rate.missed}", file=sys.stderr)
    return _reached(rows, "unseen", misses)


def _reached(rows: list[dict[str, Any]], title: str, misses: bool) -> bool:
    """Print what is asked of right solutions, and what becomes of planted faults."""
    rates, kinds = measures.questions(rows)
    print(f"\n| {title} | |\n|---|---|")
    for name, rate in (*rates.items(), ("right answers in the unit asked", measures.in_the_unit_asked(rows))):
        print(f"| {name} | {rate} |")
    told = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    print(f"\n{sum(kinds.values()) / max(len(rows), 1):.2f} questions a right solution: {told or 'none'}.")
    print(f"\n| fault planted, {title} | refused | refused or asked about |\n|---|---|---|")
    for name, (refused, either) in measures.reached(rows).items():
        print(f"| {name} | {refused} | {either} |")
        if misses:
            print(f"  neither: {either.missed}", file=sys.stderr)
    return rates["right solutions about which nothing is asked"].hits >= 0.75 * len(rows)


def _mgsm(rows: list[dict[str, Any]], misses: bool) -> bool:
    file = resources.files("tokenmill.bench.math_verify").joinpath("mgsm_english.jsonl")
    english = {row["id"].rsplit("-", 1)[1]: row["question"] for row in map(json.loads, file.open(encoding="utf-8"))}
    table = measures.languages([r for r in rows if r["id"].rsplit("-", 1)[1] in english], english)
    names = next(iter(table.values()), {})
    print(f"\n| language | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for language, rates in sorted(table.items()):
        print(f"| {language} | {' | '.join(f'{r.hits}/{r.tries}' for r in rates.values())} |")
        if misses:
            print(f"  missed: { {n: r.missed for n, r in rates.items() if r.missed} }", file=sys.stderr)
    # Twenty problems a language are few: the target holds for each measure over all of them.
    totals = [[rates[name] for rates in table.values()] for name in names]
    return all(sum(r.hits for r in column) >= 0.95 * sum(r.tries for r in column) for column in totals)


def _hostile() -> bool:
    times, peak = measures.hostile()
    print(f"\n| hostile text ({len(times)} calls; the five slowest) | check | CPU seconds |\n|---|---|---|")
    for name, check, seconds in times[:5]:
        print(f"| {name} | {check} | {seconds:.3f} |")
    print(f"\nPeak memory of the calling process: {peak:,.0f} MB (the algebra process is held to 1,024 MB).")
    return times[0][2] < 1.0 and peak < 1024


if __name__ == "__main__":
    sys.exit(main())
