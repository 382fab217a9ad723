"""A small domain as somebody may bring it: functions over a database for the agent, a class for the user's own telephone."""

import json

TOOLS = '''
from typing import Literal


def _parcel(db, parcel_id):
    if parcel_id not in db["parcels"]:
        raise LookupError(f"Parcel {parcel_id} not found")
    return db["parcels"][parcel_id]


def get_parcel(db: dict, parcel_id: str) -> dict:
    """Look up a parcel.

    Args:
        parcel_id: Number of the parcel,
            such as P-1.
    """
    return _parcel(db, parcel_id)


get_parcel.__tool_type__ = "read"


def redirect_parcel(db: dict, parcel_id: str, place: Literal["shop", "neighbour"], note: str | None = None) -> dict:
    """Send a parcel that is on its way elsewhere.

    :param parcel_id: Number of the parcel.
    :param place: Where it is to be left.
    """
    parcel = _parcel(db, parcel_id)
    if parcel["status"] != "on its way":
        raise ValueError("Only parcels on their way can be redirected")
    parcel["place"] = place
    db["log"].append({"event_id": f"E-{len(db['log']) + 1}", "parcel": parcel_id})
    print("noise on stdout")
    return parcel


def peek() -> list[str]:
    """Tell what can be seen from here."""
    import os

    return sorted(os.environ) + [str(os.getuid() == 0)]


def stall() -> None:
    """Never end."""
    while True:
        pass
'''

USER_TOOLS = '''
class Telephone:
    """The user's own."""

    def __init__(self, db):
        self.db = db

    def toggle_silent(self) -> str:
        """Switch the silent mode."""
        self.db["device"]["silent"] = not self.db["device"]["silent"]
        return f"silent: {self.db['device']['silent']}"

    def check_silent(self) -> str:
        """Whether the telephone is silent."""
        return f"silent: {self.db['device']['silent']}"
'''

DATA = {
    "parcels": {
        "P-1": {"parcel_id": "P-1", "status": "on its way", "place": "door", "weight": 2.5},
        "P-2": {"parcel_id": "P-2", "status": "delivered", "place": "door", "weight": 1},
        "P-3": {"parcel_id": "P-3", "status": "on its way", "place": "door", "weight": 4},
    },
    "log": [{"event_id": "E-1", "parcel": "P-2"}],
    "opening_hours": "9 to 5",
}

POLICY = "You work at a parcel desk.\n\nRedirect a parcel only when the customer has asked for it."


def scenario(reason, *actions, **more):
    told = {
        "reason_for_call": reason,
        "known_info": "Your parcel is P-1.",
        "task_instructions": "Be brief.",
        "domain": "desk",
    }
    criteria = {"actions": list(actions), **more.pop("criteria", {})}
    return {"user_scenario": {"instructions": told}, "evaluation_criteria": criteria, **more}


def action(name, requestor="assistant", /, **arguments):
    return {"name": name, "arguments": arguments, "requestor": requestor}


TASKS = [
    scenario(
        "You want parcel P-1 to be left at the shop.",
        action("get_parcel", parcel_id="P-1"),
        action("redirect_parcel", parcel_id="P-1", place="shop"),
        id="redirect",
    ),
    scenario("You want parcel P-2 at the shop.", action("redirect_parcel", parcel_id="P-2", place="shop"), id="late"),
    {"id": "empty"},
]


def write_domain(folder, *, tasks=TASKS, user=False, **manifest):
    """The domain as a folder; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tools.py").write_text(TOOLS)
    (folder / "policy.md").write_text(POLICY)
    (folder / "db.json").write_text(json.dumps(DATA))
    if tasks:
        (folder / "tasks.json").write_text(json.dumps(tasks))
    if user:
        (folder / "user_tools.py").write_text(USER_TOOLS)
        (folder / "user_db.json").write_text(json.dumps({"device": {"silent": True, "battery": 80}}))
        manifest["user_tools"] = "user_tools.py:Telephone"
    if manifest:
        (folder / "domain.json").write_text(json.dumps(manifest))
    return folder
