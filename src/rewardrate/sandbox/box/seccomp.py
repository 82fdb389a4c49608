"""The system calls a script may not make, as a BPF program."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Mapping

from rewardrate.sandbox.box.capabilities import Capabilities

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
    "open_tree_attr": (467, 467),
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
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
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
# Answered "not implemented", so that libraries fall back. clone3 hides its flags from a filter, io_uring and the older
# asynchronous reads their calls. mincore and cachestat say which pages of a shared file are in memory. Watches on files
# that every box is shown would let boxes that run at the same time talk to each other. vmsplice lets a pipe keep a
# whole huge page (2 MiB) by one byte of it, after its process gave it back; a Landlock ruleset keeps any number of
# rules.
ABSENT = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_setup": (206, 0),
    "mincore": (27, 232),
    "cachestat": (451, 451),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "vmsplice": (278, 75),
    "landlock_create_ruleset": (444, 444),
}
# Accepted without effect. Advice on what the page cache should keep: with it a script could leave a message for the
# next one in which pages of a library are in memory; the kernel may ignore it, so no program needs it. Locks on
# whole files: on a library that every box is shown they link boxes that run at the same time, and a filter cannot see
# which file it is. torch.compile fails where they are refused; so processes of one script are not kept apart by them.
IGNORED = {"fadvise64": (221, 223), "readahead": (187, 213), "flock": (73, 32)}
# Memory that no per-process limit counts: refused where there is no memory group.
UNCOUNTED = {"memfd_create": (319, 279)}
# What outlives the process that made it: refused where there is no IPC namespace that ends with the box, and where
# nothing counts its memory.
IPC = {"shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180)}
# Changes to a file's mode and owner, which Landlock does not govern: where the script runs as the user who owns
# everything, they are accepted without effect, also in its own folder.
ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
}
# The same for times wherever the file tree is the machine's: whoever may write to a file may set its times to now, and
# devices are written to by everybody.
TIMES: dict[str, tuple[int | None, int | None]] = {
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
}
EXTENDED_ATTRIBUTES = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
CLONE, SOCKET, IOCTL, PRLIMIT, SETPRIORITY = (56, 220), (41, 198), (16, 29), (302, 261), (141, 140)
IOPRIO_SET, FCNTL, MADVISE, SETSOCKOPT, GETSOCKOPT = (251, 30), (72, 25), (28, 233), (54, 208), (55, 209)
LSEEK = (8, 62)
PREADV2, PWRITEV2, PRCTL = (327, 286), (328, 287), (157, 167)
CLOSE_RANGE = (436, 436)
MMAP, MBIND, SETRLIMIT = (9, 222), (237, 235), (160, 164)

NAMESPACE_FLAGS = 0x7E020000 | 0x80
# A thread with descriptors of its own would hold files, pipes and sockets that /proc does not show for its process.
CLONE_FILES, CLONE_THREAD, CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 2
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
# Protocols of sockets: the kernel loads a module for any other, which is still there for the next script (and some have
# buffers of their own). Of netlink only routes, which libraries ask for names of hosts.
PROTOCOLS, NETLINK_ROUTE = (0, 1, 6, 17), 0
TERMINAL_INPUT, TERMINAL_LINUX = 0x5412, 0x541C
# The file systems' own calls, by the byte that says whose they are ('f', 'v', 'X', btrfs). They set flags, keys and
# seals of shared files, keep extents in memory or make snapshots, many through a descriptor that can only read, and
# PAGEMAP_SCAN is one of them. So all are refused but reading flags and version, and copying by reference.
FILE_SYSTEM_CALLS, CALL_KIND = (0x6600, 0x7600, 0x5800, 0x9400), 0xFF00
HARMLESS_CALLS = (0x80086601, 0x80087601, 0x801C581F, 0x40049409, 0x4020940D)
# fcntl: locks of open files, which /proc/locks shows to every namespace; leases, directory notices and write hints,
# which are kept with the shared file. Plain record locks stay, because SQLite needs them: on a file that can only be
# read they never conflict. Asking who holds one is answered as "another", which SQLite takes for a transaction in
# progress; its WAL mode does not work so unless its locking mode is exclusive.
# The machine's own device files can be written to by every box: where a box has these, record locks are accepted
# without effect too.
GET_LOCK, OPEN_FILE_LOCKS, LEASE, NOTIFY, WRITE_HINTS = 5, (36, 37, 38), 1024, 1026, (1036, 1038)
SET_LOCK = (6, 7)
PIPE_SIZE = 1031
# mmap: memory of several processes without a file is in no process's resident memory once a page of it alone is mapped.
# Huge pages come out of a store of the whole machine.
MAP_SHARED, MAP_ANONYMOUS, MAP_HUGE, SHM_HUGE, MEMFD_HUGE = 0x1, 0x20, 0x40000, 0o4000, 0x4
RLIMIT_CORE = 4
HOLES = (3, 4)  # lseek: SEEK_DATA, SEEK_HOLE
SHARED_PAGES = (12, 20, 21, 25)  # madvise: MADV_MERGEABLE, MADV_COLD, MADV_PAGEOUT, MADV_COLLAPSE
PR_SET_DUMPABLE = 4
SOL_SOCKET, BUFFER_SIZES = 1, (7, 8, 32, 33)
ATTACH = (26, 50, 51, 52)  # programs, compiled into memory of which the machine has little and no group counts it
COOKIES = (57, 71)  # numbers of sockets and of their namespaces, given in order for the whole machine when asked for
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
NOTHING = FAIL  # "it worked", though nothing was done
Instruction = tuple[int, int, int, int]


def program(
    families: tuple[int, ...], *, count_memory: bool, devices: bool, can: Capabilities, own_devices: bool = False
) -> bytes:
    """The filter for this machine: refused calls, no new namespaces through clone, sockets of these families only.

    `count_memory`: no group counts the script's memory. `devices`: it was given device files, whose drivers may share
    memory without a file. `own_devices`: no device file that it sees is the machine's. `can`: how the box is isolated;
    what namespaces would keep apart is refused where there are none.
    """
    # A BPF program reads one 32-bit word at a time and jumps forward by a number of instructions: (code, to skip if
    # true, to skip if false, value). Words 0 and 1 of the data are the call's number and architecture, the arguments
    # follow. The architecture comes first, because 32-bit calls have other numbers: with those the filter would be
    # evaded. Calls whose answer does not depend on an argument stand first; the kernel then knows them without running
    # the program.
    column, architecture = ARCHITECTURES[os.uname().machine]
    code: list[Instruction] = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, 0),
    ]
    if column == 0:
        code += [(AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, FAIL | errno.ENOSYS)]  # the x32 calls, which alias these
    for calls, answer in _whole_calls(count_memory=count_memory, can=can):
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, answer)]
    for numbers, body in _by_argument(
        families, count_memory=count_memory, devices=devices, can=can, own_devices=own_devices
    ):
        code += [(EQUAL, 0, len(body), numbers[column]), *body]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _whole_calls(
    *, count_memory: bool, can: Capabilities
) -> Iterator[tuple[Mapping[str, tuple[int | None, int | None]], int]]:
    """Calls that are answered without a look at their arguments, and the answer."""
    yield REFUSED, FAIL | errno.EPERM
    yield ABSENT, FAIL | errno.ENOSYS
    yield IGNORED, NOTHING
    if count_memory:
        yield UNCOUNTED, FAIL | errno.EPERM
    if count_memory or not can.own_ipc:
        yield IPC, FAIL | errno.EPERM
    if not can.own_mounts:
        yield TIMES, NOTHING
    if can.runs_as_supervisor:
        yield ATTRIBUTES, NOTHING
        yield EXTENDED_ATTRIBUTES, FAIL | errno.EOPNOTSUPP


def _by_argument(
    families: tuple[int, ...], *, count_memory: bool, devices: bool, can: Capabilities, own_devices: bool
) -> Iterator[tuple[tuple[int, int], list[Instruction]]]:
    """Calls that are refused for some of their arguments: their numbers, and what decides."""
    denied = _end(FAIL | errno.EPERM)
    apart = [(ANY_BIT, 0, 2, CLONE_THREAD), (ANY_BIT, 1, 0, CLONE_FILES), denied]
    yield CLONE, [_load(0), (ANY_BIT, 0, 1, NAMESPACE_FLAGS), denied, *apart, _end(ALLOW)]
    yield CLOSE_RANGE, [_load(2), (ANY_BIT, 0, 1, CLOSE_RANGE_UNSHARE), denied, _end(ALLOW)]
    yield SOCKET, _sockets(families)
    yield IOCTL, _device_calls()
    larger = (PIPE_SIZE,) if count_memory else ()  # a larger pipe is kernel memory that no limit counts
    refused = _but(1, (*OPEN_FILE_LOCKS, LEASE, NOTIFY, *WRITE_HINTS, *larger), FAIL | errno.EINVAL)
    without_effect = (GET_LOCK,) if own_devices else (GET_LOCK, *SET_LOCK)
    nothing = [step for command in without_effect for step in ((EQUAL, 0, 1, command), _end(NOTHING))]
    yield FCNTL, [_load(1), *nothing, *refused]
    yield MADVISE, _but(2, SHARED_PAGES, NOTHING)
    yield MBIND, _only(5, (0,), FAIL | errno.EPERM)  # moving a shared file's pages to another node would mark them
    yield from _limits()
    for call, process in ((SETPRIORITY, 0), (IOPRIO_SET, 1)):
        own = [_load(0), (EQUAL, 0, 2, process), _load(1), (EQUAL, 1, 0, 0)]
        yield call, [*own, _end(FAIL | errno.EPERM), _end(ALLOW)]
    for call in (PREADV2, PWRITEV2):  # RWF_NOWAIT says whether a page is in memory, RWF_DONTCACHE evicts it
        yield call, _only(5, (0,), FAIL | errno.EOPNOTSUPP)
    # Larger buffers are kernel memory that no limit counts: control groups of version 1 leave those of TCP and UDP out.
    attach = [step for name in ATTACH for step in ((EQUAL, 0, 1, name), _end(FAIL | errno.EPERM))]
    sizes = _but(2, BUFFER_SIZES, NOTHING)
    yield SETSOCKOPT, [_load(1), (EQUAL, 1, 0, SOL_SOCKET), _end(ALLOW), _load(2), *attach, *sizes]
    # Where a file's holes are: to answer, the kernel keeps the places of its extents, and does not look twice.
    yield LSEEK, _but(2, HOLES, FAIL | errno.EINVAL)
    cookies = _but(2, COOKIES, FAIL | errno.ENOPROTOOPT)
    yield GETSOCKOPT, [_load(1), (EQUAL, 1, 0, SOL_SOCKET), _end(ALLOW), *cookies]
    yield from _memory(count_memory=count_memory, devices=devices, can=can)
    if can.runs_as_supervisor or count_memory:  # it would hide memory and descriptors from an init of the same user
        yield PRCTL, [_load(0), (EQUAL, 1, 0, PR_SET_DUMPABLE), _end(ALLOW), *_but(1, (0,), NOTHING)]


def _sockets(families: tuple[int, ...]) -> list[Instruction]:
    """These families with the usual protocols, netlink with routes alone."""
    other = _only(2, PROTOCOLS, FAIL | errno.EPROTONOSUPPORT)
    netlink = [_load(2), (EQUAL, 0, 1, NETLINK_ROUTE), _end(ALLOW), _end(FAIL | errno.EPROTONOSUPPORT)]
    known = [(EQUAL, len(families) - index, 0, family) for index, family in enumerate(families)]
    chosen = [_load(0), *known, _end(FAIL | errno.EAFNOSUPPORT)]
    return [*chosen, (EQUAL, 0, len(netlink), AF_NETLINK), *netlink, *other]


def _device_calls() -> list[Instruction]:
    """ioctl: no words into a terminal, and of the file systems' calls the harmless ones."""
    refused = _end(FAIL | errno.EPERM)
    kinds = [(EQUAL, len(FILE_SYSTEM_CALLS) - index, 0, kind) for index, kind in enumerate(FILE_SYSTEM_CALLS)]
    terminal = [_load(1), (EQUAL, 1, 0, TERMINAL_INPUT), (EQUAL, 0, 1, TERMINAL_LINUX), refused]
    return [*terminal, (AND, 0, 0, CALL_KIND), *kinds, _end(ALLOW), *_only(1, HARMLESS_CALLS, FAIL | errno.EPERM)]


