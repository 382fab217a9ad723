"""A finished run, as Python programs and notebooks look at it."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from tokenmill.pipelines.runs.errors import RunFailed
from tokenmill.pipelines.runs.folder import OutputFolder

if TYPE_CHECKING:
    from tokenmill.pipelines.runs.publish import Publication


class Run:
    """A finished run in its folder, which may be one of an earlier command: `tm.Run("out/wiki")`.

    Raises:
        RunFailed: the folder holds no finished run.
        UsageError: it cannot be looked into.
    """

    def __init__(self, path: str | Path, *, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """
        Args:
            temporary: owns the folder, which is deleted when the run is no longer in use.
        """
        self.path = str(path)
        self._temporary = temporary
        self._folder = OutputFolder(self.path)
        manifest = self._folder.manifest()
        if manifest is None:
            raise RunFailed(f"{self.path} holds no finished run")
        self.manifest: dict[str, Any] = manifest
        """`manifest.json`: configuration, versions, prompts, counts, tokens, cost."""

    @property
    def counts(self) -> dict[str, int]:
        """Rows read, accepted, rejected, failed, …"""
        return dict(self.manifest["counts"])

    @property
    def data(self) -> pa.Table:
        """The rows that every check kept. Read from the folder each time; `.to_pandas()` and `datasets.Dataset(run.data)` take
        it on."""
        return self._read("data")

    @property
    def rejected(self) -> pa.Table:
        """The rows that a check refused, with the evidence."""
        return self._read("rejected")

    @property
    def failed(self) -> pa.Table:
        """What could not be processed, with the error."""
        return self._read("failed")

    def report(self) -> Report:
        """The report, which a notebook shows inline."""
        return Report(self._content("report.html").decode())

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        revision: str | None = None,
        token: str | None = None,
        dry_run: bool = False,
    ) -> Publication:
        """Upload card, manifest, report, kept and refused rows as a dataset repository; `print` what it returns.

        Args:
            revision: branch to commit to; default `main`.
            token: default: `HF_TOKEN` or the one saved by `hf auth login`.
            dry_run: check everything and list what would go, without network.

        Raises:
            UsageError: nothing was kept, no token, a public repository where a private one is asked for.
            RunFailed: the Hub cannot be reached or refuses; repeating the call resumes the upload.
        """
        from tokenmill.pipelines.runs.publish import publish

        return publish(
            Path(self.path), repo_id, private=private, revision=revision, token=token, dry_run=dry_run
        )  # fmt: skip

    def __repr__(self) -> str:
        counts = self.counts
        kept, refused, failed = (f"{counts[name]:,}" for name in ("accepted", "rejected", "failed"))
        return f"Run({self.path!r}: {kept} kept, {refused} refused, {failed} failed of {counts['read']:,} read)"

    def _read(self, kind: str) -> pa.Table:
        names = [file["file"] for file in self.manifest["files"] if file["file"].startswith(f"{kind}/")]
        tables = [pq.read_table(pa.BufferReader(self._content(name))) for name in names]
        return pa.concat_tables(tables) if tables else pa.table({})

    def _content(self, name: str) -> bytes:
        with FileSystems.open(
            self._folder.at(*name.split("/")), compression_type=CompressionTypes.UNCOMPRESSED
        ) as file:
            return file.read()


class Report:
    """A report as HTML: a notebook shows it inline, `str(report)` is the page."""

    def __init__(self, page: str) -> None:
        self._page = page

    def __str__(self) -> str:
        return self._page

    def _repr_html_(self) -> str:
        # The page's own policy allows nothing but its own style and script; the frame allows it no more than scripts.
        return (
            f'<iframe srcdoc="{html.escape(self._page)}" sandbox="allow-scripts" '
            'style="width: 100%; height: 800px; border: 1px solid #8884"></iframe>'
        )
