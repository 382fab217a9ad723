"""Training speed on a CPU against transformers' DeepSeek-V3, same weights, same optimizer, all in one sitting.

    python -m tokenmill.bench.training.speed --output OUT

Contenders take turns step by step, so that a busy moment of the machine falls on all of them; the median of the
steps is reported, and the matrix-product peak is measured between the rounds. Then the cost of MuonClip: the same
model and batch under AdamW and under MuonClip, with QK-Clip's maxima collected, at several tokens a step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenmill.training.checkpoint import save_checkpoint
from tokenmill.training.count import training_flops_per_token
from tokenmill.training.model import Model, ModelConfig, preset
from tokenmill.training.model.products import product
from tokenmill.training.optim import MuonClip

TOKENS = 512
LR = 1e-6
"""So small that routing stays as it is drawn, the same on every side; speed must not hang on what was learnt."""
Step = Callable[[], object]
CLOCK = time.perf_counter


def bench_config(experts: int) -> ModelConfig:
    """Hidden 256, 4 layers, all of experts, one shared, top-4 of width 128."""
    return preset("small").replace(
        first_k_dense_replace=0, n_routed_experts=experts, balance_loss_coef=0.0, z_loss_coef=0.0
    )


def our_step(config: ModelConfig, tokens: torch.Tensor, *, muon: bool = False, micro_batches: int = 1) -> Step:
    torch.manual_seed(0)
    model = Model(config).train()
    if muon:
        optimizer: torch.optim.Optimizer = MuonClip(model, lr=LR)
    else:
        model.track_max_logits = False
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(micro_batches):
            model(tokens, targets=tokens).loss.backward()
        optimizer.step()

    return step


def their_step(config: ModelConfig, tokens: torch.Tensor, implementation: str) -> Step:
    from transformers import DeepseekV3ForCausalLM

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(folder + "/model", Model(config))
        model = DeepseekV3ForCausalLM.from_pretrained(folder + "/model", experts_implementation=implementation).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(input_ids=tokens, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return step


def product_peaks(size: int = 1024) -> tuple[float, float]:
    """fp32 operations a second of a square matrix product by `torch.mm` and by oneDNN, see `training.model.products`."""
    a = torch.randn(size, size)
    kinds: tuple[Step, Step] = (lambda: torch.mm(a, a), lambda: product(a, a))
    first, second = ([_timed(kind) for _ in range(4)] for kind in kinds)
    return 2 * size**3 / min(first[1:]), 2 * size**3 / min(second[1:])


def take_turns(steps: dict[str, Step], rounds: int) -> tuple[dict[str, float], list[float]]:
    """Median seconds of each step, and the medians of the peaks measured between rounds."""
    for step in steps.values():
        step()
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    peaks = []
    for _ in range(rounds):
        for name, step in steps.items():
            times[name].append(_timed(step))
        peaks.append(product_peaks())
    return {name: statistics.median(values) for name, values in times.items()}, [
        statistics.median(kind) for kind in zip(*peaks, strict=True)
    ]


def _timed(action: Callable[[], Any]) -> float:
    start = CLOCK()
    action()
    return CLOCK() - start


def against_transformers(experts: int, rounds: int) -> dict[str, Any]:
    config = bench_config(experts)
    tokens = torch.randint(0, config.vocab_size, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    steps = {
        "ours": our_step(config, tokens),
        "transformers eager": their_step(config, tokens, "eager"),
        "transformers grouped_mm": their_step(config, tokens, "grouped_mm"),
    }
    seconds, (peak, onednn) = take_turns(steps, rounds)
    work = training_flops_per_token(config, TOKENS) * TOKENS
    return {
        "experts": experts,
        "peak_gflops": {"torch.mm": round(peak / 1e9, 1), "oneDNN": round(onednn / 1e9, 1)},
        "tokens_per_second": {name: round(TOKENS / value) for name, value in seconds.items()},
        "share_of_peak": {name: round(work / value / peak, 3) for name, value in seconds.items()},
        "share_of_onednn_peak": {name: round(work / value / onednn, 3) for name, value in seconds.items()},
        "ours_times": {name: round(value / seconds["ours"], 2) for name, value in seconds.items()},
    }


def cost_of_muonclip(experts: int, rounds: int, tokens_per_step: int) -> dict[str, Any]:
    config = bench_config(experts)
    tokens = torch.randint(0, config.vocab_size, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    micro_batches = tokens_per_step // TOKENS
    steps = {
        "adamw": our_step(config, tokens, micro_batches=micro_batches),
        "muonclip": our_step(config, tokens, muon=True, micro_batches=micro_batches),
    }
    seconds, _ = take_turns(steps, rounds)
    return {
        "experts": experts,
        "tokens_per_step": tokens_per_step,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "muonclip_over_adamw": round(seconds["muonclip"] / seconds["adamw"] - 1, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tokenmill.bench.training.speed")
    parser.add_argument("--output", type=Path, help="folder for speed.json")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--experts", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--tokens-per-step", type=int, nargs="*", default=[512, 4096, 16384])
    parser.add_argument(
        "--cpu-clock", action="store_true", help="one thread, and its CPU seconds: for a machine that others use too"
    )
    flags = parser.parse_args()
    if flags.cpu_clock:
        global CLOCK
        CLOCK = time.process_time
        torch.set_num_threads(1)
    results: dict[str, Any] = {
        "clock": CLOCK.__name__,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "models": [],
        "muon": [],
    }
    for experts in flags.experts:
        results["models"].append(against_transformers(experts, flags.rounds))
        print(json.dumps(results["models"][-1]), flush=True)
    for tokens_per_step in flags.tokens_per_step:
        rounds = max(2, flags.rounds * TOKENS // tokens_per_step)
        results["muon"].append(cost_of_muonclip(flags.experts[0], rounds, tokens_per_step))
        print(json.dumps(results["muon"][-1]), flush=True)
    if flags.output:
        flags.output.mkdir(parents=True, exist_ok=True)
        (flags.output / "speed.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
