"""Can an agent be used? Its prompt knows no tool that is not there, is a prompt of its own, and has a policy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokenmill.judges.form.words import shared_with_prompt, split
from tokenmill.prompts.fence import CONTROL_TOKEN, MARKER
from tokenmill.schemas.tools import ToolSpec

WORDS = (40, 700)
"""Words of a system prompt without its policy."""
RULES = (2, 10)
RULE_WORDS = (4, 70)
ROLE_WORDS = 14
COPIED = 3
"""8-grams of our own wording that make a prompt a copy of it."""
_NAME_LIKE = re.compile(r"(?<![\w./@-])(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[a-z]{2,}(?:[A-Z][a-z0-9]+)+)(?![\w@-])")
_PLACEHOLDER = re.compile(
    r"\{\{?\w[\w ]*\}?\}|\[[A-Z][A-Za-z ]{2,40}\]|<[A-Za-z][A-Za-z ]{2,40}>|\bTODO\b|\bLorem ipsum\b"
)
_YOU = re.compile(r"\b(?:you|your)\b", re.IGNORECASE)


def rules_in(policy: str, most: int = 40) -> list[str]:
    """The statements of a policy that was given as text, for a judge to go through: its lines without headings, neighbours
    joined where they are more than `most`."""
    lines = (
        line.strip().lstrip("-*•> ").rstrip("* ") for line in policy.splitlines() if not line.lstrip().startswith("#")
    )
    said = [re.sub(r"^\d+[.)]\s+", "", line) for line in lines if len(split(line)) >= RULE_WORDS[0]]
    share = -(-len(said) // most) or 1
    return [" ".join(said[at : at + share]) for at in range(0, len(said), share)]


class Fault(NamedTuple):
    """What is wrong with something that a model wrote."""

    reason: str
    """Machine-readable."""
    detail: str
    """One line, phrased so that a model can act on it."""


def agent_faults(
    role: str, system: str, policy: Sequence[str], tools: Sequence[ToolSpec], *, world: str = "", brief: str = ""
) -> Iterator[Fault]:
    """All that is wrong with an agent.

    Args:
        world: entity model and state as text; names in it may be named.
        brief: our own wording of what was asked for.
    """
    text = "\n".join((role, system, *policy))
    for pattern in (CONTROL_TOKEN, MARKER):
        if found := pattern.search(text):
            yield Fault("control_tokens", f"write plain text, without {found[0][:40]!r}")
    if not role.strip() or len(split(role)) > ROLE_WORDS:
        yield Fault("role_unclear", f"say in 2 to {ROLE_WORDS} words what the assistant is")
    count = len(split(system))
    if count < WORDS[0]:
        yield Fault("too_short", f"the system prompt has {count} words, fewer than {WORDS[0]}")
    if count > WORDS[1]:
        yield Fault("too_long", f"the system prompt has {count} words, more than {WORDS[1]}")
    if not _YOU.search(system):
        yield Fault("not_addressed", 'the system prompt speaks to the assistant: "You are ..."')
    if found := _PLACEHOLDER.search(text):
        yield Fault("placeholder", f"fill in {found[0][:40]!r}")
    yield from _policy_faults(policy)
    if unknown := _unknown_names(text, tools, world):
        names = ", ".join(unknown[:5])
        yield Fault("unknown_tool", f"there is no tool or field named {names}; name only what is there")
    if len(shared_with_prompt(system, brief)) >= COPIED:
        yield Fault("copies_brief", "this repeats the instructions for writing the prompt: write the prompt itself")


def _policy_faults(policy: Sequence[str]) -> Iterator[Fault]:
    if not RULES[0] <= len(policy) <= RULES[1]:
        yield Fault("no_policy", f"the policy has {len(policy)} rules; give {RULES[0]} to {RULES[1]}")
    if len({" ".join(split(rule.lower())) for rule in policy}) < len(policy):
        yield Fault("rule_repeated", "a rule of the policy is given twice")
    for rule in policy:
        if not RULE_WORDS[0] <= len(split(rule)) <= RULE_WORDS[1]:
            yield Fault("rule_unclear", f"a rule has {RULE_WORDS[0]} to {RULE_WORDS[1]} words, not so: {rule[:80]!r}")
            return


def _unknown_names(text: str, tools: Sequence[ToolSpec], world: str) -> list[str]:
    """Names that look like a program's and stand nowhere in the tools or the world."""
    known = " ".join((world, *(f"{t.name} {t.description} {t.input_schema} {t.output_schema}" for t in tools)))
    return sorted({name for name in _NAME_LIKE.findall(text) if name not in known})
