"""Attacks on the sandbox: programs that a hostile package or model could write. Each prints ESCAPED and why if it got anywhere;
`expected` says what must become of it. Run by `test_sandbox.py`, as root and as an ordinary user:

    python -m tests.redteam.sandbox_attacks SANDBOX PORT ABSTRACT_NAME SECRET_FILE    # one JSON line for each attack
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
from dataclasses import dataclass

from tokenmill.tools_repo.sandbox.base import MIB, Command, Limits, Sandbox, run
from tokenmill.tools_repo.sandbox.bubblewrap import interpreter
from tokenmill.tools_repo.sandbox.choose import named

MEMORY = 128 * MIB
DISK = 16 * MIB


@dataclass(frozen=True)
class Attack:
    """A program, and what must become of it."""

    code: str
    ends: tuple[str, ...] = ("",)
    """The limits of which one ends it; the empty one where it ends by itself."""
    private: bool = False


LIBC = """
import ctypes, os, sys, struct, socket, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    ctypes.set_errno(0)
    return libc.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in args)), ctypes.get_errno()
def escaped(*why):
    print("ESCAPED", *why, flush=True)
"""
MORE = """
TOTAL = 3 * 128 << 20
held = 0
def more(n):
    global held
    held += n
    if held > TOTAL:
        escaped(held >> 20, "MiB"); sys.exit()
"""


def opens(*paths: str, mode: str = "rb") -> str:
    return f"""
for path in {paths!r}:
    try:
        with open(path, {mode!r}) as file:
            escaped(path, file.read(20) if "r" in {mode!r} else "")
    except OSError:
        pass
