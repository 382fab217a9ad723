"""A critic that ranks answers which no program can verify (Kimi K2 report, section 3.2.2 and appendix F)."""
