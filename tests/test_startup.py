"""What a command imports before it knows that it will need it."""

import json
import subprocess
import sys

import pytest
from tokenmill.bench import startup
from tokenmill.bench.servers.mill import documents

from tokenmill.cli import COMMANDS, UNUSED

BEGIN = """import sys
from tokenmill import cli
sys.argv[1:] = sys.argv[1].split()
try:
    cli.command()
finally:
    print(*sys.modules, file=sys.stderr)
"""
HEAVY = {"torch", "sentence_transformers", "transformers", "sklearn", "datasets", "matplotlib", "sympy", "mcp", "scipy"}


def imported(line):
    done = subprocess.run([sys.executable, "-c", BEGIN, line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "usage: beam_runner.py" in done.stdout, done.stderr
    (modules,) = done.stderr.splitlines()
    return set(modules.split())


@pytest.mark.parametrize("job", COMMANDS)
def test_help_of_a_job_imports_neither_models_nor_clients(job):
    modules = imported(f"{job} --help")
    assert not modules & {*HEAVY, *UNUSED, "openai", "aiohttp"}
    assert ("apache_beam" in modules) == (job != "publish")


def test_help_imports_no_job():
    assert not [name for name in imported("--help") if name.startswith(("tokenmill.pipelines", "apache_beam"))]


def test_the_way_to_the_first_request_is_measured(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in documents(5, 4)))
    flags = ["--direct_running_mode=in_memory", "--direct_num_workers=1"]
    wall, cpu = startup.first_request(tmp_path, corpus, flags)
    assert 0.1 < cpu < 60 and 0.1 < wall < startup.WAIT
    with pytest.raises(RuntimeError, match="no request came"):
        startup.first_request(tmp_path, tmp_path / "nothing.jsonl", flags)