"""


def refused(number: int, *args: object) -> str:
    return f"got, error = call({number}, {', '.join(map(str, args))})\nif got >= 0: escaped(got)\n"


ATTACKS: dict[str, Attack] = {
    # Files and processes of the machine
    "read a secret of another user": Attack(opens("/etc/shadow", "/etc/gshadow", "/root/.bashrc", "/var/log/syslog")),
    "read a file that everybody may read": Attack("import sys\n" + opens("SECRET")),
    "read the machine's disks and memory": Attack(
        opens("/dev/vda", "/dev/sda", "/dev/mem", "/proc/kcore", "/dev/kmsg")
    ),
    "read through the first process's root": Attack(
        opens("/proc/1/root/etc/shadow", "/proc/1/rootSECRET", "/proc/1/cwd/etc/shadow")
    ),
    "find our environment": Attack(
        "import glob\nfor p in glob.glob('/proc/*/environ'):\n    try:\n        t = open(p, 'rb').read()\n"
        "    except OSError: continue\n    if b'RED_TEAM' in t: escaped(p)\n"
    ),
    "see our processes": Attack("n = [p for p in os.listdir('/proc') if p.isdigit()]\nif len(n) > 6: escaped(n)\n"),
    "write to the system": Attack(opens("/usr/x", "/etc/x", "/x", "/dev/x", "/etc/passwd", "/bin/sh", mode="ab")),
    "write to the kernel's switches": Attack(
        opens(
            "/proc/sys/kernel/core_pattern",
            "/proc/sysrq-trigger",
            "/proc/sys/vm/drop_caches",
            "/sys/power/state",
            mode="r+b",
        )
    ),
    "reach a control group": Attack(opens("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/tasks", mode="ab")),
    "link to a system file": Attack("try:\n    os.link('/etc/passwd', '/tmp/x'); escaped()\nexcept OSError: pass\n"),
    "make a device": Attack(
        "try:\n    os.mknod('/tmp/d', 0o20666, os.makedev(1, 1)); escaped()\nexcept OSError: pass\n"
    ),
    "become root by a copy with the setuid bit": Attack(
        "import shutil, subprocess\nshutil.copy('/usr/bin/id', '/tmp/id'); os.chmod('/tmp/id', 0o4755)\n"
        "if b'euid=0' in subprocess.run(['/tmp/id'], capture_output=True).stdout: escaped()\n"
    ),
    "become root by su": Attack(
        "import subprocess\nif b'uid=0' in subprocess.run(['su', '-c', 'id'], stdin=subprocess.DEVNULL, capture_output=True).stdout:"
        " escaped()\n"
    ),
    "change the user": Attack("try:\n    os.setuid(0); escaped()\nexcept OSError: pass\n"),
    "type on our terminal": Attack(
        "import fcntl, termios\nfor fd in range(3):\n    try:\n        fcntl.ioctl(fd, termios.TIOCSTI, b'x'); escaped(fd)\n"
        "    except OSError: pass\n"
    ),
    "kill or stop processes outside": Attack(
        "import signal\nfor pid in (os.getppid() + 1000, 2, 300, 4194303):\n    try:\n        os.kill(pid, 0)\n"
        "        if pid not in [int(p) for p in os.listdir('/proc') if p.isdigit()]: escaped(pid)\n    except OSError: pass\n"
    ),
    "leave a process behind": Attack(
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        for fd in range(3): os.close(fd)\n"
        "        sys.argv[:] = ['red-team-daemon']\n        import time; time.sleep(120)\n    os._exit(0)\n"
    ),
    # The kernel
    **{
        f"call {name}": Attack(refused(number, *args))
        for name, number, args in (
            ("unshare", 272, (0x10000000,)),
            ("clone with a new user namespace", 56, (0x10000011, 0, 0, 0, 0)),
            ("clone3", 435, ("ctypes.create_string_buffer(struct.pack('<QQQQQQQQ', 0x10000000,0,0,0,17,0,0,0))", 64)),
            ("setns", 308, (0, 0)),
            ("mount", 165, ("b'x'", "b'/tmp'", "b'tmpfs'", 0, 0)),
            ("fsopen", 430, ("b'tmpfs'", 0)),
            ("chroot", 161, ("b'/tmp'",)),
            ("pivot_root", 155, ("b'/tmp'", "b'/tmp'")),
            ("ptrace", 101, (16, "os.getppid()", 0, 0)),
            ("process_vm_writev", 311, (1, 0, 0, 0, 0, 0)),
            ("bpf", 321, (0, "ctypes.create_string_buffer(128)", 128)),
            ("io_uring_setup", 425, (8, "ctypes.create_string_buffer(128)")),
            ("perf_event_open", 298, ("ctypes.create_string_buffer(128)", 0, -1, -1, 0)),
            ("userfaultfd", 323, (1,)),
            ("add_key", 248, ("b'user'", "b'a'", "b'b'", 1, -4)),
            ("memfd_create", 319, ("b'x'", 0)),
            ("fanotify_init", 300, (0, 0)),
            ("open_by_handle_at", 304, (0, "ctypes.create_string_buffer(64)", 0)),
            ("kexec_load", 246, (0, 0, 0, 0)),
            ("init_module", 175, ("b''", 0, "b''")),
            ("personality", 135, (0x0040000,)),
            ("an x32 call", 0x40000000 + 272, (0x10000000,)),
            ("clock_settime", 227, (0, "ctypes.create_string_buffer(16)")),
            ("pidfd_getfd", 438, (0, 0, 0)),
            ("sched_setscheduler of another", 144, ("os.getppid()", 5, "ctypes.create_string_buffer(4)")),
        )
    },
    # The network
    "dial the machine's loopback": Attack(
        "s = socket.socket(); s.settimeout(2)\ntry:\n    s.connect(('127.0.0.1', PORT)); escaped()\nexcept OSError: pass\n"
    ),
    "dial an abstract Unix socket": Attack(
        "s = socket.socket(socket.AF_UNIX)\ntry:\n    s.connect('\\0NAME'); escaped()\nexcept OSError: pass\n"
    ),
    "dial the Internet": Attack(
        "s = socket.socket(); s.settimeout(2)\ntry:\n    s.connect(('192.0.2.1', 80)); escaped()\n"
        "except OSError as e:\n    if e.errno is None: escaped('it waited for an answer')\n"
    ),
    "ask for a name": Attack("try:\n    socket.getaddrinfo('example.org', 80); escaped()\nexcept OSError: pass\n"),
    "open raw sockets": Attack(
        "for f, t in ((socket.AF_INET, socket.SOCK_RAW), (17, socket.SOCK_RAW)):\n    try:\n        socket.socket(f, t, 255); escaped(f)\n"
        "    except OSError: pass\n"
    ),
    "dial the hypervisor (AF_VSOCK)": Attack("got, e = call(41, 40, 1, 0)\nif got >= 0: escaped()\n"),
    "open other families of sockets": Attack(
        "for f in range(64):\n    for kind in (1, 2, 3, 5):\n        got, e = call(41, f, kind, 0)\n"
        "        if got >= 0:\n            os.close(got)\n            if f not in (1, 2, 10, 16): escaped(f, kind)\n"
    ),
    "open netlink sockets beside routes": Attack(
        "for p in range(1, 25):\n    got, e = call(41, 16, 3, p)\n    if got >= 0: escaped(p)\n"
    ),
    "have a pair of sockets of another family": Attack(
        "for f in (2, 16, 30, 40):\n    got, e = call(53, f, 1, 0, ctypes.create_string_buffer(8))\n    if got >= 0: escaped(f)\n"
    ),
    # Memory that is no process's
    "take memory": Attack(
        MORE + "x = []\nwhile True:\n    x.append(b'x' * (1 << 20)); more(1 << 20)\n", ("", "memory")
    ),
    "take memory in many processes": Attack(
        "import time\nfor _ in range(12):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (60 << 20); time.sleep(30); os._exit(0)\n"
        "time.sleep(20); escaped()\n",
        ("memory",),
    ),
    "take shared memory": Attack(
        MORE
        + "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 8 << 20); m[:] = b'x' * (8 << 20); x.append(m); more(8 << 20)\n",
        ("", "memory"),
    ),
    "take memory in socket buffers": Attack(
        MORE
        + """
