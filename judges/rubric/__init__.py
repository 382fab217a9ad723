"""Judging trajectories by rubrics (Kimi K2 report, section 3.1.1, "quality evaluation and filtering")."""
