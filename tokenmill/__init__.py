"""Tokenmill: synthetic data for language-model training, and the proof of its worth.

One import package. In a source checkout its rooms (`pipelines`, `judges`, `inference`, ...) lie beside this folder, at the
top level of the repository, where they are easier to see; a wheel carries them inside `tokenmill`.

    import tokenmill as tm

    run = tm.knowledge([{"text": "…"}], llm="Qwen/Qwen3-30B-A3B@http://localhost:8000/v1")
    run.data, run.rejected, run.failed          # Arrow tables
    run.report()                                # inline in a notebook
    tm.checks.verdicts(source, rewrite)         # the checks alone
"""

import importlib
from pathlib import Path
from typing import Any

IMPORT_ROOT = str(Path(__file__).resolve().parent.parent)
"""The folder that must be on a process's path for it to import `tokenmill`."""

IN_CHECKOUT = Path(IMPORT_ROOT, "beam_runner.py").is_file()
COMMAND = ("python", "beam_runner.py") if IN_CHECKOUT else ("tokenmill",)
"""What runs the command line here."""

if IN_CHECKOUT:
    __path__.append(IMPORT_ROOT)

PUBLIC = {
    "knowledge": "api",
    "math": "api",
    "generate": "api",
    "agentic": "api",
    "tools": "api",
    "models": "api",
    "checks": "",
    "Run": "result",
    "Rollout": "pipelines.transforms.rollout",
    "Accepted": "pipelines.transforms.rollout",
    "Rejected": "pipelines.transforms.rollout",
    "Several": "pipelines.transforms.rollout",
    "FailedRow": "schemas.documents",
    "UsageError": "schemas.flags",
    "RunStopped": "inference.errors",
    "RunFailed": "pipelines.runs.errors",
}
"""What `import tokenmill as tm` offers, and the module that each name is imported from when it is first used."""


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    if not PUBLIC[name]:
        return importlib.import_module(f"tokenmill.{name}")
    return getattr(importlib.import_module(f"tokenmill.{PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC})
