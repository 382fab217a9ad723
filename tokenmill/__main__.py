"""`python -m tokenmill JOB …`, the same as the command `tokenmill`."""

import sys

from tokenmill.cli import command

if __name__ == "__main__":
    sys.exit(command())
