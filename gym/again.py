"""The same tasks in another process, with another hash seed: `python -m tokenmill.gym.again SEED COUNT NAME…`.

Prints a line for each environment: its name and the fingerprint of its tasks, or nothing for one that cannot be made.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence

from tokenmill import IMPORT_ROOT

_HASH_SEED = "20250711"
"""Another one than this process's, which is drawn."""


def fingerprints(names: Sequence[str], seed: int, count: int, folder: str = "") -> dict[str, str]:
    """By name, the fingerprint of the first tasks as another process makes them; without those that it cannot make."""
    env = {**os.environ, "PYTHONHASHSEED": _HASH_SEED, "PYTHONWARNINGS": "ignore"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (IMPORT_ROOT, env.get("PYTHONPATH", ""))))
    words = [sys.executable, "-m", "tokenmill.gym.again", str(seed), str(count), *names]
    done = subprocess.run(words, env=env, cwd=folder or None, capture_output=True, text=True, check=False)
    pairs = (line.rpartition("\t") for line in done.stdout.splitlines())
    return {name: hash for name, tab, hash in pairs if tab}


def main(words: Sequence[str]) -> None:
    from tokenmill.gym.check import draw, fingerprint
    from tokenmill.gym.registry import find

    for name in words[2:]:
        with contextlib.suppress(Exception):
            with contextlib.redirect_stdout(io.StringIO()):
                made = fingerprint(draw(find(name), int(words[0]), int(words[1])))
            print(name, made, sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
