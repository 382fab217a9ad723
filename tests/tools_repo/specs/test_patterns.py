import re
import subprocess
import sys

import pytest
from tokenmill.tools_repo.specs.patterns import danger

# Each with a text on which Python's own matcher takes more than a second.
CATASTROPHIC = [
    (r"^(a+)+$", "a" * 40 + "!"),
    (r"^(a*)*b", "a" * 40),
    (r"^(a|ab|b)*$", "ab" * 40 + "!"),
    (r"^([a-zA-Z]+)*$", "a" * 40 + "!"),
    (r"^(\w+\s?)*$", "a" * 40 + "!"),
    (r"^(a{2,50})+$", "a" * 90 + "!"),
    (r"^(x+x+)+y", "x" * 40),
    (r"^([a-z]*[0-9]*)*!", "a" * 40),
    (r"(?=^(a+)+b)x", "a" * 40),
    (r"^(.*a){12}$", "a" * 60 + "!"),
    (r"^.*.*.*.*.*.*x", "a" * 300),
    (r"^(?:(?:[^a]|b)+c?)*d", "b" * 40),
    (r"^" + "a?" * 30 + "a" * 30 + "$", "a" * 45 + "!"),
    (r"^(a?){30}a{30}$", "a" * 45 + "!"),
    (r"^(.{1,16}){16}$", "a" * 400),
    (r"^(?:a{0,9}){2,9}[a]{9}(?:ab?){2,30}$", "a" * 60 + "!"),
    (r"^" + "a{0,9}" * 9 + "$", "a" * 90),
    ("^([一-鿿]+ ?)*$", "一" * 40 + "!"),
]
HARMLESS = [
    r"^([a-z0-9]+\.)*[a-z0-9]+$",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$",
    r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
    r"^(https?://)?[\w.-]+(/\S*)?$",
    r"^\s*\S+(\s+\S+)*\s*$",
    r"^#(?:[0-9a-fA-F]{3}){1,2}$",
    r"^[A-Za-z0-9_-]{1,64}$",
    r"^(\d{1,3}\.){3}\d{1,3}$",
    r"^/(?:[^/]+/)*[^/]*$",
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    r'^"(?:[^"\\]|\\.)*"$',
    r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$",
    r"^(\w+\W+)*$",
    r"^\+?\d{1,3}?[-.\s]?\(?\d{1,4}\)?[-.\s]?\d{1,4}[-.\s]?\d{1,9}$",
    r"^\d{4}(-\d{2}(-\d{2}(T\d{2}(:\d{2}(:\d{2}(\.\d{1,9})?)?)?)?)?)?$",
    r"((a|b|c|d|e){16}){16}",
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$",
    r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$",
    "",
]


@pytest.mark.parametrize("pattern, text", CATASTROPHIC)
def test_catastrophic_patterns_are_named(pattern, text):
    assert danger(pattern)


def test_the_dangers_are_real():
    for pattern, text in CATASTROPHIC[::4]:
        code = f"import re; re.search({pattern!r}, {text!r})"
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", code], timeout=1)


@pytest.mark.parametrize("pattern", HARMLESS)
def test_patterns_people_write_pass(pattern):
    assert danger(pattern) == ""


@pytest.mark.parametrize(
    "pattern", ["a" * 2000, "(" * 400 + "a" + ")*" * 400, "(a" * 200 + ")*" * 200, "((((.{16}){16}){16}){16})?"]
)
def test_monsters_are_refused_in_a_moment(pattern):
    assert danger(pattern)


def test_unknown_syntax_is_an_error():
    with pytest.raises(re.error):
        danger(r"\p{L}+")
