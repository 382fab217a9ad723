"""Measured comparisons that a reader can repeat; each prints its command and figures."""
