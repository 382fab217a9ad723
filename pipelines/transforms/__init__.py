"""PTransforms that several DAGs share, and the names by which they hand rows on."""

DATA, REJECTED, FAILED = "data", "rejected", "failed"
"""Outputs of a pipeline, and folders of a run."""
PAIRS = "pairs"
"""Output and folder of rows that set a kept row against a refused one; few jobs make any."""
