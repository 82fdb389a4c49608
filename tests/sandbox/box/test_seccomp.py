"""The filter refuses what it must and lets the rest pass, in a process of its own."""

import ast
import os
import resource
import struct
import subprocess
import sys

import pytest

import pages
from rewardrate.sandbox.box import seccomp
from rewardrate.sandbox.levels import NAMED

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine not in seccomp.ARCHITECTURES,
    reason="Linux on a known machine",
)

PROGRAM = """
import ctypes, fcntl, os, socket, threading
from rewardrate.sandbox.box import kernel, seccomp
from rewardrate.sandbox.levels import NAMED
kernel.prctl(kernel.NO_NEW_PRIVS, 1)
kernel.load_filter(seccomp.program((seccomp.AF_UNIX,), count_memory=True, devices=False, can=NAMED['namespaces'].can))
def refused(call):
    try: call()
    except OSError as e: return e.errno
    return 0
socket.socket(socket.AF_UNIX).close()
print(refused(lambda: socket.socket(socket.AF_INET)), refused(lambda: kernel.unshare(0x10000000)), refused(lambda: os.memfd_create('x')))
read, write = os.pipe()
print(refused(lambda: fcntl.fcntl(write, 1031, 1 << 20)), *(refused(lambda: fcntl.ioctl(read, number, bytes(32))) for number in (0x6612, 0x40046629, 0xC020662A)))
print(refused(lambda: os.sched_setaffinity(0, {0})), os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1]))
thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()
"""


def test_the_filter_does_what_it_says_and_threads_and_processes_still_start():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["97", "1", "1", "22", "1", "1", "1", "1", "0", "thread"]


