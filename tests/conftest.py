"""Settings and fixtures of all tests."""

import pytest
from hypothesis import HealthCheck, settings

from tokenmill import cli

# How long an example takes says more about the machine than about the code; a first draw even builds Unicode tables.
settings.register_profile("tokenmill", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tokenmill")


@pytest.fixture
def run(tmp_path, capsys):
    """Run a command in this process: (exit code, stdout, stderr). Answers are kept in `tmp_path` unless it says where."""

    def command(*argv):
        argv = [str(a) for a in argv]
        if argv[0] != "publish" and "--cache" not in argv:
            argv += ["--cache", str(tmp_path / "answers.sqlite")]
        code = cli.main(argv)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command
