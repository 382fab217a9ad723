"""Pre-train the bundled model on shards.
Run as `python -m tokenmill.training.pretrain --data DIR ... --config NAME --output CKPT` (see training/README.md).

The same command resumes a run that was interrupted. CKPT holds, once complete, config.json, safetensors, the tokenizer
and report.png; from the first step on metrics.jsonl, and checkpoints under steps/.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tokenmill.training.checkpoint import CheckpointError
from tokenmill.training.data.mixture import TextEncoder
from tokenmill.training.data.rows import InputError
from tokenmill.training.distributed import start
from tokenmill.training.job import run
from tokenmill.training.loop import TrainingError
from tokenmill.training.options import add_flags, parse


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tokenmill.training.pretrain", description="Pre-train on Parquet shards."
    )
    add_flags(parser, {"lr": 2e-3})
    parser.add_argument(
        "--mixture",
        type=Path,
        metavar="FILE",
        help="mixture.json of a corpus, in place of --data; it says the tokens, too",
    )
    parser.add_argument("--phase", default="", metavar="NAME", help="of the mixture (default: its first)")
    job, flags = parse(parser, argv)
    try:
        with start(job.device) as context:
            run(job, lambda tokenizer: TextEncoder(tokenizer, job.declarations), "stream", context, flags.vocab_size)
    except (CheckpointError, InputError, TrainingError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
