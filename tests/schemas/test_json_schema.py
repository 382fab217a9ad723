"""Schemas of strangers: patterns mean what they say, and none takes long."""

import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenmill.schemas.json_schema import broken, compiled, found, unbounded, validator_for

# Each with a text on which Python's own matcher takes more than a second.
HOSTILE = [
    (r"^(a+)+$", "a" * 40 + "!"),
    (r"^(a*)*b", "a" * 40),
    (r"^(a|ab|b)*$", "ab" * 40 + "!"),
    (r"^([a-zA-Z]+)*$", "a" * 40 + "!"),
    (r"^(\w+\s?)*$", "a" * 40 + "!"),
    (r"^(a{2,50})+$", "a" * 90 + "!"),
    (r"^(x+x+)+y", "x" * 40),
    (r"^([a-z]*[0-9]*)*!", "a" * 40),
    (r"^(.*a){12}$", "a" * 60 + "!"),
    (r"^.*.*.*.*.*.*x", "a" * 300),
    (r"^" + "a?" * 30 + "a" * 30 + "$", "a" * 45 + "!"),
    (r"^(?:a{0,9}){2,9}[a]{9}(?:ab?){2,30}$", "a" * 60 + "!"),
    ("^([一-鿿]+ ?)*$", "一" * 40 + "!"),
]
USUAL = [
    r"^([a-z0-9]+\.)*[a-z0-9]+$",
    r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
    r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$",
    r"^(https?://)?[\w.-]+(/\S*)?$",
    r"^#(?:[0-9a-fA-F]{3}){1,2}$",
    r"^[A-Za-z0-9_-]{1,64}$",
    r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
    r'^"(?:[^"\\]|\\.)*"$',
    r"^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$",
    r"^\+?\d{1,3}?[-.\s]?\(?\d{1,4}\)?[-.\s]?\d{1,4}[-.\s]?\d{1,9}$",
    r"^v?\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$",
    r"[\u4e00-\u9fa5]+|\\u",
    "",
]
BEYOND = [
    r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)@[a-z.]+$",
    r"(a)\1",
    r"^.{1,2048}$",
    "(?:[a-c]{0,500}d?){0,9}",
    "a" * 2000,
]


def valid(schema, value):
    return validator_for(schema)(schema).is_valid(value)


def test_hostile_patterns_take_no_time():
    started = time.process_time()
    for pattern, text in HOSTILE:
        assert not valid({"pattern": pattern}, text)
        assert valid({"patternProperties": {pattern: False}}, {text: 1})
        assert not valid({"patternProperties": {pattern: {}}, "additionalProperties": False}, {text: 1})
    assert time.process_time() - started < 1


@pytest.mark.parametrize("pattern, text", HOSTILE[::4])
def test_the_dangers_are_real(pattern, text):
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", f"import re; re.search({pattern!r}, {text!r})"], timeout=1)


@given(st.data(), st.sampled_from(USUAL))
def test_patterns_people_write_mean_what_python_means(data, pattern):
    ours = data.draw(
        st.from_regex(re.compile(pattern, re.ASCII)) | st.text(st.characters(max_codepoint=127), max_size=9)
    )
    text = ours.replace("\n", "").replace(
        "\v", ""
    )  # in Python `$` is also before a line's end, and `\\s` knows tabs of old
    assert found(pattern, text) == bool(re.search(pattern, text, re.ASCII))


@pytest.mark.parametrize("pattern", BEYOND)
def test_what_re2_does_not_read_is_asked_of_no_value(pattern):
    assert not broken(pattern) and valid({"pattern": pattern}, "?") and valid({"pattern": pattern}, "")
    with pytest.raises(ValueError, match=r"RE2|longer"):
        compiled(pattern)


@pytest.mark.parametrize("pattern", ["(", "[a", "a**", "*", r"\p{Nonsense}", "a)", "\\", "[z-a]"])
def test_what_is_no_pattern_is_said(pattern):
    assert broken(pattern).count("\n") == 0 < len(broken(pattern)) < 300


def test_patterns_of_properties():
    schema = {"properties": {"a": {}}, "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}
    assert valid(schema, {"a": "1", "x1": 1}) and valid(schema, "no object")
    assert not valid(schema, {"x1": "1"}) and not valid(schema, {"b": 1})
    others = {**schema, "additionalProperties": {"type": "string"}}
    assert valid(others, {"b": "1", "x": 2}) and not valid(others, {"b": 1})
    (error,) = validator_for({"pattern": "^a$"})({"pattern": "^a$"}).iter_errors("b")
    assert error.message == "'b' does not match '^a$'"


def test_a_schema_keeps_its_draft():
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "prefixItems": [False], "pattern": "^(a|a)*$"}
    assert valid(old, [1]) and not valid({"prefixItems": [False]}, [1])
    assert validator_for(old) is validator_for({**old})


def test_half_a_surrogate_pair_is_a_character():
    assert found("^.$", "\ud800") and not found("^a$", "\ud800")


def test_what_no_override_can_hold_is_known():
    assert unbounded([{"patternProperties": {}}, {"unevaluatedProperties": False}])
    assert not unbounded([{"patternProperties": {}}, {"additionalProperties": False}])
