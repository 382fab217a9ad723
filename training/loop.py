"""The training loop that pre-training, fine-tuning and the utility study share."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from tokenmill.training.checkpoint import latest_checkpoint, resume, save_checkpoint, step_directory
from tokenmill.training.data.loader import Batch, Loader, ahead
from tokenmill.training.distributed import Context, synchronize_gradients
from tokenmill.training.metrics import MetricsLog
from tokenmill.training.model import Model, Output
from tokenmill.training.model.recompute import Recompute
from tokenmill.training.optim import MuonClip
from torch import Tensor

STEPS = "steps"
IDENTITY = "run.json"
Precision = Literal["float32", "bfloat16"]


class TrainingError(Exception):
    """Training cannot start or go on; the text is one line for the user."""


@dataclass(frozen=True)
class LoopSettings:
    """Raises `ValueError` with one line that names the field."""

    micro_rows: int = 8
    """Rows of one forward pass; an optimizer step gathers as many passes as its batch needs."""
    weight_decay: float = 0.1
    tau: float | None = 100.0
    """QK-Clip's bound on attention logits."""
    clip_norm: float = 1.0
    """Bound on the norm of all gradients."""
    precision: Precision = "float32"
    """Type of products under autocast; weights and optimizer state are fp32."""
    recompute: Recompute = "none"
    compile: bool = False
    save_every: int = 500
    """Steps between checkpoints, 0 for none."""
    keep: int = 2
    """Checkpoints to keep; older ones are removed."""
    validate_every: int = 100

    def __post_init__(self) -> None:
        for name in ("micro_rows", "keep", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: give at least 1, not {getattr(self, name)}")
        if self.save_every < 0:
            raise ValueError(f"save_every: give 0 or more, not {self.save_every}")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay: give 0 or more, not {self.weight_decay}")
        if not self.clip_norm > 0:
            raise ValueError(f"clip_norm: give a number above 0, not {self.clip_norm}")
        if self.tau is not None and not self.tau > 0:
            raise ValueError(f"tau: give a number above 0, not {self.tau}")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision: give float32 or bfloat16, not {self.precision!r}")
        if self.recompute not in ("none", "selective", "full"):
            raise ValueError(f"recompute: give none, selective or full, not {self.recompute!r}")


def train(
    model: Model,
    loader: Loader,
    settings: LoopSettings,
    folder: Path,
    context: Context,
    *,
    validate: Callable[[Model], float] | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Train to the end of the loader's plan or data; goes on from the folder's last checkpoint if there is one.

    The model is sharded already when there are several processes. Returns the last line of metrics; raises
    `TrainingError` when the loss stops being a number. Every step writes one line to `metrics.jsonl`.
    """
    model.train()
    model.recompute = settings.recompute
    if settings.compile:
        model.compile_layers()
    # bf16 products are emulated, and slow, on most CPUs.
    products = torch.bfloat16 if context.device.type == "cuda" else None
    optimizer = MuonClip(model, weight_decay=settings.weight_decay, tau=settings.tau, dtype=products)
    step, state = 0, None
    if (last := latest_checkpoint(folder / STEPS)) is not None:
        saved = resume(last, model, optimizer)
        step, state = saved["step"], saved["loader"]
    log = MetricsLog(folder, step) if context.leads else None
    line: dict[str, Any] = {"step": step}
    try:
        with closing(ahead(loader.batches(state))) as batches:
            for batch, seconds in _timed(batches):
                step += 1
                line = _step(model, optimizer, batch, settings, context, step)
                if validate is not None and step % settings.validate_every == 0:
                    line["validation"] = validate(model)
                line |= {"seconds": seconds(), "tokens_per_second": batch.settings.tokens / seconds()}
                if log is not None:
                    log.write(line)
                if progress is not None and context.leads:
                    progress(line)
                if settings.save_every and step % settings.save_every == 0:
                    save_checkpoint(
                        step_directory(folder / STEPS, step), model, optimizer, {"step": step, "loader": batch.state}
                    )
                    _remove_old(folder / STEPS, settings.keep, context)
    finally:
        if log is not None:
            log.close()
    if step == 0:
        raise TrainingError("the data gave no batch to train on")
    return line


def _timed(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Callable[[], float]]]:
    """Each batch with a clock that runs since the one before was done."""
    while True:
        start = time.perf_counter()
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch, partial(_since, start)


def _since(start: float) -> float:
    return time.perf_counter() - start


def _step(
    model: Model, optimizer: MuonClip, batch: Batch, settings: LoopSettings, context: Context, step: int
) -> dict[str, Any]:
    """One optimizer step over micro-batches; every target weighs alike, whatever pass or process it falls into."""
    for group in optimizer.param_groups:
        group["lr"] = batch.settings.lr
    model.balance_loss_coef = model.config.balance_loss_coef * batch.settings.balance
    share = [tensor.split(settings.micro_rows) for tensor in batch.share(context.rank, context.world)]
    passes = list(zip(*share, strict=True))
    # FSDP averages over processes and the router losses are means: dividing each pass's whole loss by the number of
    # passes leaves cross entropy as a sum over all targets by their count, the router losses as a mean over all passes.
    normalizer = max(1, batch.target_count) / (len(passes) * context.world)
    sums = torch.zeros(3, device=context.device)
    optimizer.zero_grad()
    for index, part in enumerate(passes):
        tokens, targets, ids = (tensor.to(context.device, non_blocking=True) for tensor in part)
        synchronize_gradients(model, context, index == len(passes) - 1)
        with _autocast(settings, context):
            output = model(tokens, document_ids=ids, targets=targets, normalizer=normalizer)
        (output.loss / len(passes)).backward()
        sums += _losses(output, context.device) / (len(passes) * context.world)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip_norm)
    gradient_norm = (norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item()
    cross_entropy, balance, z_loss = context.total(sums).tolist()
    if not (math.isfinite(cross_entropy) and math.isfinite(gradient_norm)):
        raise TrainingError(f"step {step}: loss {cross_entropy}, gradient norm {gradient_norm}; try a lower --lr")
    optimizer.step()
    counts = model.update_selection_bias().double() if model.config.is_moe else None
    clip = optimizer.last_clip
    return {
        "step": step,
        "tokens": batch.seen,
        "leg": batch.settings.leg,
        "lr": batch.settings.lr,
        "cross_entropy": cross_entropy,
        "balance_loss": balance,
        "z_loss": z_loss,
        "gradient_norm": gradient_norm,
        "max_logit": clip.max_logits.max().item(),
        "clipped_heads": int(clip.clipped.sum()),
        # Busiest expert's load over the mean, less 1, averaged over layers (MaxVio, arXiv 2408.15664).
        "load_violation": 0.0 if counts is None else (counts.amax(1) / counts.mean(1).clamp(min=1) - 1).mean().item(),
        "targets": batch.target_count,
        "epochs": batch.epochs,
    }


def _losses(output: Output, device: torch.device) -> Tensor:
    """Cross entropy, balance and router loss of one pass, (3,); the latter are 0 without experts."""
    none = torch.zeros((), device=device)
    parts = (output.cross_entropy, output.balance_loss, output.z_loss)
    return torch.stack([none if part is None else part.float() for part in parts])


def _autocast(settings: LoopSettings, context: Context) -> Any:
    if settings.precision == "float32":
        return nullcontext()
    return torch.autocast(context.device.type, dtype=torch.bfloat16)


def _remove_old(root: Path, keep: int, context: Context) -> None:
    if context.leads:
        for old in sorted(root.glob("step-*"))[:-keep]:
            shutil.rmtree(old, ignore_errors=True)
    context.barrier()


def check_identity(folder: Path, identity: dict[str, Any], context: Context) -> None:
    """Remember what determines this run, or refuse to go on as another one. Raises `TrainingError`."""
    path = folder / IDENTITY
    wanted = json.loads(json.dumps(identity))
    if path.exists():
        found = json.loads(path.read_text())
        changed = [key for key in wanted if found.get(key) != wanted[key]]
        if changed:
            raise TrainingError(
                f"{folder}: holds a run with other settings ({', '.join(changed)}); give another --output"
            )
    elif context.leads:
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(wanted, indent=1) + "\n")
        draft.replace(path)
    context.barrier()
