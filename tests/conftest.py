"""Settings and fixtures of all tests."""

import pytest
from hypothesis import HealthCheck, settings

from tokenmill import cli

# How long an example takes says more about the machine than about the code; a first draw even builds Unicode tables.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples every time, whatever machine and day: a failure comes of the change that is being tested.
settings.register_profile("same", derandomize=True, database=None, **PATIENT)
# Other examples every time (`make fuzz`). What is found is written down as an `@example` beside the fix.
settings.register_profile("fuzz", derandomize=False, print_blob=True, **PATIENT)
settings.load_profile("same")

WITHOUT_CACHE = [["gym", word] for word in ("list", "show", "check", "export")]
"""Commands, beside `publish`, that keep no answers."""


@pytest.fixture
def run(tmp_path, capsys):
    """Run a command in this process: (exit code, stdout, stderr). Answers are kept in `tmp_path` unless it says where."""

    def command(*argv):
        argv = [str(a) for a in argv]
        if argv[0] not in ("publish", "finish") and argv[:2] not in WITHOUT_CACHE and "--cache" not in argv:
            argv += ["--cache", str(tmp_path / "answers.sqlite")]
        code = cli.main(argv)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command
