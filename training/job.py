"""From flags to a finished checkpoint: what pre-training and fine-tuning do alike."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenmill.training.checkpoint import load_weights, merge_checkpoints, save_checkpoint
from tokenmill.training.data.loader import Loader
from tokenmill.training.data.mixture import Encode, Mixture, Source, count_targets
from tokenmill.training.data.packing import Packer, Packing, count_rows
from tokenmill.training.data.rows import find_files, iterate_rows, open_shards
from tokenmill.training.distributed import Context, shard
from tokenmill.training.loop import STEPS, TrainingError, check_identity, train
from tokenmill.training.model import Model, ModelConfig
from tokenmill.training.options import Job
from tokenmill.training.report import write_report
from tokenmill.training.schedules import Plan
from tokenmill.training.tokenizer import FILE, Tokenizer, texts_of

TOKENIZER_ROWS = 200_000
"""A new tokenizer learns from so many rows of each source."""
VALIDATION_ROWS = 64


def run(
    job: Job, encoder: Callable[[Tokenizer], Encode], packing: Packing, context: Context, vocab_size: int | None
) -> None:
    """Train as the job says, then publish the model, its tokenizer and the report under `job.output`."""
    tokenizer = _tokenizer(job, context, vocab_size)
    config = _with_tokenizer(job, tokenizer)
    encode = encoder(tokenizer)
    mixture = Mixture(job.sources, encode, seed=job.seed, window=job.window)
    plan = _plan(job, mixture, packing, context)
    identity = _identity(job, config, plan, packing, mixture)
    check_identity(job.output, identity, context)
    if (job.output / "config.json").exists():
        raise TrainingError(f"{job.output}: this run is complete; give another --output to train again")

    torch.manual_seed(job.seed)
    model = Model(config)
    if job.init is not None:
        load_weights(model, job.init)
    model = shard(model.to(context.device), context)
    loader = Loader(Packer(mixture, packing), plan, multiple=context.world, until_data_ends=job.tokens is None)
    held_out = job.validation
    validate = None if held_out is None else _validation(held_out, encode, packing, plan, context)
    last = train(model, loader, job.loop, job.output, context, validate=validate, progress=_progress(plan))
    publish(job, model, tokenizer, context)
    if context.leads and last["tokens"] < plan.tokens and job.tokens is not None:
        print(f"the data ended after {last['tokens']:,} of --tokens {plan.tokens:,}", file=sys.stderr)
    if context.leads:
        write_report(job.output)
        # Rows that were left out, by source and reason.
        (job.output / "dropped.json").write_text(json.dumps(loader.packer.position.dropped) + "\n")
        print(json.dumps(last))


def publish(job: Job, model: Model, tokenizer: Tokenizer, context: Context) -> None:
    """The files of the finished checkpoint; `config.json` comes last, so where it is, all is."""
    draft = job.output / ".final"
    if job.average_last > 1:
        kept = sorted((job.output / STEPS).glob("step-*"))[-job.average_last :]
        if len(kept) < job.average_last:
            raise TrainingError(f"--average-last: the run left {len(kept)} checkpoints; lower --save-every")
        if context.leads:
            merge_checkpoints(kept, draft)
        context.barrier()
    else:
        save_checkpoint(draft, model)
    if not context.leads:
        return
    tokenizer.save(job.output)
    for file in sorted(draft.iterdir(), key=lambda file: file.name == "config.json"):
        file.replace(job.output / file.name)
    draft.rmdir()


def _tokenizer(job: Job, context: Context, vocab_size: int | None) -> Tokenizer:
    if not (job.output / FILE).exists():
        given = job.tokenizer or job.init
        if context.leads:
            if given is not None:
                Tokenizer.load(given).save(job.output)
            else:
                texts = (
                    text
                    for source in job.sources
                    for text in texts_of(iterate_rows(source.shards, limit=TOKENIZER_ROWS))
                )
                Tokenizer.train(texts, vocab_size or job.config.vocab_size).save(job.output)
        context.barrier()
    return Tokenizer.load(job.output)


def _with_tokenizer(job: Job, tokenizer: Tokenizer) -> ModelConfig:
    """A new model gets a table for this vocabulary, rounded up for the hardware; a loaded one must have room for it."""
    size = -(-len(tokenizer) // 64) * 64
    if job.init is not None:
        size = job.config.vocab_size
        if size < len(tokenizer):
            raise TrainingError(f"the tokenizer has {len(tokenizer)} tokens, the model knows {size}")
    return job.config.replace(vocab_size=size, bos_token_id=tokenizer.bos, eos_token_id=tokenizer.eos)


def _plan(job: Job, mixture: Mixture, packing: Packing, context: Context) -> Plan:
    tokens = job.tokens
    remembered = job.output / "length.json"
    if tokens is None and remembered.exists():
        tokens = json.loads(remembered.read_text())["tokens"]
    elif tokens is None:
        # The schedule needs the run's length, which only counting tells.
        if packing == "stream":
            tokens, _ = count_targets(job.sources, mixture.encode)
        else:
            tokens = count_rows(mixture, packing, job.sequence_length) * job.sequence_length
        if not tokens:
            raise TrainingError("the data gave nothing to train on")
        if context.leads:
            remembered.write_text(json.dumps({"tokens": tokens}) + "\n")
        context.barrier()
    return job.wsd.plan(tokens, job.lr, sequence_length=job.sequence_length, batch_tokens=job.batch_tokens)


def _identity(job: Job, config: ModelConfig, plan: Plan, packing: str, mixture: Mixture) -> dict[str, Any]:
    """What the loss curve depends on."""
    loop = dataclasses.asdict(job.loop)
    for harmless in ("save_every", "keep", "validate_every"):
        del loop[harmless]
    return {
        "data": mixture.fingerprint(),
        "model": dataclasses.asdict(config),
        "init": None if job.init is None else str(job.init.resolve()),
        "plan": dataclasses.asdict(plan),
        "loop": loop,
        "packing": packing,
        "declarations": job.declarations,
        "seed": job.seed,
        "window": job.window,
    }


def _validation(
    folder: Path, encode: Encode, packing: Packing, plan: Plan, context: Context
) -> Callable[[Model], float]:
    """Mean cross entropy (nats a target) on the first rows of held-out data, always the same ones."""
    source = Source("validation", open_shards(find_files(folder)))
    packer = Packer(Mixture([source], encode, seed=0), packing)
    length = plan.layouts[0].sequence_length
    rows = [row for _ in range(VALIDATION_ROWS) if (row := packer.row(length)) is not None]
    if not any((row.targets >= 0).any() for row in rows):
        raise TrainingError(f"--validation {folder}: holds nothing to predict")

    @torch.no_grad()
    def validate(model: Model) -> float:
        model.eval()
        total = count = 0.0
        for row in rows:
            tokens, targets, ids = (
                torch.from_numpy(part)[None].to(context.device) for part in (row.tokens, row.targets, row.document_ids)
            )
            total += model(tokens, document_ids=ids, targets=targets, normalizer=1.0).cross_entropy.item()
            count += int((row.targets >= 0).sum())
        model.train()
        return total / count

    return validate


def _progress(plan: Plan, every: int = 10) -> Callable[[dict[str, Any]], None]:
    def show(line: dict[str, Any]) -> None:
        if line["step"] % every == 1 or line["tokens"] >= plan.tokens:
            print(
                f"step {line['step']}  {line['tokens'] / plan.tokens:6.1%}  loss {line['cross_entropy']:.4f}  "
                f"lr {line['lr']:.2e}  {line['tokens_per_second']:,.0f} tokens/s",
                file=sys.stderr,
                flush=True,
            )

    return show
