"""Put a finished run on the Hugging Face Hub.

    python beam_runner.py publish out/wiki --repo-id my-org/wiki-rephrased --private --dry-run

What goes: the card, the manifest, the report and the shards of `data/` and `rejected/`. What stays home: `failed/` and
everything that no run writes. The token comes from `HF_TOKEN` or `hf auth login`, never from a flag.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from tokenmill.pipelines.report.formatting import one_line, size
from tokenmill.pipelines.report.masking import masked_text
from tokenmill.pipelines.runs.errors import RunFailed, UsageError
from tokenmill.pipelines.runs.terminal import harmless
from tokenmill.pipelines.transforms import PAIRS
from tokenmill.schemas.flags import Options, flag
from tokenmill.schemas.manifest import Manifest

PAGES = ("README.md", "manifest.json", "report.html")
CARD = "README.md"
PUBLISHED = ("data", "rejected", PAIRS)
STALE = [f"{folder}/*.parquet" for folder in PUBLISHED]
"""An earlier, larger run leaves shards in the repository that the card's patterns would read as rows of this one."""
PICTURES = "coverage/*.png"
MAX_PAGE = 64_000_000
"""Bytes of a page: more is none of ours."""


@dataclass
class _File:
    """What every entry of a manifest's files and pages has."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Publication:
    """What goes to the Hub, or went."""

    repo_id: str
    private: bool
    revision: str | None
    files: tuple[tuple[str, int], ...]
    """(path relative to the run, bytes), in the order listed."""
    home: tuple[tuple[str, int], ...]
    """(path, bytes) of what is not published; a folder ends in `/`."""
    metadata: str
    """Front matter of the card, YAML."""
    rows: dict[str, int]
    """Rows by published folder."""
    url: str = ""
    """Address of the commit; empty in a dry run."""

    @property
    def bytes(self) -> int:
        return sum(n for _, n in self.files)

    def __str__(self) -> str:
        where = f"{self.repo_id}{f' at {self.revision}' if self.revision else ''}"
        lines = [f"dataset {where}, {'private' if self.private else 'public'}"]
        lines += [f"  {n:,} rows in {folder}/" for folder, n in self.rows.items()]
        lines += [f"{'sent' if self.url else 'to send'}: {len(self.files)} files, {size(self.bytes)}"]
        lines += [f"  {n:>15,}  {path}" for path, n in self.files]
        lines += [f"replaces what the repository has of {', '.join(STALE)}"]
        lines += ["stays home:" if self.home else "nothing stays home"]
        lines += [f"  {n:>15,}  {path}" for path, n in self.home]
        lines += ["card metadata:", *(f"  {line}" for line in self.metadata.splitlines())]
        return "\n".join([*lines, self.url] if self.url else lines)


def read_manifest(out: Path) -> Manifest:
    """The manifest of a finished run.

    Raises:
        UsageError: there is none, so the run is not finished, or it is none of ours.
    """
    from pydantic import TypeAdapter

    path = Path(out) / "manifest.json"
    try:
        content = path.read_bytes() if path.stat().st_size <= MAX_PAGE else b""
        manifest = Manifest(**orjson.loads(content))
        TypeAdapter(Manifest).validate_json(content, strict=True)
        for entry in (*manifest.files, *manifest.pages):
            TypeAdapter(_File).validate_python(entry)
        return manifest
    except FileNotFoundError:
        hint = "repeat its command to finish it" if Path(out).is_dir() else "there is no such folder on this machine"
        raise UsageError(f"{out} holds no finished run (no manifest.json): {hint}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} is no manifest of a run: {one_line(error, 200)}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def check_shards(out: Path, manifest: Manifest) -> None:
    """Compare every shard with the manifest: presence, size, SHA-256, rows, and that no other shard lies beside them.

    Raises:
        UsageError: the first difference.
    """
    listed = {entry["file"]: entry for entry in manifest.files}
    present = {p.relative_to(out).as_posix() for f in (*PUBLISHED, "failed") for p in (out / f).glob("*.parquet")}
    for extra in sorted(present - listed.keys()):
        raise UsageError(f"{out / extra} is not in the manifest: not part of this run, remove it")
    for name, entry in sorted(listed.items()):
        path = out / name
        if path.parent.name not in (*PUBLISHED, "failed") or not _lies_in(out, name):
            raise UsageError(f"{path} is in the manifest but not in the folder")
        _check_hash(path, entry)
        try:
            rows = pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError) as error:
            raise UsageError(f"{path} is no Parquet file: {one_line(error)}") from None
        if rows != entry["rows"]:
            raise UsageError(f"{path} has {rows:,} rows where the manifest says {entry['rows']:,}")


def check_pages(out: Path, manifest: Manifest, edited_card: bool = False) -> None:
    """Compare card, report and pictures with the manifest, and look for credentials in what of them is text.

    Args:
        edited_card: take the card as it is now.

    Raises:
        UsageError: a page is missing, no file of the folder, not what the run wrote, or shows a credential.
    """
    listed = {entry["file"]: entry for entry in manifest.pages}
    present = {path.relative_to(out).as_posix() for path in out.glob(PICTURES)}
    for extra in sorted(present - listed.keys()):
        raise UsageError(f"{out / extra} is not in the manifest: not part of this run, remove it")
    missing = [name for name in PAGES if not (out / name).exists()]
    if missing:
        raise UsageError(f"{out} has no {' and no '.join(missing)}: repeat the run's command, which writes them")
    for name in sorted({*PAGES, *listed}):
        path = out / name
        if not _lies_in(out, name):
            raise UsageError(f"{path} is a link, or not there: only files of the run's own folder are published")
        if path.stat().st_size > MAX_PAGE:
            raise UsageError(f"{path} has {path.stat().st_size:,} bytes, more than a page")
        if name in listed and not (name == CARD and edited_card):
            _check_hash(path, listed[name], " Publish an edited card with --edited-card" if name == CARD else "")
        elif name not in listed and name != "manifest.json" and not (name == CARD and edited_card):
            raise UsageError(
                f"{path} is not in the manifest, which an earlier Tokenmill wrote: repeat the run's command with "
                "--overwrite; its answers are in the cache"
            )
        if path.suffix != ".png":
            _check_credentials(path)


def plan(
    out: Path, repo_id: str, *, private: bool = False, revision: str | None = None, edited_card: bool = False
) -> Publication:
    """Check a run and list what would be published, without network.

    Raises:
        UsageError: a bad repository name, a run that is unfinished, altered or kept nothing, a credential in a page.
    """
    from huggingface_hub import DatasetCard
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    out = Path(out)
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise UsageError(f"--repo-id: {one_line(error)}") from None
    manifest = read_manifest(out)
    if not manifest.counts.get("accepted"):
        raise UsageError(f"{out}: no row was kept, so that there is nothing to publish")
    check_shards(out, manifest)
    for where, value in _leaves(manifest.as_dict(), ""):
        if masked_text(value) != value:
            raise UsageError(f"{out / 'manifest.json'}: {where} looks like a credential; remove it before publishing")
    check_pages(out, manifest, edited_card)
    try:
        metadata = DatasetCard.load(out / CARD).data.to_yaml()
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"{out / CARD} has no valid metadata: {one_line(error, 200)}") from None
    shards = [entry["file"] for entry in manifest.files if entry["file"].split("/")[0] in PUBLISHED]
    pictures = sorted(entry["file"] for entry in manifest.pages if entry["file"] not in PAGES)
    going = [*PAGES, *pictures, *sorted(shards)]
    return Publication(
        repo_id=repo_id,
        private=private,
        revision=revision,
        files=tuple((name, (out / name).stat().st_size) for name in going),
        home=tuple(_home(out, set(going))),
        metadata=metadata,
        rows={
            folder: sum(e["rows"] for e in manifest.files if e["file"].startswith(f"{folder}/"))
            for folder in PUBLISHED
            if folder != PAIRS or any(e["file"].startswith(f"{PAIRS}/") for e in manifest.files)
        },
    )


def publish(
    out: Path,
    repo_id: str,
    *,
    private: bool = False,
    dry_run: bool = False,
    token: str | None = None,
    revision: str | None = None,
    edited_card: bool = False,
) -> Publication:
    """Upload a finished run as a dataset repository, created where it does not exist.

    Args:
        token: default: `HF_TOKEN` or the one saved by `hf auth login`.
        revision: branch to commit to, created where it does not exist; default `main`.
        edited_card: publish the card as it was edited after the run.

    Raises:
        UsageError: see `plan`; or no token; or `private` is asked for and the repository exists and is public.
        RunFailed: the Hub cannot be reached or refuses. Repeating the call resumes the upload.
    """
    out = Path(out)
    publication = plan(out, repo_id, private=private, revision=revision, edited_card=edited_card)
    if dry_run:
        return publication
    from huggingface_hub import DatasetCard, HfApi, get_token

    token = token or get_token()
    if not token:
        raise UsageError("no Hugging Face token: set HF_TOKEN or run `hf auth login`")
    api = HfApi(token=token)
    try:
        _validate_card(DatasetCard.load(out / "README.md"))
        repo_id = api.create_repo(repo_id, repo_type="dataset", private=private or None, exist_ok=True).repo_id
        if private and not api.dataset_info(repo_id).private:
            raise UsageError(f"{repo_id} exists and is public: make it private first, or leave --private out")
        if revision:
            api.create_branch(repo_id, repo_type="dataset", branch=revision, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo_id,
            repo_type="dataset",
            folder_path=out,
            revision=revision,
            allow_patterns=[name for name, _ in publication.files],
            delete_patterns=STALE,
            commit_message=f"Publish {sum(publication.rows.values()):,} rows made by Tokenmill",
        )
    except (UsageError, RunFailed):
        raise
    # The client, its HTTP library and the transfer library raise types of their own; whatever stops an upload is one
    # line for the user, with the original as its cause.
    except Exception as error:
        raise RunFailed(_explained(error, repo_id)) from error
    return Publication(**{**vars(publication), "repo_id": repo_id, "url": commit.commit_url})


@dataclass(frozen=True, kw_only=True)
class PublishOptions(Options):
    """What `publish` may be given."""

    dir: Path = flag(name="dir", metavar="DIR", help="folder of a finished run")
    repo_id: str = flag(metavar="ORG/NAME", help="dataset repository on the Hub")
    private: bool = flag(False, help="create the repository private")
    revision: str | None = flag(None, metavar="BRANCH", help="branch to commit to (default: main)")
    edited_card: bool = flag(False, help="publish README.md as it was edited after the run")
    dry_run: bool = flag(False, help="show exactly what would go, without network")


def run(options: PublishOptions, beam_args: Sequence[str] = (), command: Sequence[str] = ()) -> int:
    """`beam_runner.py publish`: exit code 0, or 1 with one line on the standard error; 2 for a flag that there is not."""
    if beam_args:
        print(f"tokenmill: unknown flag {beam_args[0]}", file=sys.stderr)
        return 2
    try:
        done = publish(
            options.dir,
            options.repo_id,
            private=options.private,
            dry_run=options.dry_run,
            revision=options.revision,
            edited_card=options.edited_card,
        )
    except (UsageError, RunFailed) as error:
        print(f"publish: {harmless(str(error))}", file=sys.stderr)
        return 1
    print(harmless(str(done)))
    if options.dry_run:
        print("dry run: nothing was sent")
    return 0


COMMAND = SimpleNamespace(options=PublishOptions, run=run)


def _lies_in(out: Path, name: str) -> bool:
    """Whether a name is that of an ordinary file of a folder, reached through no link."""
    path = out / name
    return path.is_file() and path.resolve() == out.resolve() / name


def _check_hash(path: Path, entry: dict[str, Any], hint: str = "") -> None:
    if path.stat().st_size != entry["bytes"] or _sha256(path) != entry["sha256"]:
        raise UsageError(f"{path} is not what the run wrote: its SHA-256 differs from the manifest's.{hint}")


def _check_credentials(path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    if masked_text(text) != text:
        number = next((n for n, line in enumerate(text.splitlines(), 1) if masked_text(line) != line), 0)
        raise UsageError(f"{path}: line {number} shows what looks like a credential; remove it before publishing")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _leaves(value: Any, name: str) -> list[tuple[str, str]]:
    """(where, text) of every string in a JSON-like value."""
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in _leaves(v, f"{name}.{k}" if name else str(k))]
    if isinstance(value, list):
        return [leaf for i, v in enumerate(value) for leaf in _leaves(v, f"{name}[{i}]")]
    return [(name, value)] if isinstance(value, str) else []


def _home(out: Path, going: set[str]) -> list[tuple[str, int]]:
    """What is not published, folders summed up."""
    entries: dict[str, int] = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if not path.is_file() or name in going:
            continue
        top = name.split("/")[0]
        # Beside published shards a stray file is named itself.
        shown = name if top in PUBLISHED or "/" not in name else f"{top}/"
        entries[shown] = entries.get(shown, 0) + path.lstat().st_size
    return list(entries.items())


def _validate_card(card: Any) -> None:
    """Have the Hub check the metadata before a repository is made for it.

    Raises:
        RunFailed: the Hub does not accept it.
    """
    try:
        card.validate(repo_type="dataset")
    except ValueError as error:
        raise RunFailed(f"the Hub does not accept the card: {one_line(error, 300)}") from error


def _explained(error: Exception, repo_id: str) -> str:
    """One line on why the Hub did not take it."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    said = one_line(masked_text(str(getattr(error, "server_message", None) or error or type(error).__name__)), 300)
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set: unset it to publish"
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        status = error.response.status_code
        reason = {
            401: "the Hub does not accept the token",
            403: f"the token may not write to {repo_id}",
            404: f"{repo_id} does not exist, or the token may not see it",
            429: "the Hub asks to slow down; repeat the command later",
        }.get(status, f"the Hub answered HTTP {status}")
        return f"{reason}: {said}"
    return f"the Hub cannot be reached, or the transfer broke: {said}; repeat the command to resume"
