"""Rows of the stages before trajectories: domains, engines, agents and tasks, which have a preview of their own only."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text
from tokenmill.pipelines.report.views.base import View
from tokenmill.schemas.agentic import Agent, AgentTask, Domain
from tokenmill.schemas.engines import Engine


class DomainView(View):
    """Rows that are application domains."""

    def told(self, row: Domain) -> Iterable[RenderableType]:
        return Text(f"{row.operator} of {', '.join(row.parents)}", "dim"), Text(row.description)


class EngineView(View):
    """Rows that are the executable tools of a domain."""

    def told(self, row: Engine) -> Iterable[RenderableType]:
        from rich.syntax import Syntax

        yield from (Syntax(module.code, "python", word_wrap=True) for module in row.modules)
        yield from (Text(f"{fault.tool}: {fault.detail}", "yellow") for fault in row.missing)


class AgentView(View):
    """Rows that are agents."""

    def told(self, row: Agent) -> Iterable[RenderableType]:
        names = ", ".join(f"{tool.name}*" if tool.name in row.distractors else tool.name for tool in row.tools)
        yield Text.assemble((f"{row.role}\n", "bold"), (f"{row.sampling}: {names}\n\n", "dim"), row.system)


class TaskView(View):
    """Rows that are tasks for an agent."""

    def told(self, row: AgentTask) -> Iterable[RenderableType]:
        yield Text.assemble((f"{row.level}: {row.agent.role}\n", "bold"), row.situation, f"\nwants: {row.goal}")
        for fact in row.facts:
            yield Text(f"  {'tells' if fact.volunteered else 'knows'} {fact.name}: {fact.value}", "dim")
        yield from (Text(f"  {call.tool} {call.arguments}", "cyan") for call in row.solution)
        for criterion in row.rubric:
            yield Text(f"  {'must' if criterion.mandatory else 'should'} [{criterion.kind}] {criterion.description}")
