"""The fields of work that evolution starts from: a shipped list that a user may edit or replace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

SHIPPED = Path(__file__).resolve().parent.parent / "categories.jsonl"
"""One category a line: `name`, `description`, `examples` of applications."""

MARK = re.compile(r"\b[a-z_]+-[0-9a-f]{8}\b")
"""The label of a fence around a text in a prompt, which a weak model takes for a part of the text."""
_LONGEST = 100
_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Category:
    """A field of work, with examples of applications in it."""

    name: str
    description: str
    examples: tuple[str, ...]

    @property
    def id(self) -> str:
        return slug(self.name)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Category:
        """A category from a line of a list.

        Raises:
            ValueError: something is missing or of the wrong type.
        """
        name, description, examples = (values.get(key) for key in ("name", "description", "examples"))
        if not isinstance(name, str) or not slug(name) or len(name) > _LONGEST:
            raise ValueError(f"a category has a `name` of at most {_LONGEST} characters")
        if not isinstance(description, str) or not description.strip():
            raise ValueError(f"category {name}: it has no `description`")
        if not isinstance(examples, list) or not examples:
            raise ValueError(f"category {name}: `examples` lists at least one application")
        if any(not isinstance(e, str) or not slug(e) or len(e) > _LONGEST for e in examples):
            raise ValueError(f"category {name}: an example is a text of at most {_LONGEST} characters")
        return cls(plain(name), description.strip(), tuple(map(plain, examples)))

    def line(self) -> bytes:
        """As a line of a list."""
        values = {"name": self.name, "description": self.description, "examples": list(self.examples)}
        return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def read_categories(paths: Sequence[Path] = (SHIPPED,)) -> list[Category]:
    """All categories of some lists, in their order.

    Raises:
        OSError: a file cannot be read.
        ValueError: a line is no category, or two have one name; the text names file and line.
    """
    found: dict[str, Category] = {}
    for path in paths:
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            if not line.strip():
                continue
            try:
                values = orjson.loads(line)
                category = Category.of(values if isinstance(values, dict) else {})
                if category.id in found:
                    raise ValueError(f"category {category.name} is there twice")
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            found[category.id] = category
    return list(found.values())


def slug(name: str) -> str:
    """A name as part of an identifier: words in lower case, joined by `-`."""
    return "-".join(re.findall(r"\w+", name.lower()))


def plain(name: str) -> str:
    """A name without what would break a path of names."""
    return flat(name.replace("/", " "))


def flat(text: str) -> str:
    """A text on one line, without lone surrogates, which neither UTF-8 nor Parquet can hold."""
    return " ".join(_SURROGATES.sub("\ufffd", text).split())
