"""`tools evolve` at size, against a scripted model: cost per tool, and what becomes of repetitions that were planted.

    python -m tokenmill.bench.tools.evolve [--categories 10 --domains 10 --tools 20] [--output DIR]

The real command runs as users give it, both stages, with its real de-duplication. The scripted model
(`bench/servers/evolver.py`) repeats on purpose: names and contents of siblings, which the writing itself must notice,
and tools of other domains, which only curation can. What is one and the same follows from the names that it gives, so
every merge can be checked. Prints Markdown; returns 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tokenmill.bench.servers.evolver import Evolver, meaning
from tokenmill.bench.servers.scripted import ScriptedServer, completion
from tokenmill.pipelines.rollouts.chunking import count_tokens

from tokenmill import cli

SHARES = {"domains": 0.05, "siblings": 0.05, "reworded": 0.05, "across": 0.05, "broken": 0.05}
"""Planted, as shares of domains or tools."""
_FINDING = re.compile(r"^- ([a-z0-9_]+): (.+)$", re.MULTILINE)


class Endpoint:
    """The scripted model with tokens counted, and a look at what it was told to mend."""

    def __init__(self) -> None:
        self.model = Evolver(**SHARES)
        self.told: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        last = body["messages"][-1]["content"]
        if len(body["messages"]) > 2:
            for name, finding in _FINDING.findall(last):
                kind = _kind(name, finding)
                self.told[kind] += 1
                if kind in ("false", "other"):
                    print(f"{name}: {finding}", file=sys.stderr)
            self.told["domain"] += "it has the name of the existing" in last
        prompt = sum(count_tokens(message["content"]) + 4 for message in body["messages"])
        text = self.model(body)
        answer = completion(text, prompt_tokens=prompt)
        tokens = count_tokens(text)
        answer["usage"] |= {"completion_tokens": tokens, "total_tokens": prompt + tokens}
        return answer


def _kind(name: str, finding: str) -> str:
    if "there is a tool of this name already" in finding:
        return "sibling"
    if match := re.search(r"it does what (\S+) does", finding):
        return "reworded" if meaning(match[1]) == meaning(name) else "false"
    return "broken" if "Dragon" in finding else "other"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.tools.evolve", description=__doc__.splitlines()[0])
    parser.add_argument("--categories", type=int, default=10)
    parser.add_argument("--domains", type=int, default=10)
    parser.add_argument("--tools", type=int, default=20)
    parser.add_argument("--output", help="keep the run there")
    args = parser.parse_args(argv)
    endpoint = Endpoint()
    with tempfile.TemporaryDirectory() as folder, ScriptedServer(endpoint, remember=False) as server:
        out = args.output or f"{folder}/out"
        command = ["tools", "evolve", "--llm", server.spec, "--output", out, "--cache", f"{folder}/answers.sqlite"]
        for name in ("categories", "domains", "tools"):
            command += [f"--{name}", str(getattr(args, name))]
        began, cpu = time.perf_counter(), _cpu()
        code = cli.main(command)
        seconds, cpu = time.perf_counter() - began, _cpu() - cpu
        if code:
            return code
        return _report(Path(out), endpoint, server.log.requests, seconds, cpu)


def _cpu() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _report(out: Path, endpoint: Endpoint, requests: int, seconds: float, cpu: float) -> int:
    kept, refused = _rows(out, "data"), _rows(out, "rejected")
    folders = (out / "stages/domains", out)
    calls = [json.loads(Path(folder, "manifest.json").read_bytes())["calls"]["writer"] for folder in folders]
    sent, answered = (sum(call[key] for call in calls) for key in ("prompt_tokens", "completion_tokens"))
    tools, what = len(kept), endpoint.model.calls
    print("| | all | per kept tool |\n|---|---|---|")
    print(f"| tools asked for / kept / refused | {len(kept) + len(refused):,} / {tools:,} / {len(refused):,} | |")
    print(f"| model calls | {requests:,} | {requests / tools:.3f} |")
    parts = " / ".join(f"{what[name]:,}" for name in ("domain", "entities", "state", "tools"))
    print(f"| of these domains / entities / states / tools | {parts} | |")
    print(f"| prompt tokens | {sent:,} | {sent / tools:,.0f} |")
    print(f"| answer tokens | {answered:,} | {answered / tools:,.0f} |")
    print(f"| seconds | {seconds:,.0f} | {seconds / tools * 1000:,.1f} ms |")
    print(f"| CPU seconds, the scripted model's included | {cpu:,.0f} | {cpu / tools * 1000:,.1f} ms |\n")

    planted, told = endpoint.model.planted, endpoint.told
    print("| planted | first tries | noticed while writing |\n|---|---|---|")
    for name, words in (
        ("domain", "domain that repeats a sibling"),
        ("sibling", "tool with a sibling's name"),
        ("reworded", "sibling in other words"),
        ("broken", "entity that does not exist"),
    ):
        print(f"| {words} | {planted[name]:,} | {told[name]:,} |")
    print(f"| nothing wrong, but told so | | {told['false'] + told['other']:,} |\n")

    every = [*kept, *(row for row in refused if row["reason"] == "near_duplicate")]
    by_id = {row["id"]: row for row in every}
    expected = len(every) - len({meaning(row["original_name"]) for row in every})
    merges = [row for row in every if row.get("reason") == "near_duplicate"]
    true = sum(meaning(row["original_name"]) == meaning(by_id[row["duplicate_of"]]["original_name"]) for row in merges)
    left = tools - len({meaning(row["original_name"]) for row in kept})
    false = len(merges) - true
    print("| repetitions across domains | |\n|---|---|")
    print(f"| there were | {expected:,} of {len(every):,} tools ({expected / len(every):.1%}) |")
    print(f"| found by curation | {true:,} |\n| left among the kept | {left:,} ({left / tools:.2%}) |")
    print(f"| false merges among {len(merges):,} | {false:,} |")
    other = Counter(row["reason"] for row in refused if row["reason"] != "near_duplicate")
    print(f"| refused for other reasons | {dict(other) or 'none'} |")
    return 0 if left <= 0.05 * expected and false <= 0.02 * max(1, len(merges)) else 1


def _rows(out: Path, kind: str) -> list[dict[str, Any]]:
    names = ["id", "original_name", *(["reason", "duplicate_of"] if kind == "rejected" else [])]
    return [
        row for path in sorted((out / kind).glob("*.parquet")) for row in pq.read_table(path, columns=names).to_pylist()
    ]


if __name__ == "__main__":
    sys.exit(main())
