"""`vllm run-batch`: the same JSONL worked off by a model on this machine, or carried to another one by hand."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence, Set
from pathlib import Path

from tokenmill.inference.batch.box import Progress
from tokenmill.inference.errors import EndpointDown
from tokenmill.inference.servers.launch import clean_environment, diagnose
from tokenmill.inference.transport import MAX_ANSWER

_LAST_BYTES = 20_000


class RunBatch:
    """A folder of parts, each worked off by `vllm run-batch -i PART -o RESULTS`, one after the other."""

    def __init__(self, folder: Path, command: Sequence[str]) -> None:
        """
        Args:
            command: the program with everything but `-i` and `-o`.
        """
        self.folder = folder
        self.command = tuple(command)

    def _file(self, part: str, suffix: str) -> Path:
        return self.folder / f"{part}.{suffix}"

    async def put(self, part: str, file: Path) -> str:
        self.folder.mkdir(parents=True, exist_ok=True)
        arriving = self._file(part, "arriving")
        shutil.copyfile(file, arriving)
        arriving.replace(self._file(part, "jsonl"))
        return part

    async def find(self, part: str, since: float, calls: Set[str], known: Set[str]) -> str | None:
        return part if self._file(part, "jsonl").exists() else None

    async def look(self, batch: str) -> Progress:
        results = self._file(batch, "results.jsonl")
        if not results.exists():
            if not self._file(batch, "jsonl").exists():
                return Progress(ended=True)  # somebody has cleared the folder: its calls are filed anew
            await asyncio.to_thread(self._work_off, batch)
        return Progress(ended=True, files=(str(results),))

    def _work_off(self, part: str) -> None:
        made, log = self._file(part, "making"), self._file(part, "log")
        command = [*self.command, "-i", str(self._file(part, "jsonl")), "-o", str(made)]
        with log.open("wb") as output:
            status = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=clean_environment(), check=False
            ).returncode
        if status or not made.exists():
            with log.open("rb") as file:
                file.seek(max(0, os.path.getsize(log) - _LAST_BYTES))  # noqa: PTH202
                words = file.read().decode("utf-8", "replace")
            raise EndpointDown(f"vllm run-batch: {diagnose(words, status)} (log: {log})")
        made.replace(self._file(part, "results.jsonl"))

    async def results(self, progress: Progress) -> AsyncIterator[bytes]:
        for name in progress.files:
            if not Path(name).exists():
                continue
            with Path(name).open("rb") as file:
                while line := file.readline(MAX_ANSWER):
                    yield line

    async def close(self) -> None:
        pass


class ByHand(RunBatch):
    """The same folder where somebody else runs `vllm run-batch`, on a cluster for instance. The run stops as long as
    results are missing, and goes on from them when it is repeated."""

    def _work_off(self, part: str) -> None:
        waiting = sorted(path.name for path in self.folder.glob("*.jsonl") if not path.name.endswith(".results.jsonl"))
        missing = [name for name in waiting if not self._file(name.removesuffix(".jsonl"), "results.jsonl").exists()]
        raise EndpointDown(
            f"{len(missing)} parts wait in {self.folder}: run `vllm run-batch -i PART.jsonl -o PART.results.jsonl "
            f"--model MODEL` there for {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}, then repeat this command"
        )