ASKED = """
import ctypes, errno, fcntl, mmap, os, resource, socket, subprocess, sys
from rewardrate.sandbox.box import kernel, seccomp
from rewardrate.sandbox.levels import NAMED
libc = ctypes.CDLL(None, use_errno=True)
file, page = os.open(os.__file__, os.O_RDONLY), mmap.mmap(-1, 4096)
mine = os.open('file', os.O_RDWR | os.O_CREAT, 0o600)
big = os.open('big', os.O_RDWR | os.O_CREAT, 0o600)
os.truncate(big, 4096)
resource.setrlimit(resource.RLIMIT_CORE, (min(1, resource.getrlimit(resource.RLIMIT_CORE)[1] & 1),) * 2)
column, families = seccomp.ARCHITECTURES[os.uname().machine][0], (1, 2, 16) if sys.argv[2] == 'sockets' else ()
kernel.prctl(kernel.NO_NEW_PRIVS, 1)
kernel.load_filter(seccomp.program(families, count_memory=sys.argv[3] == 'uncounted', devices=False, can=NAMED[sys.argv[1]].can, own_devices=sys.argv[4] == 'own'))
def said(call):
    try: answer = call()
    except OSError as error: return errno.errorcode[error.errno]
    except subprocess.CalledProcessError: return 'refused'
    return 'done'
def raw(name, *words):
    numbers = seccomp.ABSENT[name]
    return said(lambda: kernel.syscall(numbers[seccomp.ARCHITECTURES[os.uname().machine][0]], *words))
def made(number, remove):
    if number < 0: return errno.errorcode[ctypes.get_errno()]
    return 'done' if remove(number) == 0 else 'left'
parent, limits = os.getppid(), resource.getrlimit(resource.RLIMIT_CPU)
lock = b'\\0' * 32
CALLS = {
    'nowait': lambda: said(lambda: os.preadv(file, [bytearray(9)], 0, os.RWF_NOWAIT)),
    'plain preadv2': lambda: said(lambda: os.preadv(file, [bytearray(9)], 0, 0)),
    'mincore': lambda: raw('mincore', ctypes.addressof(ctypes.c_char.from_buffer(page)), 4096, ctypes.create_string_buffer(1)),
    'cachestat': lambda: raw('cachestat', file, 0, 0, 0), 'io_setup': lambda: raw('io_setup', 1, ctypes.c_ulong()),
    'flock': lambda: said(lambda: fcntl.flock(file, fcntl.LOCK_EX)),
    'flock elsewhere': lambda: said(lambda: fcntl.flock(os.open(os.__file__, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)),
    'inotify': lambda: raw('inotify_init1', 0),
    'ask for a lock': lambda: said(lambda: fcntl.fcntl(file, fcntl.F_GETLK, lock)),
    'lock an open file': lambda: said(lambda: fcntl.fcntl(file, 37, lock)),
    'record lock': lambda: said(lambda: fcntl.lockf(mine, fcntl.LOCK_EX)),
    'record lock of another': lambda: said(lambda: subprocess.run([sys.executable, '-c', 'import fcntl; fcntl.lockf(open("file", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)'], check=True, stderr=-3)),
    'lease': lambda: said(lambda: fcntl.fcntl(mine, 1024, fcntl.F_RDLCK)),
    'limit the parent': lambda: said(lambda: resource.prlimit(parent, resource.RLIMIT_CPU, limits)),
    'read its limits': lambda: said(lambda: resource.prlimit(parent, resource.RLIMIT_CPU)),
    'limit itself': lambda: said(lambda: resource.setrlimit(resource.RLIMIT_CPU, limits)),
    'slow the parent': lambda: said(lambda: os.setpriority(os.PRIO_PROCESS, parent, 19)),
    'slow all of a user': lambda: said(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
    'slow itself': lambda: said(lambda: os.nice(1)),
    'shared memory': lambda: made(libc.shmget(0, ctypes.c_size_t(4096), 0o600), lambda n: libc.shmctl(n, 0, None)),
    'queue': lambda: made(libc.msgget(0, 0o600), lambda n: libc.msgctl(n, 0, None)),
    'semaphores': lambda: made(libc.semget(0, 1, 0o600), lambda n: libc.semctl(n, 0, 0)), 'chmod': lambda: said(lambda: os.chmod('file', 0o644)),
    'attribute': lambda: said(lambda: os.setxattr('file', 'user.x', b'y')),
    'times': lambda: said(lambda: os.utime('file', (1, 1))),
    'quotas': lambda: said(lambda: kernel.syscall(443, mine, 0x80000100, 0, 0)),
    'pages into a pipe': lambda: raw('vmsplice', 1, 0, 0, 0), 'a ruleset': lambda: raw('landlock_create_ruleset', 0, 0, 1),
    'pages to a node': lambda: said(lambda: kernel.syscall(seccomp.MBIND[column], 0, 0, 0, 0, 0, 2)),
    'policy of pages': lambda: said(lambda: kernel.syscall(seccomp.MBIND[column], 0, 0, 0, 0, 0, 0)),
    'huge pages': lambda: said(lambda: mmap.mmap(-1, 1 << 21, flags=0x40022)),
    'shared memory without a file': lambda: said(lambda: mmap.mmap(-1, 4096)),
    'memory of its own': lambda: said(lambda: mmap.mmap(-1, 4096, flags=0x22)),
    'memory of a file': lambda: said(lambda: mmap.mmap(big, 4096)),
    'huge memory files': lambda: said(lambda: os.memfd_create('x', 4)),
    'core dumps': lambda: said(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))),
    'close a range': lambda: said(lambda: kernel.syscall(436, 900, 901, 0)),
    'descriptors of its own': lambda: said(lambda: kernel.syscall(436, 900, 901, 2)),
    'a thread with its own': lambda: said(lambda: kernel.syscall(seccomp.CLONE[column], 0x10900, 0, 0, 0, 0)),
    'core limit': lambda: str(resource.getrlimit(resource.RLIMIT_CORE)[0]),
    'flags of a file': lambda: said(lambda: fcntl.ioctl(file, 0x80086601, bytearray(8))),
    'holes': lambda: said(lambda: os.lseek(file, 0, os.SEEK_HOLE)), 'the end': lambda: said(lambda: os.lseek(file, 0, os.SEEK_END)),
    'socket number': lambda: said(lambda: socket.socketpair()[0].getsockopt(1, 57, 8)), 'socket kind': lambda: said(lambda: socket.socketpair()[0].getsockopt(1, 3)),
    'program': lambda: said(lambda: socket.socketpair()[0].setsockopt(1, 26, bytes(16))), 'option': lambda: said(lambda: socket.socketpair()[0].setsockopt(1, 2, 1)),
    'a terminal': lambda: said(lambda: fcntl.ioctl(file, 0x5401, bytearray(64))),
    **{f'call {number:x}': lambda number=number: said(lambda: fcntl.ioctl(file, number, bytearray(128)))
       for number in (0xC0506617, 0xC080661A, 0x40806685, 0xC0606610, 0x40087602, 0x401C5820, 0x5412, 0x541C, 0xC0189436, 0xC020660B)},
    **{f'socket {words}': lambda words=words: said(lambda: socket.socket(*words).close())
       for words in ((2, 1, 0), (2, 2, 17), (2, 2, 136), (2, 1, 262), (16, 3, 0), (16, 3, 2), (16, 3, 6), (17, 3, 0), (10, 1, 0))},
}
print({name: call() for name, call in CALLS.items()} | {'dumpable': (libc.prctl(4, 0, 0, 0, 0), libc.prctl(3, 0, 0, 0, 0))})
"""


