"""Entry point of a Dataflow Flex Template: its parameters as a command line of Tokenmill.

A template knows named parameters only: `job` is the subcommand, all others are its flags. The launcher ends once the job is
submitted; `tokenmill finish OUTPUT` then makes a finished run of what it wrote.
"""

import sys

from tokenmill.cli import command


def words(given: list[str]) -> list[str]:
    """`--job=agentic tasks --output=…` as `agentic tasks --output=… --detach`.

    Raises:
        SystemExit: no job is named.
    """
    jobs = [word.removeprefix("--job=") for word in given if word.startswith("--job=")]
    if len(jobs) != 1:
        raise SystemExit("the template's parameter `job` names the subcommand, such as knowledge")
    return [*jobs[0].split(), *(word for word in given if not word.startswith("--job=")), "--detach"]


if __name__ == "__main__":
    sys.argv[1:] = words(sys.argv[1:])
    sys.exit(command())
