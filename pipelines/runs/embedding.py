"""The embedding model that the options name."""

from __future__ import annotations

from typing import Any

from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.pipelines.runs.errors import UsageError


def embedder(options: Any) -> Embedder:
    """The model of `embedding_model`, looked for before a run costs anything; an estimate goes without it.

    Raises:
        UsageError: no such model.
    """
    chosen = Embedder(options.embedding_model)
    if not options.estimate:
        try:
            chosen.find()
        except OSError as error:
            raise UsageError(f"--embedding-model {options.embedding_model}: {error}") from None
    return chosen
