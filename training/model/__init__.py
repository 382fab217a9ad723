"""The bundled Mixture-of-Experts language model (DeepSeek-V3 / Kimi K2 architecture)."""

from tokenmill.training.model.cache import LatentCache
from tokenmill.training.model.config import ModelConfig, Yarn
from tokenmill.training.model.generate import generate
from tokenmill.training.model.mask import PADDING
from tokenmill.training.model.model import Model, Output
from tokenmill.training.model.presets import PRESETS, preset

__all__ = ["PADDING", "PRESETS", "LatentCache", "Model", "ModelConfig", "Output", "Yarn", "generate", "preset"]
