"""Checks of mathematical text that need no model: stated equalities, final answers, numbers and formulas kept."""

from judges.math.equalities import Equalities

__all__ = ["Equalities"]
