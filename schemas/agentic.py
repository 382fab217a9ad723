"""Rows of the agentic chain: agents, tasks with rubrics, trajectories (Kimi K2 report, section 3.1.1 and figure 8).

A world's state is one JSON document, `{kind: {identifier: record}}`; an entity model says what kinds there are:
`{kind: {"description": ..., "schema": JSON Schema of a record}}`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.tools import ToolSpec

ONE_CALL, SEVERAL_CALLS, DEPENDENT_CALLS, PARALLEL_CALLS = (
    "one_call",
    "several_calls",
    "dependent_calls",
    "parallel_calls",
)
MISSING_INFORMATION, DECLINE, RECOVERY = "missing_information", "decline", "recovery"
LEVELS = (
    ONE_CALL,
    SEVERAL_CALLS,
    PARALLEL_CALLS,
    DEPENDENT_CALLS,
    MISSING_INFORMATION,
    RECOVERY,
    DECLINE,
)
"""Levels of tasks, from simple to complex: one call; several independent ones; several that belong into one turn; calls
whose arguments come from results of others; information that must be asked for; an error to recover from; a request
that is impossible or against the agent's policy, to be declined."""

MISSING_TOOL = "missing_tool"
"""Level of a task of any other level whose tools are taken away when it is tried: no task is written for it."""

CALL, ORDER, FORBIDDEN, STATE, ANSWER = "call", "order", "forbidden", "state", "answer"
CRITERIA = (CALL, ORDER, FORBIDDEN, STATE, ANSWER)
"""Kinds of criteria; `judges.rubric` says what the `spec` of each holds and decides it."""

SUCCESS, PARTIAL, EMPTY, TRUNCATED, STALE = "success", "partial", "empty", "truncated", "stale"
TIMEOUT, RATE_LIMIT, PERMISSION = "timeout", "rate_limit", "permission"
OUTCOMES = (SUCCESS, PARTIAL, EMPTY, TRUNCATED, STALE, TIMEOUT, RATE_LIMIT, PERMISSION)
"""What may be drawn to become of a tool call that is valid."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """An application domain: where tools come from, and what they act on. One row of a `domains` stage."""

    id: str = column("`category/…/name`, unique in a run")
    category: str = column("category it was evolved in")
    path: list[str] = column("names from the category down to the domain")
    name: str = column("name of the domain")
    description: str = column("what is done in it, and by whom")
    operator: str = column("how it was evolved: `seed`, `deepen`, `specialise`, `combine`, `transfer`, `constrain`")
    parents: list[str] = column("`id` of the domains it was evolved from", default_factory=list)
    entities: str = column("entity model, as JSON; empty until it is designed", default="")
    state: str = column("a sample state that meets the entity model, as JSON; empty until it is designed", default="")
    model: str = column("model that wrote it", default="")
    prompts: list[str] = column("every prompt used, as `name@version`", default_factory=list)
    seed: int = column("seed of the run", default=0)
    prompt_tokens: int = column("tokens sent for this row, as billed", default=0)
    completion_tokens: int = column("tokens received for this row, as billed", default=0)


@dataclass(frozen=True, kw_only=True)
class RefusedDomain(Domain):
    """A domain that repeats a sibling, or whose world could not be designed."""

    reason: str = column("machine-readable reason: `same_name`, `too_similar`, `no_entities`, …")
    detail: str = column("what is wrong, one line")
    duplicate_of: str = column("`id` of the sibling that this one repeats, empty otherwise", default="")
    score: float = column("score of the check that refused it; for repetitions the similarity", default=0.0)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A system prompt and a tool-set. One row of an `agents` stage."""

    id: str = column("identifier, unique in a run")
    system: str = column("system prompt")
    role: str = column("what the agent is, in a few words")
    expertise: str = column("field and depth asked for")
    tone: str = column("tone asked for")
    behaviour: str = column("habits asked for: asks before it acts, terse, …")
    policy: list[str] = column("rules it must keep, one statement each", default_factory=list)
    tools: list[ToolSpec] = column("its tools; names are unique among them")
    user_tools: list[ToolSpec] = column(
        "tools of the user's own side, which the agent cannot call", default_factory=list
    )
    distractors: list[str] = column("names of the tools that were added to distract", default_factory=list)
    sampling: str = column("how the tool-set was drawn: `domain`, `neighbours`, `server`")
    domains: list[str] = column("domains or servers that the tools come from")
    entities: str = column("entity model of the world that its tools act on, as JSON")
    state: str = column("a sample state that meets the entity model, as JSON")
    model: str = column("model that wrote it")
    prompts: list[str] = column("every prompt used, as `name@version`")
    seed: int = column("seed of the run")
    prompt_tokens: int = column("tokens sent for this row, as billed")
    completion_tokens: int = column("tokens received for this row, as billed")


