"""The other sandboxes: what an engine is told, tried with programs that stand in for `runsc` and `docker` and run the command
outside any sandbox. Whether the engines themselves isolate is tried by `tests/redteam`, where they are installed."""

import asyncio
import json
import os
import stat
import subprocess
import sys

import pytest
from tokenmill.pipelines.agentic.code.job import CodeOptions
from tokenmill.schemas.flags import UsageError
from tokenmill.tools_repo.sandbox import cgroup, engines, seccomp
from tokenmill.tools_repo.sandbox.base import CHANNEL, MIB, Command, Limits, Mount, SandboxUnavailable, run
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.sandbox.choose import named
from tokenmill.tools_repo.sandbox.engines import Container, Gvisor
from tokenmill.tools_repo.sandbox.usage import gvisor_memory

ENGINE = f"""#!{sys.executable}
import json, os, sys
log = open({{log!r}}, "a")
print(json.dumps(sys.argv[1:]), file=log, flush=True)
if "run" in sys.argv:
    bundle = next((a[9:] for a in sys.argv if a.startswith("--bundle=")), None)
    if bundle:
        told = json.load(open(bundle + "/config.json"))
        print(json.dumps(told), file=log, flush=True)
        argv, env = told["process"]["args"], dict(pair.split("=", 1) for pair in told["process"]["env"])
    else:
        at = sys.argv.index("tokenmill-empty")
        argv = sys.argv[at + 1:]
        env = dict(a[6:].split("=", 1) for a in sys.argv[:at] if a.startswith("--env="))
    os.execvpe(argv[0], argv, env)
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Puts a stand-in for an engine on the path; returns what it was told, one list or configuration each. What was found out
    about engines of this machine is asked anew, before and after."""

    def put(name):
        log, place = tmp_path / "log", tmp_path / name
        place.write_text(ENGINE.format(log=str(log)))
        place.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        engines._checked_gvisor.cache_clear()
        engines._checked_container.cache_clear()
        return lambda: [json.loads(line) for line in log.read_text().splitlines()]

    yield put
    engines._checked_gvisor.cache_clear()
    engines._checked_container.cache_clear()


COMMAND = Command(
    (sys.executable, "-Ic", "import os,sys; print(sys.stdin.read(), os.environ['GIVEN'])"),
    env={"GIVEN": "yes"},
    mounts=(Mount("/usr", "/data"),),
    limits=Limits(memory=64 * MIB, disk=32 * MIB, processes=9),
    private=True,
    masked=("/usr/lib/python3/dist-packages",),
)


def test_gvisor_gets_a_configuration_of_its_own_and_is_deleted_afterwards(engine):
    told = engine("runsc")
    done = asyncio.run(run(Gvisor(), COMMAND, b"in"))
    assert done.stdout == b"in yes\n" and done.returncode == 0
    trial, started, config, ended = told()
    assert trial[-2:] == ["do", "true"] and "--network=none" in started and ended[-3:-1] == ["delete", "--force"]
    assert ended[-1] == started[-1]
    bundle = next(part for part in started if part.startswith("--bundle=")).removeprefix("--bundle=")
    assert not os.path.exists(bundle)  # noqa: PTH110
    process = config["process"]
    assert process["noNewPrivileges"] and process["capabilities"] == {} and config["root"]["readonly"]
    assert process["user"]["uid"] == (os.geteuid() or process["user"]["uid"]) != 0
    assert {"type": "network"} in config["linux"]["namespaces"]
    assert config["linux"]["resources"] == {"memory": {"limit": 192 * MIB}, "pids": {"limit": 210}}
    places = {mount["destination"]: mount for mount in config["mounts"]}
    assert "ro" in places["/data"]["options"] and "size=33554432" in places["/tmp"]["options"]
    assert places["/usr/lib/python3/dist-packages"]["type"] == "tmpfs" and "/root" not in places


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_container_is_closed_and_removed_afterwards(engine, name):
    told = engine(name)
    done = asyncio.run(run(Container(name), COMMAND, b"in"))
    assert done.stdout == b"in yes\n"
    info, image, started, ended = told()
    assert info == ["info"] and image[:2] == ["image", "inspect"]
    assert ("--read-only-tmpfs=false" in started) == (name == "podman")
    assert any(flag.startswith("--security-opt=seccomp=") for flag in started)
    assert ended == ["rm", "--force", "--volumes", started[1].removeprefix("--name=")]
    for flag in (
        "--network=none",
        "--cap-drop=ALL",
        "--read-only",
        "--security-opt=no-new-privileges",
        "--pids-limit=9",
    ):
        assert flag in started
    assert f"--memory={96 * MIB}" in started and "--mount=type=bind,source=/usr,target=/data,readonly" in started
    assert not [part for part in started if part.startswith("--user=0")]