def answers(mode, folder, families="none", memory="counted", devices="shared"):
    command = [sys.executable, "-c", ASKED, mode, families, memory, devices]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return ast.literal_eval(done.stdout)


def test_what_pages_are_in_memory_cannot_be_asked_and_files_shared_by_boxes_cannot_be_locked(tmp_path):
    said = answers("namespaces", tmp_path)
    assert said["nowait"] == "ENOTSUP"
    assert {said[name] for name in ("mincore", "cachestat", "io_setup", "inotify")} == {"ENOSYS"}
    assert {said[name] for name in ("lock an open file", "lease")} == {"EINVAL"}
    assert {said[name] for name in ("plain preadv2", "record lock", "flock", "flock elsewhere")} == {"done"}


def test_record_locks_have_no_effect_where_device_files_are_shared_with_other_boxes(tmp_path):
    assert answers("namespaces", tmp_path)["record lock of another"] == "done"
    assert answers("namespaces", tmp_path, devices="own")["record lock of another"] == "refused"


def test_limits_and_priorities_of_others_cannot_be_changed_and_those_of_its_own_can(tmp_path):
    said = answers("namespaces", tmp_path)
    assert {said[name] for name in ("limit the parent", "slow the parent", "slow all of a user")} == {"EPERM"}
    assert {said[name] for name in ("read its limits", "limit itself", "slow itself")} == {"done"}


def test_what_a_process_has_cannot_be_hidden_from_those_who_count_it(tmp_path):
    said = answers("namespaces", tmp_path, memory="uncounted")
    assert said["close a range"] == "done"
    assert {said[name] for name in ("descriptors of its own", "a thread with its own")} == {"EPERM"}
    assert said["dumpable"] == (0, 1), "accepted without effect"
    assert answers("namespaces", tmp_path)["dumpable"] == (0, 0), "where a group counts"


def test_where_no_namespace_ends_them_there_are_no_queues_semaphores_and_shared_memory(tmp_path):
    made = ("shared memory", "queue", "semaphores")
    assert {answers("namespaces", tmp_path)[name] for name in made} <= {"done", "ENOSYS"}
    for mode in ("uid+landlock+seccomp", "landlock+seccomp"):
        assert {answers(mode, tmp_path)[name] for name in made} == {"EPERM"}


def test_where_the_script_is_the_owner_of_all_files_it_changes_no_attributes(tmp_path):
    said = answers("landlock+seccomp", tmp_path)
    assert (said["chmod"], said["times"], said["attribute"]) == ("done", "done", "ENOTSUP")
    state = (tmp_path / "file").stat()
    assert state.st_mode & 0o777 == 0o600
    assert state.st_mtime > 1
    answers("uid+landlock+seccomp", tmp_path)
    state = (tmp_path / "file").stat()
    assert state.st_mode & 0o777 == 0o644, "its own, as another user"
    assert state.st_mtime > 1, "who may write to a file may set its times, and devices are written to by all"


