"""GGUF files of the Hugging Face Hub: which one a spec means, and a copy of it on this machine.

    spec = pinned(parse_spec("hf:Qwen/Qwen3-8B-GGUF"))      # hf:Qwen/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf?revision=7c41…
    fetched(spec)                                           # ~/.cache/tokenmill/models/Qwen/…/Qwen3-8B-Q4_K_M.gguf

A download that breaks off is taken up where it ended, by the next command too; a finished one is compared with the SHA-256
that the Hub has. What is in the cache of `huggingface_hub` already is taken from there. The token of a gated model comes from
`HF_TOKEN` or `hf auth login`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from tokenmill.inference.spec import ModelSpec, parse_spec

PREFERRED = ("Q4_K_M", "Q4_K_XL", "Q4_K_S", "Q4_0", "MXFP4", "Q5_K_M", "Q5_K_S", "Q6_K", "Q8_0")
"""Quantizations, the one to take first where a spec names only the repository: four bits a weight keep nearly all of a model's
skill in a quarter of its size."""
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


class NotFetched(Exception):
    """A model file is not to be had; one line that says what to do."""


def pinned(spec: ModelSpec) -> ModelSpec:
    """The spec with its file and commit named, as the Hub has them now. Asks the Hub unless both are named already.

    Raises:
        NotFetched: no such repository or file, no access, or no way to the Hub.
    """
    repo, options = _repo(spec), dict(spec.options)
    revision = options.get("revision", "")
    if spec.path and _COMMIT.fullmatch(revision):
        return spec
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        info = HfApi().model_info(repo, revision=revision or None)
    except Exception as error:  # the client and its HTTP library raise types of their own
        here = spec.path and try_to_load_from_cache(repo, spec.path, revision=revision or "main")
        if not isinstance(here, str) or not _unreachable(error):
            raise NotFetched(f"{spec.text}: {_explained(error)}") from None
        commit = Path(here).parts[-1 - len(Path(spec.path or "").parts)]  # …/snapshots/COMMIT/FILE
        return _named(spec, repo, spec.path or "", commit)
    files = sorted(one.rfilename for one in info.siblings or () if one.rfilename.endswith(".gguf"))
    if spec.path and spec.path not in files:
        raise NotFetched(f"{spec.text}: {repo} has no such file; {_offer(files)}")
    return _named(spec, repo, spec.path or _chosen(spec, repo, files), str(info.sha))


def fetched(spec: ModelSpec) -> Path:
    """The model's file on this machine, downloaded if it is not there; of a model in several files the first, beside the others.

    Raises:
        NotFetched: see `pinned`; or the download broke off, or is not what the Hub says.
    """
    spec = pinned(spec)
    repo, commit, name = _repo(spec), dict(spec.options)["revision"], spec.path or ""
    part = _PART.search(name)
    names = [name] if part is None else [
        f"{name[: part.start()]}-{number:05d}-of-{part[2]}.gguf" for number in range(1, int(part[2]) + 1)
    ]  # fmt: skip
    from huggingface_hub import try_to_load_from_cache

    shared = [try_to_load_from_cache(repo, one, revision=commit) for one in names]
    if all(isinstance(one, str) for one in shared):
        return Path(str(shared[0]))
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tokenmill", "models", repo, commit)
    for one in names:
        if not (folder / one).is_file():
            _download(repo, commit, one, folder / one)
    return folder / names[0]


def _download(repo: str, commit: str, name: str, to: Path) -> None:
    """Download one file whole; a part of it that is there already is kept."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    part = to.with_name(f"{to.name}.part")
    try:
        url = hf_hub_url(repo, name, revision=commit)
        about = get_hf_file_metadata(url)
        to.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # another run may be fetching the same
            if to.is_file():
                return
            if about.size is not None and file.tell() > about.size:
                file.truncate(0)
            http_get(
                url,
                file,
                resume_size=file.tell(),
                headers=build_hf_headers(),
                expected_size=about.size,
                displayed_filename=name,
            )
            file.flush()
            if (wanted := _SHA256.fullmatch(about.etag or "")) and _sha256(part) != wanted[0]:
                part.unlink()
                raise NotFetched(f"hf:{repo}/{name}: the download is damaged and was deleted; repeat the command")
            part.replace(to)
    except NotFetched:
        raise
    except Exception as error:  # the client and its HTTP library raise types of their own
        raise NotFetched(
            f"hf:{repo}/{name}: {_explained(error)}; repeat the command to go on where it broke off"
        ) from None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _repo(spec: ModelSpec) -> str:
    return "/".join(spec.model.split("/")[:2])


def _named(spec: ModelSpec, repo: str, file: str, commit: str) -> ModelSpec:
    options = "&".join(f"{name}={value}" for name, value in {**dict(spec.options), "revision": commit}.items())
    return parse_spec(f"hf:{repo}/{file}?{options}")


def _chosen(spec: ModelSpec, repo: str, files: list[str]) -> str:
    """The file that a spec without one means: of the most useful quantization, and the first part where it is split."""
    whole = [name for name in files if not (part := _PART.search(name)) or int(part[1]) == 1]
    models = [name for name in whole if not re.search(r"mmproj|imatrix", Path(name).name, re.IGNORECASE)]
    for quantization in PREFERRED:
        for name in models:
            if re.search(rf"(?<![A-Za-z0-9]){quantization}(?![A-Za-z0-9])", Path(name).name, re.IGNORECASE):
                return name
    if len(models) == 1:
        return models[0]
    raise NotFetched(f"{spec.text}: name one of the files of {repo}; {_offer(models)}")


def _offer(files: list[str]) -> str:
    return (
        f"it has {', '.join(files[:12])}"
        if files
        else "it has no .gguf file (look for a repository that ends in -GGUF)"
    )


def _unreachable(error: Exception) -> bool:
    """Whether no answer came from the Hub."""
    return getattr(error, "response", None) is None


def _explained(error: Any) -> str:
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if isinstance(error, GatedRepoError):
        return "the model is gated: accept its terms on the Hub and set HF_TOKEN"
    if isinstance(error, RepositoryNotFoundError):
        return "no such repository on the Hub, or none that HF_TOKEN may read"
    if isinstance(error, RevisionNotFoundError):
        return "the repository has no such revision"
    if isinstance(error, (EntryNotFoundError, HFValidationError)):
        return "no such file in the repository"
    words = " ".join(str(error).split())[:200] or type(error).__name__
    return f"the Hub cannot be reached: {words}" if _unreachable(error) and not isinstance(error, OSError) else words


def pinned_text(text: str) -> str:
    """A model SPEC with its file and commit named where it means one on the Hub; any other as it is."""
    spec = parse_spec(text)
    return pinned(spec).text if spec.kind == "hf" else text
