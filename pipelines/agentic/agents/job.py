"""`agentic agents`: tool-sets drawn from a repository, and an agent written for each.

The tool-sets are drawn here, before the run: they are its input, kept in the output folder.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.agents.dag import AGENT, PROMPTS, WriteAgent, build
from tokenmill.pipelines.agentic.agents.options import AgentsOptions
from tokenmill.pipelines.agentic.agents.toolset_draw import draw
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import is_embedded, roles, too_small
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.schemas.flags import shaping
from tokenmill.schemas.toolsets import ToolSet
from tokenmill.tools_repo.agents.likeness import AgentLikeness
from tokenmill.tools_repo.world.design import declared

from tokenmill import prompts

EMBEDDED_TOKENS = 1_200
"""The embedded model goes on for ever where it loses the thread: its answers are cut after so many tokens."""


def job(options: AgentsOptions) -> Job:
    """The configured job; draws the tool-sets, which are its input.

    Raises:
        UsageError: there are no tools to draw from, or no such embedding model.
    """
    found, stamps, notes = draw(options)
    model = parse_spec(options.llm).model
    most = EMBEDDED_TOKENS if is_embedded(options.llm) else WriteAgent.max_tokens
    step = WriteAgent(model, options.seed, max_tokens=most, policy=options.given_policy())
    likeness = None if options.keep_duplicates or step.policy else AgentLikeness()
    return Job(
        name="agentic agents",
        title="Agents with tool-sets, policies and worlds",
        step=step,
        parser=RecordParser(ToolSet),
        roles=roles(options, "writer"),
        dag=partial(build, step, likeness),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=PROMPTS,
        config={
            **shaping(options, AgentsOptions),
            **({"policy": step.policy} if step.policy else {}),
            "sampling": asdict(options.draws()),
            "tools": stamps,
            "likeness": likeness and likeness.words,
            **{name: getattr(step, name) for name in ("tries", "temperature", "top_p", "max_tokens")},
        },
        found=found,
        notes=(*notes, *too_small(options.llm, "write agents")),
    )


COMMAND = Command("agentic agents", AgentsOptions, one(job))

WORLD_TOKENS, AGENT_TOKENS = 2_200, 650
"""Answer tokens of a world (kinds, then records) and of an agent, as strong models write them."""


def estimate(step: WriteAgent, toolset: ToolSet) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one agent, when nothing is refused and when every question uses all its tries."""
    shown = count_tokens(declared(toolset.tools))
    fixed = sum(count_tokens(text) for _, text in prompts.load(AGENT).parts)
    world = count_tokens(toolset.entities) + count_tokens(toolset.state) if toolset.entities else WORLD_TOKENS
    one = Plan() if step.policy else Plan(1, fixed + shown + min(world, 4_000), AGENT_TOKENS)
    if not toolset.entities:
        one += Plan(2, 1_100 + 2 * shown, WORLD_TOKENS)
    return {"writer": one}, {"writer": one.with_tries(step.tries)}
