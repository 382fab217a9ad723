"""A runtime for tests that need a real sandbox; they are skipped where there is none."""

import asyncio

import pytest

from tools_repo.bubblewrap import Bubblewrap
from tools_repo.code.runtime import Runtime
from tools_repo.sandbox import SandboxUnavailable


def runtime() -> Runtime:
    try:
        Bubblewrap().check()
    except SandboxUnavailable as error:
        pytest.skip(str(error), allow_module_level=True)
    return Runtime.local()


def together(*coroutines):
    """Results in order, run at the same time."""

    async def gather():
        return await asyncio.gather(*coroutines)

    return asyncio.run(gather())
