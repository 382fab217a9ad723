"""Styles, perspectives and templates of the user's own in a run of knowledge; what a style lets be left out."""

import json

import pytest
from tokenmill.bench.servers.mill import Writer, documents
from tokenmill.bench.servers.scripted import ScriptedServer
from tokenmill.pipelines.knowledge.contracts import keeps_all, see_to
from tokenmill.pipelines.knowledge.style_pairs import styles

from tests.outputs import manifest, rows
from tests.test_batch_cli import command, run
from tokenmill import prompts

LIMERICK = "---\nbrief: as a limerick\n---\nWrite a limerick of five lines.\n"
PIRATE = "---\nbrief: as a pirate would\n---\nThe reader is a pirate.\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(6, 8)))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "limerick.md").write_text(LIMERICK)
    (tmp_path / "pirate.md").write_text(PIRATE)
    return tmp_path


@pytest.mark.parametrize("workers", [1, 2])
def test_own_styles_and_perspectives_are_drawn_written_and_on_record(folder, workers):
    with ScriptedServer(Writer()) as server:
        flags = (
            "--styles",
            "mine",
            "letter",
            "--perspectives",
            "pirate.md",
            "--rephrasings",
            "2",
            "--chunk-tokens",
            "400",
        )
        argv = command(folder, server.spec, "out", *flags, workers=workers)
        code, _, errors = run(argv, folder)
        assert code == 0, errors
        sent = [body.decode() for body in server.log.bodies]
        (folder / "mine" / "limerick.md").write_text(LIMERICK + "Rhyme.\n")
        assert "other settings" in run(argv, folder)[2]
    made = rows(folder / "out")
    assert {row["style"].partition("-")[0] for row in made} == {"limerick", "letter"}
    assert {row["perspective"].partition("-")[0] for row in made} == {"pirate"}
    assert all("The reader is a pirate." in body for body in sent if "response_format" not in body)
    assert any("as a limerick; as a pirate would" in body for body in sent if "response_format" in body)
    used = {prompt["name"].partition("-")[0]: prompt["text"] for prompt in manifest(folder / "out")["prompts"]}
    assert "limerick of five lines" in used["own/limerick"] and "styles/essay" not in used


def test_a_template_of_ones_own_takes_the_place_of_the_shipped_one(folder):
    shipped = prompts.load("knowledge/rephrase")
    parts = "".join(f"# {role}\n{text}\n" for role, text in shipped.parts)
    (folder / "my.md").write_text(parts.replace("# system\n", "# system\nMIND THE GAP.\n", 1))
    with ScriptedServer(Writer()) as server:
        flags = ("--prompt", "knowledge/rephrase=my.md", "--no-judge", "--rephrasings", "1")
        code, _, errors = run(command(folder, server.spec, "out", *flags), folder)
        assert code == 0, errors
        assert all(b"MIND THE GAP." in body for body in server.log.bodies)
    assert all(any(name.startswith("own/my-") for name in row["prompts"]) for row in rows(folder / "out"))


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("--styles", "sonnet"), "no such file or folder with .md files; shipped are"),
        (("--styles", "bare.md"), "needs `brief`"),
        (
            ("--styles", "letter", "--perspectives", "pirate.md", "--rephrasings", "2"),
            "there are 1 style-perspective pairs",
        ),
        (("--styles", "adds.md"), "keeps: all or keeps: some, and adds: nothing"),
        (("--prompt", "knowledge/rephrase=bare.md"), "they differ in {{chunk}}"),
        (("--prompt", "judges/nothing=bare.md"), "write NAME=FILE"),
    ],
)
def test_what_is_wrong_is_one_line_before_anything_is_asked(folder, flags, hint):
    (folder / "bare.md").write_text("Write well.")
    (folder / "adds.md").write_text("---\nbrief: x\nadds: jokes\n---\nWrite jokes.")
    with ScriptedServer(Writer()) as server:
        code, _, errors = run(command(folder, server.spec, "out", *flags), folder)
        assert code == 2 and hint in errors and errors.count("\n") == 1 and server.log.requests == 0, errors


def test_a_strategy_may_leave_out_what_a_style_must_keep_but_neither_may_add(folder):
    """The writer keeps the first sentence of each passage alone; the judge reports the others as missing."""
    short = Writer(
        faults={"": lambda text: Writer()({"messages": [{"content": _fenced(text)}]}).split(". ")[0] + "."},
        judge=lambda body: {"missing": [_claim(body)]},
    )
    with ScriptedServer(short) as server:
        flags = ("--rephrasings", "1", "--repairs", "0", "--chunk-tokens", "400")
        for name, style in (("kept", "distil"), ("refused", "letter")):
            code, _, errors = run(command(folder, server.spec, name, *flags, "--styles", style), folder)
            assert code == 0, errors
    assert len(rows(folder / "kept")) == 6 and not rows(folder / "kept", "rejected")
    assert {row["reason"] for row in rows(folder / "refused", "rejected")} <= {"collapses", "missing_claim"}
    assert len(rows(folder / "refused", "rejected")) == 6
    added = Writer(judge=lambda body: {"unsupported": [_invention(body)]})
    with ScriptedServer(added) as server:
        argv = command(folder, server.spec, "added", *flags, "--styles", "distil", cache="added.sqlite")
        assert run(argv, folder)[0] == 0
    assert {row["reason"] for row in rows(folder / "added", "rejected")} == {"unsupported_claim"}


def _fenced(text):
    return f"<passage-00000000>\n{text}\n</passage-00000000>"


def _claim(body):
    source = body["messages"][-1]["content"].split("<source-")[1].split(">\n", 1)[1].split("\n</source")[0]
    quote = " ".join(source.split()[-6:])
    return {"claim": "left out", "source_quote": quote, "rewrite_quote": "", "severity": "major"}


def _invention(body):
    text = body["messages"][-1]["content"].split("<rewrite-")[1].split(">\n", 1)[1].split("\n</rewrite")[0]
    return {"claim": "made up", "source_quote": "", "rewrite_quote": " ".join(text.split()[:6]), "severity": "major"}


def test_every_strategy_declares_its_contract_and_none_is_drawn_unasked():
    names = prompts.names("strategies")
    assert {"strategies/tutorial", "strategies/expansion"} == {name for name in names if keeps_all(name)}
    for name in names:
        see_to(name)
        meta = prompts.load(name).meta
        assert meta["adds"] == "nothing" and meta["brief"] and meta["keeps"] in ("all", "some")
    assert not {style.name for style in styles()} & set(names)
