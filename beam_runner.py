"""Tokenmill's command line, from a source checkout: one subcommand per job.

    python beam_runner.py knowledge --input 'corpus/*.parquet' --output out --llm MODEL@http://localhost:8000/v1
    python beam_runner.py publish out --repo-id me/my-dataset --dry-run

Where Tokenmill is installed, `tokenmill knowledge …` is the same. Flags that a job does not know go to Apache Beam
(`--runner=FlinkRunner --flink_master=…`).
"""

import sys

from tokenmill.cli import command

if __name__ == "__main__":
    sys.exit(command())
