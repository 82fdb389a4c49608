"""The system calls a script may not make, as a BPF program."""

from __future__ import annotations

import errno
import os
import struct

# name: (x86_64, aarch64). Refused with EPERM: spying on processes, namespaces and mounts, keys, clocks, kernel
# modules, tracing, file handles, leaving one's cores.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "vhangup": (153, 58),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "memfd_secret": (447, 447),
}
# Answered "not implemented", so that libraries fall back: clone3 hides its flags from a filter, io_uring its calls.
ABSENT = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# Memory that no per-process limit counts: refused where there is no memory group.
UNCOUNTED = {"memfd_create": (319, 279), "shmget": (29, 194)}
CLONE, SOCKET, IOCTL = (56, 220), (41, 198), (16, 29)

NAMESPACE_FLAGS = 0x7E020000 | 0x80
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
TERMINAL_INPUT, TERMINAL_LINUX = 0x5412, 0x541C
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000


def program(families: tuple[int, ...], *, count_memory: bool) -> bytes:
    """The filter for this machine: refused calls, no new namespaces through clone, sockets of these families only."""
    column, architecture = ARCHITECTURES[os.uname().machine]
    code: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
    ]
    if column == 0:
        code += [(AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, FAIL | errno.ENOSYS)]  # the x32 calls, which alias these
    refused = [*REFUSED.values(), *(UNCOUNTED.values() if count_memory else ())]
    for numbers, error in [*((n, errno.EPERM) for n in refused), *((n, errno.ENOSYS) for n in ABSENT.values())]:
        if numbers[column] is not None:
            code += [(EQUAL, 0, 1, numbers[column] or 0), (RETURN, 0, 0, FAIL | error)]
    code += [(EQUAL, 0, 4, CLONE[column]), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, NAMESPACE_FLAGS)]
    code += [(RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    code += [(EQUAL, 0, len(families) + 3, SOCKET[column]), (LOAD, 0, 0, 16)]
    code += [(EQUAL, len(families) - i, 0, family) for i, family in enumerate(families)]
    code += [(RETURN, 0, 0, FAIL | errno.EAFNOSUPPORT), (RETURN, 0, 0, ALLOW)]
    code += [
        (EQUAL, 0, 5, IOCTL[column]),
        (LOAD, 0, 0, 24),
        (EQUAL, 1, 0, TERMINAL_INPUT),
        (EQUAL, 0, 1, TERMINAL_LINUX),
    ]
    code += [(RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)
