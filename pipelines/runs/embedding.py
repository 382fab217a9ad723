"""The embedding model that the flags name."""

from __future__ import annotations

import argparse

from tokenmill.judges.embedding.similarity import Embedder
from tokenmill.pipelines.runs.errors import UsageError


def embedder(args: argparse.Namespace) -> Embedder:
    """The model of `--embedding-model`, looked for before a run costs anything; an estimate goes without it.

    Raises:
        UsageError: no such model.
    """
    chosen = Embedder(args.embedding_model)
    if not getattr(args, "estimate", False):
        try:
            chosen.find()
        except OSError as error:
            raise UsageError(f"--embedding-model {args.embedding_model}: {error}") from None
    return chosen
