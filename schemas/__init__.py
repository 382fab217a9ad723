"""Row types, once. Every column that Tokenmill writes is declared in this package and nowhere else."""
