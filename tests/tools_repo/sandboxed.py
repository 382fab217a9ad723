"""A runtime for tests that need a real sandbox; they are skipped where there is none."""

import asyncio

import pytest
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap


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
