"""Optimizers: MuonClip and its parts."""

from training.optim.muonclip import MuonClip
from training.optim.newton_schulz import orthogonalize
from training.optim.qk_clip import ClipReport, qk_clip, scale_head_logits
from training.optim.split import Split, as_matrices, split_parameters

__all__ = [
    "ClipReport",
    "MuonClip",
    "Split",
    "as_matrices",
    "orthogonalize",
    "qk_clip",
    "scale_head_logits",
    "split_parameters",
]
