"""A world whose tools are somebody's own Python, run in the sandbox over the domain's data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from tokenmill.schemas.tools import ToolSpec, dump, to_openai
from tokenmill.tools_repo.domains.host import AGENT, USER, Changes, Described, HostBroken
from tokenmill.tools_repo.domains.hosts import Runs
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.call_checks import Checks
from tokenmill.tools_repo.world.entities import EntityModel, State
from tokenmill.tools_repo.world.outcomes import CERTAIN, Odds, error
from tokenmill.tools_repo.world.patch import changed_records, diff
from tokenmill.tools_repo.world.stateful import Ran, StatefulWorld, as_text, clock, reads_only

ENGINE = "domain"


class DomainWorld(StatefulWorld):
    """Tools of an imported domain. What they leave behind is for them to decide: it is held to no entity model, and their
    own errors tell the agent what is not there."""

    def __init__(
        self,
        host: Runs,
        described: Described,
        tools: Sequence[ToolSpec],
        state: State,
        *,
        user_tools: Sequence[ToolSpec] = (),
        odds: Odds = CERTAIN,
        seed: Sequence[object] = (0,),
        first: str = "",
        needed: Collection[str] = (),
        now: str = "",
    ) -> None:
        """
        Args:
            state: what differs from the domain's own data at the start, record by record.

        Raises:
            ValueError: a tool is none of the domain's.
        """
        super().__init__(
            (*tools, *user_tools), EntityModel("", {}), {}, odds=odds, seed=seed, first=first, needed=needed, now=now
        )
        self.checks, self.user_checks = Checks(tools), Checks(user_tools)
        self.tools = [to_openai(spec) for spec in tools]
        self.sides = {
            **dict.fromkeys((t.name for t in user_tools), USER),
            **dict.fromkeys((t.name for t in tools), AGENT),
        }
        known = {side: {tool["name"] for tool in found} for side, found in described.tools.items()}
        for spec in (*tools, *user_tools):
            if spec.original_name not in known.get(self.sides[spec.name], ()):
                raise ValueError(f"the domain {host.folder.name} has no tool {spec.original_name!r}")
        self.host = host
        self.base = described.state
        self._state = self._before_change = overlaid(described.state, state)
        self.now = now or clock(state)

    async def act(self, name: str, arguments: str) -> ToolResult:
        """A call of the user's own tools: nothing is drawn for it, and it is not among the agent's.

        Raises:
            HostBroken: the domain's code does not run.
        """
        async with self._lock:
            parsed = self.user_checks(name, arguments, {})
            if isinstance(parsed, ToolResult):
                return parsed
            before = self._state
            ran = await self._run(self.user_checks.tools[name].spec, parsed, before, 0, False)
            self._state = ran.state
            patch = dump(diff(before, ran.state))
            return ToolResult(as_text(ran.result), error=ran.error, patch=patch, engine=ENGINE)

    async def _run(self, spec: ToolSpec, arguments: dict[str, Any], state: State, number: int, stale: bool) -> Ran:
        side = self.sides[spec.name]
        answer = await self.host.call(side, spec.original_name, arguments, changes_of(self.base, state))
        if "error" in answer:
            code = str(answer["error"])
            return Ran(orjson.loads(error(code, str(answer["message"]))), state, code, ENGINE)
        after = changed(state, answer["changed"])
        if after is not state and reads_only(spec):
            raise HostBroken(f"{self.host.folder.name}: {spec.name} says that it only reads, and changed the data")
        return Ran(answer["result"], after, "", ENGINE)


def overlaid(base: State, records: Mapping[str, Mapping[str, Any]]) -> State:
    """The domain's data with these records in place of its own."""
    return {**base, **{kind: {**base.get(kind, {}), **found} for kind, found in records.items() if found}}


def changed(state: State, changes: Changes) -> State:
    """The state after a call; the very object that was given when nothing changed."""
    if not changes:
        return state
    after = dict(state)
    for kind, records in changes.items():
        gone = {name for name, record in records.items() if record is None}
        kept = {name: record for name, record in after.get(kind, {}).items() if name not in gone}
        after[kind] = {**kept, **{name: record for name, record in records.items() if record is not None}}
    return after


def changes_of(base: State, state: State) -> Changes:
    """What makes a state of the domain's own data."""
    found: Changes = {}
    for kind, name in changed_records(base, state):
        found.setdefault(kind, {})[name] = state.get(kind, {}).get(name)
    return found
