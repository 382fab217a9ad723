"""The bundled Mixture-of-Experts language model (DeepSeek-V3 / Kimi K2 architecture)."""

from training.model.cache import LatentCache
from training.model.config import ModelConfig, Yarn
from training.model.generate import generate
from training.model.mask import PADDING
from training.model.model import Model, Output
from training.model.presets import PRESETS, preset

__all__ = ["PADDING", "PRESETS", "LatentCache", "Model", "ModelConfig", "Output", "Yarn", "generate", "preset"]
