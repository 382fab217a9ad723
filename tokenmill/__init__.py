"""Tokenmill: synthetic data for language-model training, and the proof of its worth.

One import package. In a source checkout its rooms (`pipelines`, `judges`, `inference`, ...) lie beside this folder, at the
top level of the repository, where they are easier to see; a wheel carries them inside `tokenmill`.
"""

from pathlib import Path

IMPORT_ROOT = str(Path(__file__).resolve().parent.parent)
"""The folder that must be on a process's path for it to import `tokenmill`."""

IN_CHECKOUT = Path(IMPORT_ROOT, "beam_runner.py").is_file()
COMMAND = ("python", "beam_runner.py") if IN_CHECKOUT else ("tokenmill",)
"""What runs the command line here."""

if IN_CHECKOUT:
    __path__.append(IMPORT_ROOT)
