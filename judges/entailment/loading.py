"""Finding and loading an NLI cross-encoder: from this machine where it is there, else from the Hub.

Its labels are read from `config.json` alone, so that a run knows before it spends anything whether the model will do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill.judges.embedding.loading import TIMEOUT

_MOST = 1 << 20
"""Bytes that a model's `config.json` may have."""


class Labels(NamedTuple):
    """Places of the two labels that count among the model's outputs."""

    entailment: int
    contradiction: int


def labels_of(name: str) -> Labels:
    """The labels of a model, by its folder or its name on the Hub.

    Raises:
        OSError: no such model, or one that was not trained for natural-language inference; one line.
    """
    path = Path(name, "config.json") if Path(name).is_dir() else _fetched(name)
    if not path.is_file() or path.stat().st_size > _MOST:
        raise OSError(f"{path} is no model's configuration")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        named = {str(label).strip().lower(): int(place) for place, label in config.get("id2label", {}).items()}
    except (ValueError, AttributeError) as error:
        raise OSError(f"{path} cannot be read: {error}") from None
    if missing := [label for label in Labels._fields if label not in named]:
        has = ", ".join(sorted(named)) or "none"
        raise OSError(
            f"not a model for natural-language inference: its labels are {has}; {' and '.join(missing)} must be among them"
        )
    return Labels(named["entailment"], named["contradiction"])


def _fetched(name: str) -> Path:
    """`config.json` of a model on the Hub, or of one that was fetched before."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(hf_hub_download(name, "config.json", etag_timeout=TIMEOUT))
    except HFValidationError:
        raise OSError("there is no such folder, and the Hub can have no model of that name") from None
    except Exception as error:  # the HTTP client has errors of its own
        if isinstance(cached := try_to_load_from_cache(name, "config.json"), str):
            return Path(cached)
        line = " ".join(str(error).split())[:150] or type(error).__name__
        raise OSError(f"there is no such folder, and the Hub does not give it: {line}") from None


def load(name: str) -> Any:
    """The cross-encoder, on an accelerator where there is one.

    Raises:
        OSError: no such model.
    """
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(name, local_files_only=Path(name).is_dir())
    model.eval()
    return model
