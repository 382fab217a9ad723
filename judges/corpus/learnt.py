"""A quality model that was learnt from labels: logistic regression on hashed words and pairs of words.

model = fitted([Words(text), ...], [True, False, ...], seed=0)
Path("quality.npz").write_bytes(model.to_bytes())
verdict = LearntQuality(read_model(Path("quality.npz").read_bytes()), least=0.6)(document, words)

A model that labels some thousand documents is too expensive to ask of a billion; this one scores thousands a second (the way of
FineWeb-Edu, Penedo et al. 2024).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenmill.judges.corpus.saying import passed, refusal
from tokenmill.judges.corpus.words import Words, mixed
from tokenmill.schemas.corpus import CorpusDocument
from tokenmill.schemas.verdicts import Verdict

CHECK = "learnt_quality"
VERSION = 1
"""Of the features: a model of another version is refused."""
BITS = 17
"""The features are hashed to 2**BITS weights."""
LEAST_LABELS = 20
"""Labels of the rarer kind that a fit needs."""


@dataclass(frozen=True)
class QualityModel:
    """Weights of features."""

    weights: NDArray[np.float32] = field(repr=False)
    """(2**BITS,)"""
    intercept: float
    labels: int
    """How many it was learnt from."""

    def score(self, words: Words) -> float:
        """The probability that the document is good."""
        found = features(words)
        if not len(found):
            return 0.0
        value = self.intercept + float(self.weights[found].sum()) / np.sqrt(len(found))
        return float(1 / (1 + np.exp(-value)))

    def to_bytes(self) -> bytes:
        """The model as a file of arrays."""
        file = io.BytesIO()
        about = np.array([VERSION, BITS, self.labels], np.int64)
        np.savez_compressed(file, about=about, weights=self.weights, intercept=np.array(self.intercept))
        return file.getvalue()


def read_model(content: bytes) -> QualityModel:
    """
    Raises:
        ValueError: it is no such file, or one of another version.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            about, weights, intercept = file["about"], file["weights"], file["intercept"]
            version, bits, labels = (int(number) for number in about)
    except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"it is no quality model of `corpus label`: {error}") from None
    if (version, bits) != (VERSION, BITS) or weights.shape != (1 << BITS,) or not np.isfinite(weights).all():
        raise ValueError(f"it is of version {version}.{bits}, and this program reads {VERSION}.{BITS}; label anew")
    return QualityModel(weights.astype(np.float32), float(intercept), labels)


def features(words: Words) -> NDArray[np.int64]:
    """(n,) different numbers below 2**BITS, of the words and of the pairs of words."""
    hashes = np.concatenate((words.hashes, mixed(words.grams(2))))
    return np.unique(hashes >> np.uint64(64 - BITS)).astype(np.int64)


def fitted(texts: Sequence[Words], good: Sequence[bool], seed: int = 0) -> tuple[QualityModel, float]:
    """A model, and how well one like it tells documents that it has not seen: area under the ROC curve, five folds.

    Raises:
        ValueError: too few labels of one kind.
    """
    fewest = min(sum(good), len(good) - sum(good))
    if fewest < LEAST_LABELS:
        raise ValueError(
            f"{fewest} of {len(good)} labels are of the rarer kind, and {LEAST_LABELS} are needed; label more"
        )
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    rows = [features(words) for words in texts]
    columns = np.concatenate(rows)
    values = np.concatenate([np.full(len(row), 1 / np.sqrt(max(1, len(row)))) for row in rows])
    starts = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    matrix: Any = csr_matrix((values, columns, starts), shape=(len(rows), 1 << BITS))
    target = np.asarray(good, bool)
    learner = LogisticRegression(C=10.0, max_iter=1000, class_weight="balanced", random_state=seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed % 2**32)
    area = float(cross_val_score(learner, matrix, target, cv=folds, scoring="roc_auc").mean())
    learner.fit(matrix, target)
    weights = learner.coef_[0].astype(np.float32)
    return QualityModel(weights, float(learner.intercept_[0]), len(rows)), area


@dataclass(frozen=True)
class LearntQuality:
    """Refuses documents that a learnt model scores low."""

    model: QualityModel
    least: float = 0.5
    """Score that a document needs."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise ValueError(f"the least score must be from 0 to 1, not {self.least:g}")

    def __call__(self, document: CorpusDocument, words: Words) -> Verdict:
        score = self.model.score(words)
        if score >= self.least:
            return passed(CHECK, score)
        return refusal(CHECK, "low_quality", f"it scores {score:.2f}, below {self.least:g}", document.text, score)
