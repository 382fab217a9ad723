"""Pre-train the bundled model on shards.
Run as `python -m training.pretrain --data DIR ... --config NAME --output CKPT` (see training/README.md).

The same command resumes a run that was interrupted. CKPT holds, once complete, config.json, safetensors, the tokenizer
and report.png; from the first step on metrics.jsonl, and checkpoints under steps/.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from training.checkpoint import CheckpointError
from training.data import TextEncoder
from training.distributed import start
from training.job import run
from training.loop import TrainingError
from training.options import add_flags, parse
from training.rows import InputError


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.pretrain", description="Pre-train on Parquet shards.")
    add_flags(parser, {"lr": 2e-3})
    job, flags = parse(parser, argv)
    try:
        with start(job.device) as context:
            run(job, lambda tokenizer: TextEncoder(tokenizer, job.declarations), "stream", context, flags.vocab_size)
    except (CheckpointError, InputError, TrainingError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
