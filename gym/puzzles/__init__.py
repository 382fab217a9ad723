"""Puzzles drawn and decided by code: each has a reference, each right answer is verified, not compared with one text."""
