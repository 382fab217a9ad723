"""Import domains that you have already: their policy, tools that run as code, data and tasks, as tau2-bench has them.

    python beam_runner.py agentic import --domain shop --output out/shop

gives agents (`out/shop/agents`) and tasks whose solutions were played (`out/shop/tasks`). No model is asked. Then

    python beam_runner.py agentic trajectories --tasks out/shop/tasks --engine domain --domain shop --output OUT --llm SPEC
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tokenmill.pipelines.agentic.agents.options import read_policy
from tokenmill.pipelines.agentic.imported.dag import ImportAgent, ImportTask, TaskOf, build
from tokenmill.pipelines.agentic.trajectories.domain_worlds import find_domains
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.exit import FAILED, OK
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.inputs import InputFile, Inputs
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.launch import Command, launch
from tokenmill.pipelines.runs.options import RecordOptions, of_data
from tokenmill.schemas.flags import shaping
from tokenmill.tools_repo.domains.folder import DomainFolder, DomainInvalid
from tokenmill.tools_repo.domains.imports import tasks_in
from tokenmill.tools_repo.sandbox.choose import named, sandbox_flag

AGENTS, TASKS = "agents", "tasks"
"""Folders of the output."""


@dataclass(frozen=True, kw_only=True)
class ImportOptions(RecordOptions):
    """What `agentic import` may be given."""

    input: tuple[str, ...] = of_data(
        name="--domain",
        metavar="DIR",
        help="folders of domains (policy.md, tools.py, db.json, tasks.json), or Python files of typed functions",
    )
    policy: str | None = of_data(
        None, metavar="FILE", help="what the agents are told, in place of the policy in their domain"
    )
    sandbox: str = sandbox_flag(group="how domains are read")


def agents(options: ImportOptions) -> Job:
    """The job of the agents.

    Raises:
        UsageError: a folder is no domain, or the policy cannot be read.
    """
    folders = find_domains(options.input, named(options.sandbox))
    step = ImportAgent(named(options.sandbox), read_policy(options.policy))
    return _job(
        options, "agents", "Agents of imported domains, with their own policy and tools", step, folders, folders
    )


def tasks(options: ImportOptions) -> Job:
    """The job of the tasks.

    Raises:
        UsageError: as `agents`, or a file of tasks cannot be read.
    """
    folders = find_domains(options.input, named(options.sandbox))
    try:
        given = [TaskOf(folder, number, task) for folder in folders for number, task in enumerate(tasks_in(folder))]
    except DomainInvalid as error:
        raise UsageError(f"--domain {error}") from None
    step = ImportTask(named(options.sandbox), read_policy(options.policy))
    title = "Tasks of imported domains, their reference solutions played"
    return _job(options, "tasks", title, step, folders, given[: options.limit])


def _job(
    options: ImportOptions,
    what: str,
    title: str,
    step: ImportAgent | ImportTask,
    folders: Sequence[DomainFolder],
    given: Sequence[Any],
) -> Job:
    files = tuple(InputFile(folder.path, folder.name, 0, folder.stamp) for folder in folders)
    return Job(
        name=f"agentic import {what}",
        title=title,
        step=step,
        parser=None,
        roles={},
        given=given,
        found=Inputs(files, (), len(given)),
        dag=partial(build, step, given),
        max_row_bytes=options.max_document_bytes,
        estimate=lambda _: ({}, {}),
        prompts=(),
        config={
            **shaping(options, ImportOptions),
            "domains": [[folder.name, folder.stamp] for folder in folders],
            "policy": hashlib.sha256(step.policy.encode()).hexdigest() if step.policy else "",
        },
        reads="domains" if what == AGENTS else "tasks",
    )


def run(options: ImportOptions, beam_args: Sequence[str]) -> int:
    """Import agents, then tasks where there are any; the exit code.

    Raises:
        UsageError: a folder is no domain, or the output is another's.
    """
    if not options.input:
        raise UsageError("--domain DIR is required")
    if options.estimate or options.preview:
        return launch(agents(options), options, beam_args)
    found = tasks(options)
    for name, make in ((AGENTS, agents), (TASKS, tasks)):
        if name == TASKS and not found.given:
            print("no tasks.json: write tasks with `agentic tasks --agents`", flush=True)
            break
        folder = OutputFolder(f"{options.folder}/{name}")
        print(f"── {name}: {folder.path}", flush=True)
        code = launch(make(options), replace(options, output=folder.path), beam_args)
        if code not in (OK, FAILED):
            return code
        manifest = folder.manifest()
        if manifest is None or not manifest["counts"]["accepted"]:
            return code
    return code


COMMAND = Command("agentic import", ImportOptions, run)
