"""A seccomp filter for the sandbox: a classic BPF program that refuses system calls no tool server needs.

What is refused would widen the kernel's attack surface (new namespaces, mounts, bpf, io_uring, keyrings) or escape the
accounting of memory (memfd, System V segments and queues, larger buffers of pipes and sockets: pages that belong to no
process's resident set). Sockets are those of a Unix machine's own programs and of the Internet; other families, such as the
hypervisor's, lie outside network namespaces.
"""

from __future__ import annotations

import platform
import struct
from typing import Any

_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_LOAD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_NR, _ARCH, _ARG0 = 0, 4, 16
_CLONE_NEW = 0x7E020000
"""CLONE_NEWNS | CGROUP | UTS | IPC | USER | PID | NET."""
_X32 = 0x40000000

# Name: (number on x86-64, number on arm64); None where the architecture has none.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "setns": (308, 268),
    "unshare": (272, 97),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "swapon": (167, 224),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "personality": (135, 92),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "fanotify_init": (300, 262),
    "kcmp": (312, 272),
    "fsconfig": (431, 431),
    "fspick": (433, 433),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "move_pages": (279, 239),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
}
# Callers fall back to something else when these seem not to exist.
_ABSENT: dict[str, tuple[int | None, int | None]] = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "io_uring_setup": (425, 425),
    "clone3": (435, 435),  # its flags are in memory, where a filter cannot see them; libc falls back to clone
}
_CLONE = (56, 220)
_SOCKET, _SOCKETPAIR, _SETSOCKOPT, _FCNTL = (41, 198), (53, 199), (54, 208), (72, 25)
_OF_OTHERS = {"sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274)}
"""Calls about a process, refused for any but the caller."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_SOL_SOCKET = 1
_BUFFERS = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and their FORCE forms: they seem to succeed, and change nothing."""
_F_SETPIPE_SZ = 1031
_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def _op(code: int, k: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, k)


def program(machine: str | None = None) -> bytes | None:
    """The filter as `struct sock_filter[]`; None for a machine that has none here.

    Every call not named is allowed; calls of a foreign architecture (32-bit, x32) are refused.
    """
    found = _ARCHES.get(machine or platform.machine())
    if found is None:
        return None
    column, arch = found
    refuse, absent, allow = (_op(_RET, v) for v in (_ERRNO | _EPERM, _ERRNO | _ENOSYS, _ALLOW))
    code = [_op(_LOAD, _ARCH), _op(_JEQ, arch, 1, 0), refuse, _op(_LOAD, _NR)]
    if column == 0:
        code += [_op(_JGE, _X32, 0, 1), refuse]
    for numbers, answer in ((_REFUSED, refuse), (_ABSENT, absent)):
        for number in sorted(number for both in numbers.values() if (number := both[column]) is not None):
            code += [_op(_JEQ, number, 0, 1), answer]

    def rule(number: int, *body: bytes) -> list[bytes]:
        return [_op(_JEQ, number, 0, len(body)), *body]

    def argument(position: int) -> bytes:
        return _op(_LOAD, _ARG0 + 8 * position)  # its lower half: all that the kernel reads of an int

    family = _op(_RET, _ERRNO | _EAFNOSUPPORT)
    for pair in _OF_OTHERS.values():
        code += rule(pair[column], argument(0), _op(_JEQ, 0, 1, 0), refuse, allow)
    code += rule(
        _SOCKET[column],
        argument(0),
        *(_op(_JEQ, known, left, 0) for known, left in ((_UNIX, 6), (_INET, 5), (_INET6, 4))),
        _op(_JEQ, _NETLINK, 0, 2),
        argument(2),
        _op(_JEQ, 0, 1, 0),  # routes and addresses, which name resolution asks for
        family,
        allow,
    )
    code += rule(_SOCKETPAIR[column], argument(0), _op(_JEQ, _UNIX, 1, 0), family, allow)
    sizes = [_op(_JEQ, option, len(_BUFFERS) - 1 - n, int(n == len(_BUFFERS) - 1)) for n, option in enumerate(_BUFFERS)]
    seems = _op(_RET, _ERRNO)
    level = _op(_JEQ, _SOL_SOCKET, 0, 2 + len(sizes))
    code += rule(_SETSOCKOPT[column], argument(1), level, argument(2), *sizes, seems, allow)
    code += rule(_FCNTL[column], argument(1), _op(_JEQ, _F_SETPIPE_SZ, 0, 1), refuse, allow)
    code += rule(_CLONE[column], argument(0), _op(_JSET, _CLONE_NEW, 0, 1), refuse, allow)
    return b"".join([*code, allow])


def profile() -> dict[str, Any]:
    """The same filter as container engines read it (the `seccomp` of OCI). Equality is of an argument's lower half, which is
    all that the kernel reads of an int, and differences are of the whole, so that no upper half gets around either."""

    def rule(names: list[str], error: int, *arguments: tuple[int, str, int, int]) -> dict[str, Any]:
        compared = [
            {"index": index, "op": f"SCMP_CMP_{op}", "value": value, "valueTwo": second}
            for index, op, value, second in arguments
        ]
        return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": error, "args": compared}

    def equal(index: int, value: int) -> tuple[int, str, int, int]:
        return index, "MASKED_EQ", 0xFFFFFFFF, value

    families = [n for n in range(_NETLINK) if n not in (_UNIX, _INET, _INET6)]
    flags = [1 << bit for bit in range(32) if _CLONE_NEW >> bit & 1]
    return {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_AARCH64" if platform.machine() == "aarch64" else "SCMP_ARCH_X86_64"],
        "syscalls": [
            rule(sorted(_REFUSED), _EPERM),
            rule(sorted(_ABSENT), _ENOSYS),
            rule(sorted(_OF_OTHERS), _EPERM, (0, "NE", 0, 0)),
            *(rule(["socket"], _EAFNOSUPPORT, equal(0, family)) for family in families),
            rule(["socket"], _EAFNOSUPPORT, (0, "GT", _NETLINK, 0)),
            rule(["socket"], _EAFNOSUPPORT, equal(0, _NETLINK), (2, "NE", 0, 0)),
            rule(["socketpair"], _EAFNOSUPPORT, (0, "NE", _UNIX, 0)),
            *(rule(["setsockopt"], 0, equal(1, _SOL_SOCKET), equal(2, option)) for option in _BUFFERS),
            rule(["fcntl"], _EPERM, equal(1, _F_SETPIPE_SZ)),
            *(rule(["clone"], _EPERM, (0, "MASKED_EQ", flag, flag)) for flag in flags),
        ],
    }
