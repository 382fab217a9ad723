"""How a command ends: its exit code, and one line on stderr where something stopped it."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from tokenmill.inference.errors import EndpointRejects, RunStopped
from tokenmill.inference.redaction import redacted
from tokenmill.inference.servers.acquire import ServerFailed
from tokenmill.pipelines.runs.errors import RunFailed, UsageError
from tokenmill.pipelines.runs.terminal import harmless

OK, FAILED, USAGE, STOPPED, INTERRUPTED = 0, 1, 2, 3, 130


def say(line: str, code: int) -> int:
    """Print one line on stderr; the code, for the caller to return."""
    print(f"tokenmill: {' '.join(harmless(line).splitlines())}", file=sys.stderr, flush=True)
    return code


_RAISING: ContextVar[bool] = ContextVar("raising", default=False)


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """Inside, what ends a command is raised to the caller, who is a program, instead of told on stderr."""
    token = _RAISING.set(True)
    try:
        yield
    finally:
        _RAISING.reset(token)


def ended(run: Callable[[], int]) -> int:
    """Run a command and return its exit code; whatever goes wrong that a user can act on is one line on stderr."""
    if _RAISING.get():
        return run()
    try:
        try:
            return run()
        except Exception:
            if os.environ.get("TOKENMILL_DEBUG"):
                print(redacted(traceback.format_exc()), file=sys.stderr)
            raise
    except (UsageError, EndpointRejects) as error:
        return say(str(error), USAGE)
    except (RunFailed, ServerFailed) as error:
        return say(str(error), FAILED)
    except RunStopped as error:
        return say(f"stopped: {error}", STOPPED)
    except KeyboardInterrupt:
        return say("interrupted; repeat the command to go on: every answer received so far is kept", INTERRUPTED)
