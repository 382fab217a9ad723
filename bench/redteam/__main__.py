"""Run every attack of `tests/redteam`, those that take minutes too, and count what held, by group.

    python -m tokenmill.bench.redteam                          # all of them: some twenty minutes on two cores
    python -m tokenmill.bench.redteam --report FILE... --write    # the table of the documentation, from reports of runs

As root each attack on the sandbox and on worlds is tried as root and as an ordinary user, in every sandbox that the machine
has. An attack is one named program, file, answer or folder, however often it is tried. Returns 1 if one does not hold.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "security.md"
BEGIN, END = "<!-- redteam -->\n", "<!-- /redteam -->\n"
GROUPS = {
    "Sandbox, as root and as an ordinary user": (
        r"test_sandbox",
        "[sandboxes](../develop/redteam-sandbox.md#known-limits)",
    ),
    "Verdicts: functions, repositories, worlds, MCP servers": (
        r"test_verdicts\w*|test_foreign_verdicts",
        "[verdicts](../develop/redteam-sandbox.md#known-limits)",
    ),
    "Hostile endpoints": (
        r"test_endpoints\w*|test_foreign_endpoints",
        "other spellings of a key; waits up to `--timeout` and `--patience`",
    ),
    "Hostile inputs": (r"test_inputs", "pages of a Parquet file larger than its footer says"),
    "Publishing": (r"test_publishing", "who can write the folder can write the manifest"),
}
_VARIANTS = frozenset(("root", "ordinary", "bubblewrap", "gvisor", "docker", "podman"))


@dataclass
class Count:
    """How a group came out."""

    attacks: set[str] = field(default_factory=set)
    tried: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)


def attack_of(module: str, name: str) -> str:
    """What is tried, whoever tries it and wherever: a test's name without user and sandbox."""
    test, bracket, given = name.partition("[")
    if not bracket:
        return f"{module}:{test}"
    # The sandbox and the user stand at the end, an attack's own name may hold dashes.
    parts = given.removesuffix("]").split("-")
    while parts and parts[-1] in _VARIANTS:
        parts.pop()
    return f"{module}:{test}[{'-'.join(parts)}]"


def counted(reports: list[Path]) -> dict[str, Count]:
    """Counts by group, from JUnit reports of our own runs; what stands in several counts as the last says."""
    counts: dict[str, Count] = defaultdict(Count)
    cases = {
        (case.get("classname"), case.get("name")): case
        for report in reports
        for case in ElementTree.parse(report).getroot().iter("testcase")
    }
    for case in cases.values():
        module = case.get("classname", "").rpartition(".")[2]
        group = next((name for name, (pattern, _) in GROUPS.items() if re.fullmatch(pattern, module)), None)
        if group is None:
            continue
        count, name = counts[group], case.get("name", "")
        if case.find("skipped") is not None:
            count.skipped += 1
            continue
        count.attacks.add(attack_of(module, name))
        count.tried += 1
        if case.find("failure") is not None or case.find("error") is not None:
            count.failed.append(f"{module}::{name}")
    return counts


def table(counts: dict[str, Count]) -> str:
    """A Markdown table of the groups."""
    lines = ["| Group | Attacks | Tried | Held | Not to be tried here | Known limits |", "|---|---|---|---|---|---|"]
    for group, (_, limits) in GROUPS.items():
        count = counts.get(group, Count())
        held = count.tried - len(count.failed)
        lines.append(
            f"| {group} | {len(count.attacks):,} | {count.tried:,} | {held:,} | {count.skipped:,} | {limits} |"
        )
    whole = [
        sum(numbers)
        for numbers in zip(
            *((len(c.attacks), c.tried, c.tried - len(c.failed), c.skipped) for c in counts.values()), strict=True
        )
    ]
    lines.append(f"| All | {' | '.join(f'{n:,}' for n in whole)} | |")
    return "\n".join(lines) + "\n"


def write(text: str) -> None:
    """Put a table between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--report", type=Path, nargs="+", metavar="FILE", help="count JUnit reports of earlier runs")
    parser.add_argument("--write", action="store_true", help="into docs/guide/security.md")
    parser.add_argument("more", nargs="*", help="given on to pytest, such as -n 2 after --")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        if flags.report is None:
            command = [
                sys.executable,
                "-m",
                "pytest",
                "tests/redteam",
                "-q",
                "-m",
                "",
                f"--junitxml={report}",
                *flags.more,
            ]
            subprocess.run(command, cwd=ROOT, check=False)
        counts = counted(flags.report or [report])
    print(table(counts))
    failed = [name for count in counts.values() for name in count.failed]
    print("\n".join(f"does not hold: {name}" for name in failed) or "all hold")
    if flags.write:
        write(table(counts))
    return 1 if failed or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
