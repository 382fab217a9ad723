"""Checks of mathematical text that need no model: stated equalities, final answers, numbers and formulas kept."""

from judges.math.answers import FinalAnswer
from judges.math.equalities import Equalities
from judges.math.formulas import FormulasKept
from judges.math.numbers import NumbersUsed
from judges.math.sources import SourceConsistent
from judges.math.worker import Algebra

__all__ = ["Algebra", "Equalities", "FinalAnswer", "FormulasKept", "NumbersUsed", "SourceConsistent"]
