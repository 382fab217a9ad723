"""One server per machine, whoever leases it and however they end. A real process tree stands in for vLLM."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tokenmill.inference.errors import EndpointDown, RowError
from tokenmill.inference.roles import Models, Role
from tokenmill.inference.runtime import obtain, release
from tokenmill.inference.servers import keeper
from tokenmill.inference.servers.acquire import Lease, ServerFailed, acquire
from tokenmill.inference.servers.launch import launch_of, vllm_arguments
from tokenmill.inference.spec import parse_spec

from tests.servers import fake_vllm

ROOT = Path(__file__).resolve().parents[3]
SPEC = "vllm:org/model?tensor_parallel_size=2&enable_prefix_caching=false&max_model_len=4096"
HOLDER = """
import sys
from tokenmill.inference.servers.acquire import acquire
from tokenmill.inference.spec import parse_spec
lease = acquire(parse_spec(sys.argv[1]), linger=float(sys.argv[2]))
print(lease.base_url, flush=True)
sys.stdin.read()
lease.close()
"""


class Machine:
    """What the fake server noted, and who is still alive."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = folder / "cache" / "tokenmill" / "logs"

    def noted(self, what: str) -> list[int]:
        events = self.folder / "events"
        lines = events.read_text().splitlines() if events.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(what + " ")]

    def events(self) -> list[str]:
        """What happened, in order."""
        return [line.split()[0] for line in (self.folder / "events").read_text().splitlines()]

    def alive(self) -> list[int]:
        """Processes of the servers, and the keepers and guards of this test."""
        pids = [pid for pid in self.noted("start") + self.noted("engine") if _running(pid)]
        return pids + [process.pid for process in self.keepers("keeper") + self.keepers("guard")]

    def keepers(self, module: str = "keeper") -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                words = process.cmdline()
                if f"tokenmill.inference.servers.{module}" in words and process.environ().get("FAKE_VLLM_DIR") == str(
                    self.folder
                ):
                    found.append(process)
        return [process for process in found if _running(process.pid)]

    def hold(self, linger: float = 0.3, spec: str = SPEC) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", HOLDER, spec, str(linger)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


def _running(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.05)


def ask(lease_url: str, path: str) -> dict:
    with urllib.request.urlopen(lease_url.removesuffix("/v1") + path, timeout=5) as answer:
        return json.loads(answer.read())


def crash(url: str) -> None:
    with contextlib.suppress(OSError):
        ask(url, "/crash")


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator:
    fake_vllm.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_VLLM_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TOKENMILL_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    for name in ("OPENAI_API_KEY", "TOKENMILL_API_KEY", "VLLM_API_KEY"):
        monkeypatch.setenv(name, "not-for-servers")
    machine = Machine(tmp_path)
    yield machine
    # Every test must end with nothing left behind, whatever it did.
    until(lambda: not machine.alive())


