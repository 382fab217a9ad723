"""What a sandboxed program can and cannot do, tried with real programs."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid

import psutil
import pytest
from tokenmill.tools_repo.sandbox.base import HOME, MIB, Command, Limits, Mount, SandboxUnavailable, run
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap, interpreter

from tests.tools_repo.sandboxed import needs_sandbox

SANDBOX = Bubblewrap()
PYTHON, PYTHON_MOUNTS = interpreter()

pytestmark = needs_sandbox


def command(*argv, mounts=(), env=None, network=False, **limits):
    limits = Limits(**{"wall_seconds": 60, **limits})
    return Command(argv, env or {}, (*PYTHON_MOUNTS, *mounts), network=network, limits=limits)


def sh(script, stdin=b"", **more):
    return asyncio.run(run(SANDBOX, command("sh", "-c", script, **more), stdin))


def python(code, *args, **more):
    return asyncio.run(run(SANDBOX, command(PYTHON, "-Ic", textwrap.dedent(code), *args, **more)))


def alive(token):
    """Processes anywhere on this machine with `token` on their command line, ourselves excepted."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if process.pid != os.getpid() and any(token in part for part in process.info["cmdline"] or ()):
            found.append(process.pid)
    return found


def gone(token, seconds=10.0):
    end = time.monotonic() + seconds
    while alive(token) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(token)


# What works


def test_a_program_reads_stdin_writes_both_streams_and_returns_its_code():
    done = sh("cat; echo oops >&2; exit 7", b"hello\n")
    assert (done.stdout, done.stderr, done.returncode, done.exceeded) == (b"hello\n", b"oops\n", 7, "")


def test_a_program_that_does_not_read_a_large_stdin_ends_all_the_same():
    assert sh("exit 3", b"x" * 5_000_000).returncode == 3


def test_a_long_lived_program_answers_line_by_line():
    async def talk():
        code = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"
        async with await SANDBOX.start(command(PYTHON, "-Ic", code)) as running:
            answers = []
            for word in (b"one\n", b"two\n"):
                await running.write(word)
                answers.append(await running.readline())
            running.close_stdin()
            return answers, await running.readline(), await running.wait()

    assert asyncio.run(talk()) == ([b"ONE\n", b"TWO\n"], b"", 0)


def test_home_tmp_and_writable_mounts_can_be_written(tmp_path):
    if os.geteuid() == 0:
        tmp_path.chmod(0o777)
    done = sh(
        "echo a >~/a && echo b >/tmp/b && echo c >/work/c && cat ~/a /tmp/b",
        mounts=[Mount(str(tmp_path), "/work", True)],
    )
    assert done.stdout == b"a\nb\n", done.stderr
    assert (tmp_path / "c").read_text() == "c\n"


# What is hidden


def test_nothing_of_our_environment_is_visible(monkeypatch):
    monkeypatch.setenv("TOKENMILL_TEST_SECRET", "hunter2")
    done = sh("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'", env={"GIVEN": "yes"})
    names = {line.split("=")[0] for line in done.stdout.decode().splitlines() if "=" in line and line[0].isupper()}
    assert b"hunter2" not in done.stdout
    assert names == {"PATH", "HOME", "LANG", "TMPDIR", "PWD", "GIVEN"}