def test_a_container_that_hangs_is_ended(engine):
    told = engine("docker")
    command = Command(("sleep", "60"), limits=Limits(wall_seconds=0.5))
    done = asyncio.run(run(Container(), command))
    assert done.exceeded == "time" and done.seconds < 20 and told()[-1][:2] == ["rm", "--force"]


def test_the_private_channel_is_stdin_and_stdout_there(engine):
    engine("runsc")
    code = f"import os,sys; print('{CHANNEL}' in os.environ, sys.stdin.readline())"
    command = Command((sys.executable, "-Ic", code), private=True)
    assert asyncio.run(run(Gvisor(), command, b"x\n")).stdout.startswith(b"False x")


@pytest.mark.parametrize("name", ["gvisor", "podman"])
def test_what_is_not_installed_is_one_line(name, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox = Gvisor(str(tmp_path / "none")) if name == "gvisor" else Container(str(tmp_path / "none"))
    with pytest.raises(
        SandboxUnavailable, match=r"not installed: .*programs from elsewhere are run in it or not at all"
    ):
        sandbox.check()


def test_the_sandbox_is_chosen_by_a_flag():
    assert [type(named(name)).__name__ for name in ("bubblewrap", "gvisor", "docker")] == [
        *("Bubblewrap", "Gvisor", "Container")
    ]
    assert named("podman").engine == "podman"
    with pytest.raises(UsageError, match="--sandbox jail: must be one of bubblewrap, gvisor, docker, podman"):
        CodeOptions(input=("x",), output="y", sandbox="jail")


# Control groups


def test_systemd_makes_a_group_where_we_cannot(tmp_path, monkeypatch):
    fake = tmp_path / "systemd-run"
    fake.write_text('#!/bin/sh\necho "$@" >>"$0.log"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("_version_1", "_version_2"):
        monkeypatch.setattr(cgroup, name, lambda: None)
    cgroup.place.cache_clear()
    try:
        assert cgroup.described() == "control group by systemd-run"
        done = asyncio.run(run(Bubblewrap(), Command(("env",), limits=Limits(memory=64 * MIB))))
    finally:
        cgroup.place.cache_clear()
    assert done.returncode == 0 and b"XDG" not in done.stdout
    assert "--property=MemoryMax=369098752 --property=MemorySwapMax=0 --property=TasksMax=136" in (
        fake.with_suffix(".log").read_text()
    )


def test_version_2_needs_the_controller_and_a_folder_to_write_in(tmp_path, monkeypatch):
    below = tmp_path / "user.slice" / "ours"
    below.mkdir(parents=True)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (below / "cgroup.subtree_control").write_text("\n")
    monkeypatch.setattr(cgroup, "_mounted", lambda kind, option="": tmp_path if kind == "cgroup2" else None)
    monkeypatch.setattr(cgroup, "_own", lambda controller: "/user.slice/ours")
    assert cgroup._version_2() == cgroup.Place(tmp_path) and cgroup._version_1() is None
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    assert cgroup._version_2() is None


def test_engines_get_the_filter_that_bubblewrap_gets():
    profile = seccomp.profile()
    refused = {name for rule in profile["syscalls"] for name in rule["names"]}
    assert (
        profile["defaultAction"] == "SCMP_ACT_ALLOW" and {"unshare", "mount", "ptrace", "socket", "clone3"} <= refused
    )
    families = {
        argument["valueTwo"]
        for rule in profile["syscalls"]
        for argument in rule["args"]
        if rule["names"] == ["socket"] and argument["op"] == "SCMP_CMP_MASKED_EQ" and len(rule["args"]) == 1
    }
    assert families == set(range(16)) - {1, 2, 10}
    assert sum(rule["names"] == ["clone"] for rule in profile["syscalls"]) == 7


def test_memory_of_a_sandbox_with_a_kernel_of_its_own_is_that_of_its_nameless_file():
    code = (
        "import os, sys\nfile = os.memfd_create('runsc-memory')\nos.ftruncate(file, 1 << 40)\n"
        "os.pwrite(file, b'x' * (32 << 20), 1 << 30)\nprint(flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"\n"
        assert 32 * MIB <= gvisor_memory(process.pid) < 48 * MIB
        process.stdin.close()
