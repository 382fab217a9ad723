"""Has the simulated user stayed the user? Not the agent, no tool calls, nothing that only the judges know."""

from __future__ import annotations

import re

from tokenmill.judges.form.words import words
from tokenmill.judges.rubric.criteria import parse
from tokenmill.judges.rubric.evidence import Evidence
from tokenmill.prompts.fence import CONTROL_TOKEN, MARKER
from tokenmill.schemas.agentic import AgentTask, Criterion

_AGENT = re.compile(
    r"\bas an? (?:AI|artificial intelligence|language model|virtual assistant|AI assistant|assistant|chatbot)\b"
    r"|\bhow (?:can|may) I (?:help|assist)\b"
    r"|\b(?:is there anything else|anything else) I can (?:help|assist|do)\b"
    r"|\bI(?:['’]m| am) (?:here to (?:help|assist)|happy to (?:help|assist) you|your (?:virtual |AI )?assistant)\b"
    r"|\bI(?:['’]d| would) be (?:happy|glad) to (?:help|assist) you\b"
    r"|\bI(?:['’]ve| have) (?:successfully |now |gone ahead and )*(?:booked|cancel+ed|refunded|processed|updated|scheduled"
    r"|issued|placed|created|submitted) (?:your|a|the) [^.?!\n]{0,60}\bfor you\b"
    r"|\bthank you for (?:contacting|reaching out to|calling)\b"
    r"|\blet me (?:look (?:that|it|this) up for you|check (?:that|it) for you|pull up your)\b",
    re.IGNORECASE,
)
_ROLE = re.compile(r"^\s*(?:\*\*)?(?:assistant|agent|system|tool)(?:\*\*)?\s*:", re.IGNORECASE | re.MULTILINE)
_CALL = re.compile(
    r"\bfunctions\.\w+|\"(?:name|tool|function)\"\s*:\s*\"[^\"]+\"\s*,\s*\"(?:arguments|parameters)\"|<tool_call>|\btool_call"
)
_JUDGED = re.compile(
    r"\b(?:rubric|success criteri(?:on|a)|evaluation criteri(?:on|a)|reference solution|hidden (?:goal|fact)s?|ground truth"
    r"|checkpoint \d|simulated user|user simulat|my persona|role-?play)\w*\b",
    re.IGNORECASE,
)
_RUN = 9
"""Words in a row that a user's turn shares with hidden text only by having seen it."""


def user_fault(evidence: Evidence, task: AgentTask | None = None) -> tuple[str, str, int] | None:
    """(reason, what was said, index of the message) of the first turn in which the user is no user, or None.

    Reasons: `user_plays_agent`, `user_leaks`, `user_names_tool`.
    """
    hidden = _hidden(task) if task is not None else frozenset()
    names = _telling_names(evidence)
    for index, text in evidence.heard:
        for reason, pattern in (
            ("user_plays_agent", CONTROL_TOKEN),
            ("user_plays_agent", _CALL),
            ("user_plays_agent", _ROLE),
            ("user_plays_agent", _AGENT),
            ("user_leaks", MARKER),
            ("user_leaks", _JUDGED),
        ):
            found = pattern.search(text)
            if found and not (pattern is _JUDGED and task is not None and found[0].lower() in _public(task)):
                return reason, found[0].strip(), index
        heard = " ".join(m.content or "" for m in evidence.messages[:index] if m.role == "assistant")
        if shared := (hidden & _runs(text)) - _runs(heard):
            return "user_leaks", " ".join(min(shared)), index
        if name := next((name for name in names if _word(name, text) and not _word(name, heard)), ""):
            return "user_names_tool", name, index
    return None


def _telling_names(evidence: Evidence) -> list[str]:
    """Names of tools that no user would say: `get_order`, not `search`."""
    return [name for name in evidence.specs if re.search(r"[a-z0-9][_-][a-z0-9]|[a-z][A-Z]", name)]


def _word(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) is not None


def _public(task: AgentTask) -> str:
    """What the user may say: its own story."""
    return " ".join([task.situation, task.opening, *(fact.value for fact in task.facts)]).lower()


def _hidden(task: AgentTask) -> frozenset[tuple[str, ...]]:
    """Word runs of what the user must not have seen: rubric, reference solution and its reply."""
    texts = [_shown(criterion) for criterion in task.rubric]
    texts += [task.reply, *(call.result for call in task.solution if not call.by), *task.agent.policy]
    public = _runs(_public(task)) | _runs(task.goal)
    return frozenset().union(*map(_runs, texts)) - public


def _shown(criterion: Criterion) -> str:
    spec = parse(criterion)
    return f"{criterion.description} {getattr(spec, 'statement', '')}"


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    tokens = words(text)
    return frozenset(zip(*(tokens[i:] for i in range(_RUN)), strict=False))
