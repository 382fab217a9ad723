"""Tests that need a real sandbox: they are skipped on a machine that has none, and fail where it is ours that does not work."""

import asyncio
import os
import shutil
import subprocess

import pytest
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap


def _missing() -> str:
    """Why no program can be sandboxed on this machine, asked without any code of ours; empty where it can."""
    for program in ("bwrap", "prlimit", "setpriv"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    user = [] if os.geteuid() == 0 else ["--unshare-user", "--disable-userns"]
    trial = ["bwrap", "--unshare-pid", "--unshare-net", *user, "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(trial, capture_output=True, text=True)
    return f"bubblewrap does not work here: {tried.stderr.strip()[:200]}" if tried.returncode else ""


MISSING = _missing()
needs_sandbox = pytest.mark.skipif(bool(MISSING), reason=MISSING)


def runtime() -> Runtime:
    """The runtime of a module's tests; all of them are skipped where there is no sandbox."""
    if MISSING:
        pytest.skip(MISSING, allow_module_level=True)
    Bubblewrap().check()
    return Runtime.local()


def together(*coroutines):
    """Results in order, run at the same time."""

    async def gather():
        return await asyncio.gather(*coroutines)

    return asyncio.run(gather())
