"""A trajectory while it runs: user, agent and tools take turns until the user ends it or a limit is reached
(Kimi K2 report, section 3.1.1, figure 8c)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Protocol as Interface

from tokenmill.inference.call import Ask
from tokenmill.inference.errors import RowError
from tokenmill.pipelines.agentic.trajectories.agent_turn import MISTAKES, AgentTurn, Protocol, take_turn
from tokenmill.schemas.agentic import CallRecord, ChatMessage
from tokenmill.tools_repo.users.simulate import UserTurn
from tokenmill.tools_repo.world import ToolResult, World

USER_DONE, USER_GAVE_UP = "user_done", "user_gave_up"
TURN_LIMIT, CALL_LIMIT, TOKEN_LIMIT = "turn_limit", "call_limit", "token_limit"
RULE_BROKEN = "rule_broken"
"""How a trajectory can end, beside the turns of the agent that cannot be used (`agent_turn`)."""


class UserFailed(RowError):
    """The simulated user did not keep to its part, however often it was asked again."""


class User(Interface):
    """Who the agent talks to."""

    async def say(self, messages: list[ChatMessage], ask: Ask) -> UserTurn: ...


@dataclass(frozen=True)
class Limits:
    """When a trajectory is broken off."""

    turns: int = 30
    """Messages of the agent."""
    calls: int = 40
    """Tool calls."""
    tokens: int = 32_000
    """Length of the conversation as the agent's endpoint bills it."""

    def __post_init__(self) -> None:
        for name in ("turns", "calls", "tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"the limit of {name} must be at least 1, not {getattr(self, name)}")


@dataclass
class Dialogue:
    """What has been said and done so far."""

    messages: list[ChatMessage]
    calls: list[CallRecord] = field(default_factory=list)
    turns: int = 0
    tokens: int = 0
    malformed: int = 0
    """Calls whose arguments were no JSON object."""
    ended: str = ""


async def converse(
    system: str,
    user: User,
    world: World,
    ask: Ask,
    *,
    protocol: Protocol,
    limits: Limits,
    params: Callable[[int], dict[str, Any]],
    lost: Callable[[Dialogue], bool] = lambda dialogue: False,
) -> Dialogue:
    """Run a dialogue to its end. The last message is the agent's, or the results of its calls where a limit cut in.

    Args:
        system: the agent's system prompt.
        params: parameters of the agent's call in a turn, by the turn's number from 0.
        lost: asked after each turn with calls whether the trajectory can no longer be kept; nothing more is paid for it then.

    Raises:
        UserFailed: the simulated user broke its rules.
        tokenmill.inference.errors.RowError, tokenmill.inference.errors.RunStopped: a model or the world cannot go on.
    """
    dialogue = Dialogue([ChatMessage(role="system", content=system)])
    await _hear(dialogue, user, ask)
    if dialogue.ended:
        raise UserFailed("it ended the conversation before it had asked for anything")
    while not dialogue.ended:
        turn = await take_turn(
            protocol, dialogue.messages, world.tools, ask, counter=len(dialogue.calls), **params(dialogue.turns)
        )
        dialogue.turns += 1
        dialogue.tokens = turn.tokens or _about(dialogue.messages)
        if turn.problem:
            dialogue.ended = turn.problem
            break
        dialogue.messages.append(turn.message)
        if turn.message.tool_calls:
            await _call(dialogue, turn, world)
            if lost(dialogue):
                dialogue.ended = RULE_BROKEN
        else:
            await _hear(dialogue, user, ask)
        dialogue.ended = dialogue.ended or _beyond(dialogue, limits)
    return dialogue


async def _hear(dialogue: Dialogue, user: User, ask: Ask) -> None:
    """Let the user speak. What it says in parting is left out: the conversation ends with the agent."""
    turn = await user.say(list(dialogue.messages), ask)
    if turn.problem:
        raise UserFailed(turn.problem)
    if turn.gave_up or turn.done:
        dialogue.ended = USER_GAVE_UP if turn.gave_up else USER_DONE
    else:
        dialogue.messages.append(ChatMessage(role="user", content=turn.text))


async def _call(dialogue: Dialogue, turn: AgentTurn, world: World) -> None:
    """Run the calls of a turn and append their results in the order of the calls."""
    calls = turn.message.tool_calls or []
    at, first = len(dialogue.messages) - 1, len(dialogue.calls)
    dialogue.malformed += turn.malformed
    wanted = [
        (call.function.name, text, first + i) for i, (call, text) in enumerate(zip(calls, turn.arguments, strict=True))
    ]
    results = await _run(world, wanted)
    if any(result.error in MISTAKES for result in results):
        dialogue.messages[at] = replace(turn.message, weight=0)
    for call, (name, arguments, _), result in zip(calls, wanted, results, strict=True):
        dialogue.calls.append(
            CallRecord(
                id=call.id,
                turn=at,
                tool=name,
                arguments=arguments,
                result=result.content,
                error=result.error,
                outcome=result.outcome,
                patch=result.patch,
                engine=result.engine,
            )
        )
        dialogue.messages.append(ChatMessage(role="tool", content=result.content, tool_call_id=call.id, name=name))


async def _run(world: World, calls: Sequence[tuple[str, str, int]]) -> list[ToolResult]:
    """Results in the order of the calls. A world that can run the calls of one turn together says how (`call_all`); in any
    other they run one after the other, since a call may rest on the state that the one before it left."""
    together = getattr(world, "call_all", None)
    if together is not None and len(calls) > 1:
        return list(await together(calls))
    return [await world.call(*call) for call in calls]


def _beyond(dialogue: Dialogue, limits: Limits) -> str:
    if dialogue.turns >= limits.turns:
        return TURN_LIMIT
    if len(dialogue.calls) >= limits.calls:
        return CALL_LIMIT
    return TOKEN_LIMIT if dialogue.tokens >= limits.tokens else ""


def _about(messages: Sequence[ChatMessage]) -> int:
    """About how long a conversation is, for endpoints that do not say."""
    return sum(len(message.content or "") for message in messages) // 4
