"""What became of the documents, by domain and check: counted where it happens, so that nobody reads the shards for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.pipelines.transforms.counts import tally
from tokenmill.schemas.corpus import DOMAINS, CorpusDocument, RefusedDocument

_PREFIX, _MASKED = "corpus", "masked"
_BY = "refused by "


def _count(domain: str, what: str, number: int = 1) -> None:
    tally(f"{_PREFIX} {domain} {what}", number)


def count_read(file: str, rows: int) -> None:
    """Rows of a file, which is named after its domain."""
    _count(file.split("/", 1)[0], "read", rows)


def count_failed(file: str) -> None:
    """A row that ended in `failed/`."""
    _count(file.split("/", 1)[0], "failed")


def count_refused(document: RefusedDocument) -> None:
    """A row that a check ended."""
    _count(document.domain, f"{_BY}{document.verdicts[-1].check}")


def count_kept(document: CorpusDocument) -> None:
    """A row of `data/`."""
    _count(document.domain, "kept")
    _count(document.domain, "tokens", document.tokens)


def count_masked(kinds: Mapping[str, int]) -> None:
    """Personal data of a document."""
    for kind, number in kinds.items():
        tally(f"{_MASKED} {kind}", number)


def funnel(counters: Mapping[str, int]) -> dict[str, Any]:
    """`Manifest.corpus`, of the counters of the pipeline."""
    domains: dict[str, Any] = {}
    for domain in DOMAINS:
        start = f"{_PREFIX} {domain} "
        found = {
            name.removeprefix(start): number for name, number in sorted(counters.items()) if name.startswith(start)
        }
        if found:
            refused = {name.removeprefix(_BY): number for name, number in found.items() if name.startswith(_BY)}
            figures = {name: found.get(name, 0) for name in ("read", "failed", "kept", "tokens")}
            domains[domain] = {**figures, "refused": refused}
    start = f"{_MASKED} "
    masked = {name.removeprefix(start): n for name, n in sorted(counters.items()) if name.startswith(start)}
    return {"corpus": {"domains": domains, "masked": masked}}