def test_four_processes_share_one_server_that_ends_after_the_last(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_DELAY", "0.5")
    holders = [machine.hold() for _ in range(4)]
    urls = {holder.stdout.readline().strip() for holder in holders}
    assert len(urls) == 1 and len(machine.noted("start")) == 1
    assert ask(urls.pop(), "/v1/models")["data"] == [{"id": "org/model"}]
    for holder in holders[1:]:
        holder.communicate()
    time.sleep(0.8)
    assert _running(machine.noted("start")[0]), "one lease was left"
    holders[0].communicate()
    until(lambda: not machine.alive())
    assert machine.noted("end") == machine.noted("start"), "it was asked to stop, not killed"


def test_a_killed_holder_gives_its_lease_back(machine: Machine) -> None:
    holder = machine.hold()
    assert holder.stdout.readline()
    assert machine.alive()
    holder.kill()
    holder.wait()
    until(lambda: not machine.alive())


def test_the_server_outlives_its_last_lease_for_a_while(machine: Machine) -> None:
    spec = parse_spec(SPEC)
    with acquire(spec, linger=2) as first:
        url = first.base_url
    time.sleep(0.5)
    with acquire(spec) as second:
        assert second.base_url == url and second.model == "org/model" and second.parallel is None
    assert len(machine.noted("start")) == 1


def test_two_leases_in_one_process_are_two(machine: Machine) -> None:
    spec = parse_spec(SPEC)
    first, second = acquire(spec, linger=0.3), acquire(spec)
    first.close()
    first.close()
    time.sleep(0.8)
    assert ask(second.base_url, "/health") == {}
    second.close()


def test_a_crashed_server_comes_back_at_the_same_address(machine: Machine) -> None:
    with acquire(parse_spec(SPEC), linger=0.3) as lease:
        crash(lease.base_url)
        until(lambda: len(machine.noted("start")) == 2)
        with acquire(parse_spec(SPEC)) as other:
            assert other.base_url == lease.base_url
        assert lease.problem() is None
        assert not _running(machine.noted("engine")[0]), "what the crashed server had started ended with it"


def test_a_server_that_keeps_crashing_is_given_up(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_LIFE", "0.5")
    with acquire(parse_spec(SPEC), linger=0.3) as lease:
        until(lambda: lease.problem() is not None, 30)
        assert len(machine.noted("start")) == 1 + keeper.RESTARTS
        assert "crashed 4 times: exit status 3" in lease.problem()
        assert str(lease.log) in lease.problem()


def test_a_run_whose_server_is_given_up_ends_at_once_with_the_server_s_own_line(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_LIFE", "0.5")
    models = Models({"writer": Role(SPEC)}, str(machine.folder / "answers.sqlite"), "test", patience=300)
    runtime = obtain(models)
    try:
        with pytest.raises(
            EndpointDown, match=r"crashed 4 times: exit status 3.*log: .*no answer received so far is lost"
        ):
            asyncio.run_coroutine_threadsafe(_ask_for_ever(runtime.client.ask), runtime.loop).result(60)
    finally:
        release(runtime)


async def _ask_for_ever(ask) -> None:
    for number in itertools.count():
        with contextlib.suppress(RowError):
            await ask([{"role": "user", "content": str(number)}])


@pytest.mark.parametrize(
    ("fail", "spec", "words"),
    [
        ("oom", SPEC, ["out of memory: lower gpu_memory_utilization", "Free memory on device (3.2/4.0 GiB)"]),
        ("bad_model", SPEC, ["bad model: no such model", "not a valid model identifier"]),
        ("", "vllm:org/model?no_such_flag=1", ["a bad option in the spec", "--no-such-flag=1"]),
    ],
)
def test_a_failed_start_is_one_line_with_the_cause(
    machine: Machine, monkeypatch, fail: str, spec: str, words: list[str]
) -> None:
    monkeypatch.setenv("FAKE_VLLM_FAIL", fail)
    with pytest.raises(ServerFailed) as error:
        acquire(parse_spec(spec), linger=0.3)
    line = str(error.value)
    assert all(word in line for word in words) and "vllm serve org/model failed to start" in line
    assert "\n" not in line and "hf_abc" not in line
    assert len(machine.noted("start")) <= 1, "a start that failed on its own account is not repeated"
    assert Path(line.rpartition("log: ")[2].rstrip(")")).is_file()


def test_all_who_wait_hear_of_the_failure_of_one_start(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_FAIL", "oom")
    monkeypatch.setenv("FAKE_VLLM_DELAY", "1.5")
    failures: list[str] = []

    def wait() -> None:
        with pytest.raises(ServerFailed) as error:
            acquire(parse_spec(SPEC), linger=0.3)
        failures.append(str(error.value))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 3 and len(set(failures)) == 1
    assert len(machine.noted("start")) == 1


def test_a_taken_port_is_changed_for_another(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_FAIL", "port_once")
    with acquire(parse_spec(SPEC), linger=0.3):
        assert len(machine.noted("start")) == 2


def test_a_killed_keeper_leaves_no_orphan_and_the_next_server_waits_for_its_end(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_SLOW_STOP", "1.5")
    spec = parse_spec(SPEC)
    lease = acquire(spec, linger=0.3)
    before = machine.noted("start") + machine.noted("engine")
    machine.keepers()[0].send_signal(signal.SIGKILL)
    with acquire(spec, linger=0.3) as again:
        assert machine.events() == ["start", "engine", "end", "start", "engine"]
        assert not any(_running(pid) for pid in before)
        assert ask(again.base_url, "/health") == {}
    assert "keeper" in lease.problem()
    lease.close()


def test_a_killed_guard_takes_the_server_along_and_it_is_started_again(machine: Machine) -> None:
    with acquire(parse_spec(SPEC), linger=0.3):
        machine.keepers("guard")[0].send_signal(signal.SIGKILL)
        until(lambda: len(machine.noted("start")) == 2)
        assert not _running(machine.noted("start")[0])
        os.kill(machine.noted("engine")[0], signal.SIGKILL)  # nobody was left to take it down


def test_a_new_server_waits_for_the_old_one_to_be_gone(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_SLOW_STOP", "1.5")
    spec = parse_spec(SPEC)
    acquire(spec, linger=0.1).close()
    until(lambda: not list(Path(os.environ["TOKENMILL_RUNTIME_DIR"]).glob("*.sock")))
    with acquire(spec, linger=0.1):
        assert machine.events() == ["start", "engine", "end", "start", "engine"]


def test_nobody_left_waiting_ends_a_start(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_DELAY", "60")
    holder = machine.hold()
    until(lambda: machine.noted("engine"))
    holder.kill()
    holder.communicate()
    until(lambda: not machine.alive())


def test_a_dead_engine_behind_a_living_front_is_replaced(machine: Machine, monkeypatch, tmp_path) -> None:
    """The keeper in this process, its probes quickened."""
    monkeypatch.setattr(keeper, "PROBE_EVERY", 0.1)
    path, near = Path(os.environ["TOKENMILL_RUNTIME_DIR"]) / "keeper.sock", socket.socket(socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX) as listener, (tmp_path / "lock").open("w") as lock:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        mine = keeper.Keeper(
            launch_of(parse_spec(SPEC)), listener, path=path, lock_fd=lock.fileno(), log=tmp_path / "log", linger=0.3
        )
        near.connect(str(path))
        thread = threading.Thread(target=mine.run)
        thread.start()
        words = near.makefile()
        states = [json.loads(words.readline()) for _ in range(2)]
        assert [state["state"] for state in states] == ["starting", "ready"]
        with contextlib.suppress(OSError):
            ask(states[1]["base_url"], "/die")
        assert [json.loads(words.readline())["state"] for _ in range(2)] == ["restarting", "ready"]
        words.close()
        near.close()
        thread.join(20)
        assert not thread.is_alive()


def test_servers_never_see_the_keys_of_their_clients(machine: Machine) -> None:
    with acquire(parse_spec(SPEC), linger=0.3) as lease:
        names = (machine.folder / "environment").read_text().split("\n")
        assert "PATH" in names and not {"OPENAI_API_KEY", "TOKENMILL_API_KEY", "VLLM_API_KEY"} & set(names)
        assert lease.log.parent == machine.logs and lease.log.stat().st_mode & 0o077 == 0


def test_a_waiting_person_is_told_where_to_look(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_VLLM_DELAY", "0.5")
    said: list[str] = []
    with acquire(parse_spec(SPEC), linger=0.3, notify=said.append, log_dir=machine.folder / "here") as lease:
        assert said == [f"starting vllm serve org/model (log: {lease.log})"]
        assert lease.log.parent == machine.folder / "here"


def test_the_command_line_is_made_of_documented_flags() -> None:
    assert vllm_arguments(parse_spec(SPEC)) == (
        "serve",
        "org/model",
        "--host=127.0.0.1",
        "--port={port}",
        "--served-model-name=org/model",
        "--disable-uvicorn-access-log",
        "--no-enable-prefix-caching",
        "--max-model-len=4096",
        "--tensor-parallel-size=2",
    )
    assert vllm_arguments(parse_spec("vllm:m?trust_remote_code&compilation_config.use_inductor=true"))[-2:] == (
        "--compilation-config.use_inductor",
        "--trust-remote-code",
    )


def test_vllm_that_is_not_installed_is_named(machine: Machine, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(machine.folder))
    with pytest.raises(ServerFailed, match=r"install it in an environment of its own"):
        acquire(parse_spec("vllm:m"))


def test_a_shared_runtime_directory_is_refused(machine: Machine, monkeypatch, tmp_path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("TOKENMILL_RUNTIME_DIR", str(tmp_path / "open"))
    with pytest.raises(ServerFailed, match="TOKENMILL_RUNTIME_DIR"):
        acquire(parse_spec(SPEC))


def test_endpoints_of_others_are_only_named(machine: Machine, monkeypatch) -> None:
    with acquire(parse_spec("m@http://user:secret@host:8000/v1")) as lease:
        assert (lease.base_url, lease.model, lease.parallel) == ("http://host:8000/v1", "m", None)
        assert lease.problem() is None and "secret" not in repr(lease)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert acquire(parse_spec("openai:m")).base_url == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy/v1/")
    assert acquire(parse_spec("openai:m")).base_url == "http://proxy/v1"
    assert isinstance(lease, Lease) and not machine.noted("start")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"OPENAI_API_KEY": ""}, "set OPENAI_API_KEY"),
        ({"OPENAI_BASE_URL": "proxy/v1"}, "not an http"),
        ({"OPENAI_BASE_URL": "http://u:secret@proxy/v1"}, "put the key in OPENAI_API_KEY"),
    ],
)
def test_an_unusable_openai_environment_is_one_line(monkeypatch, variables: dict[str, str], words: str) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ServerFailed, match=words) as error:
        acquire(parse_spec("openai:m"))
    assert "secret" not in str(error.value)
