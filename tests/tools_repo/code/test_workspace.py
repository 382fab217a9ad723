"""Workspaces are names and bytes: no path in them leads anywhere on this machine."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.code import CodeFile
from tokenmill.tools_repo.code.workspace import (
    MAX_FILES,
    Entry,
    PathRefused,
    Workspace,
    WorkspaceFull,
    from_wire,
    normal,
)
from tokenmill.tools_repo.code.world import changes, json_patch

NAMES = st.sampled_from(["a", "b", "c.py", "ü~x"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
ENTRIES = st.builds(Entry, st.binary(max_size=9), st.booleans()) | st.builds(lambda t: Entry(link=t), PATHS)


def plain(files):
    """Without files below files, which no folder can hold."""
    kept = {}
    for path in sorted(files):
        parts = path.split("/")
        if not any("/".join(parts[:end]) in kept for end in range(1, len(parts))):
            kept[path] = files[path]
    return Workspace(kept)


WORKSPACES = st.dictionaries(PATHS, ENTRIES, max_size=6).map(plain)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "..", "../x", "a/../../x", "", ".", "a/..", "x\0y", "\ud800", "n" * 300]
)
def test_paths_that_lead_out_or_nowhere_are_refused(path):
    with pytest.raises(PathRefused):
        normal(path)


def test_paths_are_written_one_way():
    assert normal("./a//b/../c") == "a/c"


@pytest.mark.parametrize(
    "entries",
    [
        {"a": Entry(b""), "a/b": Entry(b"")},
        {"../x": Entry(b"")},
        {"a//b": Entry(b"")},
        {"l": Entry(link="/etc"), "l/x": Entry()},
    ],
)
def test_impossible_workspaces_are_refused(entries):
    with pytest.raises(PathRefused):
        Workspace(entries)


def test_too_much_is_refused():
    with pytest.raises(WorkspaceFull, match="files, more than"):
        Workspace({f"f{n}": Entry() for n in range(MAX_FILES + 1)})
    with pytest.raises(WorkspaceFull, match="bytes, more than"):
        Workspace({"big": Entry(bytes(17 << 20))})


def test_links_are_followed_inside_and_never_out():
    space = Workspace(
        {
            "real/file": Entry(b"x"),
            "folder": Entry(link="real"),
            "up/link": Entry(link="../folder/file"),
            "out": Entry(link="/etc/passwd"),
            "above": Entry(link="../../etc/passwd"),
            "loop": Entry(link="loop"),
        }
    )
    assert space.resolve("folder/file") == space.resolve("up/link") == "real/file"
    for path in ("out", "above", "loop", "out/x"):
        with pytest.raises(PathRefused):
            space.resolve(path)


@given(WORKSPACES)
def test_what_goes_to_a_guest_comes_back_the_same(space):
    assert Workspace(from_wire(space.to_wire())) == space


@given(WORKSPACES, WORKSPACES)
def test_changes_lead_from_one_to_the_other(before, after):
    assert before.changed(changes(before, after)) == after
    state = {"files": before.state}
    for step in json.loads(json_patch(before, after)):
        path = step["path"].removeprefix("/files/").replace("~1", "/").replace("~0", "~")
        assert (path in state["files"]) == (step["op"] != "add")
        if step["op"] == "remove":
            del state["files"][path]
        else:
            state["files"][path] = step["value"]
    assert state == {"files": after.state}


@pytest.mark.parametrize("rows", [None, [1], [["a", "-"]], [["a", "-", "!"]], [["/a", "-", ""]], [["../a", "l", "x"]]])
def test_a_forged_answer_of_a_guest_is_refused(rows):
    with pytest.raises(ValueError):
        from_wire(rows)


def test_a_state_shows_text_and_only_names_the_rest():
    state = Workspace(
        {"t": Entry(b"hi"), "b": Entry(b"\xff\0"), "x": Entry(b"", True), "long": Entry(b"y" * 100_000)}
    ).state
    assert state["t"]["content"] == "hi" and state["x"]["executable"] is True
    assert "content" not in state["b"] and "content" not in state["long"] and state["long"]["bytes"] == 100_000
    assert Workspace.of([CodeFile("a/b", "hi")]).state["a/b"]["sha256"] == state["t"]["sha256"]
