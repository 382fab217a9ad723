"""From complete shards to a finished folder: final names, card, report, and last of all the manifest."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems
from tokenmill.inference.redaction import redacted
from tokenmill.pipelines.report import templates
from tokenmill.pipelines.report.card import write_card
from tokenmill.pipelines.report.html import write_report
from tokenmill.pipelines.report.masking import masked_text
from tokenmill.pipelines.report.survey import shards_under, survey_run
from tokenmill.pipelines.report.tally import Shards
from tokenmill.pipelines.runs.errors import RunFailed
from tokenmill.pipelines.runs.folder import MANIFEST, PAGES, OutputFolder
from tokenmill.schemas.manifest import Manifest

PICTURES = "coverage/*.png"
"""Shown by the card of tools."""


def finish(out: OutputFolder, manifest: Manifest) -> None:
    """Make the folder a finished run. The manifest is written last: without it nothing looks finished.

    Raises:
        RunFailed: a file cannot be written.
    """
    try:
        manifest.files = out.publish()
        with _local(out, manifest) as (folder, shards):
            survey = survey_run(folder, shards=shards)
            if survey.figures:
                setattr(manifest, survey.figures.FIELD, survey.figures.as_dict())
            write_card(folder, manifest, survey)
            write_report(folder, manifest, survey)
            seal(folder, manifest)
            if not out.local:
                for page in manifest.pages:
                    out.write(page["file"], (folder / page["file"]).read_bytes())
        told = orjson.dumps(manifest.as_dict(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        out.write(MANIFEST, redacted(told))
        out.end()
    except OSError as error:
        raise RunFailed(f"{out.path}: {error.strerror or error}; repeat the command to finish at no cost") from error


def seal(folder: Path, manifest: Manifest) -> None:
    """Put what a publication shows beside the shards into the manifest, with its hash. Rows repeat what strangers wrote; what
    of it has the form of a credential is not shown.

    Raises:
        OSError: a page cannot be read or written.
    """
    manifest.pages = []
    for name in PAGES:
        written = (folder / name).read_text(encoding="utf-8")
        if (shown := masked_text(written)) != written:
            templates.write_whole(folder / name, shown)
    for path in (*(folder / name for name in PAGES), *sorted(folder.glob(PICTURES))):
        content = path.read_bytes()
        entry = {"file": path.relative_to(folder).as_posix(), "bytes": len(content)}
        manifest.pages.append({**entry, "sha256": hashlib.sha256(content).hexdigest()})


@contextlib.contextmanager
def _local(out: OutputFolder, manifest: Manifest) -> Iterator[tuple[Path, Shards]]:
    """A folder of this machine for card and report, and the run's shards: where they are, or fetched one at a time."""
    if out.local:
        yield Path(out.path), shards_under(Path(out.path))
        return
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as folder:
        yield Path(folder), functools.partial(_fetched, out, manifest, Path(folder))


def _fetched(out: OutputFolder, manifest: Manifest, to: Path, folder: str) -> Iterator[Path]:
    """Copies of the shards of one output folder; the copy before is deleted first."""
    for name in (file["file"] for file in manifest.files if file["file"].startswith(f"{folder}/")):
        copy = to / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        source = FileSystems.open(out.at(name), compression_type=CompressionTypes.UNCOMPRESSED)
        with source, copy.open("wb") as handle:
            shutil.copyfileobj(source, handle, 1 << 20)
        try:
            yield copy
        finally:
            copy.unlink()
