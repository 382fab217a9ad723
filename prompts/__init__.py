"""Every prompt is a Markdown file in this package: front matter with name and version, then `# system` and `# user` parts.

Only declared placeholders, written `{{name}}`, are substituted, all in one pass, so that neither JSON braces in a prompt
nor `{{...}}` inside a substituted document can be mistaken for a placeholder.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_PART = re.compile(r"^# (system|user|assistant)[ \t]*\n", re.MULTILINE)


class PromptError(ValueError):
    """A prompt file is malformed, or rendered with the wrong values; the text names the prompt and the fix."""


@dataclass(frozen=True)
class Prompt:
    """A versioned prompt; `parts` are (role, template) in file order."""

    name: str
    version: int
    meta: dict[str, Any]
    parts: tuple[tuple[str, str], ...]
    sha256: str

    @property
    def id(self) -> str:
        """`name@version`, as rows record it."""
        return f"{self.name}@{self.version}"

    @property
    def text(self) -> str:
        """The template of a one-part prompt, such as a style."""
        return self.parts[0][1]

    def render(self, **values: str) -> list[dict[str, str]]:
        """Chat messages with every placeholder replaced.

        Raises:
            PromptError: a value is missing, or one was given that the prompt does not declare.
        """
        declared = set(self.meta.get("placeholders") or ())
        if declared != values.keys():
            wrong = sorted(declared ^ values.keys())
            raise PromptError(f"prompt {self.id}: placeholders and given values differ: {', '.join(wrong)}")
        return [
            {"role": role, "content": _PLACEHOLDER.sub(lambda m: values[m[1]], template)}
            for role, template in self.parts
        ]


def parse(text: str, where: str) -> Prompt:
    """Read one prompt file's text; `where` names it in errors."""
    match = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if not match:
        raise PromptError(f"{where}: no front matter between --- lines")
    meta = front_matter(match[1], where)
    if not isinstance(meta.get("name"), str) or not isinstance(meta.get("version"), int):
        raise PromptError(f"{where}: front matter needs a name and a whole-number version")
    parts = parts_of(text[match.end() :], "system")
    used = placeholders_of(parts)
    declared = set(meta.get("placeholders") or ())
    if used != declared:
        raise PromptError(f"{where}: placeholders declared and used differ: {', '.join(sorted(used ^ declared))}")
    return Prompt(meta["name"], meta["version"], meta, parts, hashlib.sha256(text.encode()).hexdigest())


def front_matter(text: str, where: str) -> dict[str, Any]:
    """What stands between the --- lines of a prompt file."""
    try:
        meta = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise PromptError(f"{where}: the front matter is no YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(meta, dict):
        raise PromptError(f"{where}: front matter needs a name and a whole-number version")
    return meta


def parts_of(body: str, alone: str) -> tuple[tuple[str, str], ...]:
    """(role, template) of each part; `alone` is the role of a text without headings of parts."""
    pieces = _PART.split(body)
    if len(pieces) == 1:
        return ((alone, pieces[0].strip()),)
    return tuple((pieces[i], pieces[i + 1].strip()) for i in range(1, len(pieces), 2))


def placeholders_of(parts: tuple[tuple[str, str], ...]) -> set[str]:
    """What is filled in."""
    return {name for _, template in parts for name in _PLACEHOLDER.findall(template)}


_known: dict[str, Prompt] = {}


def know(prompt: Prompt) -> None:
    """Have `load` find a prompt that is not in this package. Its name must tell it from every other one."""
    _known[prompt.name] = prompt


def load(name: str) -> Prompt:
    """A prompt by its name: one made known, or that in `prompts/NAME.md`.

    Raises:
        PromptError: no such prompt, or its file is malformed.
    """
    return _known.get(name) or _shipped(name)


@cache
def _shipped(name: str) -> Prompt:
    """The prompt in `prompts/NAME.md`.

    Raises:
        PromptError: no such prompt, or its file is malformed.
    """
    file = resources.files(__name__).joinpath(f"{name}.md")
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PromptError(f"no prompt named {name!r} under prompts/") from None
    prompt = parse(text, f"prompts/{name}.md")
    if prompt.name != name:
        raise PromptError(f"prompts/{name}.md: its front matter names it {prompt.name!r}")
    return prompt


@cache
def names(folder: str) -> tuple[str, ...]:
    """Names of all prompts directly under `prompts/FOLDER/`, sorted."""
    root = resources.files(__name__).joinpath(folder)
    return tuple(sorted(f"{folder}/{entry.name[:-3]}" for entry in root.iterdir() if entry.name.endswith(".md")))
