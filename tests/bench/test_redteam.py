"""The counts of attacks by group."""

import re
from pathlib import Path

from tokenmill.bench import redteam
from tokenmill.bench.redteam import __main__ as bench

REPORT = """<testsuites><testsuite>
<testcase classname="tests.redteam.test_sandbox" name="test_the_sandbox_holds[take memory-bubblewrap-root]"/>
<testcase classname="tests.redteam.test_sandbox" name="test_the_sandbox_holds[take memory-bubblewrap-ordinary]">
<failure/></testcase>
<testcase classname="tests.redteam.test_sandbox" name="test_the_sandbox_holds[take memory-podman-ordinary]"><skipped/></testcase>
<testcase classname="tests.redteam.test_inputs" name="test_control_token_in_a_document[&lt;|im-start|&gt;]"/>
<testcase classname="tests.redteam.test_table" name="test_there_are_enough"/>
</testsuite></testsuites>"""


def test_an_attack_counts_once_and_what_fails_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "report.xml").write_text(REPORT)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{bench.BEGIN}earlier\n{bench.END}after\n")
    monkeypatch.setattr(bench, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["redteam", "--report", str(tmp_path / "report.xml"), "--write"])
    assert bench.main() == 1
    assert (
        "does not hold: test_sandbox::test_the_sandbox_holds[take memory-bubblewrap-ordinary]"
        in capsys.readouterr().out
    )
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "earlier" not in text
    assert "| Sandbox, as root and as an ordinary user | 1 | 2 | 1 | 1 |" in text and "| All | 2 | 3 | 2 | 1 |" in text


def test_every_file_of_attacks_belongs_to_a_group():
    files = {path.stem for path in (Path(redteam.__file__).parents[2] / "tests" / "redteam").glob("test_*.py")}
    patterns = [pattern for pattern, _ in bench.GROUPS.values()]
    assert [f for f in files - {"test_table"} if sum(bool(re.fullmatch(p, f)) for p in patterns) != 1] == []
