"""A run whose calls go into batches: the pipeline runs again and again, each time with more answers in the cache, until no
row waits. Only the last time's shards are kept, and they are those of a run that asked directly."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tokenmill.inference import runtime as runtimes
from tokenmill.inference.batch.api import BatchApi
from tokenmill.inference.batch.desk import Counter, Desk, Policy
from tokenmill.inference.batch.ledger import Ledger, ledger_path
from tokenmill.inference.batch.lines import MOST_BYTES, MOST_REQUESTS
from tokenmill.inference.batch.messages import MessageBatches
from tokenmill.inference.batch.offline import ByHand, RunBatch
from tokenmill.inference.batch.spool import collected, give_up
from tokenmill.inference.roles import Models
from tokenmill.inference.servers.launch import ProgramMissing, run_batch_command
from tokenmill.inference.spec import ModelSpec, parse_spec
from tokenmill.inference.stats import RoleStats
from tokenmill.pipelines.runs.errors import RunFailed, UsageError
from tokenmill.pipelines.runs.folder import OutputFolder
from tokenmill.pipelines.runs.forkserver import Zygote
from tokenmill.pipelines.runs.inputs import Inputs
from tokenmill.pipelines.runs.job import Job
from tokenmill.pipelines.runs.progress import SAID
from tokenmill.pipelines.runs.runner import Runner
from tokenmill.pipelines.transforms.rollout import WAITING

_LAST_ONLY = frozenset({"cached", "refused"})
"""Counted anew each time; the other counters of a role tell what each time has added."""


@dataclass(frozen=True)
class Waves:
    """How often, and with what, a job's pipeline is run."""

    runner: Runner
    job: Job
    models: Models
    found: Inputs
    out: OutputFolder
    shards: int
    runtime: runtimes.Runtime
    """The driver's, made with `at_the_driver`."""
    batch_below: int = 0
    """Calls below which those that wait are made directly."""
    zygote: Zygote | None = None

    def run(self) -> dict[str, int]:
        """The counters of the whole; those of calls as if they had been made in one go.

        Raises:
            RunStopped, RunFailed: see `Runner.execute` and `Desk.settle`.
        """
        desk = self._desk()
        earlier: dict[str, int] = {}
        try:
            for wave in range(1_000_000):
                filing = Path(self.models.state, f"wave-{wave}")
                give_up(filing, desk.given_up)
                counters = self._once(str(filing))
                waiting = collected(filing)
                if not waiting:
                    break
                if len(waiting) < self.batch_below:
                    _add(earlier, self._calls(counters))
                    counters = self._once("")
                    break
                _add(earlier, self._calls(counters))
                self._say(f"wave {wave + 1}: {len(waiting):,} calls wait")
                self.runtime.run(desk.settle(waiting))
                for file in filing.glob("*"):
                    file.unlink()
        finally:
            self.runtime.run(desk.close())
            self._say("")
        if counters.get(WAITING):
            raise RunFailed(f"{counters[WAITING]:,} rows wait for an answer that nobody was asked for")
        return self._added_up(counters, earlier, desk.stats)

    def _once(self, filing: str) -> dict[str, int]:
        self.out.begin()
        self._say("")
        for figures in Path(self.models.state).glob("[0-9]*.json"):
            figures.unlink(missing_ok=True)
        models = dataclasses.replace(self.models, filing=filing)
        return self.runner.execute(self.job, models, self.found, self.out, self.shards, self.zygote, models.state)

    def _desk(self) -> Desk:
        client, counters = self.runtime.client, {}
        for name, player in client.players.items():
            spec = parse_spec(player.role.spec)
            if not spec.batch:
                continue
            folder = Path(f"{ledger_path(self.models.cache)}.{spec.model.replace('/', '--')}")
            if not spec.managed:
                endpoint = player.endpoint
                address = f"{endpoint.name} {spec.option('key') or ''}".strip()
                makes = MessageBatches if spec.provider == "anthropic" else BatchApi
                api = makes(endpoint.name, endpoint.client.identity, self.models.patience)
                counters[name] = Counter(f"{address} {spec.model}", api, _policy(spec))
            elif given := spec.option("batch"):
                counters[name] = Counter(f"{given} {spec.model}", ByHand(Path(given), ()), _policy(spec))
            else:
                try:
                    box = RunBatch(folder, run_batch_command(spec))
                except ProgramMissing as error:
                    raise UsageError(str(error)) from None
                counters[name] = Counter(f"vllm run-batch {spec.model}", box, _policy(spec))
        return Desk(
            Ledger(ledger_path(self.models.cache)),
            client.cache,
            counters,
            budget=self.models.budget,
            ask_refused=self.models.retry_refused,
            say=self._say,
        )

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # words only
            Path(self.models.state, SAID).write_text(line)

    def _calls(self, counters: dict[str, int]) -> dict[str, int]:
        return {key: counters.get(key, 0) for key in self._keys() if key.rpartition("/")[2] not in _LAST_ONLY}

    def _keys(self) -> Iterator[str]:
        for role in self.job.roles:
            for name in RoleStats().as_dict():
                yield f"{role}/{name}"

    def _added_up(self, last: dict[str, int], earlier: dict[str, int], sent: dict[str, RoleStats]) -> dict[str, int]:
        total = dict(last)
        _add(total, earlier)
        for role, stats in sent.items():
            _add(total, {f"{role}/{name}": value for name, value in stats.as_dict().items()})
        for role in self.job.roles:
            # What was paid for before the last time came from the cache then.
            paid_before = total.get(f"{role}/paid", 0) - last.get(f"{role}/paid", 0)
            total[f"{role}/cached"] = max(0, last.get(f"{role}/cached", 0) - paid_before)
        return total


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for key, value in more.items():
        total[key] = total.get(key, 0) + value


def _policy(spec: ModelSpec) -> Policy:
    poll, requests, megabytes = (spec.option(name) for name in ("poll", "requests", "megabytes"))
    return Policy(
        float(poll or 60.0),
        int(requests or MOST_REQUESTS),
        int(megabytes) * 1_000_000 if megabytes else MOST_BYTES,
    )
