"""`agentic agents`: tool-sets drawn from a repository, and an agent written for each.

The tool-sets are drawn here, before the run: they are its input, kept in the output folder.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.agents.dag import AGENT, PROMPTS, WriteAgent, build
from tokenmill.pipelines.agentic.agents.toolset_draw import draw
from tokenmill.pipelines.agentic.flags import add_run_flags, roles_of
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import options
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.transforms.records import MAX_ROW_BYTES, RecordParser
from tokenmill.schemas.toolsets import ToolSet
from tokenmill.tools_repo.agents.likeness import AgentLikeness
from tokenmill.tools_repo.agents.toolsets import Sampling
from tokenmill.tools_repo.world.design import declared

from tokenmill import prompts

EMBEDDED_TOKENS = 1_200
"""The embedded model goes on for ever where it loses the thread: its answers are cut after so many tokens."""


def add_agents(kinds: argparse._SubParsersAction) -> None:
    """The subcommand `agents` and its flags."""
    parser = kinds.add_parser(
        "agents",
        help="write agents: a tool-set, a system prompt and a policy each",
        description=__doc__.split("\n", 1)[0],
        allow_abbrev=False,
    )
    add_run_flags(parser, reads="--tools", what="runs of `tools harvest`, `evolve` or `curate`, or files of such rows")
    add_agent_flags(parser)
    parser.set_defaults(make=job)


def add_agent_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that shape agents, for this stage and for the chain."""
    shape = parser.add_argument_group("how agents are made")
    shape.add_argument(
        "--agents",
        type=options.positive,
        default=10,
        metavar="N",
        help="tool-sets drawn, an agent for each (default 10)",
    )
    shape.add_argument(
        "--domains",
        nargs="+",
        default=[],
        metavar="DIR|GLOB",
        help="domains that the tools were evolved in, with their worlds (default: a world is designed for each agent)",
    )
    shape.add_argument(
        "--toolset-size",
        default=f"{Sampling.least}-{Sampling.most}",
        metavar="MIN-MAX",
        help="tools of an agent without distractors, drawn log-uniformly (default %(default)s)",
    )
    shape.add_argument(
        "--within",
        type=float,
        default=Sampling.within,
        metavar="SHARE",
        help="share of the tool-sets from one domain or server; the others are of neighbouring tools (default %(default)s)",
    )
    shape.add_argument(
        "--distracted",
        type=float,
        default=Sampling.distracted,
        metavar="SHARE",
        help="share of the tool-sets that get distractors (default %(default)s)",
    )
    shape.add_argument(
        "--embedding-model",
        default="minilm",
        metavar="NAME",
        help="finds neighbours: minilm (packaged), a sentence-transformers name, or none: those of the same category",
    )
    shape.add_argument("--keep-duplicates", action="store_true", help="keep agents that are nearly the same")


def job(args: argparse.Namespace) -> Job:
    """The configured job; draws the tool-sets and makes them its input.

    Raises:
        UsageError: a flag's value makes no sense, or there are no tools to draw from.
    """
    roles = roles_of(args, "writer")
    spec = parse_spec(args.llm)
    sampling = _sampling(args)
    stamps, notes = draw(args, sampling)
    most = EMBEDDED_TOKENS if spec.kind == "embedded" else WriteAgent.max_tokens
    step = WriteAgent(spec.model, args.seed, max_tokens=most)
    likeness = None if args.keep_duplicates else AgentLikeness()
    return Job(
        name="agentic agents",
        title="Agents with tool-sets, policies and worlds",
        step=step,
        parser=RecordParser(ToolSet),
        roles=roles,
        build=partial(build, step, likeness),
        estimate=partial(estimate, step),
        prompts=PROMPTS,
        config={
            "agents": args.agents,
            "sampling": asdict(sampling),
            "embedding_model": args.embedding_model,
            "tools": stamps,
            "likeness": likeness and likeness.words,
            **{name: getattr(step, name) for name in ("tries", "temperature", "top_p", "max_tokens")},
        },
        max_row_bytes=MAX_ROW_BYTES,
        notes=(*notes, *options.too_small(args.llm, "write agents")),
    )


def _sampling(args: argparse.Namespace) -> Sampling:
    least, dash, most = args.toolset_size.partition("-")
    try:
        return Sampling(int(least), int(most if dash else least), args.within, args.distracted)
    except ValueError as error:
        raise UsageError(f"--toolset-size {args.toolset_size} --within {args.within}: {error}") from None


WORLD_TOKENS, AGENT_TOKENS = 2_200, 650
"""Answer tokens of a world (kinds, then records) and of an agent, as strong models write them."""


def estimate(step: WriteAgent, toolset: ToolSet) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one agent, when nothing is refused and when every question uses all its tries."""
    shown = count_tokens(declared(toolset.tools))
    fixed = sum(count_tokens(text) for _, text in prompts.load(AGENT).parts)
    world = count_tokens(toolset.entities) + count_tokens(toolset.state) if toolset.entities else WORLD_TOKENS
    one = Plan(1, fixed + shown + min(world, 4_000), AGENT_TOKENS)
    if not toolset.entities:
        one += Plan(2, 1_100 + 2 * shown, WORLD_TOKENS)
    return {"writer": one}, {"writer": one.with_tries(step.tries)}
