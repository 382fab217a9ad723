"""Containers behind the sandbox's interface: the command line, the life of a container, and a real engine where there is one."""

import asyncio
import os
import stat

import pytest
from tokenmill.tools_repo.code.interpreter import Runtime
from tokenmill.tools_repo.code.workspace import Workspace
from tokenmill.tools_repo.sandbox import container
from tokenmill.tools_repo.sandbox.base import HOME, MIB, Command, Limits, Mount, SandboxUnavailable, run
from tokenmill.tools_repo.sandbox.container import Container

LIMITS = Limits(memory=512 * MIB, processes=40, cpu_seconds=30, wall_seconds=12.5, disk=64 * MIB, inodes=1000)

# Does what an engine's client does: `run` becomes the program, which is killed by name; every call is noted.
ENGINE = """#!/bin/sh
echo "$@" >>"$0.log"
case "$1" in
  run) shift; name=; while [ "$1" != theimage ]; do case "$1" in --name=*) name=${1#--name=};; esac; shift; done
       shift 4; echo $$ >"$0.$name"; exec "$@";;
  kill) kill -9 $(cat "$0.$2");;
  image) [ "$3" = theimage ] || { echo "no such image" >&2; exit 1; };;
esac
"""


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A stand-in for docker; its log is `docker.log` in the folder returned."""
    path = tmp_path / "docker"
    path.write_text(ENGINE)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    container._check.cache_clear()
    yield tmp_path
    container._check.cache_clear()


def sh(script, **limits):
    return Command(("sh", "-c", script), limits=Limits(**limits))


def test_the_command_line_takes_away_what_it_can():
    command = Command(
        ("python3", "-c", "x"), {"A": "b"}, (Mount("/here", "/there"), Mount("/w", "/work", True)), limits=LIMITS
    )
    argv = Container("podman", "img:1", cpus=1.5, runtime="runsc").argv(command, "n")
    assert argv[:4] == ["podman", "run", "--rm", "--interactive"]
    for flag in (
        *("--network=none", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--pull=never"),
        *("--user=65532:65532", f"--memory={512 * MIB}", f"--memory-swap={512 * MIB}", "--cpus=1.5", "--pids-limit=40"),
        *(
            "--ulimit=cpu=30",
            f"--ulimit=fsize={64 * MIB}",
            "--ulimit=core=0",
            f"--shm-size={64 * MIB}",
            "--runtime=runsc",
        ),
        f"--tmpfs={HOME}:rw,exec,nosuid,nodev,size={64 * MIB},nr_inodes=1000,mode=1777",
        *(
            "--mount=type=bind,source=/here,target=/there,readonly",
            "--mount=type=bind,source=/w,target=/work",
            "--env=A=b",
        ),
        f"--workdir={HOME}",
    ):
        assert flag in argv, flag
    assert argv[argv.index("img:1") :] == ["img:1", "-s", "KILL", "18", "python3", "-c", "x"]
    assert "--entrypoint=timeout" in argv and not any(
        part.startswith(("--privileged", "--pid=", "-v")) for part in argv
    )


def test_a_network_is_there_only_when_asked_for():
    assert "--network=bridge" in Container(image="i").argv(Command(("x",), network=True), "n")


def test_a_mount_that_would_smuggle_options_is_refused():
    command = Command(("x",), mounts=(Mount("/a,readonly=false", "/b"),))
    with pytest.raises(ValueError, match="commas"):
        Container(image="i").argv(command, "n")


@pytest.mark.parametrize(
    "settings, named", [({"engine": "lxc"}, "engine"), ({"image": "--privileged"}, "image"), ({"cpus": 0}, "cpus")]
)
def test_configuration_is_checked_at_once(settings, named):
    with pytest.raises(ValueError, match=rf"Container\.{named}"):
        Container(**settings)


def test_a_program_runs_and_its_container_is_not_killed(engine):
    done = asyncio.run(run(Container(image="theimage"), sh("cat; echo oops >&2; exit 7"), b"hello"))
    assert (done.stdout, done.stderr, done.returncode, done.exceeded) == (b"hello", b"oops\n", 7, "")
    assert "kill" not in (engine / "docker.log").read_text()


def test_a_limit_kills_the_container_by_its_name(engine):
    done = asyncio.run(run(Container(image="theimage"), sh("exec sleep 60", wall_seconds=0.5)))
    assert done.exceeded == "time" and done.seconds < 20
    lines = (engine / "docker.log").read_text().splitlines()
    name = next(part for part in next(x for x in lines if x.startswith("run")).split() if part.startswith("--name="))
    assert f"kill {name.removeprefix('--name=')}" in lines


def test_leaving_early_removes_the_container(engine):
    async def leave():
        async with await Container(image="theimage").start(sh("echo up; exec sleep 60")) as running:
            assert await running.readline() == b"up\n"
            assert running.process.returncode is None

    asyncio.run(leave())
    calls = [line.split()[0] for line in (engine / "docker.log").read_text().splitlines()]
    assert calls[-2:] == ["kill", "rm"]


def test_a_kill_that_is_not_ours_is_the_memory_limit(engine):
    done = asyncio.run(run(Container(image="theimage"), sh("kill -9 $$")))
    assert (done.exceeded, done.returncode) == ("memory", 137)


def test_what_is_missing_is_one_clear_line(engine, monkeypatch):
    with pytest.raises(SandboxUnavailable, match=r"docker has no image other: docker pull other \(no such image\)"):
        Container(image="other").check()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable, match="podman is not installed"):
        Container("podman").check()


@pytest.mark.parametrize("engine_name", ["docker", "podman"])
def test_a_real_engine_runs_a_workspace(engine_name):
    image = os.environ.get("TOKENMILL_TEST_IMAGE", "python:3.12")
    sandbox = Container(engine_name, image)
    try:
        sandbox.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    runtime = Runtime(sandbox, "/usr/local/bin/python3")
    script = "id -u; echo hi >new; ls /sys/class/net; touch /etc/x"
    done = asyncio.run(runtime.execute(Workspace({}), ("sh", "-c", script), seconds=20))
    assert done.output.splitlines()[:3] == ["65532", "lo", "touch: cannot touch '/etc/x': Read-only file system"]
    assert done.workspace["new"].content == b"hi\n"
