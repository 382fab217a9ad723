"""A cluster of Beam's own parts in other processes and folders: its portable job service, a pool of workers that are started as
`tokenmill-worker` is, and a Redis that they share. Nothing is forked from the test, nothing lies in its folder."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.inference.redis_server import redis_server

ROOT = Path(__file__).resolve().parents[1]
BOOT = """#!/bin/sh
cd {folder}
PYTHONPATH={root} exec {python} -m tokenmill.pipelines.runs.worker "$@" 2>> {folder}/worker.log
"""


class Cluster:
    """Flags under `flags`; `log` is what the workers printed."""

    def __init__(self, folder: Path, *, prism: bool = False) -> None:
        self.folder = folder
        self.prism = prism
        self.redis_port, self.job_port, self.pool_port = (_free() for _ in range(3))
        self.redis = redis_server("--port", str(self.redis_port))
        self.cache = f"redis://127.0.0.1:{self.redis_port}/0"
        self.boot = boot = folder / "tokenmill-worker"
        boot.write_text(BOOT.format(folder=folder, root=ROOT, python=sys.executable))
        boot.chmod(0o755)
        self.processes: list[subprocess.Popen] = []
        if prism:  # which every command starts for itself
            return
        pool = ["worker.worker_pool_main", f"--service_port={self.pool_port}", f"--container_executable={boot}"]
        jobs = ["portability.local_job_service_main", "-p", str(self.job_port)]
        self.processes = [self._start(*pool), self._start(*jobs)]
        for port in (self.job_port, self.pool_port):
            _wait_for(port)

    @property
    def flags(self) -> list[str]:
        shared = ["--shared-filesystem", "--cache", self.cache]
        if self.prism:
            return ["--on", "prism", f"--environment_options=process_command={self.boot}", *shared]
        runner = ["--runner=PortableRunner", f"--job_endpoint=127.0.0.1:{self.job_port}"]
        return [*runner, "--environment_type=EXTERNAL", f"--environment_config=127.0.0.1:{self.pool_port}", *shared]

    @property
    def log(self) -> str:
        file = self.folder / "worker.log"
        return file.read_text() if file.exists() else ""

    def _start(self, module: str, *flags: str) -> subprocess.Popen:
        with (self.folder / "cluster.log").open("ab") as log:
            command = [sys.executable, "-m", f"apache_beam.runners.{module}", *flags]
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
        self.redis.remove()


@contextlib.contextmanager
def cluster(*, prism: bool = False) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="cluster-") as folder:
        started = Cluster(Path(folder), prism=prism)
        try:
            yield started
        finally:
            started.end()


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
