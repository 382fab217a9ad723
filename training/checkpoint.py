"""Checkpoints: a directory that transformers and vLLM load as it stands, plus what a training run needs to go on.

CKPT/config.json, model*.safetensors   the model, as DeepSeek-V3 publishes it
CKPT/training.pt                       optimizer, random generators, the caller's own state
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from tokenmill.training.model import Model, ModelConfig
from tokenmill.training.model.huggingface import export_weights, import_weights
from tokenmill.training.model.sharded import full, shard_like
from torch import Tensor

CONFIG, TRAINING = "config.json", "training.pt"
SHARD_SIZE = "5GB"
_STEP = re.compile(r"^step-(\d+)$")


class CheckpointError(Exception):
    """A checkpoint cannot be read as asked; the text is one line for the user."""


def save_checkpoint(
    path: Path | str,
    model: Model,
    optimizer: torch.optim.Optimizer | None = None,
    state: Mapping[str, Any] | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> Path:
    """Write all of it or nothing: whatever has the name `path` is complete, also after a kill or a full disk.

    `state` holds plain values and tensors (position in the data, step, ...). `dtype` converts the weights, for
    publishing; leave it None where training is to go on. With sharded parameters every rank calls, rank 0 writes.
    """
    path = Path(path)
    training = None if optimizer is None and state is None else _training_state(optimizer, state or {})
    weights = {name: _for_disk(tensor, dtype) for name, tensor in export_weights(model)}
    if _rank() == 0:
        with _atomic_directory(path) as draft:
            _write_model(draft, model.config, weights, dtype)
            if training is not None:
                torch.save(training, draft / TRAINING)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
    return path


def load_model(path: Path | str, *, device: torch.device | str = "cpu", dtype: torch.dtype | None = None) -> Model:
    """Our own checkpoint, or any unquantised one in the DeepSeek-V3 layout. Raises `CheckpointError`."""
    config = read_config(path)
    with torch.device("meta"):
        model = Model(config)
    model = model.to(dtype) if dtype else model
    model.to_empty(device=device)
    model.reset_buffers()
    load_weights(model, path)
    return model


def load_weights(model: Model, path: Path | str) -> None:
    """Read weights into a model of the same shape (sharded or not). Raises `CheckpointError`."""
    with _tensors(Path(path)) as read:
        try:
            import_weights(model, read)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{path}: {error.args[0]}") from error


def resume(path: Path | str, model: Model, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights, optimizer and random generators as they were saved; returns the caller's state."""
    path = Path(path)
    load_weights(model, path)
    try:
        training = torch.load(path / TRAINING, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: holds a model but no {TRAINING}, so training cannot go on from it") from None
    if training["optimizer"] is None:
        raise CheckpointError(f"{path}: was saved without its optimizer")
    _load_optimizer(optimizer, training["optimizer"])
    _set_generators(training["generators"])
    return training["state"]


def read_config(path: Path | str) -> ModelConfig:
    """The model's shape. Raises `CheckpointError` if it is not one that this model can take."""
    file = Path(path) / CONFIG
    try:
        published = json.loads(file.read_text())
        if published.get("model_type") not in ("deepseek_v3", "kimi_k2"):
            raise ValueError(f"model_type {published.get('model_type')!r} is not deepseek_v3")
        if published.get("quantization_config"):
            raise ValueError("quantised weights cannot be trained on; convert them to bf16 first")
        return ModelConfig.from_hf(published)
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{file}: {error}") from error


def step_directory(root: Path | str, step: int) -> Path:
    return Path(root) / f"step-{step:08d}"


def latest_checkpoint(root: Path | str) -> Path | None:
    """The `step-N` directory with the largest N, or None. Unfinished ones have another name and are never seen."""
    found = [(int(match[1]), entry) for entry in _entries(Path(root)) if (match := _STEP.match(entry.name))]
    return max(found)[1] if found else None


@torch.no_grad()
def merge_checkpoints(paths: Sequence[Path | str], output: Path | str, *, dtype: torch.dtype | None = None) -> Path:
    """Mean of the weights of several checkpoints of one run, summed in fp64 (Kanana averages the last ones).

    Raises `CheckpointError` if their shapes differ.
    """
    if not paths:
        raise ValueError("paths: give at least one checkpoint")
    merged = load_model(paths[0])
    total: dict[str, Tensor] = {}
    for path in paths:
        if read_config(path) != merged.config:
            raise CheckpointError(f"{path}: has another configuration than {paths[0]}")
        for name, tensor in load_model(path).state_dict().items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    for name, entry in merged.state_dict().items():
        entry.copy_(total[name] / len(paths))
    return save_checkpoint(output, merged, dtype=dtype)


def _write_model(folder: Path, config: ModelConfig, weights: dict[str, Tensor], dtype: torch.dtype | None) -> None:
    from huggingface_hub import save_torch_state_dict

    stored = dtype or next(iter(weights.values())).dtype
    published = config.to_hf() | {"torch_dtype": str(stored).removeprefix("torch.")}
    (folder / CONFIG).write_text(json.dumps(published, indent=2) + "\n")
    save_torch_state_dict(weights, folder, max_shard_size=SHARD_SIZE)


def _for_disk(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    # Selection biases are 1-D and few; like everything that steers choices they stay in full precision.
    keep = dtype is None or not tensor.is_floating_point() or tensor.ndim < 2
    return (tensor if keep else tensor.to(dtype)).cpu().contiguous().clone()


@contextmanager
def _tensors(path: Path) -> Iterator[Callable[[str], Tensor]]:
    """A reader by name over one or several safetensors files, which maps them and copies only what is asked."""
    from safetensors import safe_open

    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{path}: holds no .safetensors file")
    with ExitStack() as stack:
        where = {}
        for file in files:
            handle = stack.enter_context(safe_open(file, framework="pt"))
            where.update(dict.fromkeys(handle.keys(), handle))

        def read(name: str) -> Tensor:
            if name not in where:
                raise KeyError(f"no tensor {name}")
            return where[name].get_tensor(name)

        yield read


def _training_state(optimizer: torch.optim.Optimizer | None, state: Mapping[str, Any]) -> dict[str, Any]:
    saved = None
    if optimizer is not None:
        saved = optimizer.state_dict()
        saved["state"] = {
            index: {key: full(value) if isinstance(value, Tensor) else value for key, value in entry.items()}
            for index, entry in saved["state"].items()
        }
    version, numbers, gauss = random.getstate()
    generators = {"torch": torch.get_rng_state(), "python": [version, list(numbers), gauss]}
    if torch.cuda.is_available():
        generators["cuda"] = torch.cuda.get_rng_state_all()
    return {"optimizer": saved, "generators": generators, "state": dict(state)}


def _load_optimizer(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, entry in saved["state"].items():
        for key, value in entry.items():
            if isinstance(value, Tensor) and value.shape == parameters[index].shape:
                entry[key] = shard_like(parameters[index], value)
    optimizer.load_state_dict(saved)


def _set_generators(saved: dict[str, Any]) -> None:
    torch.set_rng_state(saved["torch"])
    version, numbers, gauss = saved["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(saved["cuda"])


@contextmanager
def _atomic_directory(path: Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place once complete and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft, old = (path.parent / f".{path.name}.{kind}" for kind in ("draft", "old"))
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        yield draft
        for file in [*draft.iterdir(), draft]:
            _flush(file)
        if path.exists():
            # A directory that is not empty cannot be replaced in one step; the old one waits under another name.
            shutil.rmtree(old, ignore_errors=True)
            path.rename(old)
        draft.rename(path)
        _flush(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _entries(root: Path) -> list[Path]:
    return list(root.iterdir()) if root.is_dir() else []


def _rank() -> int:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if distributed else 0
