"""How diverse the texts of a run are, beside their sources: over a sample of documents drawn by hash of their ids.

The sample is the same whatever the order of shards, and bounds the memory: `ROWS` texts of `CLIP` characters. Measures are
those in use for the purpose (Shaib et al. 2024, "Standardizing the Measurement of Text Diversity"; distinct-n after Li et
al. 2016; self-repetition after Salkar et al. 2022).
"""

from __future__ import annotations

import heapq
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
from tokenmill.judges.form.words import words
from tokenmill.schemas.draws import digest

ROWS, CLIP = 500, 2000
_STEP = 0.01


@dataclass(frozen=True)
class Measures:
    """Of a set of texts."""

    texts: int
    distinct_2: float
    distinct_4: float
    """Different word n-grams per word n-gram."""
    compression: float
    """Bytes per byte when compressed by DEFLATE, all texts one after the other: the more the texts repeat themselves and each
    other, the higher."""
    self_repetition: float
    """Share of the word 4-grams that a text of another document has, too."""


@dataclass
class Diversity:
    """Gathers a sample from batches of rows with `id` and `text`, and of all rows what they say of their siblings."""

    similarity: Counter[int] = field(default_factory=Counter)
    """Rows by `sibling_similarity`, in hundredths."""
    copied: Counter[int] = field(default_factory=Counter)
    """Rows by `copy_rate`, in hundredths."""
    _heap: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    """(negated hash of the document, document, id, text, source), the first to be given up on top."""

    def offer(self, batch: pa.RecordBatch) -> None:
        """Look at a batch of rows."""
        names = set(batch.schema.names)
        for name, counter in (("sibling_similarity", self.similarity), ("copy_rate", self.copied)):
            if name in names:
                values = batch.column(name).drop_null().to_pylist()
                counter.update(min(int(value / _STEP), 100) for value in values)
        if not {"id", "text"} <= names or not pa.types.is_string(batch.schema.field("text").type):
            return
        ids = batch.column("id").to_pylist()
        documents = batch.column("source_id").to_pylist() if "source_id" in names else ids
        for row, (id_, document) in enumerate(zip(ids, documents, strict=True)):
            entry = (-digest("diversity", document), str(document), str(id_))
            if len(self._heap) >= ROWS and entry < self._heap[0][:3]:
                continue
            text, source = (_clipped(batch, name, row) if name in names else "" for name in ("text", "source_text"))
            if len(self._heap) < ROWS:
                heapq.heappush(self._heap, (*entry, text, source))
            else:
                heapq.heapreplace(self._heap, (*entry, text, source))

    @property
    def texts(self) -> Measures | None:
        """Of the texts drawn; None for fewer than two."""
        drawn = sorted(self._heap)
        return _measured([(document, text) for _, document, _, text, _ in drawn])

    @property
    def sources(self) -> Measures | None:
        """Of their sources, each taken once."""
        drawn = {document: source for _, document, _, _, source in sorted(self._heap) if source}
        return _measured(list(drawn.items()))


def quantile_of(counts: Counter[int], share: float) -> float | None:
    """The value below which a share of the counted values lie, to a hundredth."""
    seen, wanted = 0, share * counts.total()
    for bin_ in sorted(counts):
        seen += counts[bin_]
        if seen >= wanted:
            return bin_ * _STEP
    return None


def _clipped(batch: pa.RecordBatch, name: str, row: int) -> str:
    value = batch.column(name)[row].as_py()
    return value[:CLIP] if isinstance(value, str) else ""


def _measured(texts: Sequence[tuple[str, str]]) -> Measures | None:
    """Measures of (document, text)."""
    if len(texts) < 2:
        return None
    first: dict[int, str] = {}
    shared: set[int] = set()
    counts: Counter[int] = Counter()
    pairs: set[int] = set()
    all_pairs = size = 0
    compressor, compressed = zlib.compressobj(9), 0
    for document, text in texts:
        tokens = words(text)
        pairs.update(map(hash, pairwise(tokens)))
        all_pairs += max(0, len(tokens) - 1)
        # By hash, which takes a fifth of the memory.
        for gram in map(hash, zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False)):
            counts[gram] += 1
            if first.setdefault(gram, document) != document:
                shared.add(gram)
        raw = text.encode()
        size += len(raw)
        compressed += len(compressor.compress(raw))
    compressed += len(compressor.flush())
    grams = max(1, counts.total())
    return Measures(
        texts=len(texts),
        distinct_2=len(pairs) / max(1, all_pairs),
        distinct_4=len(counts) / grams,
        compression=size / max(1, compressed),
        self_repetition=sum(counts[gram] for gram in shared) / grams,
    )
