"""Optimizers: MuonClip and its parts."""

from tokenmill.training.optim.muonclip import MuonClip
from tokenmill.training.optim.newton_schulz import orthogonalize
from tokenmill.training.optim.qk_clip import ClipReport, qk_clip, scale_head_logits
from tokenmill.training.optim.split import Split, as_matrices, split_parameters

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
