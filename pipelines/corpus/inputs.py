"""The sources of a corpus: files of several domains, each named after its domain."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tokenmill.pipelines.corpus.pages import SOURCES, rows_of
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.inputs import InputFile, Inputs, find
from tokenmill.schemas.corpus import DOMAINS

_FORM = f"write DOMAIN=GLOB, the domain one of {', '.join(DOMAINS)}"


def by_domain(sources: Sequence[str]) -> dict[str, list[str]]:
    """`("web=a.warc.gz,b.warc.gz", "math=out/notes")` as patterns by domain.

    Raises:
        UsageError: not of that form.
    """
    patterns: dict[str, list[str]] = {}
    for source in sources:
        domain, equals, listed = source.partition("=")
        found = [pattern for pattern in listed.split(",") if pattern]
        if not equals or domain not in DOMAINS or not found:
            raise UsageError(f"--source {source}: {_FORM}")
        patterns.setdefault(domain, []).extend(found)
    return patterns


def find_sources(sources: Sequence[str], *, limit: int | None = None) -> Inputs:
    """All files of all sources, in order of domains and names.

    Raises:
        UsageError: nothing matches, or a file's format is unknown.
    """
    files: list[InputFile] = []
    pieces, rows, left = [], 0, limit
    total: int | None = 0
    for domain, patterns in by_domain(sources).items():
        if left == 0:
            break
        found = find(patterns, limit=left, formats=SOURCES, read=rows_of)
        files += [dataclasses.replace(file, name=f"{domain}/{file.name}") for file in found.files]
        pieces += [dataclasses.replace(piece, name=f"{domain}/{piece.name}") for piece in found.pieces]
        total = None if total is None or found.rows is None else total + found.rows
        if left is not None:
            rows = found.rows if found.rows is not None else sum(max(0, piece.rows) for piece in found.pieces)
            left = max(0, left - rows)
    if not pieces or total == 0:
        raise UsageError(f"--source {' '.join(sources)}: there are no rows")
    return Inputs(tuple(files), tuple(pieces), total)
