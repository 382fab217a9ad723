"""Agents: a system prompt, a policy and a world for each tool-set (Kimi K2 report, section 3.1.1 and figure 8b).

tool-sets | design the world, write, check | one of each | data, rejected, failed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import apache_beam as beam
import orjson
from tokenmill.inference.call import Ask, Message
from tokenmill.pipelines.rollouts.metering import Meter
from tokenmill.pipelines.tools.dedup import DropDuplicates, Duplicate
from tokenmill.pipelines.transforms import DATA, FAILED, REJECTED
from tokenmill.pipelines.transforms.flow import Flow
from tokenmill.pipelines.transforms.rollout import Accepted, Rejected, Rollout
from tokenmill.prompts.fence import fence
from tokenmill.schemas.agentic import Agent, RefusedAgent
from tokenmill.schemas.answer_schema import array, record
from tokenmill.schemas.documents import FailedRow, failed_row
from tokenmill.schemas.draws import digest, pick, shuffled
from tokenmill.schemas.toolsets import ToolSet
from tokenmill.tools_repo.agents.check import Fault, agent_faults, rules_in
from tokenmill.tools_repo.agents.likeness import AgentLikeness
from tokenmill.tools_repo.tasks.world_summary import world_shown
from tokenmill.tools_repo.world import design
from tokenmill.tools_repo.world.ask_checked import REPAIR, CheckFailed, ask_checked
from tokenmill.tools_repo.world.design import declared, design_entities
from tokenmill.tools_repo.world.stateful import clock

from tokenmill import prompts

AGENT, MANNERS, SYSTEM = "agentic/agent", "agentic/manners", "agentic/system"
PROMPTS = tuple(dict.fromkeys((AGENT, MANNERS, SYSTEM, *design.PROMPTS, REPAIR)))
"""Every prompt that writing an agent may use."""
NEAR_DUPLICATE = "near_duplicate"
POLICIES = 4
"""Kinds of rule that a policy is asked to have."""
_TEXT = {"type": "string", "minLength": 1}
SCHEMA = record(role=_TEXT, system=_TEXT, policy=array(_TEXT, 12))


@dataclass(frozen=True)
class WriteAgent:
    """The rollout of one tool-set."""

    model: str
    """Name of the writer's model, as rows carry it."""
    seed: int = 0
    tries: int = 3
    """Answers to each question, the repaired ones included."""
    temperature: float | None = 0.8
    top_p: float | None = 0.95
    max_tokens: int = 6_000
    """Length of one answer; a world's sample state is the longest."""
    policy: str = ""
    """The system prompt of every agent; empty: one is written for each."""

    row_type: ClassVar[type] = Agent
    rejected_type: ClassVar[type] = RefusedAgent

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"an agent has at least one try, not {self.tries}")

    async def __call__(self, toolset: ToolSet, ask: Ask) -> Accepted | Rejected:
        """Raises: tokenmill.inference.errors.RowError, when no answer could be read or no world came."""
        meter = Meter(ask)
        entities, state = await self._world(toolset, meter)
        if self.policy:
            return Accepted(Agent(**self._given(toolset, entities, state, meter)))
        manners = self.manners(toolset)
        messages = self.messages(toolset, manners, entities, state)
        seen: list[tuple[dict[str, Any], Fault]] = []

        def check(answer: dict[str, Any]) -> dict[str, Any]:
            faults = list(self._faults(answer, toolset, f"{entities}\n{state}"))
            if faults:
                seen.append((answer, faults[0]))
                raise ValueError("; ".join(fault.detail for fault in faults))
            return answer

        try:
            answer = await ask_checked(
                meter, messages, SCHEMA, check, to="writer", tries=self.tries, **self._params(toolset, "agent")
            )
        except CheckFailed:
            if not seen:
                raise
            answer, fault = seen[-1]
            row = self._row(toolset, manners, answer, entities, state, meter)
            return Rejected(RefusedAgent(**row, reason=fault.reason, detail=fault.detail), fault.reason)
        return Accepted(Agent(**self._row(toolset, manners, answer, entities, state, meter)))

    async def _world(self, toolset: ToolSet, ask: Ask) -> tuple[str, str]:
        """Entity model and state: those of the tools' domains where they are known, else designed for these tools."""
        if toolset.entities:
            return toolset.entities, toolset.state
        core = [tool for tool in toolset.tools if tool.name not in toolset.distractors]
        designed = await design_entities(
            ask,
            title=", ".join(toolset.domains[:3]) or "tools",
            description="; ".join(tool.description for tool in core[:12]),
            tools=core,
            tries=self.tries,
            **self._params(toolset, "world"),
        )
        return designed.entities, designed.state

    def manners(self, toolset: ToolSet) -> dict[str, str]:
        """What is asked of the agent beside its tools: drawn, the same whatever the order or the workers."""
        lists = prompts.load(MANNERS).meta
        parts = (self.seed, toolset.id)
        drawn = {name: pick(lists[name], *parts, name) for name in ("expertise", "tone", "behaviour")}
        kinds = shuffled(lists["policy"], *parts, "policy", first=POLICIES)
        return {**drawn, "policies": "\n".join(f"- {kind}" for kind in kinds)}

    def messages(self, toolset: ToolSet, manners: dict[str, str], entities: str, state: str) -> list[Message]:
        """The prompt for one agent."""
        return prompts.load(AGENT).render(
            tools=fence(declared(toolset.tools), "tools"),
            world=fence(world_shown(orjson.loads(entities), orjson.loads(state)), "records"),
            **manners,
        )

    def _faults(self, answer: dict[str, Any], toolset: ToolSet, world: str) -> list[Fault]:
        return list(
            agent_faults(
                answer["role"],
                answer["system"],
                answer["policy"],
                toolset.tools,
                world=world,
                brief=prompts.load(AGENT).text,
            )
        )

    def _params(self, toolset: ToolSet, what: str) -> dict[str, Any]:
        return {
            "seed": digest(self.seed, toolset.id, what) >> 33,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
        }

    def _row(
        self,
        toolset: ToolSet,
        manners: dict[str, str],
        answer: dict[str, Any],
        entities: str,
        state: str,
        meter: Meter,
    ) -> dict[str, Any]:
        used = (AGENT, MANNERS, SYSTEM) if toolset.entities else (AGENT, MANNERS, SYSTEM, *design.PROMPTS)
        policy = [" ".join(rule.split()) for rule in answer["policy"]]
        return {
            "id": toolset.id,
            "system": system_prompt(answer["system"], policy, clock(state)),
            "role": " ".join(answer["role"].split()),
            "expertise": manners["expertise"],
            "tone": manners["tone"],
            "behaviour": manners["behaviour"],
            "policy": policy,
            "tools": toolset.tools,
            "distractors": toolset.distractors,
            "sampling": toolset.sampling,
            "domains": toolset.domains,
            "entities": entities,
            "state": state,
            **meter.provenance(self.model, used, self.seed),
        }

    def _given(self, toolset: ToolSet, entities: str, state: str, meter: Meter) -> dict[str, Any]:
        """The row of an agent whose prompt somebody gave."""
        answer = {"system": "", "role": f"assistant of {', '.join(toolset.domains[:3])}", "policy": []}
        manners = dict.fromkeys(("expertise", "tone", "behaviour"), "")
        row = self._row(toolset, manners, answer, entities, state, meter)
        used = () if toolset.entities else design.PROMPTS
        return {
            **row,
            "system": self.policy,
            "policy": rules_in(self.policy),
            **meter.provenance(self.model, used, self.seed),
        }

    def failed(self, toolset: ToolSet, error: str, message: str) -> FailedRow:
        names = ", ".join(tool.name for tool in toolset.tools)
        return failed_row(toolset.id, "agent", error, message, names, source_row=toolset.number)