def test_what_the_kernel_keeps_for_the_whole_machine_cannot_be_reached(tmp_path):
    said = answers("namespaces", tmp_path)
    assert {said[name] for name in said if name.startswith("call ")} == {"EPERM"}
    assert {said[name] for name in ("quotas", "pages to a node", "huge pages", "huge memory files")} == {"EPERM"}
    assert {said[name] for name in ("pages into a pipe", "a ruleset")} == {"ENOSYS"}
    assert said["flags of a file"] != "EPERM"
    assert (said["holes"], said["the end"]) == ("EINVAL", "done")
    assert (said["socket number"], said["socket kind"]) == ("ENOPROTOOPT", "done")
    assert (said["program"], said["option"]) == ("EPERM", "done")
    assert said["a terminal"] == "ENOTTY"


def test_a_limit_on_core_dumps_is_accepted_and_changes_nothing(tmp_path):
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    said = answers("namespaces", tmp_path)
    assert (said["core dumps"], said["core limit"]) == ("done", "0" if hard == 0 else "1")


def test_memory_that_no_process_is_seen_to_have_is_refused_where_nothing_else_counts_it(tmp_path):
    for memory, answer in (("counted", "done"), ("uncounted", "EPERM")):
        said = answers("namespaces", tmp_path, memory=memory)
        assert said["shared memory without a file"] == answer
        assert {said[name] for name in ("memory of its own", "memory of a file")} == {"done"}


def test_sockets_have_the_usual_protocols_alone(tmp_path):
    said = answers("namespaces", tmp_path, "sockets")
    assert {said[f"socket {words}"] for words in ((2, 1, 0), (2, 2, 17), (16, 3, 0))} == {"done"}
    refused = ((2, 2, 136), (2, 1, 262), (16, 3, 2), (16, 3, 6))
    assert {said[f"socket {words}"] for words in refused} == {"EPROTONOSUPPORT"}
    assert {said[f"socket {words}"] for words in ((17, 3, 0), (10, 1, 0))} == {"EAFNOSUPPORT"}
    assert answers("uid+landlock+seccomp", tmp_path)["socket (2, 1, 0)"] == "EAFNOSUPPORT"


ADVISE = """
import os, sys
from rewardrate.sandbox.box import kernel, seccomp
from rewardrate.sandbox.levels import NAMED
file = os.open(sys.argv[1], os.O_RDONLY)
kernel.prctl(kernel.NO_NEW_PRIVS, 1)
kernel.load_filter(seccomp.program((), count_memory=False, devices=False, can=NAMED['namespaces'].can))
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
"""


def test_advice_to_evict_a_file_is_accepted_and_has_no_effect(disk):
    path = disk / "library"
    pages.on_disk(path, 1 << 20)
    path.read_bytes()
    subprocess.run([sys.executable, "-c", ADVISE, str(path)], check=True)
    assert pages.resident(path) == 1
    pages.evict(path)
    assert pages.resident(path) == 0


def test_no_number_stands_twice_and_every_jump_stays_inside():
    column, _ = seccomp.ARCHITECTURES[os.uname().machine]
    tables = [calls for calls, _ in seccomp._whole_calls(count_memory=True, can=NAMED["landlock+seccomp"].can)]
    numbers = [pair[column] for table in tables for pair in table.values()]
    numbers += [
        pair[column]
        for pair, _ in seccomp._by_argument(
            (1, 2), count_memory=True, devices=False, can=NAMED["landlock+seccomp"].can, own_devices=False
        )
    ]
    known = [number for number in numbers if number is not None]
    assert len(known) == len(set(known))
    program = seccomp.program((1, 2), count_memory=True, devices=False, can=NAMED["landlock+seccomp"].can)
    code = list(struct.iter_unpack("HBBI", program))
    for place, (kind, yes, no, _) in enumerate(code):
        if kind in (seccomp.EQUAL, seccomp.AT_LEAST, seccomp.ANY_BIT):
            assert place + 1 + max(yes, no) < len(code)


@pytest.mark.parametrize(("devices", "answer"), [(False, "PermissionError"), (True, "mapped")])
def test_memory_shared_without_a_file_is_left_to_the_drivers_of_device_files_alone(devices, answer):
    code = f"""
import mmap
from rewardrate.sandbox.box import kernel, seccomp
from rewardrate.sandbox.levels import NAMED
kernel.prctl(kernel.NO_NEW_PRIVS, 1)
kernel.load_filter(seccomp.program((), count_memory=True, devices={devices}, can=NAMED['namespaces'].can))
try: mmap.mmap(-1, 4096); print('mapped')
except OSError as error: print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == answer
