"""Made-up tools, any number of them, all different; and for some of them repetitions that are not.

Nothing here is random but for `schemas.draws`: the same seed makes the same tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenmill.schemas.draws import digest, pick, shuffled, uniform
from tokenmill.schemas.tools import MCP, SYNTHETIC, ToolSpec, from_openai

_DOMAINS = {
    "billing": "invoice refund tariff subscription voucher quote",
    "hospital": "patient ward prescription diagnosis vaccination transfusion",
    "logistics": "parcel pallet container route depot waybill",
    "robotics": "gripper joint trajectory waypoint actuator encoder",
    "trading": "portfolio bond option hedge dividend watchlist",
    "travel": "itinerary flight hotel visa cruise excursion",
    "education": "course syllabus exam lecture transcript scholarship",
    "farming": "field harvest tractor greenhouse silo livestock",
    "energy": "turbine inverter substation transformer battery pipeline",
    "music": "album playlist concert instrument lyric recording",
    "software": "repository branch issue release runner artifact",
    "security": "firewall certificate incident credential honeypot quarantine",
    "astronomy": "telescope galaxy asteroid spectrum observation nebula",
    "law": "contract clause verdict subpoena trademark hearing",
    "sports": "match league athlete stadium referee tournament",
    "cooking": "recipe ingredient menu utensil allergen marinade",
    "weather": "storm glacier rainfall humidity tide avalanche",
    "museum": "exhibit sculpture painting curator donation fossil",
    "railway": "locomotive timetable platform signal carriage timber",
    "aviation": "runway aircraft crew beacon hangar manifest",
}
_QUALIFIERS = [
    "", "recurring", "regional", "seasonal", "internal", "premium", "historic", "foreign", "provisional", "municipal",
    "academic", "industrial", "marine", "alpine", "nocturnal", "voluntary", "digital", "medieval", "tropical", "federal",
    "rural", "urban", "solar", "arctic", "organic", "hybrid", "military", "civil", "coastal", "orbital", "vintage",
    "experimental", "clinical", "judicial", "monetary", "botanical", "nuclear", "thermal", "optical", "magnetic",
]  # fmt: skip
_ACTIONS: list[dict[str, Any]] = [
    {"verb": "get", "other": "fetch", "args": ["id", "fields"],
     "text": "Get the {q}{n} with the given identifier. The answer holds all of its attributes and its history.",
     "again": "Fetches one {q}{n} by identifier. All attributes and the history are in the answer."},
    {"verb": "list", "other": "list_all", "args": ["page", "page_size", "sort_by"],
     "text": "List every {q}{n} of the {d} department, page by page. Results can be sorted by any attribute.",
     "again": "Lists each {q}{n} that the {d} department has, page by page. Any attribute can sort the results."},
    {"verb": "create", "other": "add", "args": ["name", "details", "owner"],
     "text": "Create a new {q}{n} in the {d} system. The caller must own the account that it is created in.",
     "again": "Adds a new {q}{n} to the {d} system. Callers must own the account it is created in."},
    {"verb": "delete", "other": "remove", "args": ["id", "reason"],
     "text": "Delete the {q}{n} with the given identifier. This cannot be undone and is logged with the reason.",
     "again": "Removes the {q}{n} that has the given identifier. It is logged with the reason and cannot be undone."},
    {"verb": "update", "other": "modify", "args": ["id", "changes", "notify"],
     "text": "Update some attributes of a {q}{n} in the {d} system. Attributes that are not given stay as they are.",
     "again": "Modifies attributes of a {q}{n} of the {d} system. What is not given stays as it is."},
    {"verb": "search", "other": "find", "args": ["query", "limit", "since"],
     "text": "Search the {d} archive for any {q}{n} that matches a query. The newest matches come first.",
     "again": "Finds every {q}{n} in the {d} archive that matches the query. Newest matches are first."},
    {"verb": "export", "other": "dump", "args": ["id", "format", "destination"],
     "text": "Export a {q}{n} to a file in the given format. The file is written to the destination folder.",
     "again": "Exports the {q}{n} into a file of a given format. It is written to the folder named as destination."},
    {"verb": "compare", "other": "diff", "args": ["first_id", "second_id"],
     "text": "Compare one {q}{n} with another and list the differences between the two attribute by attribute.",
     "again": "Compares a {q}{n} with another one, attribute by attribute, and lists the differences."},
    {"verb": "approve", "other": "accept", "args": ["id", "approver", "comment"],
     "text": "Approve a pending {q}{n} in the name of the {d} supervisor. A comment is kept for the auditors.",
     "again": "Accepts a {q}{n} that is pending, in the name of the {d} supervisor. Auditors see the comment."},
    {"verb": "forecast", "other": "predict", "args": ["id", "horizon_days", "model"],
     "text": "Forecast how a {q}{n} will develop over the coming days, from the measurements of the {d} department.",
     "again": "Predicts the development of a {q}{n} over the next days from what the {d} department measured."},
]  # fmt: skip
_ARGUMENTS = {"id": "identifier", "query": "text", "limit": "max_results", "name": "title", "comment": "note"}
_FILLERS = [
    "Use this tool whenever you need it.",
    "Requires authentication.",
    "Rate limited to 60 calls per minute.",
    "See the documentation for examples.",
]
KINDS = ("copied", "renamed", "edited", "reordered", "extended", "reworded")
"""Sorts of repetition that `repetition` makes."""


@dataclass(frozen=True)
class Planted:
    """A repetition of `of`, made in one of the ways of `KINDS`."""

    tool: ToolSpec
    of: str
    kind: str


def count() -> int:
    """How many different tools there are."""
    return len(_QUALIFIERS) * len(_ACTIONS) * sum(len(nouns.split()) for nouns in _DOMAINS.values())


def tools(wanted: int, seed: int = 0) -> Iterator[ToolSpec]:
    """That many different tools; beyond `count()` the objects are numbered models (`turbine_mk2`).

    Half are real by origin and half synthetic.
    """
    places = [
        (d, n, q, a) for d, nouns in _DOMAINS.items() for n in nouns.split() for q in _QUALIFIERS for a in _ACTIONS
    ]
    places = shuffled(places, seed, "tools")
    for index in range(wanted):
        domain, noun, qualifier, action = places[index % len(places)]
        series = index // len(places)
        # The names of series are words, so that they are as different as objects are.
        noun = f"{noun}_{_word(seed, series)}" if series else noun
        yield _tool(domain, noun, qualifier, action, index, seed)


def _word(*parts: object) -> str:
    syllables = ["ka", "lo", "mi", "ru", "te", "sha", "vo", "ne", "pi", "dra", "zu", "fel"]
    return "".join(pick(syllables, *parts, at) for at in range(4))


def _tool(domain: str, noun: str, qualifier: str, action: dict[str, Any], index: int, seed: int) -> ToolSpec:
    words = {"q": f"{qualifier} " if qualifier else "", "n": noun.replace("_", " "), "d": domain}
    name = "_".join(filter(None, (action["verb"], qualifier, noun)))
    return _build(
        name, action["text"].format(**words), action["args"], domain, MCP if digest(seed, index) % 2 else SYNTHETIC,
        f"{domain}-{index}",
    )  # fmt: skip


def _build(name: str, description: str, arguments: list[str], domain: str, origin: str, place: str) -> ToolSpec:
    properties = {
        argument: {"type": "string", "description": f"The {argument.replace('_', ' ')}."} for argument in arguments
    }
    schema = {"type": "object", "properties": properties, "required": arguments[:1]}
    where: dict[str, Any] = {"domain": [domain, place]} if origin == SYNTHETIC else {"server": place}
    tool = {"name": name, "description": description, "parameters": schema}
    return from_openai(tool, origin=origin, category=domain, **where)


def repetition(tool: ToolSpec, kind: str, seed: int = 0) -> Planted:
    """The same tool again under another server or domain, changed in one of the ways of `KINDS`."""
    name, text, arguments = tool.name, tool.description, list(tool.parameters["properties"])
    verb, _, rest = name.partition("_")
    action = next(a for a in _ACTIONS if a["verb"] == verb)
    if kind == "renamed":
        words = name.split("_")
        camel = words[0] + "".join(word.title() for word in words[1:])
        name = pick([camel, "-".join(words), f"api_{name}", "_".join([*words[1:], words[0]]), "".join(map(str.title, words))],
                    seed, tool.id)  # fmt: skip
    elif kind == "edited":
        first, *others = re.split(r"(?<=\.) ", text)
        dropped = " ".join([first, *others[1:]])
        text = pick([f"{text} {pick(_FILLERS, seed, tool.id)}", text.replace("the ", "a ", 1).rstrip("."),
                     f"This tool can {first[0].lower()}{text[1:]}", dropped if others else text.upper()],
                    seed, tool.id, "edit")  # fmt: skip
    elif kind == "reordered":
        arguments = arguments[::-1]
        text = " ".join(re.split(r"(?<=\.) ", text)[::-1])
    elif kind == "extended":
        arguments += ["verbose", "timeout"] if uniform(seed, tool.id) < 0.5 else ["dry_run"]
    elif kind == "reworded":
        given = _fill(action["text"], text)
        text = action["again"].format(**given)
        name = f"{action['other']}_{rest}"
        arguments = [_ARGUMENTS.get(argument, argument) for argument in arguments]
    origin = pick([MCP, SYNTHETIC], seed, tool.id, "origin")
    return Planted(_build(name, text, arguments, tool.category, origin, f"again-{tool.toolset}"), tool.id, kind)


def _fill(template: str, text: str) -> dict[str, str]:
    """The values with which `template` gives `text`."""
    pattern = re.escape(template).replace(r"\{q\}\{n\}", "(?P<n>.+?)", 1).replace(r"\{d\}", "(?P<d>.+?)", 1)
    found = re.fullmatch(pattern, text)
    return {"q": "", "d": "", **(found.groupdict() if found else {})}