pairs, block, rounds = [], b'x' * 4096, 0
import resource
if os.fork() == 0: os._exit(0)
for child in range(4):
    pid = os.fork()
    if pid == 0:
        while True:
            try:
                a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            except OSError:
                break
            for s in (a, b):
                s.setblocking(False)
                s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)
                try:
                    while True:
                        more(s.send(block))
                except OSError:
                    pass
            pairs.append((a, b))
        import time; time.sleep(3)
        os._exit(0)
for child in range(4):
    try: os.wait()
    except OSError: pass
""",
        ("", "memory"),
    ),
    "ask for huge buffers of a socket": Attack(
        "a, b = socket.socketpair()\na.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)\n"
        "if a.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > 1 << 20: escaped()\n"
    ),
    "ask for a huge pipe": Attack(
        "import fcntl\nr, w = os.pipe()\ntry:\n    fcntl.fcntl(w, 1031, 1 << 20); escaped()\nexcept OSError: pass\n"
    ),
    "take memory in pipes": Attack(
        MORE
        + "while True:\n    try: r, w = os.pipe()\n    except OSError: break\n    os.set_blocking(w, False)\n    try:\n"
        "        while True: more(os.write(w, b'x' * 4096))\n    except OSError: pass\n",
        ("", "memory"),
    ),
    "take memory in page tables": Attack(
        MORE
        + "import mmap, time\nm = mmap.mmap(-1, 400 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)\n"
        "for at in range(0, 400 << 30, 2 << 20):\n    m[at]; more(4096)\n",
        ("", "memory"),
    ),
    "take memory in queues of System V": Attack(refused(68, 0, 0o1666)),
    "take memory in segments of System V": Attack(refused(29, 0, 64 << 20, 0o1666)),
    "take semaphores of System V": Attack(refused(64, 0, 1000, 0o1666)),
    "take memory in queues of POSIX": Attack(refused(240, "b'x'", 0o102, 0o666, 0)),
    "fill the folders in memory": Attack(
        "import time\nn = 0\nfor folder in ('/tmp', '/dev/shm', os.environ['HOME']):\n    try:\n        with open(folder + '/x', 'wb', 0) as f:\n"
        "            while f.write(b'x' * 65536): n += 65536\n    except OSError: pass\ntime.sleep(1)\nif n > 20 << 20: escaped(n >> 20)\n",
        ("disk",),
    ),
    "make empty files without end": Attack(
        "n = 0\nwhile True:\n    os.mknod(f'/tmp/{n}'); n += 1\n    if n > 100_000: escaped(n); break\n", ("disk",)
    ),
    "write a huge sparse file": Attack(
        "try:\n    os.truncate(os.open('/tmp/x', 66), 1 << 40); escaped()\nexcept OSError: pass\n"
    ),
    # Time, processes, output
    "fork without end": Attack(
        "import time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60); os._exit(0)\n        n += 1\n"
        "        if n > 60: escaped(n); break\nexcept OSError: pass\n",
        ("", "memory"),
    ),
    "start threads without end": Attack(
        "import threading, time\nn = 0\ntry:\n    while True:\n        threading.Thread(target=time.sleep, args=(60,), daemon=True).start(); n += 1\n"
        "        if n > 60: escaped(n); break\nexcept RuntimeError: pass\nos._exit(0)\n"
    ),
    "be deaf to signals": Attack(
        "import signal, time\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n"
        "while True: time.sleep(1)\n",
        ("time",),
    ),
    "stop itself and its parent": Attack(
        "import signal\nfor pid in (os.getppid(), os.getpid()):\n    try: os.kill(pid, signal.SIGSTOP)\n    except OSError: pass\n"
        "import time; time.sleep(60)\n",
        ("time",),
    ),
    "print without end": Attack("while True: os.write(1, b'x' * 65536)\n", ("output",)),
    "print errors without end": Attack("while True: os.write(2, b'x' * 65536)\n", ("output",)),
    "open files without end": Attack(
        "n = 0\ntry:\n    while True: os.open('/dev/null', 0); n += 1\nexcept OSError: pass\nif n > 256: escaped(n)\n"
    ),
    "raise its own limits": Attack(
        "import resource\nfor name in ('NOFILE', 'NPROC', 'DATA', 'FSIZE', 'CPU', 'MEMLOCK', 'MSGQUEUE'):\n"
        "    kind = getattr(resource, 'RLIMIT_' + name, 12)\n    try:\n        resource.setrlimit(kind, (-1, -1)); escaped(name)\n"
        "    except (OSError, ValueError): pass\n"
    ),
    "lock memory": Attack("got, e = call(151, 1)\nif got == 0:\n    x = b'x' * (64 << 20)\n    escaped()\n"),
    # What the host reads
    "write to the first process's files": Attack(
        "import glob\nfor p in glob.glob('/proc/[0-9]*/fd/*'):\n    if int(p.split('/')[2]) in (os.getpid(),): continue\n    try:\n"
        "        fd = os.open(p, os.O_WRONLY | os.O_NONBLOCK)\n        os.write(fd, b'FORGED\\n')\n    except OSError: pass\n",
        private=True,
    ),
    "read what comes for the guest": Attack(
        "import glob\nfor p in glob.glob('/proc/[0-9]*/fd/*'):\n    if int(p.split('/')[2]) == os.getpid(): continue\n    try:\n"
        "        fd = os.open(p, os.O_RDONLY | os.O_NONBLOCK)\n        t = os.read(fd, 100)\n        if b'JOB' in t: escaped(p, t)\n"
        "    except OSError: pass\n",
        private=True,
    ),
    "write to the first process's memory": Attack(
        "try:\n    fd = os.open('/proc/1/mem', os.O_RDWR)\n    maps = open('/proc/1/maps').readlines()\n"
        "    at = int(next(m for m in maps if ' rw' in m).split('-')[0], 16)\n    os.pwrite(fd, b'x', at); escaped()\nexcept (OSError, StopIteration): pass\n"
    ),
}


_OWN = "gVisor's own kernel grants it; this machine's is not asked"
_FIRST = "the program is the first process there, and alone"
_TOTAL = "each of the three folders in memory holds as much; all of them with the memory are bounded in sum"
_ENGINE = {
    "call sched_setscheduler of another": _FIRST,
    "write to the first process's memory": _FIRST,
    "fill the folders in memory": _TOTAL,
    "make empty files without end": "bounded as memory, not by number",
    "take memory in many processes": "the kernel ends those that take it, one by one, and not the whole",
    "raise its own limits": "memory is bounded by the control group",
}
APART: dict[str, dict[str, str]] = {
    "gvisor": {
        **dict.fromkeys(
            (
                "call unshare",
                "call clone with a new user namespace",
                "call clone3",
                "call process_vm_writev",
                "call memfd_create",
                "open netlink sockets beside routes",
                "ask for huge buffers of a socket",
                "ask for a huge pipe",
                "take memory in queues of System V",
                "take memory in segments of System V",
                "take semaphores of System V",
                "take memory in queues of POSIX",
            ),
            _OWN,
        ),
        **_ENGINE,
        "start threads without end": "counted together with gVisor's own",
        "raise its own limits": "its own kernel knows no such limit; memory and threads are bounded outside",
    },
    "docker": _ENGINE,
    "podman": _ENGINE,
}
"""What an attack reaches in a sandbox other than bubblewrap without getting out of it, and why that is no escape."""


def program(attack: Attack, given: dict[str, str]) -> str:
    code = LIBC + textwrap.dedent(attack.code)
    for name, value in given.items():
        code = code.replace(name, value)
    return code


async def tried(sandbox: Sandbox, attack: Attack, given: dict[str, str]) -> dict[str, object]:
    python, mounts = interpreter()
    limits = Limits(
        memory=MEMORY,
        processes=40,
        cpu_seconds=30,
        wall_seconds=40,
        disk=DISK,
        inodes=5000,
        output=2 * MIB,
        open_files=256,
    )
    if attack.ends == ("time",):
        limits = Limits(**{**limits.__dict__, "wall_seconds": 2.0})
    command = Command((python, "-Ic", program(attack, given)), mounts=mounts, limits=limits, private=attack.private)
    done = await run(sandbox, command, b"JOB\n")
    words = [done.stdout[:600].decode("utf-8", "replace"), done.stderr[-300:].decode("utf-8", "replace")]
    return {"said": words[0], "errors": words[1], "exceeded": done.exceeded, "seconds": done.seconds}


async def main(name: str, port: str, abstract: str, secret: str) -> None:
    sandbox = named(name)
    sandbox.check()
    given = {"PORT": port, "NAME": abstract, "SECRET": secret}
    slots = asyncio.Semaphore(3)

    async def one(title: str, attack: Attack) -> None:
        async with slots:
            told = await tried(sandbox, attack, given)
        print(json.dumps({"attack": title, "user": os.getuid(), **told}), flush=True)

    await asyncio.gather(*(one(title, attack) for title, attack in ATTACKS.items()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
