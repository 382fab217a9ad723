"""Rows from the Hugging Face Hub: `hf://datasets/NAME[/CONFIG][:SPLIT]`, fetched once into the Hub's own cache.

Every data set that the Hub can show has a copy in Parquet on the branch `refs/convert/parquet`, whatever its authors wrote;
where there is none, their own Parquet and JSONL files are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from tokenmill.pipelines.runs.errors import UsageError, line_of
from tokenmill.pipelines.runs.exit import OK, say
from tokenmill.pipelines.transforms.sources import FORMATS, TEXT, ends_with

PREFIX = "hf://datasets/"
CONVERTED = "refs/convert/parquet"
_SPLITS = frozenset({"train", "test", "validation", "valid", "val", "dev", "eval"})
_FORM = "write hf://datasets/NAME, hf://datasets/OWNER/NAME/CONFIG or hf://datasets/OWNER/NAME:SPLIT"
_PLACE = re.compile(r"(?P<repo>[\w.-]+(?:/[\w.-]+)?)(?:/(?P<config>[\w.-]+))?(?::(?P<split>[\w.-]+))?")


@dataclass(frozen=True)
class Place:
    """What is wanted of the Hub."""

    repo: str
    config: str
    split: str


def place_of(pattern: str) -> Place:
    """
    Raises:
        UsageError: not of the form above.
    """
    found = _PLACE.fullmatch(pattern.removeprefix(PREFIX))
    if found is None:
        raise UsageError(f"--input {pattern}: {_FORM}")
    return Place(found["repo"], found["config"] or "", found["split"] or "train")


def fetched(pattern: str) -> list[str]:
    """Local paths of the files that hold a data set's rows, in order.

    Raises:
        UsageError: there is no such data set, configuration or split, or the Hub cannot be reached.
    """
    # Imported where it is needed: it takes a while.
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, RevisionNotFoundError

    place, api = place_of(pattern), HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)
    try:
        try:
            revision: str | None = CONVERTED
            names = _converted(pattern, place, api.list_repo_files(place.repo, repo_type="dataset", revision=revision))
        except RevisionNotFoundError:
            revision = None
            names = _written(pattern, place, api.list_repo_files(place.repo, repo_type="dataset"))
        say(f"{pattern}: {len(names)} files", OK)
        return [api.hf_hub_download(place.repo, name, repo_type="dataset", revision=revision) for name in sorted(names)]
    except HfHubHTTPError as error:
        raise UsageError(f"--input {pattern}: {line_of(error)}; is its name right, and is HF_TOKEN set?") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--input {pattern}: the Hub cannot be reached or refuses it: {line_of(error)}") from None


def _converted(pattern: str, place: Place, files: Iterable[str]) -> list[str]:
    """The files of a configuration and split, of CONFIG/SPLIT/0000.parquet."""
    parts = [name.split("/") for name in files if name.endswith(".parquet") and name.count("/") == 2]
    configs = list(dict.fromkeys(config for config, _, _ in parts))
    if not configs:
        raise UsageError(f"--input {pattern}: the Hub has no rows of it")
    if place.config and place.config not in configs:
        raise UsageError(f"--input {pattern}: no such configuration; there are {', '.join(configs)}")
    if not place.config and len(configs) > 1 and "default" not in configs:
        raise UsageError(f"--input {pattern}: name one of its configurations: {', '.join(configs)}")
    config = place.config or ("default" if "default" in configs else configs[0])
    splits = list(dict.fromkeys(split for there, split, _ in parts if there == config))
    # A large data set is converted in part only, and its folder says so.
    if (wanted := place.split) not in splits and (wanted := f"partial-{place.split}") in splits:
        say(f"{pattern}: the Hub has only the beginning of it in Parquet; give the files of the whole to read all", OK)
    if wanted not in splits:
        raise UsageError(f"--input {pattern}: no split {place.split}; there are {', '.join(splits)}")
    return ["/".join(part) for part in parts if part[:2] == [config, wanted]]


def _written(pattern: str, place: Place, files: Iterable[str]) -> list[str]:
    """Files as the authors wrote them whose path names the configuration and the split."""
    rows = [name for name in files if ends_with(name, FORMATS) and not ends_with(name, TEXT)]
    rows = [name for name in rows if not place.config or place.config in name.split("/")]
    words = {name: set(re.split(r"[/._-]", name)) for name in rows}
    split = [name for name in rows if place.split in words[name]]
    if not split and place.split == "train":  # who has one split only may leave it unnamed
        split = [name for name in rows if not words[name] & _SPLITS]
    if not split:
        there = f"; there are {', '.join(rows[:5])}" if rows else " in Parquet or JSONL"
        raise UsageError(f"--input {pattern}: no files of the split {place.split}{there}")
    return split
