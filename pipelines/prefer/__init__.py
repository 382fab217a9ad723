"""Preference pairs by a critic (Kimi K2 report, section 3.2.2)."""
