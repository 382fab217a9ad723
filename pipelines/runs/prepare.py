"""What the end of a run needs, imported while it is busy with its models."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_SOON = 3.0
"""Seconds after which a run is busy with its models, and this process is not."""


@contextlib.contextmanager
def prepared() -> Iterator[None]:
    """Meanwhile, import what `finish` needs, which takes a second."""
    timer = threading.Timer(_SOON, _prepare)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _prepare() -> None:
    with contextlib.suppress(Exception):  # `finish` will say what is wrong
        from huggingface_hub import DatasetCardData  # noqa: F401
        from tokenmill.pipelines.report import templates
        from tokenmill.pipelines.runs import finish  # noqa: F401

        templates.load()
