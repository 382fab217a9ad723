"""What documents, models and servers wrote, as a terminal may show it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment
from tokenmill.inference.redaction import redacted

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """`text` without our secrets, and without what would steer a terminal or turn its lines around: control characters
    except newline and tab, direction marks and overrides."""
    return _UNSEEN.sub("", redacted(text))


class Terminal(Console):
    """A console on which no text does anything but stand there; styles of our own do what they do elsewhere."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)
