"""Fine-tune on conversations (`messages`, `tools`), Muon again (K2 report, section 3.1).
Run as `python -m tokenmill.training.sft --data DIR ... --init CKPT --output CKPT`.

Conversations are packed whole, several to a row, none seeing another; the loss is on what the assistant writes. Those
longer than a row, or with nothing to learn, are left out and counted in `dropped.json`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tokenmill.training.checkpoint import CheckpointError
from tokenmill.training.data.mixture import ConversationEncoder
from tokenmill.training.data.rows import InputError
from tokenmill.training.distributed import start
from tokenmill.training.job import run
from tokenmill.training.loop import TrainingError
from tokenmill.training.options import add_flags, parse
from tokenmill.training.tokenizer import Tokenizer


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.training.sft", description="Fine-tune on conversations.")
    add_flags(parser, {"lr": 5e-4, "decay": 0.9, "warmup": 0.05})
    job, flags = parse(parser, argv)
    plain = [source.name for source in job.sources if "messages" not in source.shards.columns]
    if plain:
        parser.error(
            f"--data: {', '.join(plain)}: has no `messages` column; train on plain text with tokenmill.training.pretrain"
        )
    if job.init is None:
        parser.error("--init: give the checkpoint to fine-tune")

    def encoder(tokenizer: Tokenizer) -> ConversationEncoder:
        return ConversationEncoder(tokenizer, job.sequence_length, job.declarations)

    try:
        with start(job.device) as context:
            run(job, encoder, "fit", context, flags.vocab_size)
    except (CheckpointError, InputError, TrainingError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