@dataclass(frozen=True, kw_only=True)
class RefusedAgent(Agent):
    """An agent that a check or de-duplication refused."""

    reason: str = column("machine-readable reason")
    detail: str = column("what is wrong, one line")
    duplicate_of: str = column("`id` of the kept agent that this one repeats, empty otherwise", default="")
    score: float = column("score of the check that refused it; for duplicates the similarity", default=0.0)


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """One thing that a trajectory must, or should, or must not do."""

    id: str = column("identifier within its rubric")
    kind: str = column("`call`, `order`, `forbidden`, `state` or `answer`")
    description: str = column("what is asked, as a person reads it")
    spec: str = column("what decides it, as JSON; see `judges.rubric` for each kind")
    mandatory: bool = column("whether a trajectory that misses it is refused whatever its score", default=True)
    weight: float = column("share in the score, relative to the other criteria's", default=1.0)
    checkpoint: int = column("number of the checkpoint it belongs to, in the order of the task", default=0)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that the user knows and the agent does not."""

    name: str = column("what it is about, in a few words")
    value: str = column("what the user says when asked")
    volunteered: bool = column("whether the user tells it in the first message", default=False)


@dataclass(frozen=True, kw_only=True)
class ReferenceCall:
    """One call of a reference solution: the proof that a rubric can be met."""

    tool: str = column("name of the tool")
    arguments: str = column("arguments, as JSON")
    result: str = column("result, as JSON")
    patch: str = column("what it changes in the state, as JSON Patch (RFC 6902)", default="[]")
    by: str = column("`user` for a call of the user's own tools, empty for the agent's", default="")


@dataclass(frozen=True, kw_only=True)
class AgentTask:
    """A task for an agent, with its rubric. One row of a `tasks` stage."""

    id: str = column("`agent/number`, unique in a run")
    agent: Agent = column("the agent that it is for")
    level: str = column("level, from `one_call` to `decline`")
    situation: str = column("who the user is and what has happened, as the simulated user reads it")
    opening: str = column("what the first message is about, for the simulated user to say in its own words")
    goal: str = column("what the user wants to have at the end; hidden from the agent")
    facts: list[Fact] = column("what the user knows", default_factory=list)
    state: str = column("state of the world at the start, as JSON; of a large imported domain the records that matter")
    rubric: list[Criterion] = column("what a trajectory is judged by")
    threshold: float = column("score from which a trajectory that meets every mandatory criterion is kept", default=0.8)
    solution: list[ReferenceCall] = column("reference solution; hidden from everybody", default_factory=list)
    reply: str = column("what the agent tells the user at the end of the reference solution", default="")
    model: str = column("model that wrote it")
    prompts: list[str] = column("every prompt used, as `name@version`")
    seed: int = column("seed of the run")
    prompt_tokens: int = column("tokens sent for this row, as billed")
    completion_tokens: int = column("tokens received for this row, as billed")


@dataclass(frozen=True, kw_only=True)
class RefusedTask(AgentTask):
    """A task that cannot be met, is met by doing nothing, or is broken in another way."""

    reason: str = column("machine-readable reason: `unsolvable`, `trivial`, `invalid_state`, …")
    detail: str = column("what is wrong, one line")


@dataclass(frozen=True, kw_only=True)
class Persona:
    """How a simulated user behaves."""

    name: str = column("short name of the persona")
    style: str = column("communication style")
    patience: int = column("replies that do not help after which it gives up")
    knowledge: str = column("what it knows of the subject")
    preferences: str = column("what it cares for", default="")


@dataclass(frozen=True, kw_only=True)
class ToolCallFunction:
    name: str = column("name of the tool")
    arguments: str = column("arguments, as JSON text", json=True)


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    id: str = column("`functions.NAME:COUNTER`, counted over the trajectory from 0")
    type: str = column("always `function`", default="function")
    function: ToolCallFunction = column("what is called")


@dataclass(frozen=True, kw_only=True)
class ChatMessage:
    """One message as `datasets` and `trl` take it: absent fields are null, arguments are declared as JSON, so that `datasets`
    gives objects, and results are text."""

    role: str = column("`system`, `user`, `assistant` or `tool`")
    content: str | None = column("text; null in an assistant's message that only calls", default=None)
    tool_calls: list[ToolCall] | None = column("calls of an assistant's message", default=None)
    tool_call_id: str | None = column("in a tool's message the call that it answers", default=None)
    name: str | None = column("in a tool's message the name of the tool", default=None)
    reasoning_content: str | None = column("what the agent's model gave of its reasoning; not judged", default=None)
    weight: int | None = column(
        "in an assistant's message whether it is to be learnt: 1, or 0 where it calls a tool that there is not or with "
        "arguments that the tool's schema refuses; null in others, which a simulator wrote",
        default=None,
    )


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """What became of one tool call."""

    id: str = column("id of the call")
    turn: int = column("index of the assistant's message in `messages`")
    tool: str = column("name called")
    arguments: str = column("arguments, as JSON text")
    result: str = column("what the agent was shown, as text")
    error: str = column(
        "kind of error, empty for success: `unknown_tool`, `invalid_arguments`, `not_found`, …", default=""
    )
    outcome: str = column("outcome that was drawn: `success`, `partial`, `timeout`, …", default=SUCCESS)
    patch: str = column("what it changed in the state, as JSON Patch (RFC 6902)", default="[]")
    engine: str = column("`checks` (no model, no code), `simulator`, `executable`, `domain` or `sandbox`", default="")


@dataclass(frozen=True, kw_only=True)
class Quote:
    """A passage that a judge rests on, verified to stand there."""

    message: int = column("index in `messages`")
    text: str = column("verbatim")


@dataclass(frozen=True, kw_only=True)
class CriterionVerdict:
    """What was decided on one criterion."""

    criterion: str = column("`id` in the rubric, or the name of a general check: `claims`, `user`, …")
    passed: bool = column("whether it is met")
    score: float = column("in [0, 1], 1 is best")
    decided_by: str = column("`code` or `judge`")
    reason: str = column("machine-readable reason of a refusal, empty when met", default="")
    detail: str = column("why, one line", default="")
    quotes: list[Quote] = column("evidence", default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """A kept trajectory: one row of `data/`. `messages` and `tools` load into `trl` as they are."""

    id: str = column("`task/sample`")
    messages: list[ChatMessage] = column("the conversation, system prompt first")
    tools: str = column("the tools as a JSON list of OpenAI `tools`", json=True)
    task_id: str = column("`id` of the task")
    agent_id: str = column("`id` of the agent")
    sample: int = column("0-based number of this try at the task")
    level: str = column("level of the task")
    situation: str = column("who the user is and what has happened")
    goal: str = column("what the user wanted")
    rubric: list[Criterion] = column("what it was judged by")
    threshold: float = column("score needed")
    score: float = column("score reached, in [0, 1]")
    verdicts: list[CriterionVerdict] = column("every criterion's verdict, and those of the general checks")
    calls: list[CallRecord] = column("every tool call and what became of it")
    user_calls: list[CallRecord] = column(
        "calls of the user's own tools, of which the agent sees nothing; `turn` is the message that came next",
        default_factory=list,
    )
    persona: Persona = column("how the simulated user behaved")
    ended: str = column("how it ended: `user_done`, `user_gave_up`, `turn_limit`, `token_limit`, `call_limit`, …")
    state_before: str = column("state of the world at the start, as JSON; of a large one the records that matter")
    state_after: str = column("state of the world at the end, as JSON; likewise")
    engine: str = column("what ran the tools: `simulator`, `executable`, `domain`, `sandbox`")
    domains: list[str] = column("domains or servers that the agent's tools come from")
    language: str = column("ISO 639-1 code", default="en")
    license: str = column("licences of the tools' packages, joined by `; `; empty for synthetic ones", default="")
    model: str = column("model that played the agent")
    user_model: str = column("model that played the user, empty for none")
    tool_model: str = column("model that simulated the tools, empty for none")
    judge_model: str = column("model that judged, empty for none")
    prompts: list[str] = column("every prompt used, as `name@version`")
    seed: int = column("seed of the run")
    model_calls: int = column("calls of all models that it took")
    prompt_tokens: int = column("tokens sent for it, all roles, as billed")
    completion_tokens: int = column("tokens received for it, all roles, as billed")


@dataclass(frozen=True, kw_only=True)
class RefusedTrajectory(Trajectory):
    """A trajectory that misses its rubric: one row of `rejected/`, with every verdict."""

    reason: str = column("reason of the first mandatory criterion missed, or `score`")
    detail: str = column("why, one line")
    suspect: str = column(
        "where every try at the task was refused: what they missed, since the task itself may be at fault; empty elsewhere",
        default="",
    )


@dataclass(frozen=True, kw_only=True)
class PreferencePair:
    """A kept trajectory against a refused one of the same task and user: one row of `pairs/`, as `trl` takes it."""

    id: str = column("`id` of the kept one, `>`, number of the refused try")
    prompt: list[ChatMessage] = column("what both have in common, to the last message before the agents part")
    chosen: list[ChatMessage] = column("how the kept one goes on")
    rejected: list[ChatMessage] = column("how the refused one goes on")
    tools: str = column("the tools as a JSON list of OpenAI `tools`", json=True)
    task_id: str = column("`id` of the task")
    chosen_id: str = column("`id` of the kept one, in `data/`")
    rejected_id: str = column("`id` of the refused one, in `rejected/`")
    level: str = column("level of the task")
    language: str = column("ISO 639-1 code")
    license: str = column("licences of the tools' packages, joined by `; `; empty for synthetic ones")
    reason: str = column("why the other was refused")
    detail: str = column("the same, one line")
    margin: float = column("score of the kept one less that of the refused one")
    model: str = column("model that played the agent")
