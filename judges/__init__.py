"""Judges: small objects that take evidence and return a `schemas.verdicts.Verdict`."""
