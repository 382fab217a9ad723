"""`python -m tokenmill JOB …`, the same as the command `tokenmill`."""

import sys

from tokenmill.cli import main

if __name__ == "__main__":
    sys.exit(main())
