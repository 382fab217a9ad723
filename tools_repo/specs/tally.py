"""Counts of tools, any number of them: by origin, category, tool-set and use of schema features; and parts drawn of them."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from tokenmill.schemas.draws import digest
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec

FEATURES = (
    "enum", "nested_object", "array", "array_of_objects", "format", "optional", "default", "union", "map", "reference",
    "bounds", "pattern", "no_arguments", "output_schema",
)  # fmt: skip
"""Features of a schema whose use is counted."""


class Tally:
    """Counts of any number of tools, one at a time."""

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        self.origins: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.toolsets: Counter[str] = Counter()
        self.used: dict[str, Counter[str]] = {"real": Counter(), "synthetic": Counter()}
        for spec in specs:
            self.add(spec)

    def add(self, spec: ToolSpec) -> None:
        self.origins[spec.origin] += 1
        self.categories[group(spec)] += 1
        self.toolsets[spec.toolset] += 1
        self.used[_side(spec)].update(features(spec))

    @property
    def sides(self) -> dict[str, int]:
        """Tools that are real and tools that are synthetic."""
        synthetic = self.origins[SYNTHETIC]
        return {"real": self.origins.total() - synthetic, "synthetic": synthetic}

    @property
    def entropy(self) -> dict[str, float]:
        return {
            "category": _entropy(self.categories),
            "toolset": _entropy(self.toolsets),
            "all_categories": round(math.log2(len(self.categories)), 4),
        }

    @property
    def features(self) -> dict[str, dict[str, float]]:
        return {
            side: {f: round(self.used[side][f] / count, 4) for f in FEATURES}
            for side, count in self.sides.items()
            if count
        }


class Part:
    """At most `size` tools, drawn by hash of their ids, so the same whatever the order; half of them real and half
    synthetic as far as there are so many."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._heaps: dict[str, list[tuple[int, str, ToolSpec]]] = {"real": [], "synthetic": []}

    def offer(self, spec: ToolSpec) -> None:
        heap = self._heaps[_side(spec)]
        # Negated: heapq has the smallest on top, and the largest hash is the one to give up.
        entry = (-digest("coverage", spec.id), spec.id, spec)
        if len(heap) < self.size:
            heapq.heappush(heap, entry)
        elif entry[:2] > heap[0][:2]:
            heapq.heapreplace(heap, entry)

    def drawn(self) -> list[ToolSpec]:
        """Sorted by id."""
        real, synthetic = (sorted(heap, key=lambda e: e[:2], reverse=True) for heap in self._heaps.values())
        mine = max(self.size - self.size // 2, self.size - len(synthetic))
        chosen = [*real[:mine], *synthetic[: self.size - min(mine, len(real))]]
        return sorted((spec for _, _, spec in chosen), key=lambda spec: spec.id)


def _side(spec: ToolSpec) -> str:
    return "synthetic" if spec.origin == SYNTHETIC else "real"


def group(spec: ToolSpec) -> str:
    """What a tool is coloured and counted by: its category, or else where it stands."""
    return spec.category or (spec.domain[0] if spec.domain else spec.server) or "other"


def features(spec: ToolSpec) -> set[str]:
    """Which of `FEATURES` a specification uses."""
    schema = spec.parameters
    properties = schema.get("properties") or {}
    found = {"no_arguments"} if not properties else set()
    if spec.output_schema:
        found.add("output_schema")
    if set(properties) - set(schema.get("required") or ()):
        found.add("optional")
    for depth, sub in _subschemas(schema):
        kinds = sub.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        found |= {word for word in ("enum", "format", "default", "pattern") if word in sub}
        if "array" in kinds:
            found.add("array")
            if isinstance(sub.get("items"), dict) and sub["items"].get("type") == "object":
                found.add("array_of_objects")
        if "object" in kinds and depth and sub.get("properties"):
            found.add("nested_object")
        if isinstance(sub.get("additionalProperties"), dict):
            found.add("map")
        if "anyOf" in sub or "oneOf" in sub or len(kinds) > 1:
            found.add("union")
        if "$ref" in sub:
            found.add("reference")
        if {
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
        } & set(sub):
            found.add("bounds")
    return found


def _entropy(counts: Counter[str]) -> float:
    shares = np.array(list(counts.values()), float) / counts.total()
    return round(float(-(shares * np.log2(shares)).sum()) + 0.0, 4)


def _subschemas(schema: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """(depth, schema) of a schema and all schemas inside it, but for definitions, which count where they stand."""
    stack = [(0, schema)]
    while stack:
        depth, at = stack.pop()
        if not isinstance(at, dict):
            continue
        yield depth, at
        for word in ("properties", "patternProperties", "$defs", "definitions"):
            if isinstance(at.get(word), dict):
                stack += [(depth + 1, sub) for sub in at[word].values()]
        for word in ("items", "additionalProperties", "not", "if", "then", "else"):
            stack.append((depth + 1, at.get(word)))
        for word in ("anyOf", "oneOf", "allOf", "prefixItems"):
            if isinstance(at.get(word), list):
                stack += [(depth, sub) for sub in at[word]]
