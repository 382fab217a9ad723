"""Near duplicates by datatrove's own local MinHash pipeline and by ours, on the same documents and one core:

    python -m tokenmill.bench.corpus.peer_minhash --peer /tmp/peer/bin/python TEXT.jsonl ...

The peer is a Python of its own that has `datatrove[processing]`, `orjson` and `spacy`; where one is missing the script says so in
one line and ends. CPU seconds are those of processes and their children, from texts to the decision on each; both write files.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from tokenmill.bench.corpus.cleaned import decide, passages, write
from tokenmill.bench.corpus.repetitions import planted, similar

PEER = """
import json, resource, sys, time
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter, MinhashDedupSignature
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

folder = sys.argv[1]
config = MinhashConfig(num_buckets=14, hashes_per_bucket=8, n_grams=5)
def spent():
    both = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)
def run(name, *steps, tasks=1):
    LocalPipelineExecutor(pipeline=list(steps), tasks=tasks, workers=1, logging_dir=f"{folder}/logs/{name}").run()
begun = spent()
read = lambda: JsonlReader(f"{folder}/texts", text_key="text", id_key="id")
run("signatures", read(), MinhashDedupSignature(output_folder=f"{folder}/signatures", config=config))
run("buckets", MinhashDedupBuckets(input_folder=f"{folder}/signatures", output_folder=f"{folder}/buckets", config=config), tasks=14)
run("cluster", MinhashDedupCluster(input_folder=f"{folder}/buckets", output_folder=f"{folder}/removed", config=config))
run("filter", read(), MinhashDedupFilter(input_folder=f"{folder}/removed", exclusion_writer=JsonlWriter(f"{folder}/dropped", compression=None)))
dropped = []
import glob
for path in glob.glob(f"{folder}/dropped/*.jsonl"):
    dropped += [json.loads(line)["id"] for line in open(path)]
print(json.dumps({"cpu": spent() - begun, "dropped": dropped}))
"""  # noqa: E501


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--peer", required=True, metavar="PYTHON")
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--passages", type=int, default=2000, help="at most")
    given = parser.parse_args()
    try:
        subprocess.run(
            [given.peer, "-c", "import datatrove.pipeline.dedup, orjson, spacy"], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        print(f"skipped: {given.peer} lacks datatrove[processing], orjson or spacy")
        return
    texts = list(planted(passages(given.files, given.words)[: given.passages], 1))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "texts").mkdir()
        lines = (json.dumps({"id": str(number), "text": text}) + "\n" for number, text in enumerate(texts))
        (Path(folder) / "texts" / "all.jsonl").write_text("".join(lines))
        done = subprocess.run([given.peer, "-c", PEER, folder], capture_output=True, text=True, check=True)
        peer = json.loads(done.stdout.strip().splitlines()[-1])
        begun = time.process_time()
        decided = decide(write(texts, Path(folder)), Path(folder), copies=0)
        ours = time.process_time() - begun
    pairs = similar(texts, 0.3)
    dropped = {
        "datatrove": {int(id) for id in peer["dropped"]},
        "ours": {row for row, one in decided.items() if one.reason},
    }
    print(f"{len(texts):,} documents")
    print("| | CPU | documents a CPU second | dropped | pairs of .8 that lose one | dropped without a kept one of .7 |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, cpu in (("datatrove", peer["cpu"]), ("ours", ours)):
        gone = dropped[name]
        wanted = [pair for pair, alike in pairs.items() if alike >= 0.8]
        kept = {
            row: max((alike for (a, b), alike in pairs.items() if row in (a, b) and not {a, b} <= gone), default=0.0)
            for row in gone
        }
        lost = sum(bool(set(pair) & gone) for pair in wanted) / len(wanted)
        wrong = sum(alike < 0.7 for alike in kept.values())
        print(f"| {name} | {cpu:.1f} s | {len(texts) / cpu:,.0f} | {len(gone):,} | {lost:.4f} | {wrong:,} |")


if __name__ == "__main__":
    main()
