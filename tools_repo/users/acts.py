"""What a simulated user does with tools of its own between two messages: it looks at its telephone, switches something.

tau2-bench's telecom domain has such tools (Barres et al. 2025, "dual control"). The agent sees nothing of the calls; the user
tells what it saw. Their results stand in what the user knows, so that it may speak of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson
from tokenmill.inference.call import Ask
from tokenmill.prompts.fence import fence
from tokenmill.schemas.agentic import AgentTask, CallRecord, ChatMessage
from tokenmill.schemas.answer_schema import TEXT, array, choice, record
from tokenmill.schemas.draws import digest
from tokenmill.schemas.tools import dump
from tokenmill.tools_repo.world import ToolResult
from tokenmill.tools_repo.world.ask_checked import CheckFailed, ask_checked
from tokenmill.tools_repo.world.design import declared

from tokenmill import prompts

ACTS = "agentic/user_acts"
ROUNDS, AT_ONCE, SHOWN = 4, 6, 30
"""Questions before one message, calls that one answer may have, and calls that the user remembers."""


class HandsOn(Protocol):
    """A world in which the user can do something, too."""

    async def act(self, name: str, arguments: str) -> ToolResult: ...


@dataclass
class UserActs:
    """The user's own tools in one trajectory."""

    task: AgentTask
    world: HandsOn
    seed: int
    tries: int = 3
    calls: list[CallRecord] = field(default_factory=list, init=False)

    async def before(self, visible: Sequence[ChatMessage], at: int, ask: Ask) -> str:
        """Do what is to be done before the next message; why that cannot be told, empty where it can.

        Args:
            visible: what user and agent have written.
            at: index of the message that comes next.
        """
        if not visible:
            return ""
        for round in range(ROUNDS):
            drawn = digest(self.seed, at, round, "acts") >> 33
            try:
                wanted = await ask_checked(
                    ask,
                    self._messages(visible),
                    self._schema(),
                    _parsed,
                    to="user",
                    tries=self.tries,
                    attempt=drawn,
                    seed=drawn,
                    temperature=0.3,
                    max_tokens=800,
                )
            except CheckFailed as failed:
                return str(failed)
            if not wanted:
                break
            for name, arguments in wanted:
                await self._call(name, arguments, at)
        return ""

    async def _call(self, name: str, arguments: str, at: int) -> None:
        done = await self.world.act(name, arguments)
        self.calls.append(
            CallRecord(
                id=f"user.{name}:{len(self.calls)}",
                turn=at,
                tool=name,
                arguments=arguments,
                result=done.content,
                error=done.error,
                patch=done.patch,
                engine=done.engine,
            )
        )

    @property
    def told(self) -> str:
        """What came of the calls, as the user knows it."""
        return "\n".join(f"{call.tool.replace('_', ' ')}: {call.result}" for call in self.calls[-SHOWN:])

    def _schema(self) -> dict[str, Any]:
        names = [tool.name for tool in self.task.agent.user_tools]
        return record(calls=array(record(tool=choice(names), arguments=TEXT), AT_ONCE, 0))

    def _messages(self, visible: Sequence[ChatMessage]) -> Any:
        done = [dump({"tool": c.tool, "arguments": c.arguments, "showed": c.result}) for c in self.calls[-SHOWN:]]
        said = [fence(m.content or "", "you" if m.role == "user" else "assistant") for m in visible]
        facts = "\n".join(f"- {fact.name}: {fact.value}" for fact in self.task.facts) or "-"
        return prompts.load(ACTS).render(
            situation=fence(self.task.situation, "situation"),
            goal=fence(self.task.goal, "goal"),
            facts=fence(facts, "facts"),
            tools=fence(declared(self.task.agent.user_tools), "things"),
            done=fence("\n".join(done) or "-", "done"),
            transcript="\n".join(said),
        )


def _parsed(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """(tool, arguments) of each call. Raises: ValueError: arguments that are no JSON object."""
    found = []
    for call in answer["calls"]:
        text = call["arguments"].strip() or "{}"
        try:
            if not isinstance(orjson.loads(text), dict):
                raise ValueError
        except ValueError:
            raise ValueError(f'"arguments" of {call["tool"]} must be a JSON object as text, such as "{{}}"') from None
        found.append((call["tool"], text))
    return found