def _limits() -> Iterator[tuple[tuple[int, int], list[Instruction]]]:
    """Limits of the caller alone: another process of the same user would be the init or the supervisor.

    Reading somebody's limits (no new ones given) is harmless. That of core dumps is 1 and stays so, whatever is asked:
    with 0 the kernel would still start the host's program for them, where it has one.
    """
    reading = [_load(2), (EQUAL, 0, 3, 0), _load(2, high=True), (EQUAL, 0, 1, 0), _end(ALLOW)]
    yield PRLIMIT, [*reading, _load(0), (EQUAL, 1, 0, 0), _end(FAIL | errno.EPERM), *_but(1, (RLIMIT_CORE,), NOTHING)]
    yield SETRLIMIT, _but(0, (RLIMIT_CORE,), NOTHING)


def _memory(
    *, count_memory: bool, devices: bool, can: Capabilities
) -> Iterator[tuple[tuple[int, int], list[Instruction]]]:
    """Memory that nothing would count: of the whole machine's store of huge pages, and shared without a file."""
    refused = _end(FAIL | errno.EPERM)
    shared = (
        [(ANY_BIT, 0, 2, MAP_ANONYMOUS), (ANY_BIT, 0, 1, MAP_SHARED), refused] if count_memory and not devices else []
    )
    yield MMAP, [_load(3), (ANY_BIT, 0, 1, MAP_HUGE), refused, *shared, _end(ALLOW)]
    if not count_memory:
        yield UNCOUNTED["memfd_create"], [_load(1), (ANY_BIT, 0, 1, MEMFD_HUGE), refused, _end(ALLOW)]
        if can.own_ipc:
            yield IPC["shmget"], [_load(2), (ANY_BIT, 0, 1, SHM_HUGE), refused, _end(ALLOW)]


def _load(argument: int, *, high: bool = False) -> Instruction:
    """The lower or the higher half of an argument."""
    return (LOAD, 0, 0, 16 + 8 * argument + 4 * high)


def _end(answer: int) -> Instruction:
    return (RETURN, 0, 0, answer)


def _only(argument: int, values: tuple[int, ...], otherwise: int) -> list[Instruction]:
    """Allow the call if an argument is one of these values."""
    tests = [(EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [_load(argument), *tests, _end(otherwise), _end(ALLOW)]


def _but(argument: int, values: tuple[int, ...], answer: int) -> list[Instruction]:
    """Allow the call unless an argument is one of these values."""
    return [*_only(argument, values, ALLOW)[:-1], _end(answer)]
