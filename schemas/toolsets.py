"""Tool-sets drawn from a repository: what an agent is written for (Kimi K2 report, section 3.1.1, "agent generation")."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.schemas.columns import column
from tokenmill.schemas.tools import ToolSpec

DOMAIN, SERVER, NEIGHBOURS = "domain", "server", "neighbours"
"""How a tool-set was drawn: from one synthetic domain, from one real server, among tools of like meaning."""


@dataclass(frozen=True, kw_only=True)
class ToolSet:
    """The tools of one agent to be."""

    id: str = column("identifier, unique in a draw; the agent's too")
    number: int = column("0-based number in the draw")
    tools: list[ToolSpec] = column("the tools, distractors included; names are unique among them")
    distractors: list[str] = column("names of the tools that were added to distract", default_factory=list)
    sampling: str = column("how it was drawn: `domain`, `server`, `neighbours`")
    domains: list[str] = column("domains or servers that the tools come from, those of no distractor first")
    entities: str = column("entity model of the tools' domains, as JSON; empty where a domain has none", default="")
    state: str = column("a sample state that meets it, as JSON; empty where there is no model", default="")
