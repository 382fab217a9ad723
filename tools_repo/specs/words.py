"""What the words of a tool's name and description say: its action, its objects, their opposites. English, crude."""

from __future__ import annotations

import re
from hashlib import blake2b

import orjson

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_STOP_WORDS = (
    "a an and are as at be by for from given if in into is it its of on one or that the this to tool use used using which "
    "will with you your return returns returned provide provides specific specified optional api mcp function"
)
STOP = frozenset(_STOP_WORDS.split())
_KINDS = {
    "get": "get fetch retrieve read show view obtain return see display describe check inspect monitor track report count",
    "search": "search find query lookup look locate discover",
    "list": "list browse enumerate",
    "create": "create add insert new make register book compose generate build draft reserve schedule place post capture",
    "update": "update edit modify change patch rename adjust revise amend alter set reschedule replace move",
    "delete": "delete remove drop erase clear destroy purge uninstall unregister discard cancel revoke",
    "start": "start begin launch enable activate resume unlock connect mount subscribe arm deploy play unmute open",
    "stop": "stop end halt disable deactivate pause suspend lock disconnect unmount unsubscribe disarm mute close shutdown",
    "run": "run execute perform invoke call do",
    "compute": "compute calculate estimate evaluate determine forecast predict",
    "send": "send publish dispatch upload push export write forward",
    "take": "receive download pull import",
    "more": "increase raise encrypt encode compress zip lend credit deposit buy approve accept follow like assign grant "
    "archive attach",
    "less": "decrease reduce lower decrypt decode decompress unzip extract borrow debit withdraw sell reject decline "
    "unfollow unlike unassign deny unarchive restore detach",
}
ACTIONS = {word: kind for kind, words in _KINDS.items() for word in words.split()}
_KINDRED = (
    {"get", "search"}, {"get", "list"}, {"search", "list"}, {"get", "take"}, {"get", "compute"}, {"create", "start"},
    {"create", "send"}, {"update", "more"}, {"update", "less"}, {"delete", "stop"}, {"delete", "less"}, {"start", "more"},
    {"stop", "less"}, {"create", "more"}, {"run", "start"}, {"run", "compute"}, {"run", "search"}, {"run", "get"},
)  # fmt: skip
"""Kinds of action that different words for one action may fall into."""
_OPPOSITES = (
    "on off", "up down", "in out", "left right", "min max", "minimum maximum", "first last", "next previous", "before after",
    "public private", "incoming outgoing", "read write", "start end", "upload download", "open close", "ascending descending",
    "input output", "old new", "local remote", "forward back", "forward backward", "top bottom", "horizontal vertical",
)  # fmt: skip
OPPOSITE = {a: b for pair in _OPPOSITES for a, b in (pair.split(), pair.split()[::-1])}
DIRECTIONS = frozenset({"to", "from", "into", "before", "after", "2", "vs"})


def split(text: str) -> list[str]:
    """Words in lower case; snake_case, kebab-case and camelCase are taken apart."""
    return [word.lower() for word in _WORD.findall(text)]


def stem(word: str) -> str:
    """A crude English stem: enough to make `invoices` and `invoice` one."""
    for ending, replacement in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"), ("ss", "ss"),
                                ("us", "us"), ("is", "is"), ("s", "")):  # fmt: skip
        if len(word) >= len(ending) + (3 if ending == "s" else 2) and word.endswith(ending):
            return word[: len(word) - len(ending)] + replacement
    return word


def verb(word: str) -> str:
    """A verb without the s of its third person: descriptions say `Creates`."""
    for candidate in (word, stem(word), word.removesuffix("s"), word.removesuffix("es")):
        if candidate in ACTIONS:
            return candidate
    return word


def actions(name: list[str], description: str) -> frozenset[str]:
    """Kinds of action that the name speaks of; the first verb of the description where the name has none."""
    found = {ACTIONS[word] for word in map(verb, name) if word in ACTIONS}
    if not found:
        verbs = (word for word in map(verb, split(description)[:4]) if word in ACTIONS)
        found = {ACTIONS[word] for word in verbs}
    return frozenset(found)


def opposed(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether no action of the one kind can be an action of the other in different words."""
    if not one or not other or one & other:
        return False
    return not any({x, y} in _KINDRED for x in one for y in other)


def name_key(name: list[str]) -> int:
    """0 for a name that says too little: no object, or a single one and no action."""
    kinds = sorted({ACTIONS[verb(word)] for word in name if verb(word) in ACTIONS})
    objects = sorted({word for word in name if verb(word) not in ACTIONS and word not in STOP})
    if not objects or len(kinds) + len(objects) < 2:
        return 0
    return int.from_bytes(blake2b(orjson.dumps([kinds, objects]), digest_size=8).digest(), "big") | 1
