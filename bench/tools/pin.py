"""Look up the hashes of a list's packages, and write them into it.

    python -m tokenmill.bench.tools.pin                          # lines of the shipped list that have none
    python -m tokenmill.bench.tools.pin --again --only NAME ...  # compare, too: what a registry says now

Asks the registries that uv and npm are set up for, one package after the other, and installs nothing. A line gets `sha256` (PyPI:
every file of the version, of which only wheels are ever installed) or `integrity` (npm). What is no longer to be had, or is other
than what the list pins, is told and left as it was. Returns 1 if there is such a line.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tokenmill.tools_repo.harvest.servers import SHIPPED, Server, ServerInvalid, parse_server
from uv import find_uv_bin

SECONDS = 120


class NotHad(Exception):
    """A registry does not have a version."""


def _asked(argv: list[str], folder: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHad(str(error)) from None
    if done.returncode:
        raise NotHad(" ".join(done.stderr.split())[:300])
    return done.stdout


def hashes_of(server: Server) -> dict[str, str]:
    """What a line is to say of its package: `{"sha256": …}` or `{"integrity": …}`.

    Raises:
        NotHad: the version cannot be had, or without a hash.
    """
    with tempfile.TemporaryDirectory() as folder:
        if server.npm:
            wanted = f"{server.npm}@{server.version}"
            told = json.loads(_asked(["npm", "view", wanted, "dist.integrity", "--json"], folder) or "null")
            if not isinstance(told, str):
                raise NotHad("the registry tells no hash of it")
            return {"integrity": told}
        Path(folder, "in").write_text(f"{server.pypi}=={server.version}\n")
        quiet = ["--no-config", "--quiet", "--no-header", "--no-annotate"]
        argv = [
            find_uv_bin(),
            "pip",
            "compile",
            *quiet,
            "--no-deps",
            "--generate-hashes",
            "--only-binary",
            ":all:",
            "in",
        ]
        found = sorted(set(re.findall(r"--hash=sha256:([0-9a-f]{64})", _asked(argv, folder))))
        if not found:
            raise NotHad("the registry tells no hash of it")
        return {"sha256": " ".join(found)}


def pinned(values: dict[str, Any], again: bool) -> tuple[dict[str, Any], str]:
    """(the line, with hashes where it had none; what is wrong with its package, empty for nothing)"""
    try:
        server = parse_server(values)
        if not (server.pypi or server.npm) or ((server.sha256 or server.integrity) and not again):
            return values, ""
        told = hashes_of(server)
        parse_server({**values, **told})
    except (NotHad, ServerInvalid) as error:
        return values, str(error)
    for name, value in told.items():
        if name in values and not set(values[name].split()) <= set(value.split()):
            return values, f"the registry says {name} {value}, the list {values[name]}"
    return {**values, **{name: value for name, value in told.items() if name not in values}}, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--list", type=Path, default=SHIPPED, metavar="FILE", help="JSONL of servers (default: the shipped one)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="servers by their names")
    parser.add_argument("--again", action="store_true", help="ask for lines that have a hash, too, and compare")
    flags = parser.parse_args()
    lines, wrong, asked = [], 0, 0
    for line in flags.list.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            values = json.loads(line)
            if not flags.only or values["name"] in flags.only:
                values, problem = pinned(values, flags.again)
                asked += 1
                if problem:
                    wrong += 1
                    print(f"{values['name']}: {problem}", flush=True)
            line = json.dumps(values, ensure_ascii=False)
        lines.append(line)
    flags.list.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    have = sum('"sha256"' in line or '"integrity"' in line for line in lines)
    print(f"{asked} looked at, {wrong} not as they should be; {have} of {len(lines)} lines have a hash")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
