"""MuonClip: Muon with weight decay, RMS matching and QK-Clip (K2 report, section 2.1, algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from tokenmill.training.model import Model
from tokenmill.training.optim.muon import MuonSettings, muon_update
from tokenmill.training.optim.newton_schulz import STEPS
from tokenmill.training.optim.qk_clip import ClipReport, qk_clip
from tokenmill.training.optim.split import split_parameters
from torch.optim.adamw import adamw


class MuonClip(torch.optim.Optimizer):
    """Muon on the matrices, AdamW on embedding, head, gates and norms, QK-Clip after every step.

    One learning rate serves both (a scheduler sets `group["lr"]` on each group). `tau=None` gives plain Muon.
    `dtype` is that of the orthogonalising products, None for the parameters' own. Raises `ValueError` on settings
    out of range.
    """

    def __init__(
        self,
        model: Model,
        lr: float = 2e-4,
        *,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = False,
        tau: float | None = 100.0,
        steps: int = STEPS,
        dtype: torch.dtype | None = torch.bfloat16,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
    ) -> None:
        if not lr >= 0 or not weight_decay >= 0 or not eps > 0:
            raise ValueError("lr and weight_decay: give 0 or more; eps: above 0")
        if not 0 <= momentum < 1 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError("momentum and betas: give numbers in [0, 1)")
        if tau is not None and not tau > 0:
            raise ValueError(f"tau: give a logit above 0, or None for no clipping, not {tau}")
        if steps < 1:
            raise ValueError(f"steps: {steps} would not orthogonalise; give at least 1")
        self.model, self.tau, self.ns_dtype = model, tau, dtype
        self.last_clip: ClipReport
        """Of the last step; not there before the first."""
        muon = {"momentum": momentum, "nesterov": nesterov, "steps": steps}
        adam = {"betas": betas, "eps": eps}
        split = split_parameters(model)
        groups = [
            {"params": split.muon, "algorithm": "muon", "weight_decay": weight_decay, **muon},
            {"params": split.decayed, "algorithm": "adamw", "weight_decay": weight_decay, **adam},
            {"params": split.kept, "algorithm": "adamw", "weight_decay": 0.0, **adam},
        ]
        super().__init__([group for group in groups if group["params"]], {"lr": lr})

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update from the gradients, then clip; `last_clip` tells what was seen and which heads were scaled."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            update = self._muon if group["algorithm"] == "muon" else self._adamw
            update(group)
        self.last_clip = qk_clip(self.model, self.tau)
        return loss

    def _muon(self, group: dict[str, Any]) -> None:
        named = zip(group["param_names"], group["params"], strict=True)
        active = [(name, parameter) for name, parameter in named if parameter.grad is not None]
        if not active:
            return
        names, parameters = [name for name, _ in active], [parameter for _, parameter in active]
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        settings = MuonSettings(
            float(group["lr"]),
            group["weight_decay"],
            group["momentum"],
            group["nesterov"],
            group["steps"],
            self.ns_dtype,
        )
        buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        muon_update(names, parameters, [parameter.grad for parameter in parameters], buffers, settings)

    def _adamw(self, group: dict[str, Any]) -> None:
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
        states = [self.state[parameter] for parameter in parameters]
        if parameters:
            adamw(
                parameters,
                [parameter.grad for parameter in parameters],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                fused=True,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
