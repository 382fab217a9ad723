"""Names by which a model may call tools: valid for the OpenAI protocol and unique in a tool-set, by stable renaming.

A name depends on the other tools of the set only where they collide, and never on their order.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tokenmill.schemas.tools import ToolSpec

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST = 64
_WRONG = re.compile(r"[^a-zA-Z0-9_-]+")


def is_valid(name: str) -> bool:
    """Whether the OpenAI protocol takes this as the name of a function."""
    return VALID.fullmatch(name) is not None


def rename(name: str) -> str:
    """`name` itself if it is valid, else a valid one close to it that depends on nothing else.

    Where letters are lost (other scripts, cut names) eight hex digits of a hash keep different names apart.
    """
    if is_valid(name):
        return name
    plain = unicodedata.normalize("NFKD", name)
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    lost = any(c.isalnum() and not c.isascii() for c in plain)
    short = _WRONG.sub("_", plain).strip("_")
    if lost or not short or len(short) > _LONGEST:
        return _marked(short or "tool", name)
    return short


def assign_names(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The same tools, in the same order, with names that are valid and unique among them.

    A tool keeps its original name where that is valid and nobody else's; tools of different servers or domains that
    share one are told apart by it (`git_status`, `svn_status`), and whatever still collides by a hash of its id.

    Raises:
        ValueError: two tools have the same id.
    """
    if len({tool.id for tool in tools}) < len(tools):
        twice = next(id for id, count in Counter(tool.id for tool in tools).items() if count > 1)
        raise ValueError(f"two tools have the id {twice!r}")
    names = _spread(tools, {tool.id: rename(tool.original_name) for tool in tools})
    # Marking may by chance meet a name that somebody has by right; such tools are marked again, those by right keep it.
    while doubles := {name for name, count in Counter(names.values()).items() if count > 1}:
        for tool in tools:
            if names[tool.id] in doubles and names[tool.id] != tool.original_name:
                names[tool.id] = _marked(names[tool.id], f"{tool.id} {names[tool.id]}")
    return [replace(tool, name=names[tool.id]) for tool in tools]


def _spread(tools: Sequence[ToolSpec], names: dict[str, str]) -> dict[str, str]:
    holders: dict[str, list[ToolSpec]] = {}
    for tool in tools:
        holders.setdefault(names[tool.id], []).append(tool)
    spread = dict(names)
    for name, group in holders.items():
        if len(group) == 1:
            continue
        by_right = [tool for tool in group if tool.original_name == name]
        for tool in group:
            if len(by_right) == 1 and tool is by_right[0]:
                continue
            alone = sum(other.toolset == tool.toolset for other in group) == 1
            if alone and tool.toolset:
                spread[tool.id] = rename(f"{tool.server or tool.domain[-1]}_{name}")
            else:
                spread[tool.id] = _marked(name, tool.id)
    return spread


def _marked(name: str, key: str) -> str:
    """`name`, cut where it must be, and eight hex digits of `key`."""
    digits = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{name[: _LONGEST - 9]}_{digits}"
