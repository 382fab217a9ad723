"""One declaration for Python, the command line, the manifest and the documentation."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.flags import (
    Options,
    UsageError,
    add_flags,
    as_flags,
    describe,
    flag,
    from_namespace,
    more_than_zero,
    must,
    odd,
    positive,
    shaping,
)


@dataclass(frozen=True, kw_only=True)
class Base(Options):
    source: tuple[str, ...] = flag(name="--read", metavar="FILE", help="what is read")
    limit: int | None = flag(None, parse=positive, shapes=True, help="rows")
    seed: int = flag(0, shapes=True, help="of draws")


@dataclass(frozen=True, kw_only=True)
class Head(Base):
    where: Path = flag(name="where", metavar="DIR", help="where to write")
    loud: bool = flag(False, group="how", help="say more")
    share: float = flag(0.5, group="how", parse=more_than_zero, shapes="part", help="share of 100%")
    votes: int = flag(1_000_001, group="how", parse=odd, help="votes")
    kind: str = flag("red", group="how", choices=("red", "blue"), help="colour")
    extra: dict[str, Any] = flag({}, group="how", help="further settings")
    only: tuple[str, ...] = flag((), group="how", help="only these")
    secret: str | None = flag(None, parse=must("digits", str.isdigit), echo=False, help="a key")
    told: str = ""


def parsed(*words):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser, Head)
    return from_namespace(Head, parser.parse_args([str(word) for word in words]))


def head(**given):
    return Head(**{"source": ["a", "b"], "where": "out", **given})


WORDS = st.text(min_size=1, max_size=8).filter(lambda text: not text.startswith("-"))


@given(
    st.fixed_dictionaries(
        {"source": st.lists(WORDS, min_size=1), "where": st.just("out")},
        optional={
            "limit": st.none() | st.integers(1),
            "seed": st.integers(),
            "loud": st.booleans(),
            "share": st.floats(0, exclude_min=True),
            "votes": st.integers(0).map(lambda n: 2 * n + 1),
            "kind": st.sampled_from(("red", "blue")),
            "extra": st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()),
            "only": st.lists(WORDS),
            "secret": st.integers(0).map(str),
        },
    )
)
def test_options_read_back_from_the_words_that_say_them(values):
    options = Head(**values)
    assert parsed(*as_flags(options)) == options


def test_a_command_line_and_python_make_the_same():
    words = ("out", "--read", "a", "b", "--limit", "1_000", "--share", "2", "--loud", "--extra", '{"a": [1, null]}')
    assert parsed(*words) == head(limit=1000, share=2, loud=True, extra={"a": [1, None]})
    assert parsed("out", "--read", "a", "b") == head() == head(source=("a", "b"), where=Path("out"))


def test_texts_may_be_one_and_paths_are_texts():
    assert head(source="a", only=[Path("x"), "y"]).source == ("a",)
    assert head(only=[Path("x"), "y"]).only == ("x", "y")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": 0}, "--limit 0: must be at least 1"),
        ({"limit": "many"}, "--limit many: must be a whole number"),
        ({"limit": 1.5}, "--limit 1.5: must be a whole number"),
        ({"limit": True}, "--limit True: must be a whole number"),
        ({"seed": None}, "--seed: must be a whole number"),
        ({"share": "0"}, "--share 0: must be more than 0"),
        ({"share": "nan"}, "--share nan: must be a number"),
        ({"votes": 2}, "--votes 2: must be odd, or votes can be tied"),
        ({"kind": "green"}, "--kind green: must be one of red, blue"),
        ({"loud": "yes"}, "--loud yes: must be True or False"),
        ({"extra": "{"}, "--extra {: not JSON: Expecting property name enclosed in double quotes"),
        ({"extra": "[1]"}, r"--extra [1]: must be a JSON object"),
        ({"extra": '{"a": NaN}'}, "NaN is no number"),
        ({"source": []}, "--read: name at least one"),
        ({"source": [1]}, "--read: must be a text"),
        ({"secret": "sk-1"}, "--secret: must be digits"),
    ],
)
def test_what_cannot_be_is_one_line_with_the_flag_and_what_it_must_be(given, said):
    with pytest.raises(UsageError) as refused:
        head(**given)
    assert str(refused.value).startswith(said) or said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_shapes_rows_stands_under_its_key():
    assert shaping(head(limit=3, share=0.25)) == {"limit": 3, "seed": 0, "part": 0.25}
    assert shaping(head(limit=3), Base) == {"limit": 3, "seed": 0}


def test_every_flag_is_described():
    told = {one.field: one for one in describe(Head)}
    assert list(told) == [
        *("source", "limit", "seed", "where", "loud", "share", "votes", "kind", "extra", "only", "secret")
    ]
    assert told["source"].name == "--read" and told["source"].type is tuple and not told["source"].optional
    assert (told["limit"].type, told["limit"].optional, told["limit"].default) == (int, True, None)
    assert [told[name].described for name in ("limit", "seed", "loud", "share", "votes", "kind", "only")] == [
        *("rows", "of draws (default 0)", "say more", "share of 100% (default 0.5)", "votes (default 1,000,001)"),
        *("colour (default red)", "only these"),
    ]


def test_the_help_lists_flags_under_their_headings():
    parser = argparse.ArgumentParser()
    add_flags(parser, Head)
    shown = " ".join(parser.format_help().split())
    assert "how: --loud say more --share SHARE share of 100% (default 0.5)" in shown
    assert "--kind {red,blue}" in shown and "--read FILE [FILE ...] what is read" in shown