def system_prompt(system: str, policy: Sequence[str], now: str) -> str:
    """What the agent is told: the prompt that was written for it, its policy, and the time in its world."""
    rules = "\n".join(f"{number}. {rule}" for number, rule in enumerate(policy, start=1))
    (message,) = prompts.load(SYSTEM).render(system=system.strip(), now=now, policy=rules)
    return message["content"]


def refuse_duplicate(found: Duplicate) -> RefusedAgent:
    """A near-duplicate as a row of `rejected/`."""
    agent: Agent = found.tool  # type: ignore[assignment]  # agents were compared in place of tools
    values = {name: getattr(agent, name) for name in Agent.__dataclass_fields__}
    detail = f"nearly the same agent as {found.of} (similarity {found.similarity:.2f})"
    return RefusedAgent(**values, reason=NEAR_DUPLICATE, detail=detail, duplicate_of=found.of, score=found.similarity)


def build(step: WriteAgent, likeness: AgentLikeness | None, flow: Flow) -> None:
    """The whole job. `likeness` is what makes two agents one; None keeps near-duplicates."""
    toolsets, unreadable = flow.read()
    written = toolsets | "Write agents" >> Rollout(step, flow.models)
    kept, refused = written[DATA], [written[REJECTED]]
    if likeness is not None:
        same = DropDuplicates(likeness)  # type: ignore[arg-type]  # it answers as a Likeness does, of agents
        kept, duplicates = kept | "Drop duplicates" >> same
        repeated = duplicates | "Refuse duplicates" >> beam.Map(refuse_duplicate).with_output_types(RefusedAgent)
        refused.append(repeated)
    flow.write(Agent, RefusedAgent, kept, refused, [unreadable, written[FAILED]])
