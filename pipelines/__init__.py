"""Beam pipelines, one DAG per file; `transforms` are shared, `runs` is the contract around a pipeline."""
