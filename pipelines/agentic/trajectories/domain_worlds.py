"""Worlds whose tools are those of an imported domain, run in the sandbox over its data: deterministic, without model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import orjson
from tokenmill.inference.call import Ask
from tokenmill.pipelines.agentic.trajectories.worlds import DOMAIN, circumstances
from tokenmill.pipelines.runs.errors import UsageError
from tokenmill.pipelines.runs.options import server_store
from tokenmill.schemas.agentic import AgentTask
from tokenmill.tools_repo.domains.folder import DomainFolder, DomainInvalid
from tokenmill.tools_repo.domains.hosts import shared
from tokenmill.tools_repo.domains.world import DomainWorld
from tokenmill.tools_repo.sandbox.base import Sandbox, SandboxUnavailable
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.users.acts import ACTS
from tokenmill.tools_repo.world import World
from tokenmill.tools_repo.world.outcomes import Odds


@dataclass(frozen=True)
class DomainWorlds:
    """Worlds of the domains that agents were imported from."""

    folders: tuple[DomainFolder, ...]
    odds: Odds = field(default_factory=Odds)
    sandbox: Sandbox = field(default_factory=Bubblewrap)

    engine: ClassVar[str] = DOMAIN

    async def __call__(self, task: AgentTask, ask: Ask, *parts: object) -> World:
        """
        Raises:
            ValueError: the task is of another domain.
            tokenmill.tools_repo.domains.host.HostBroken: the domain's code does not load.
        """
        agent = task.agent
        folder = next((folder for folder in self.folders if folder.name in agent.domains), None)
        if folder is None:
            raise ValueError(f"task {task.id}: --domain names no folder of the domain {', '.join(agent.domains)}")
        host = shared(folder, self.sandbox, server_store())
        return DomainWorld(
            host,
            await host.describe(),
            agent.tools,
            orjson.loads(task.state),
            user_tools=agent.user_tools,
            **circumstances(task, self.odds, parts),
        )

    @property
    def prompt_names(self) -> tuple[str, ...]:
        return (ACTS,)


def find_domains(paths: Sequence[str], sandbox: Sandbox) -> tuple[DomainFolder, ...]:
    """The domains of a flag's values, read and not run.

    Raises:
        UsageError: one is no domain, two have one name, or there is no sandbox here to run them in.
    """
    try:
        sandbox.check()
        found = tuple(DomainFolder.read(Path(path)) for path in paths)
    except SandboxUnavailable as error:
        raise UsageError(f"--domain: the tools of a domain are run in a sandbox only: {error}") from None
    except DomainInvalid as error:
        raise UsageError(f"--domain {error}") from None
    names = [folder.name for folder in found]
    if repeated := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"--domain: two folders are named {repeated!r}; name one otherwise in its domain.json")
    return found