def test_files_outside_are_not_there(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    tmp_path.chmod(0o755)
    done = python(
        """
        import os, sys
        for path in (sys.argv[1], "/root/.ssh", "/etc/shadow", "/var", "/proc/1/root" + sys.argv[1], "/proc/1/cwd"):
            try:
                print(path, open(path).read() if os.path.isfile(path) else os.listdir(path))
            except OSError as error:
                print("no")
        print(sorted(os.listdir("/home")), os.listdir(os.environ["HOME"]), os.listdir("/tmp"))
        """,
        str(secret),
    )
    assert done.stdout.decode().splitlines() == ["no"] * 6 + ["['user'] [] []"], done.stderr


def test_links_on_a_mount_lead_nowhere_outside(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "absolute").symlink_to(secret)
    (shared / "relative").symlink_to("../secret.txt")
    (shared / "up").symlink_to("..")
    done = sh(
        "cd /work/shared; cat absolute relative up/secret.txt; ls up", mounts=[Mount(str(shared), "/work/shared")]
    )
    assert b"hunter2" not in done.stdout
    assert done.stdout == b"shared\n"


def test_the_system_and_read_only_mounts_cannot_be_written(tmp_path):
    tmp_path.chmod(0o777)
    done = sh(
        "for f in /usr/x /etc/x /x /dev/x /proc/sys/kernel/hostname /data/x /etc/passwd /bin/sh; do"
        " echo y 2>/dev/null >$f && echo wrote $f; done; true",
        mounts=[Mount(str(tmp_path), "/data")],
    )
    assert done.stdout == b"" and list(tmp_path.iterdir()) == []


def test_only_its_own_processes_are_in_proc():
    done = sh("ls /proc | grep -c '^[0-9]'; kill -9 1; echo still; ls -A /proc/1/fd 2>/dev/null | wc -l")
    count, still, *_ = done.stdout.decode().split()
    assert int(count) < 10 and still == "still"


def test_it_has_no_rights_and_can_gain_none():
    done = sh(
        "grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status;"
        "unshare -Ur true; mount -t tmpfs x /tmp; /usr/sbin/chroot / true"
    )
    fields = dict(line.split(":\t") for line in done.stdout.decode().splitlines())
    assert all(int(fields[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    assert done.stderr.count(b"not permitted") + done.stderr.count(b"must be superuser") == 3, done.stderr


def test_calls_that_escape_the_accounting_are_refused():
    done = python(
        """
        import ctypes, os
        libc = ctypes.CDLL(None, use_errno=True)
        calls = {"memfd_create": 319, "io_uring_setup": 425, "shmget": 29, "keyctl": 250, "bpf": 321}
        for name, number in calls.items():
            print(name, libc.syscall(number, 0, 0, 0, 0, 0), ctypes.get_errno())
        print("clone", libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0), ctypes.get_errno())
        """
    )
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of x86-64")
    assert done.stdout.decode().split() == [
        *("memfd_create", "-1", "38", "io_uring_setup", "-1", "38", "shmget", "-1", "1"),
        *("keyctl", "-1", "1", "bpf", "-1", "1", "clone", "-1", "1"),
    ]


# The network

DIAL = """
import socket, sys
for address in (("127.0.0.1", int(sys.argv[1])), "\\0" + sys.argv[2], ("192.0.2.1", 9)):
    try:
        s = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET); s.settimeout(2)
        s.connect(address); print("connected")
    except OSError as error:
        print("no", error.errno)
"""


@pytest.fixture
def listeners():
    """A TCP port on loopback and an abstract Unix socket of this machine."""
    name = f"tokenmill-{uuid.uuid4()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        yield str(tcp.getsockname()[1]), name


def test_there_is_no_network(listeners):
    done = python(DIAL, *listeners)
    assert [line.split()[0] for line in done.stdout.decode().splitlines()] == ["no", "no", "no"]
    assert sh("cat /proc/net/dev | tail -n +3 | cut -d: -f1").stdout.split() == [b"lo"]


def test_there_is_one_when_asked_for(listeners):
    assert python(DIAL, *listeners, network=True).stdout.startswith(b"connected\nconnected\n")


# Limits


def test_a_fork_bomb_is_stopped_by_its_limit_and_leaves_nothing():
    token = f"bomb-{uuid.uuid4()}"
    before = len(psutil.pids())
    done = python(
        """
        import os, sys, time
        made = 0
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(30); os._exit(0)
                made += 1
            except OSError:
                print(made); break
        """,
        token,
        processes=20,
    )
    assert 10 <= int(done.stdout) < 20
    assert gone(token) and len(psutil.pids()) < before + 15


def test_a_bomb_of_shells_runs_out_of_processes():
    token = f"bomb-{uuid.uuid4()}"
    done = sh(f": {token}; f() {{ f | f & wait; }}; f", wall_seconds=10, processes=30)
    assert b"fork" in done.stderr
    assert gone(token)


def test_sandboxes_do_not_count_each_others_processes():
    async def both():
        script = "for i in 1 2 3 4 5 6; do sleep 0.5 & done; wait; echo fine"
        return await asyncio.gather(*(run(SANDBOX, command("sh", "-c", script, processes=9)) for _ in range(3)))

    assert [done.stdout for done in asyncio.run(both())] == [b"fine\n"] * 3


def test_memory_of_one_process_is_limited():
    done = python("x = bytearray(400 << 20)", memory=200 * MIB)
    assert b"MemoryError" in done.stderr and done.returncode == 1


@pytest.mark.parametrize("how", ["private", "shared"])
def test_memory_of_all_processes_together_is_limited(how):
    done = python(
        """
        import mmap, os, sys, time
        for _ in range(8):
            if os.fork() == 0:
                x = bytearray(60 << 20) if sys.argv[1] == "private" else mmap.mmap(-1, 60 << 20)
                x[:] = b"x" * len(x)
                time.sleep(60); os._exit(0)
        time.sleep(60)
        """,
        how,
        memory=200 * MIB,
        wall_seconds=50,
    )
    assert done.exceeded == "memory"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", HOME])
def test_disk_is_limited(folder):
    done = sh(f"for i in 1 2 3; do head -c 4000000 /dev/zero >{folder}/$i || exit 9; done", disk=8 * MIB)
    assert done.returncode == 9 and b"No space left" in done.stderr


def test_one_file_and_a_writable_mount_are_limited(tmp_path):
    tmp_path.chmod(0o777)
    mounts = [Mount(str(tmp_path), "/data", writable=True)]
    done = sh("head -c 9000000 /dev/zero >/data/one", mounts=mounts, disk=4 * MIB)
    assert done.returncode and (tmp_path / "one").stat().st_size <= 4 * MIB
    script = "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero >/data/f$i; sleep 0.05; done"
    done = sh(script, mounts=mounts, disk=6 * MIB)
    assert done.exceeded == "disk"


def test_time_is_limited_for_the_deaf():
    done = sh("trap '' TERM INT HUP; while :; do sleep 1; done", wall_seconds=1)
    assert done.exceeded == "time" and done.seconds < 20 and done.returncode == 137


def test_cpu_time_is_limited():
    done = sh("while :; do :; done", cpu_seconds=1)
    assert done.returncode and done.exceeded == ""


@pytest.mark.parametrize("stream", ["1", "2"])
def test_output_is_limited(stream):
    done = sh(f"yes >&{stream}", output=2 * MIB)
    assert done.exceeded == "output" and len(done.stdout) <= 2 * MIB and len(done.stderr) <= 100_000


def test_a_line_without_end_is_limited():
    async def listen():
        async with await SANDBOX.start(command("sh", "-c", "yes | tr -d '\\n'", output=MIB)) as running:
            return await running.readline(), running.exceeded

    assert asyncio.run(listen()) == (b"", "output")


def test_limits_make_sense():
    with pytest.raises(ValueError, match=r"Limits.memory must be more than 0, not -1"):
        Limits(memory=-1)


# Ends


def test_nothing_is_left_when_the_program_ends():
    token = f"daemon-{uuid.uuid4()}"
    done = python(
        """
        import os, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.close(0); os.close(1); os.close(2)
                time.sleep(60)
            os._exit(0)
        os.wait(); print("done", flush=True)
        """,
        token,
    )
    assert done.stdout == b"done\n" and done.seconds < 50
    assert gone(token)


def test_nothing_is_left_when_it_is_stopped():
    token = f"stopped-{uuid.uuid4()}"

    async def start_and_stop():
        async with await SANDBOX.start(command("sh", "-c", f": {token}; sleep 60 & sleep 60")) as running:
            while not alive(token):
                await asyncio.sleep(0.05)
            assert running.process.returncode is None
        return alive(token)

    assert asyncio.run(start_and_stop()) == []


def test_nothing_is_left_when_we_are_killed():
    token = f"orphan-{uuid.uuid4()}"
    code = f"""
import asyncio
from tokenmill.tools_repo.sandbox.bubblewrap import Bubblewrap
from tokenmill.tools_repo.sandbox.base import Command, run

from tests.tools_repo.sandboxed import needs_sandbox
asyncio.run(run(Bubblewrap(), Command(("sh", "-c", "setsid sleep 61 & : {token}; sleep 60; :"))))
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        end = time.monotonic() + 60
        while not [pid for pid in alive(token) if pid != parent.pid and _is_shell(pid)] and time.monotonic() < end:
            time.sleep(0.05)
        assert alive(token)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert gone(token)


def _is_shell(pid):
    try:
        return psutil.Process(pid).name() in ("sh", "dash", "bash")
    except psutil.NoSuchProcess:
        return False


# Where there is no sandbox


def test_a_missing_program_is_one_clear_line():
    with pytest.raises(SandboxUnavailable) as raised:
        Bubblewrap("no-such-bwrap").check()
    assert str(raised.value).startswith("no-such-bwrap is not installed: apt install bubblewrap")
    assert "\n" not in str(raised.value)


def test_a_kernel_that_allows_no_namespaces_is_one_clear_line(tmp_path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    fake.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap does not work here .*No permissions"):
        Bubblewrap(str(fake)).check()
