"""Checks of mathematical text that need no model: stated equalities, final answers, numbers and formulas kept."""

from tokenmill.judges.math.answers import FinalAnswer
from tokenmill.judges.math.equalities import Equalities
from tokenmill.judges.math.formulas import FormulasKept
from tokenmill.judges.math.numbers import NumbersUsed
from tokenmill.judges.math.source_check import SourceConsistent
from tokenmill.judges.math.worker import Algebra

__all__ = ["Algebra", "Equalities", "FinalAnswer", "FormulasKept", "NumbersUsed", "SourceConsistent"]
