"""Run agents on tasks: simulated users, tools that run, judges; `--samples` tries per task are rejection sampling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.agentic.trajectories.attempt import ModelNames
from tokenmill.pipelines.agentic.trajectories.dag import build
from tokenmill.pipelines.agentic.trajectories.domain_worlds import DomainWorlds, find_domains
from tokenmill.pipelines.agentic.trajectories.executable_worlds import ExecutableWorlds, find_engines
from tokenmill.pipelines.agentic.trajectories.options import TryOptions, estimate_tries, tries_counted
from tokenmill.pipelines.agentic.trajectories.rollout import RunTrajectory
from tokenmill.pipelines.agentic.trajectories.worlds import (
    DOMAIN,
    ENGINES,
    EXECUTABLE,
    SIMULATOR,
    SimulatedWorlds,
    Worlds,
)
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs.benchmarks import benchmarks
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import MODELS, check_sampling, model, of_data, roles
from tokenmill.pipelines.runs.own import own_prompts
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.schemas.agentic import AgentTask
from tokenmill.schemas.flags import checked, flag, must, odd, shaping
from tokenmill.tools_repo.sandbox.choose import named, sandbox_flag
from tokenmill.tools_repo.users.simulate import PERSONAS, Personas, persona_fault
from tokenmill.tools_repo.world.outcomes import Odds

_world = partial(flag, group="the world and the judges")


@dataclass(frozen=True, kw_only=True)
class TrajectoriesOptions(TryOptions):
    """What `agentic trajectories` may be given."""

    input: tuple[str, ...] = of_data(
        name="--tasks", metavar="DIR|GLOB", help="output of `agentic tasks`, or Parquet or JSONL with such rows"
    )
    user_llm: str | None = model(None, help="model that plays the user (default: as --llm)")
    tool_llm: str | None = model(None, help="model that simulates the tools (default: as --llm)")
    user_sampling: dict[str, Any] = flag(
        {}, group=MODELS, metavar="JSON", parse=check_sampling, help="the same for the user's calls"
    )
    tool_sampling: dict[str, Any] = flag(
        {}, group=MODELS, metavar="JSON", parse=check_sampling, help="the same for the calls that simulate the tools"
    )
    engine: str = _world(
        SIMULATOR,
        choices=ENGINES,
        shapes=True,
        help="what runs the tools: a model (default), code that a model wrote for their domain (--engines), or the domain's own "
        "(--domain)",
    )
    engines: tuple[str, ...] = _world(
        (),
        metavar="DIR|GLOB",
        help="output of `tools implement`, for --engine executable; tools without code are simulated",
    )
    domain: tuple[str, ...] = _world(
        (), metavar="DIR", help="folders of domains, as `agentic import` read them, for --engine domain"
    )
    sandbox: str = sandbox_flag(group="the world and the judges")
    outcomes: str = _world(
        "",
        metavar="A=P,…",
        parse=checked(Odds.parse),
        help="probabilities of what becomes of a valid call: timeout=0.05,partial=0.02 (success has the rest; default: "
        "2% each)",
    )
    personas: tuple[str, ...] = _world(
        (),
        metavar="NAME|DIR",
        help="users that are simulated: names, files or folders of your own (default: all shipped)",
    )
    missing_tools: float = _world(
        0.0,
        metavar="SHARE",
        parse=must("a share from 0 to 1", lambda given: 0 <= given <= 1),
        shapes=True,
        help="share of the tasks that are tried without the tools of their reference solution: the agent must say that it cannot "
        "(default: none)",
    )
    votes: int = _world(
        3, metavar="N", parse=odd, shapes=True, help="the judge's votes on what code cannot decide, odd"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.engines) != (self.engine == EXECUTABLE):
            raise UsageError(f"--engine {EXECUTABLE} and --engines DIR go together")
        if bool(self.domain) != (self.engine == DOMAIN):
            raise UsageError(f"--engine {DOMAIN} and --domain DIR go together")
        if self.missing_tools and self.engine == DOMAIN:
            raise UsageError(
                f"--missing-tools does not go with --engine {DOMAIN}: a domain's tasks have their own tools"
            )


def job(options: TrajectoriesOptions) -> Job:
    """The configured job.

    Raises:
        UsageError: the engines cannot be read, or the model's context is too small.
    """
    chosen = roles(options, "writer", "user", "tools", "judge")
    odds = Odds.parse(options.outcomes)
    worlds: Worlds = SimulatedWorlds(odds)
    stamps: list[list[str]] = []
    if options.engine == EXECUTABLE:
        isolated = named(options.sandbox)
        pieces, stamps = find_engines(options.engines, isolated)
        worlds = ExecutableWorlds(pieces, odds, sandbox=isolated)
    elif options.engine == DOMAIN:
        isolated = named(options.sandbox)
        folders = find_domains(options.domain, isolated)
        stamps = [[folder.name, folder.stamp] for folder in folders]
        worlds = DomainWorlds(folders, odds, isolated)
    users, own = own_prompts("--personas", options.personas, (PERSONAS,), persona_fault)
    kept_out = benchmarks(options.decontaminate)
    step = RunTrajectory(
        models=ModelNames(**{role: parse_spec(given.spec).model for role, given in chosen.items()}),
        worlds=worlds,
        protocol=options.protocol,
        limits=options.limits(),
        votes=options.votes,
        one_user=options.pairs,
        missing_tools=options.missing_tools,
        seed=options.seed,
        max_tokens=options.answer_tokens(2048),
        personas=Personas(users, own) if users else Personas(),
        benchmarks=kept_out,
    )
    tries = options.tries(step)
    return Job(
        name="agentic trajectories",
        title="Tool-use trajectories with rubrics, judged",
        step=tries,
        parser=RecordParser(AgentTask),
        roles=chosen,
        rows_per_task=options.samples,
        dag=partial(build, tries),
        counts=tries_counted,
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate_tries, tries, partial(estimate, step)),
        prompts=step.prompt_names,
        config={
            **shaping(options, TrajectoriesOptions),
            "engines": stamps,
            "outcomes": odds.of,
            "limits": {name: getattr(step.limits, name) for name in ("turns", "calls", "tokens")},
            **{name: getattr(step, name) for name in ("protocol", "temperature", "top_p", "max_tokens")},
        },
        benchmarks=kept_out,
    )


COMMAND = Command("agentic trajectories", TrajectoriesOptions, one(job))


ANSWER, RESULT, USER = 120, 200, 60
"""Tokens of an ordinary answer of the agent, of a tool's result and of a user's turn."""
PROMPT = 1500
"""Tokens of the instructions that the user's, the simulator's and the judge's prompts hold, about."""


