"""Keys and passwords: from the environment of the process that needs them, or from a file that it names.

`NAME_FILE=/run/secrets/name` stands for `NAME`, as containers and Kubernetes mount their secrets; nothing of it is part of a
command, a job graph or a manifest.
"""

from __future__ import annotations

import os
from pathlib import Path

from tokenmill.inference.errors import RunStopped

REDIS_PASSWORD = "TOKENMILL_REDIS_PASSWORD"
"""Of the cache, where its URL names none."""
LONGEST = 1 << 16
"""Bytes of a file with a secret, at most."""


def secret(name: str) -> str:
    """The value of the variable `name`, or else what the file in `NAME_FILE` holds; empty where neither is set.

    Raises:
        RunStopped: the file cannot be read.
    """
    if value := os.environ.get(name, ""):
        return value
    path = os.environ.get(f"{name}_FILE", "")
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            return file.read(LONGEST).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise RunStopped(
            f"{name}_FILE={path} cannot be read ({reason}); mount the secret there on every worker"
        ) from None
