"""Nothing that a document or a model wrote does more in a terminal than stand there."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from tokenmill.bench.servers.mill import document
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.runs.exit import OK, say
from tokenmill.pipelines.runs.terminal import Terminal, harmless

from tokenmill import cli

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202edetrever\u202c\u2066x\u2069"
STEERING = [
    *map(chr, {*range(0x20), *range(0x7F, 0xA0)} - {9, 10}),
    *"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e",
]


@given(st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(STEERING))))
def test_all_that_steers_goes_and_all_else_stays(text):
    shown = harmless(text)
    assert not set(shown) & {*STEERING, *"\u2066\u2067\u2068\u2069"}
    kept = iter(shown)
    assert all(c == next(kept) for c in text if c not in STEERING and not "\u2066" <= c <= "\u2069")


def test_every_kind_of_output_is_made_harmless_and_ours_keeps_its_colours():
    stream = io.StringIO()
    table = Table(title=Text(HOSTILE), expand=True)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE, style="green"))
    console = Terminal(file=stream, force_terminal=True, color_system="standard", width=80, legacy_windows=False)
    console.print(table, Group(Text(HOSTILE), Syntax(HOSTILE, "python")), HOSTILE, Text("ours", style="red"))
    shown = stream.getvalue()
    assert "\x1b[31mours\x1b[0m" in shown and shown.count("detrever") == 6
    assert not {"\x07", "\x9b", "\x7f", "\u202e", "\u2066"} & set(shown)
    assert "\x1b]0" not in shown and "\x1b[2J" not in shown


def test_what_ends_a_command_is_told_harmlessly(capfd):
    say(f"the endpoint says {HOSTILE}", OK)
    assert capfd.readouterr().err == "tokenmill: the endpoint says ]0;owned[2J31mdetreverx\n"


def test_a_preview_steers_no_terminal(tmp_path, capfd):
    row = {**document(1, 4), "id": f"id{HOSTILE}"}
    row["text"] = f"{HOSTILE} {row['text']}"
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    with ScriptedServer(lambda body: f"{HOSTILE} written") as server:
        code = cli.main(
            [
                *("knowledge", "--input", str(tmp_path / "a.jsonl"), "--preview", "1", "--llm", server.spec),
                *("--no-similarity", "--no-judge", "--cache", str(tmp_path / "answers.sqlite")),
            ]
        )
    shown = capfd.readouterr()
    assert code == 0 and "detrever" in shown.out and "written" in shown.out
    assert not set(shown.out + shown.err) & {*STEERING, *"\u2066\u2069"}