def estimate(step: RunTrajectory, task: AgentTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one try, by role: as the reference solution goes, and when every limit is used up."""
    if step.held(task)[1] is not None:
        none = {role: Plan() for role in ("writer", "user", "tools", "judge")}
        return none, dict(none)
    fixed = count_tokens(task.agent.system) + sum(
        count_tokens(tool.description) + count_tokens(tool.input_schema) for tool in task.agent.tools
    )
    calls = max(1, len(task.solution))
    # Votes that agree settle it, so that the last ones are not asked for.
    expected = _plans(step, task, fixed, calls, 2, step.votes // 2 + 1)
    return expected, _plans(step, task, fixed, step.limits.calls, step.limits.turns, step.votes)


def _plans(step: RunTrajectory, task: AgentTask, fixed: int, calls: int, replies: int, votes: int) -> dict[str, Plan]:
    """Plans for a conversation of so many calls, replies to the user and votes of the judge."""
    turns = min(calls + replies, step.limits.turns)
    lengths = [min(fixed + turn * (ANSWER + RESULT), step.limits.tokens) for turn in range(turns)]
    spoken = USER + ANSWER
    heard = sum(PROMPT + turn * spoken for turn in range(replies + 1))
    state = count_tokens(task.state) // 2
    judged = PROMPT + min(lengths[-1] + ANSWER, step.limits.tokens)
    simulated = calls if step.worlds.engine == SIMULATOR else 0
    return {
        "writer": Plan(turns, sum(lengths), ANSWER * turns),
        "user": Plan(replies + 1, heard, USER * (replies + 1)),
        "tools": Plan(simulated, simulated * (PROMPT + state), simulated * RESULT),
        "judge": Plan(1, judged, 200).scaled(votes),
    }
