"""Ways out of the sandbox that `test_base` does not try: the kernel's memory, the process above, files read back."""

import asyncio
import os
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tokenmill.tools_repo.code.workspace import Entry, Workspace
from tokenmill.tools_repo.sandbox.base import TEMPORARY, Command, Limits, Mount, run
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.sandbox.usage import disk_usage, in_memory

from tests.tools_repo.sandboxed import runtime

RUNTIME = runtime()


def python(code, *mounts, **limits):
    command = Command(
        (RUNTIME.python, "-Ic", textwrap.dedent(code)),
        mounts=(*RUNTIME.mounts, *mounts),
        limits=Limits(**{"wall_seconds": 60, **limits}),
    )
    return asyncio.run(run(Bubblewrap(), command))


def execute(code, seconds=20.0, grace=20.0):
    """Run Python beside the guest that we trust to tell what became of it."""
    workspace = Workspace({"escape.py": Entry(textwrap.dedent(code).encode())})
    return asyncio.run(replace(RUNTIME, grace=grace).execute(workspace, (RUNTIME.python, "escape.py"), seconds=seconds))


@pytest.mark.parametrize("folder, make", [("/tmp", "os.mknod"), ("/dev/shm", "os.mkdir"), ("/home/user", "os.mknod")])
def test_empty_files_cannot_fill_the_kernels_memory(folder, make):
    done = python(f"import os\nn = 0\nwhile True:\n    {make}(f'{folder}/{{n}}')\n    n += 1\n", inodes=5000)
    assert done.exceeded == "disk" and done.seconds < 20


def test_our_own_files_are_never_taken_for_the_sandboxs():
    """While a sandbox is being set up, its /tmp is still ours, then another: asked all that time, it must not seem full."""
    seen = []

    async def start():
        async with await Bubblewrap().start(Command(("sleep", "0.05"))) as running:
            while running.process.returncode is None:
                seen.append(in_memory(running.process.pid, TEMPORARY)[0])
                await asyncio.sleep(0)

    async def several():
        for _ in range(6):
            await start()

    asyncio.run(several())
    assert len(seen) > 100 and max(seen) < 100


def test_empty_files_on_a_mount_count(tmp_path):
    tmp_path.chmod(0o777)
    mount = Mount(str(tmp_path), "/data", writable=True)
    done = python("import os\nn = 0\nwhile True:\n    os.mknod(f'/data/{n}')\n    n += 1\n", mount, disk=2 << 20)
    assert done.exceeded == "disk" and disk_usage(str(tmp_path)) > 2 << 20


def test_a_link_in_a_writable_mount_is_not_followed_by_our_accounting(tmp_path):
    tmp_path.chmod(0o777)
    done = python("import os\nos.symlink('/', '/data/everything')\n", Mount(str(tmp_path), "/data", writable=True))
    assert done.returncode == 0 and disk_usage(str(tmp_path)) == 1024


def test_stopping_or_killing_everything_ends_only_the_sandbox():
    bystander = psutil.Process()
    for signal in ("SIGKILL", "SIGSTOP"):
        done = execute(
            f"""
            import os, signal
            for pid in [1, os.getppid(), -1]:
                try:
                    os.kill(pid, signal.{signal})
                except OSError as error:
                    print(pid, error.errno)
            """,
            seconds=1.0,
            grace=2.0,
        )
        assert done.exceeded in ("killed", "time") and done.workspace.keys() == {"escape.py"}
    assert bystander.is_running() and bystander.status() != psutil.STATUS_STOPPED


@pytest.mark.skipif(os.geteuid() != 0, reason="a user id of its own needs root")
def test_it_is_nobody_on_this_machine():
    done = python("import os; print(os.getuid(), os.getgid(), os.getgroups())")
    user, group, groups = done.stdout.decode().split(maxsplit=2)
    assert int(user) == int(group) > 1 << 30 and groups.strip() in ("[]", f"[{group}]")


def test_the_guest_cannot_be_read_or_written():
    done = execute(
        """
        import os
        for name in ("mem", "environ", "fd", "maps", "cwd"):
            path = f"/proc/{os.getppid()}/{name}"
            try:
                print(name, os.listdir(path) if name in ("fd", "cwd") else open(path, "r+b").read(1))
            except OSError as error:
                print("no")
        """
    )
    assert done.output.split() == ["no"] * 5, done.output


def test_the_kernels_switches_are_out_of_reach():
    done = execute(
        """
        paths = ["/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/kcore",
                 "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/dev/mem", "/dev/sda",
                 "/dev/kmsg", "/proc/kallsyms"]
        for path in paths:
            for mode in ("ab", "rb"):
                try:
                    with open(path, mode) as file:
                        text = file.read(1 << 16) if mode == "rb" else b"open"
                    if any(line.split()[0].strip(b"0") for line in text.splitlines()):
                        print(path, mode, text[:40])
                except (OSError, ValueError):
                    pass
        """
    )
    shown = [line for line in done.output.splitlines() if not line.startswith("/proc/1/oom_score_adj rb")]
    assert not [line for line in shown if not re.match(r"/proc/sys/\S+ rb", line)], shown


def test_hard_links_and_devices_do_not_come_back():
    done = execute(
        """
        import os
        for what in (lambda: os.link("/etc/passwd", "hard"), lambda: os.mknod("null", 0o20666, os.makedev(1, 3))):
            try:
                what(); print("made")
            except OSError:
                print("no")
        os.mkfifo("pipe"); os.symlink("/etc/shadow", "soft"); os.symlink("/proc/self/environ", "own")
        import socket; socket.socket(socket.AF_UNIX).bind("socket")
        """
    )
    assert done.output.split() == ["no", "no"], done.output
    assert {path: entry.link for path, entry in done.workspace.items()} == {
        "escape.py": None,
        "soft": "/etc/shadow",
        "own": "/proc/self/environ",
    }


def test_names_that_are_no_text_do_not_come_back():
    done = execute(
        "import os\nopen(b'bad\\xff', 'w'); open('good', 'w'); os.makedirs('e/mpty'); open('e/new\\nline', 'w')\n"
    )
    assert set(done.workspace) == {"escape.py", "good", "e/new\nline"} and done.exceeded == ""


def test_a_bomb_of_processes_is_gone_when_the_call_returns():
    done = execute(
        """
        import os, time
        while True:
            try:
                if os.fork() == 0:
                    os.setsid()
            except OSError:
                time.sleep(0.1)
        """,
        seconds=2.0,
    )
    assert done.exceeded in ("time", "killed")
    left = [p for p in psutil.process_iter(["cmdline"]) if "escape.py" in (p.info["cmdline"] or [])]
    assert not left


def test_nothing_is_written_to_our_disk():
    before = set(Path("/tmp").iterdir())
    execute("open('/tmp/escaped-file', 'w').write('x'); open('here', 'w').write('x')")
    assert not [path for path in set(Path("/tmp").iterdir()) - before if "escaped" in path.name]
