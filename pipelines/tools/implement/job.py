"""`tools implement`: executable tools for domains, so that trajectories need no model to run them.

    python beam_runner.py tools implement --domains OUT/stages/domains --tools OUT --output ENGINES --llm SPEC

Domains are joined with their tools here, before the run: that is its input, kept in the output folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tokenmill.inference.spec import parse_spec
from tokenmill.pipelines.rollouts.chunking import count_tokens
from tokenmill.pipelines.runs import inputs
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.job import Job, Plan
from tokenmill.pipelines.runs.launch import Command, one
from tokenmill.pipelines.runs.options import RecordOptions, of_data, roles, too_small
from tokenmill.pipelines.runs.prepared_input import made_input
from tokenmill.pipelines.runs.read_rows import parsed_rows
from tokenmill.pipelines.tools.implement.dag import ImplementTools, build
from tokenmill.pipelines.tools.parse import ToolParser, validated
from tokenmill.pipelines.transforms.records import RecordParser
from tokenmill.schemas.agentic import Domain
from tokenmill.schemas.engines import EngineTask
from tokenmill.schemas.flags import flag, not_negative, positive
from tokenmill.schemas.tools import RefusedTool, ToolSpec
from tokenmill.tools_repo.sandbox.base import SandboxUnavailable
from tokenmill.tools_repo.sandbox.choose import named, sandbox_flag
from tokenmill.tools_repo.world.programs.write import BATCH, PROMPTS, WRITE
from tokenmill.tools_repo.world.simulator import describe

from tokenmill import prompts

FOLDER = "tasks"
"""Folder within the output in which the joined domains are kept."""


@dataclass(frozen=True, kw_only=True)
class ImplementOptions(RecordOptions):
    """What `tools implement` may be given."""

    input: tuple[str, ...] = of_data(
        name="--tools", metavar="DIR|GLOB", help="runs of `tools evolve` or `curate`, or files of such rows"
    )
    domains: tuple[str, ...] = of_data(
        metavar="DIR|GLOB", help="the domains stage of `tools evolve` (OUT/stages/domains), or files of such rows"
    )
    tools_per_module: int = flag(BATCH, metavar="N", parse=positive, help="tools that are written together")
    repairs: int = flag(2, metavar="N", parse=not_negative, help="further answers for a module that is not accepted")
    sandbox: str = sandbox_flag()


def job(options: ImplementOptions) -> Job:
    """The configured job; joins domains with their tools, which are its input.

    Raises:
        UsageError: there is nothing to read, or no sandbox here.
    """
    try:
        isolated = named(options.sandbox)
        isolated.check()
    except SandboxUnavailable as error:
        raise UsageError(f"generated code is run in a sandbox only: {error}") from None
    spec = parse_spec(options.llm)
    found, stamps, notes = _join(options)
    step = ImplementTools(
        model=spec.model,
        seed=options.seed,
        tries=options.repairs + 1,
        batch=options.tools_per_module,
        sandbox=isolated,
        # Less where the context of the server that we start is small.
        max_tokens=1024 if spec.on_llama else ImplementTools.max_tokens,
    )
    return Job(
        name="tools implement",
        title="Executable tools: Python written by a model, checked in a sandbox",
        step=step,
        parser=RecordParser(EngineTask),
        roles=roles(options, "writer"),
        dag=partial(build, step),
        max_row_bytes=options.max_document_bytes,
        estimate=partial(estimate, step),
        prompts=PROMPTS,
        config={
            "input": stamps,
            **{name: getattr(step, name) for name in ("tries", "batch", "temperature", "top_p", "max_tokens")},
        },
        found=found,
        notes=(*notes, *too_small(options.llm, "write tools")),
    )


COMMAND = Command("tools implement", ImplementOptions, one(job))


def _join(options: ImplementOptions) -> tuple[inputs.Inputs, list[list[str]], list[str]]:
    """The domains with their tools as the run's input, [name, stamp] of the files that they come from, and notes for the
    user."""
    given, worlds = inputs.find(options.input), inputs.find(options.domains)
    inputs.check_columns(given, ToolParser())
    inputs.check_columns(worlds, RecordParser(Domain))
    stamps = [[file.name, file.stamp] for file in (*given.files, *worlds.files)]
    notes: list[str] = []

    def tasks() -> list[EngineTask]:
        tools: dict[str, dict[str, ToolSpec]] = {}
        for tool in parsed_rows(given.pieces, ToolParser(), options.max_document_bytes):
            if not isinstance(checked := validated(tool), RefusedTool):
                tools.setdefault(checked.toolset, {}).setdefault(checked.id, checked)
        domains = parsed_rows(worlds.pieces, RecordParser(Domain), options.max_document_bytes)
        joined = [_task(number, domain, tools) for number, domain in enumerate(domains)]
        if not joined:
            raise UsageError("--domains: there is no readable domain in it")
        if not any(task.tools for task in joined):
            raise UsageError("--tools: none of them belongs to a domain of --domains")
        homeless = sum(map(len, tools.values())) - sum(len(task.tools) for task in joined)
        if homeless > 0:
            notes.append(f"{homeless:,} tools belong to none of the domains and are left out")
        return sorted(joined, key=lambda task: task.id)

    return made_input(options, FOLDER, stamps, tasks, EngineTask), stamps, notes


def _task(number: int, domain: Domain, tools: dict[str, dict[str, ToolSpec]]) -> EngineTask:
    return EngineTask(
        id=domain.id,
        number=number,
        title=" / ".join(domain.path),
        description=domain.description,
        entities=domain.entities,
        state=domain.state,
        tools=list(tools.get("/".join(domain.path), {}).values()),
    )


CODE_TOKENS = 500
"""Answer tokens of one tool, its code and its tests, as strong models write them."""


def estimate(step: ImplementTools, task: EngineTask) -> tuple[dict[str, Plan], dict[str, Plan]]:
    """Calls and tokens of one domain, when every module is accepted and when every one uses all its tries."""
    if not task.tools or not task.entities:
        return {"writer": Plan()}, {"writer": Plan()}
    fixed = sum(count_tokens(text) for _, text in prompts.load(WRITE).parts)
    fixed += count_tokens(task.entities) + count_tokens(task.state) + count_tokens(task.description)
    one = Plan()
    for at in range(0, len(task.tools), step.batch):
        part = task.tools[at : at + step.batch]
        one += Plan(1, fixed + sum(count_tokens(describe(tool)) for tool in part), CODE_TOKENS * len(part))
    return {"writer": one}, {"writer": one.with_tries(step.tries)}
