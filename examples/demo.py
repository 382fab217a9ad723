"""Three jobs on the shipped examples, whole, answered from recordings of a real model: no key, no network, no GPU.

    python examples/demo.py                                             # out/demo/{knowledge,math,trajectories}
    python examples/demo.py --live --llm hf:unsloth/Qwen3-4B-Instruct-2507-GGUF      # ask a model of your own instead
    python examples/demo.py --record --llm SPEC --judge-llm SPEC        # make the recordings anew

A recording answers the requests that it was made with. Where prompts, examples or settings have changed since, the demo says
so, and the recordings have to be made anew.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import time
import webbrowser
from pathlib import Path

# Two threads of torch that wait for each other cost three times the time of one where the machine is busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout, without installing

from tokenmill import cli  # noqa: E402

cli.import_beam()

from tokenmill.pipelines.runs.exit import INTERRUPTED, STOPPED, USAGE  # noqa: E402

RECORDINGS = "examples/recordings"
RUNS = {
    "knowledge": ("knowledge --input examples/articles.jsonl --rephrasings 1 --repairs 1", ""),
    "math": ("math --input examples/problems.jsonl --repairs 1", ""),
    "trajectories": (
        "agentic trajectories --tasks examples/agentic/tasks.jsonl --limit 3 "
        "--engine executable --engines examples/agentic/engines.jsonl",
        "bwrap",
    ),
}
"""Command, and the program that it needs beside Python."""


def words(name: str, given: argparse.Namespace) -> list[str]:
    """The command line of one run."""
    command = [*RUNS[name][0].split(), "--output", f"{given.output}/{name}"]
    recording = f"{RECORDINGS}/{name}.jsonl"
    if not (given.live or given.record):
        return [*command, "--llm", f"recorded:{recording}", "--overwrite"]
    command += ["--llm", given.llm, *(["--judge-llm", given.judge_llm] if given.judge_llm else [])]
    return (
        [*command, "--timeout", "7200", "--record", recording, "--overwrite"]
        if given.record
        else [*command, "--overwrite"]
    )


def main() -> int:
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what ends a run is told in one line
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--live", action="store_true", help="ask --llm instead of the recordings")
    parser.add_argument("--record", action="store_true", help="ask --llm, and write the recordings anew")
    parser.add_argument("--llm", default="", metavar="SPEC")
    parser.add_argument("--judge-llm", default="", metavar="SPEC")
    parser.add_argument("--only", choices=RUNS, action="append", help="only this run; may be given several times")
    parser.add_argument("--output", default="out/demo", metavar="DIR")
    parser.add_argument("--no-browser", action="store_true", help="leave the reports closed")
    given = parser.parse_args()
    if (given.live or given.record) and not given.llm:
        parser.error(
            "name a model: --llm SPEC (README.md lists some by memory size; the embedded one is too weak for this)"
        )
    os.chdir(ROOT)
    if given.record:
        Path(RECORDINGS).mkdir(parents=True, exist_ok=True)
    begun, reports, missing = time.monotonic(), [], []
    for name in given.only or RUNS:
        needed = RUNS[name][1]
        if needed and shutil.which(needed) is None:
            print(f"── {name}: left out, it needs {needed} (apt install bubblewrap)")
            continue
        print(f"── {name}", flush=True)
        code = cli.main(words(name, given))
        if code == INTERRUPTED:
            return code
        if code in (USAGE, STOPPED):
            missing.append(name)
        else:
            reports.append(ROOT / given.output / name / "report.html")
    if missing and (given.live or given.record):
        return 1
    if missing:
        print(
            f"The recordings of {', '.join(missing)} are older than the prompts, examples or settings; make them anew with\n"
            f"    python examples/demo.py --record --llm SPEC --judge-llm SPEC {' '.join(f'--only {name}' for name in missing)}",
            file=sys.stderr,
        )
        return 1
    print(
        f"\nDone in {time.monotonic() - begun:.0f} s. Open in a browser:",
        *(f"  {report}" for report in reports),
        sep="\n",
    )
    if not given.no_browser and (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        for report in reports:
            webbrowser.open(report.as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main())
