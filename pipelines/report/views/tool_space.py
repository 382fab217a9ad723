"""What the tools of a finished run cover: numbers, and the pictures of figure 9 (Kimi K2 report) in `OUT/coverage`.

    space = survey_tools(Path("out/tools"), shards_under(Path("out/tools"))("data"))

Everything is counted over all rows; distances and pictures are of a part drawn by hash, so that a large repository takes
no longer than a small one. The same rows give the same numbers and pictures.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from tokenmill.pipelines.report.formatting import by_count
from tokenmill.pipelines.report.licenses import hub_license
from tokenmill.schemas.columns import from_values
from tokenmill.schemas.tools import SYNTHETIC, ToolSpec
from tokenmill.tools_repo.specs.coverage import Coverage, Distances, draw, measure
from tokenmill.tools_repo.specs.likeness import describe
from tokenmill.tools_repo.specs.tally import FEATURES, Part, Tally

FOLDER = "coverage"
DRAWN = 3000
"""Tools that are compared and drawn at most."""
LEAST = 5
"""Tools of which a picture can be made."""
_BATCH = 256
_TITLES = {
    "coverage_real.png": "a. Real tools by source category",
    "coverage_synthetic.png": "b. Synthetic tools by domain",
    "coverage_all.png": "c. Real and synthetic tools together",
}
_PAIRS = {
    "real_to_real": "a real tool to the nearest other real one",
    "synthetic_to_synthetic": "a synthetic tool to the nearest other synthetic one",
    "real_to_synthetic": "a real tool to the nearest synthetic one",
    "synthetic_to_real": "a synthetic tool to the nearest real one",
}


@dataclass(frozen=True)
class Picture:
    file: str
    """Relative to the run."""
    title: str
    content: bytes
    """PNG."""

    @property
    def url(self) -> str:
        """The picture itself as a URL, for a page that stands alone."""
        return "data:image/png;base64," + base64.b64encode(self.content).decode()


@dataclass(frozen=True)
class ToolSpace:
    """Coverage of a run's tools, and where the real ones come from."""

    FIELD: ClassVar[str] = "coverage"
    coverage: Coverage
    compared: int
    """Tools whose distances were taken; 0 where there was nothing to embed them with."""
    pictures: tuple[Picture, ...]
    servers: Counter[tuple[str, str, str, str]]
    """Real tools by (server, package, version, licence)."""

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        drawn = {"compared": self.compared, "pictures": [picture.file for picture in self.pictures]}
        return {**asdict(self.coverage), **drawn}

    @property
    def nearest(self) -> list[tuple[str, Distances]]:
        return [(_PAIRS[pair], distances) for pair, distances in self.coverage.nearest.items() if distances]

    @property
    def features(self) -> list[tuple[str, list[float]]]:
        """Features that some schema uses, with the share of those of each side that do."""
        shares = [(name, [used[name] for used in self.coverage.features.values()]) for name in FEATURES]
        return [(name, by_side) for name, by_side in shares if any(by_side)]

    @property
    def licenses(self) -> list[tuple[str, str | None, int]]:
        """(licence as stated, the Hub's identifier, real tools)."""
        counts: Counter[str] = Counter()
        for (*_, stated), n in self.servers.items():
            counts[stated] += n
        return [(stated, hub_license(stated), n) for stated, n in by_count(counts)]


def survey_tools(out: Path, shards: Iterable[Path]) -> ToolSpace | None:
    """Read the accepted tools of a run, and draw them into `out`/coverage; None where there are none.

    Args:
        shards: those of `data/`, of which each need only be there until the next one is asked for.

    Raises:
        OSError, pyarrow.ArrowInvalid, ValueError: a shard cannot be read, or a picture not written.
    """
    for stale in (out / FOLDER).glob("*.png"):
        stale.unlink()
    tally, part, servers = Tally(), Part(DRAWN), Counter[tuple[str, str, str, str]]()
    for spec in _tools(shards):
        tally.add(spec)
        part.offer(spec)
        if spec.origin != SYNTHETIC:
            servers[spec.server, spec.package, spec.version, spec.license] += 1
    specs = part.drawn()
    if not specs:
        return None
    vectors = _embed(specs) if len(specs) >= LEAST else None
    if vectors is None:
        return ToolSpace(measure(specs[:1], np.zeros((1, 1), np.float32), tally), 0, (), servers)
    drawn = draw(specs, vectors, out / FOLDER)
    pictures = tuple(Picture(f"{FOLDER}/{path.name}", _TITLES[path.name], path.read_bytes()) for path in drawn)
    return ToolSpace(measure(specs, vectors, tally), len(specs), pictures, servers)


def _tools(shards: Iterable[Path]) -> Iterator[ToolSpec]:
    for path in shards:
        with pq.ParquetFile(path, pre_buffer=False) as shard:
            for batch in shard.iter_batches(batch_size=_BATCH):
                yield from (from_values(ToolSpec, values) for values in batch.to_pylist())


def _embed(specs: list[ToolSpec]) -> np.ndarray | None:
    """(n, dimension), or None where no embedding model is installed."""
    with contextlib.suppress(ImportError, OSError):
        from tokenmill.judges.embedding.similarity import Embedder

        return asyncio.run(Embedder().embed([describe(spec) for spec in specs]))
    return None
