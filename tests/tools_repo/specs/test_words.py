import pytest
from tokenmill.tools_repo.specs.words import actions, name_key, opposed, split, stem


@pytest.mark.parametrize(
    "name, words",
    [
        ("getHTTPResponse", ["get", "http", "response"]),
        ("list-all_items2", ["list", "all", "items", "2"]),
        ("获取weather", ["获取", "weather"]),
        ("", []),
    ],
)
def test_names_of_any_style_are_taken_apart(name, words):
    assert split(name) == words


@pytest.mark.parametrize("plural, singular", [("invoices", "invoice"), ("boxes", "box"), ("cities", "city"),
                                              ("status", "status"), ("glass", "glass"), ("matches", "match")])  # fmt: skip
def test_stems(plural, singular):
    assert stem(plural) == singular


def test_the_description_tells_the_action_that_the_name_lacks():
    assert actions(["invoice"], "Creates an invoice.") == {"create"}
    assert actions(["delete", "invoice"], "Creates an invoice.") == {"delete"}


def test_opposites_and_kin():
    assert opposed(frozenset({"create"}), frozenset({"delete"}))
    assert not opposed(frozenset({"get"}), frozenset({"search"}))
    assert not opposed(frozenset(), frozenset({"delete"}))


def test_names_that_say_the_same_share_a_key():
    assert name_key(["get", "weather"]) == name_key(["weather", "fetch"]) != 0
    assert name_key(["get", "invoice"]) != name_key(["list", "invoices"])
    assert name_key(["search"]) == name_key(["weather"]) == 0
