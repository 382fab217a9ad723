"""Prompts that a user brings: read from his file, known from then on under a name that holds their hash, and carried to
workers by whatever holds an `OwnPrompt`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill import prompts

_NOT_IN_NAME = re.compile(r"[^a-z0-9_]+")


@dataclass(frozen=True)
class OwnPrompt:
    """A prompt by its name and text. Making one, also by unpickling it in a worker, makes it known to `prompts.load`."""

    name: str
    text: str
    alone: str = "user"
    """Role of a text that is not in parts."""

    def __post_init__(self) -> None:
        prompts.know(_parsed(self.text, self.name, self.alone))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def placeholders(self) -> tuple[str, ...]:
        """What is filled in, sorted."""
        return tuple(sorted(prompts.load(self.name).meta["placeholders"]))


def read(path: str, *, alone: str = "user") -> OwnPrompt:
    """A user's prompt file: Markdown with `{{placeholders}}`, in `# system` and `# user` parts or as one. Front matter may be
    left out.

    Args:
        alone: role of a text that is not in parts.

    Raises:
        PromptError: it cannot be read or is malformed; one line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise prompts.PromptError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not text.strip():
        raise prompts.PromptError(f"{path} is empty")
    stem = _NOT_IN_NAME.sub("_", Path(path).stem.lower()).strip("_") or "prompt"
    return OwnPrompt(f"own/{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}", text, alone)


def _parsed(text: str, where: str, alone: str) -> prompts.Prompt:
    body = text
    version, meta = 1, {}
    if text.startswith("---\n"):
        match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
        if match is None:
            raise prompts.PromptError(f"{where}: the front matter has no end, a line of ---")
        meta, body = prompts.front_matter(match[1], where), text[match.end() :]
        version = meta.get("version", 1)
        if not isinstance(version, int):
            raise prompts.PromptError(f"{where}: the version must be a whole number")
    parts = prompts.parts_of(body, alone)
    if alone == "user" and all(role != "user" for role, _ in parts):
        raise prompts.PromptError(f"{where}: there is no # user part")
    used = prompts.placeholders_of(parts)
    declared = meta.get("placeholders")
    if declared is not None and set(declared) != used:
        wrong = ", ".join(sorted(set(declared) ^ used))
        raise prompts.PromptError(f"{where}: placeholders declared and used differ: {wrong}")
    return prompts.Prompt(
        where, version, {**meta, "placeholders": sorted(used)}, parts, hashlib.sha256(text.encode()).hexdigest()
    )
