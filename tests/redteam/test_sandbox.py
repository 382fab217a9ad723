"""Every attack of `sandbox_attacks` in every sandbox that this machine has, as root and as an ordinary user."""

import functools
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import psutil
import pytest
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import SANDBOXES, named

from tests.redteam.sandbox_attacks import APART, ATTACKS
from tests.tools_repo.sandboxed import needs_sandbox

ROOT = Path(__file__).parents[2]
NOBODY = 65534
OTHER_USER = [
    "setpriv",
    f"--reuid={NOBODY}",
    f"--regid={NOBODY}",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
]
pytestmark = [needs_sandbox, pytest.mark.timeout(600)]


def present():
    for name in SANDBOXES:
        try:
            named(name).check()
            yield name
        except SandboxUnavailable:
            pass


def users():
    return ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]


def started(user, *argv):
    """Run this suite's Python as a user."""
    env = {"PATH": os.environ["PATH"], "RED_TEAM": "secret", "LANG": "C.UTF-8", "HOME": "/"}
    return subprocess.run(
        [*(OTHER_USER if user == "ordinary" and os.geteuid() == 0 else []), *argv],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=500,
    )  # fmt: skip


@functools.cache
def results(sandbox, user):
    name = f"tokenmill-{uuid.uuid4()}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        tempfile.NamedTemporaryFile() as secret,
    ):
        abstract.bind("\0" + name)
        abstract.listen()
        secret.write(b"RED_TEAM secret")
        secret.flush()
        Path(secret.name).chmod(0o644)
        port = str(tcp.getsockname()[1])
        done = started(user, sys.executable, "-m", "tests.redteam.sandbox_attacks", sandbox, port, name, secret.name)
    if done.returncode:
        (pytest.skip if "SandboxUnavailable" in done.stderr else pytest.fail)(done.stderr[-2000:])
    return {told["attack"]: told for told in map(json.loads, done.stdout.splitlines())}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers of calls are those of x86-64")
@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("sandbox", tuple(present()) if sys.platform == "linux" else ())
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_sandbox_holds(attack, sandbox, user):
    told = results(sandbox, user)[attack]
    assert told["user"] == (0 if user == "root" else NOBODY if os.geteuid() == 0 else os.geteuid())
    assert "FORGED" not in told["said"], told
    assert "SyntaxError" not in told["errors"] and "NameError" not in told["errors"], told
    if attack in APART.get(sandbox, {}):
        assert told["seconds"] < 60
        return
    assert "ESCAPED" not in told["said"], told
    assert told["exceeded"] in ATTACKS[attack].ends, told


def test_nothing_is_left_of_them():
    left = [p for p in psutil.process_iter(["cmdline"]) if any("ESCAPED" in part for part in p.info["cmdline"] or ())]
    assert not [process for process in left if process.pid != os.getpid()]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_without_user_namespaces_an_ordinary_user_gets_one_clear_line_and_nothing_runs():
    code = (
        "import asyncio\nfrom tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap\n"
        "from tokenmill.tools_repo.sandbox.base import *\n"
        "try:\n    print(asyncio.run(run(Bubblewrap(), Command(('echo', 'it ran')))))\n"
        "except SandboxUnavailable as error:\n    print('refused:', error)\n"
    )
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.geteuid() == 0 and (python is None or sys.version.split()[0][:4] not in Path(python).resolve().name):
        pytest.skip("another user cannot run this Python")
    closed = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--setenv", "PYTHONPATH"]
    closed += [os.pathsep.join(path for path in sys.path if path), "--"]
    done = started("ordinary", *closed, python if os.geteuid() == 0 else sys.executable, "-c", code)
    assert done.stdout.startswith("refused: bubblewrap does not work here") and done.stdout.count("\n") == 1, done
    assert "it ran" not in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="root needs no user namespaces; this is not root")
def test_without_user_namespaces_root_is_as_safe():
    """As root the sandbox never makes a user namespace: its programs run under a user of their own in ours."""
    code = (
        "import asyncio, os\nfrom tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap\n"
        "from tokenmill.tools_repo.sandbox.base import *\n"
        "done = asyncio.run(run(Bubblewrap(), Command(('readlink', '/proc/self/ns/user'))))\n"
        "print(done.stdout.decode().strip() == os.readlink('/proc/self/ns/user'))\n"
    )
    assert started("root", sys.executable, "-c", code).stdout == "True\n"
