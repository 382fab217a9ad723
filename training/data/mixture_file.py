"""`mixture.json`, which `tokenmill corpus --mixture` writes beside its shards: what a training run reads, phase by phase."""

from __future__ import annotations

import json
from pathlib import Path

from tokenmill.training.data.mixture import Source
from tokenmill.training.data.rows import InputError, find_files, open_shards
from tokenmill.training.data.selection import Selection

VERSION = 1


def read_mixture(path: Path, phase: str = "") -> tuple[tuple[Source, ...], int]:
    """The sources of a phase with their weights, and its tokens.

    Args:
        path: the file, or the corpus that has it.
        phase: its name; by default the first.

    Raises:
        InputError: there is no such file or phase, or the shards beside it do not hold what it says.
    """
    file = path / "mixture.json" if path.is_dir() else path
    try:
        told = json.loads(file.read_text())
        if told["version"] != VERSION:
            raise InputError(f"--mixture {file}: is of version {told['version']}; this program reads {VERSION}")
        phases = {one["name"]: one for one in told["phases"]}
        if phase and phase not in phases:
            raise InputError(f"--phase {phase}: {file} has {', '.join(phases)}")
        chosen = phases[phase or next(iter(phases))]
        files = find_files(file.parent)
        sources = tuple(
            Source(one["name"], open_shards(files, Selection.parse(one["where"])), one["weight"])
            for one in chosen["sources"]
        )
        return sources, int(chosen["tokens"])
    except OSError as error:
        raise InputError(f"--mixture {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise InputError(f"--mixture {file}: is no mixture of a corpus: {error}") from None
