"""A scripted model that evolves domains, entities and tools: plausible, varied, the same for the same request; with
planted repetitions whose number is known.

    evolver = Evolver(siblings=0.05, reworded=0.05, across=0.05)
    with ScriptedServer(evolver) as server: ...
    evolver.planted        # what was planted, by kind
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson
from tokenmill.schemas.draws import digest, pick, shuffled, uniform


def _words(text: str) -> list[str]:
    return text.split()


SUBJECTS = _words(
    "turbine patient parcel portfolio greenhouse orchestra satellite contract recipe glacier locomotive vaccine "
    "auction reservoir archive telescope shipment tenancy tournament vineyard incubator excavation timetable fleet "
    "subscription scholarship aquarium pipeline festival inventory sensor payroll grant excursion claim transcript "
    "mooring exhibit harvest diagnosis waybill roster petition dividend catalogue substation itinerary syllabus "
    "quarantine blueprint"
)
WORK = _words(
    "inspection scheduling brokerage restoration certification forecasting reconciliation dispatch calibration "
    "triage procurement mediation digitisation rehearsal accreditation surveying refurbishment licensing auditing "
    "matching"
)
SETTINGS = _words(
    "offshore rural municipal alpine nocturnal cooperative arctic seasonal cross-border volunteer wholesale "
    "clinical underground mobile historic tropical independent emergency remote academic"
)
KINDS = _words(
    "Inspection Permit Crew Booking Invoice Sample Route Sensor Contract Delivery Complaint Budget Training Alarm "
    "Vehicle Certificate Auction Measurement Quote Subscription Shift Repair Visit Proposal Lease Shipment Grant "
    "Batch Survey Season"
)
QUALIFIERS = _words(
    "overdue regional urgent recurring disputed archived preliminary joint foreign seasonal internal flagged "
    "premium unassigned expired shared backdated nightly voluntary provisional"
)
SAYINGS = {
    "search": ("find", "Find {q} {k} records by {a} and status, newest first. Use it before any single record is touched."),
    "create": ("register", "Register a new {q} {k} with its {a}. The number under which it is kept comes back."),
    "read": ("show", "Show everything that is known of one {q} {k}, its {a} and its history included."),
    "update": ("adjust", "Adjust the {a} of a {q} {k} that exists already. What is left out stays as it was."),
    "analyse": ("forecast", "Forecast how the {a} of all {q} {k} records will develop over the coming weeks."),
    "delete": ("cancel", "Cancel a {q} {k} for good and give the {a} as the reason. This cannot be undone."),
}  # fmt: skip
OTHERWISE = {
    "search": ("lookup", "Finds {q} {k} records by status and {a}, with the newest first. Use before a record is touched."),
    "create": ("add", "Registers one new {q} {k} with its {a}; the number that it is kept under comes back."),
    "read": ("get", "Shows everything known of one {q} {k}, including its history and its {a}."),
    "update": ("modify", "Adjusts the {a} of a {q} {k} that already exists; what is left out stays as it was."),
    "analyse": ("predict", "Forecasts how the {a} of all {q} {k} records will develop over the weeks to come."),
    "delete": ("remove", "Cancels a {q} {k} for good, with the {a} given as the reason. It cannot be undone."),
}  # fmt: skip
ASPECTS = _words(
    "cost location deadline owner lifespan weight colour humidity grade capacity rating route dosage tariff"
)
SHARED = {
    "search": ("find_contact_by_phone", "Find the contact person to whom a telephone number belongs, whatever its spelling."),
    "create": ("invite_contact_person", "Invite a person by e-mail to become a contact of this organisation."),
    "read": ("show_contact_card", "Show the business card of a contact person with all ways to reach them."),
    "update": ("merge_contact_entries", "Merge two entries of one and the same contact person into the older of them."),
    "analyse": ("rank_contacts_by_activity", "Rank contact persons by how often they were in touch during a period."),
    "delete": ("forget_contact_data", "Erase all personal data of a contact person who asked to be forgotten."),
}  # fmt: skip
"""Tools that come up again in one domain after another, over the kind `Contact` that every domain has."""

_SHARED = {name for name, _ in SHARED.values()}
_DOMAINS = re.compile(r"<domains-\w+>\n(.*?)\n</domains-", re.DOTALL)
_TOOLS = re.compile(r"<tools-\w+>\n(.*?)\n</tools-", re.DOTALL)
_ENTITIES = re.compile(r"^(\w+) \(identifier", re.MULTILINE)
_WANTED = re.compile(r"^(\d+)\. (\w+) - ", re.MULTILINE)
_LISTED = re.compile(r"^- (.+?): ", re.MULTILINE)


@dataclass
class Evolver:
    """Answers every request of `tools evolve`. The shares are of domains or tools that repeat something on purpose."""

    domains: float = 0.0
    """Domains that repeat a sibling at the first try."""
    siblings: float = 0.0
    """Tools that have the name of one in the same domain, at the first try."""
    reworded: float = 0.0
    """Tools that say one in the same domain again in other words, at the first try."""
    across: float = 0.0
    """Tools that stand in other domains too; nobody tells the model, so they are left to curation."""
    broken: float = 0.0
    """Drafts that name an entity which does not exist, at the first try."""
    planted: Counter[str] = field(default_factory=Counter, init=False)
    calls: Counter[str] = field(default_factory=Counter, init=False)

    def __call__(self, body: dict[str, Any]) -> Any:
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        if "problems" in properties:
            return self._said("judge", {"problems": []})
        if "tools" in properties:
            return self._said("tools", {"tools": self._tools(body)})
        if "kinds" in properties:
            return self._said("entities", {"kinds": _kinds(body)})
        if "name" in properties:
            return self._said("domain", self._domain(body))
        return self._said("state", {kind: _records(kind, inner) for kind, inner in properties.items()})

    def _said(self, what: str, value: Any) -> str:
        self.calls[what] += 1
        return orjson.dumps(value).decode()

    def _domain(self, body: dict[str, Any]) -> dict[str, str]:
        text = body["messages"][1]["content"]
        at = digest(text, body["messages"][-1]["content"])
        taken = _LISTED.findall(next(_DOMAINS.finditer(text))[1])
        if len(body["messages"]) == 2 and taken and uniform(at, "repeat") < self.domains:
            self.planted["domain"] += 1
            return {
                "name": taken[-1],
                "description": "The same people look after the same things as they did before, daily.",
            }
        while True:
            setting, subject, work = (pick(words, at, i) for i, words in enumerate((SETTINGS, SUBJECTS, WORK)))
            name = f"{setting} {subject} {work}"
            if name not in taken:
                break
            at = digest(at)
        things = ", ".join(shuffled(SUBJECTS, at, first=3))
        aims = " and ".join(shuffled(ASPECTS, at, first=2))
        description = (
            f"Crews concerned with {work} in {setting} places keep track of each {subject} and of {things}. "
            f"They settle {aims} with partners before anything is done."
        )
        return {"name": name, "description": description}

    def _tools(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        first, last = body["messages"][1]["content"], body["messages"][-1]["content"]
        kinds = [kind for kind in _ENTITIES.findall(first) if kind != "Contact"]
        taken = set(_LISTED.findall(next(_TOOLS.finditer(first))[1]))
        repaired = len(body["messages"]) > 2
        actions = [action for _, action in _WANTED.findall(last)]
        made: list[dict[str, Any]] = []
        for number, action in enumerate(actions):
            at = digest(first, last, number)
            draft = self._draft(action, kinds, taken | {tool["name"] for tool in made}, at)
            roll = uniform(at, "plant")
            old = [tool for tool in made if tool["action"] == action]
            if not repaired and roll < self.siblings and taken:
                self.planted["sibling"] += 1
                draft["name"] = pick(sorted(taken), at)
            elif not repaired and self.siblings <= roll < self.siblings + self.reworded and not old:
                draft = self._reworded(action, kinds, taken, at) or draft
            elif not repaired and 0 <= roll - self.siblings - self.reworded < self.broken:
                self.planted["broken"] += 1
                draft["reads"] = ["Dragon"]
            elif uniform(at, "across") < self.across and SHARED[action][0] not in taken and not old:
                self.planted["across"] += 1
                draft = _tool(action, *SHARED[action], "Contact", "cost")
            made.append(draft)
        return made

    def _draft(self, action: str, kinds: list[str], taken: set[str], at: int) -> dict[str, Any]:
        verb, saying = SAYINGS[action]
        while True:
            kind, q = pick(kinds, at, "kind"), pick(QUALIFIERS, at, "q")
            aspect = pick(ASPECTS, snake(kind), q)  # follows from the name, so that a repetition can be made of it
            name = f"{verb}_{q}_{snake(kind)}"
            if name not in taken:
                return _tool(action, name, saying.format(q=q, k=spaced(kind), a=aspect), kind, aspect)
            at = digest(at)

    def _reworded(self, action: str, kinds: list[str], taken: set[str], at: int) -> dict[str, Any] | None:
        verb, _ = SAYINGS[action]
        old = sorted(name for name in taken if name.startswith(f"{verb}_") and name not in _SHARED)
        if not old:
            return None
        self.planted["reworded"] += 1
        _, q, kind = pick(old, at, "old").split("_", 2)
        other, saying = OTHERWISE[action]
        named = next(k for k in kinds if snake(k) == kind)
        aspect = pick(ASPECTS, kind, q)
        return _tool(action, f"{other}_{q}_{kind}", saying.format(q=q, k=spaced(named), a=aspect), named, aspect)


def snake(kind: str) -> str:
    """`TurbinePermit` as `turbine_permit`."""
    return re.sub(r"(?<=.)([A-Z])", r"_\1", kind).lower()


def spaced(kind: str) -> str:
    return snake(kind).replace("_", " ")


def meaning(name: str) -> str:
    """What a tool of this scripted model does, by its name: equal for two that are one, however they are called."""
    verb, _, rest = name.partition("_")
    actions = {said[0]: action for table in (SAYINGS, OTHERWISE) for action, said in table.items()}
    return name if name in _SHARED else f"{actions.get(verb, verb)} {rest}"


def _kinds(body: dict[str, Any]) -> list[dict[str, Any]]:
    at = digest(body["messages"][1]["content"])
    subjects, kinds = shuffled(SUBJECTS, at, "subjects", first=4), shuffled(KINDS, at, first=4)
    names = [*(subject.title() + kind for subject, kind in zip(subjects, kinds, strict=True)), "Contact"]
    described = []
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        own = f"{snake(name)}_id"
        fields = [
            _entity_field(own, "text", "Its number."),
            _entity_field("status", "text", "Where it stands.", values=["open", "done", "held"]),
            _entity_field("priority", "integer", "From 1 to 5."),
            _entity_field(f"{snake(other)}_ref", "text", "What it belongs to.", refers_to=other),
        ]
        described.append({"name": name, "description": f"One {spaced(name)}.", "identifier": own, "fields": fields})
    return described


def _entity_field(name: str, type: str, description: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "type": type, "optional": False, "values": [], "refers_to": "",
            "fields": []} | more  # fmt: skip


def _records(kind: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    other = next(name for name in schema["items"]["properties"] if name.endswith("_ref")).removesuffix("_ref")
    return [
        {
            f"{snake(kind)}_id": f"{snake(kind).upper()}-{i}",
            "status": "open",
            "priority": i,
            f"{other}_ref": f"{other.upper()}-{i}",
        }
        for i in (1, 2, 3)
    ]


def _tool(action: str, name: str, description: str, kind: str, aspect: str) -> dict[str, Any]:
    own = f"{snake(kind)}_id"
    writing = action in ("create", "update", "delete")
    parameters = {
        "search": [
            _field(aspect, "text", f"Text that its {aspect} holds.", required=False),
            _field("status", "text", "Only those that stand there.", choices=["open", "done"], required=False),
            _field("limit", "integer", "How many at most.", limits="1..50", default="20", required=False),
        ],
        "create": [
            _field(aspect, "object", f"The {aspect}.", fields=[
                _field("value", "number", "How much.", limits="0.."), _field("noted_on", "date", "When it was noted.")]),
            _field("priority", "integer", "From 1 to 5.", limits="1..5", default="3", required=False),
        ],
        "read": [_field(own, "text", "Its number.", refers_to=kind)],
        "update": [_field(own, "text", "Its number.", refers_to=kind), _field("tags", "text[]", f"What its {aspect} becomes.")],
        "analyse": [_field("from_day", "date", "First day."), _field("weeks", "integer", "How many.", limits="1..52")],
        "delete": [_field(own, "text", "Its number.", refers_to=kind), _field("reason", "text", f"The {aspect}, in words.")],
    }[action]  # fmt: skip
    returns = [_field("status", "text", "Where it stands afterwards.")]
    returns += [_field("items", "object[]", "What was found.", fields=[_field(own, "text", "Its number.")])]
    return {
        "action": action,
        "name": name,
        "description": description,
        "parameters": parameters,
        "returns": returns,
        "reads": [kind],
        "writes": [kind] if writing else [],
        "preconditions": [f"The {kind} exists."] if action in ("read", "update", "delete") else [],
        "effects": [f"The {kind} is as asked for."] if writing else [],
        "errors": [f"There is no such {kind}."],
        "destructive": action == "delete",
        "idempotent": not writing,
    }


def _field(name: str, type: str, description: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "type": type, "required": True, "choices": [], "limits": "",
            "default": "", "refers_to": "", "fields": []} | more  # fmt: skip
