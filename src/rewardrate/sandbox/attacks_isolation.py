"""Hostile scripts against what boxes share: page cache, locks, queues, limits, kernel memory, attributes of files.

(name, script) or (name, script, statuses[, honest[, runs]]), as `attacks.Attack` takes them. A script that leaves a
message for the next one is run twice: it prints LEAK where it finds what it left.
"""

from __future__ import annotations

Row = tuple[str, str] | tuple[str, str, tuple[str, ...]] | tuple[str, str, tuple[str, ...], bool, int]

ANY = ("ok", "error", "killed")
STOPPED = ("memory", "error", "killed")
LIBRARY = """import ctypes, errno, fcntl, mmap, os, resource, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
library = os.path.join(os.path.dirname(os.__file__), 'pydoc_data', 'topics.py')
file = os.open(library, os.O_RDONLY)
arm = os.uname().machine == 'aarch64'
"""
# Reads everything, lets `evict` run, and counts the major faults of reading it again.
EVICTION = (
    LIBRARY
    + """
size = os.fstat(file).st_size
def touch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    with mmap.mmap(file, size, prot=mmap.PROT_READ) as pages: sum(pages[::4096])
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before
touch()
assert touch() == 0
{}
print('LEAK evicted' if touch() else 'still there')
"""
)
RESIDENCY: list[Row] = [
    (
        "ask which pages are in memory by reading without waiting",
        LIBRARY
        + "try:\n    os.preadv(file, [bytearray(9)], 0, os.RWF_NOWAIT)\n    found = True\nexcept OSError as e: found = e.errno == errno.EAGAIN\nprint('LEAK' if found else 'refused')",
    ),
    (
        "ask which pages are in memory with mincore",
        LIBRARY
        + "pages = mmap.mmap(file, 8192, flags=mmap.MAP_PRIVATE)\nwhere = ctypes.addressof(ctypes.c_char.from_buffer(pages))\n"
        "print('LEAK' if libc.mincore(ctypes.c_void_p(where), ctypes.c_size_t(8192), ctypes.create_string_buffer(2)) == 0 else 'refused')",
    ),
    (
        "ask which pages are in memory with cachestat",
        LIBRARY
        + "print('LEAK' if libc.syscall(451, file, struct.pack('QQ', 0, 0), ctypes.create_string_buffer(40), 0) == 0 else 'refused')",
    ),
    (
        "read without waiting through asynchronous reads",
        LIBRARY
        + "print('LEAK' if libc.syscall(0 if arm else 206, 4, ctypes.byref(ctypes.c_ulong(0))) == 0 else 'refused')",
    ),
    (
        "ask for a shared file's extents, which the kernel then keeps",
        LIBRARY
        + "for ask in (lambda: os.lseek(file, 0, os.SEEK_HOLE), lambda: os.lseek(file, 0, os.SEEK_DATA), lambda: fcntl.ioctl(file, 0xC020660B, bytearray(32))):\n"
        "    try: print('LEAK', ask())\n    except OSError as e: print(e)",
    ),
    ("evict a library by advice", EVICTION.format("os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)")),
    (
        "evict a library by reading it uncached",
        EVICTION.format(
            "for flag in (0x80, 0x88):\n    try: os.preadv(file, [bytearray(size)], 0, flag)\n    except OSError as error: print(error)"
        ),
    ),
    (
        "evict a library by advice on its mapping",
        EVICTION.format(
            "libc.mmap.restype, libc.madvise.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]\n"
            "where = libc.mmap(None, ctypes.c_size_t(size), 1, 1, file, ctypes.c_long(0))\nctypes.string_at(where, size)\n"
            "print([libc.madvise(where, size, advice) for advice in (20, 21)])\nlibc.munmap(ctypes.c_void_p(where), ctypes.c_size_t(size))"
        ),
    ),
]
# The kernel's flags of a page, which others' pages have too: counts the "referenced" ones among parts of a mapped file.
# A page that this process has just touched always counts, one that only a copy of it has in its tables does not.
FLAGS = (
    LIBRARY
    + """
libc.mmap.restype, step = ctypes.c_void_p, 4 * mmap.PAGESIZE
def protect(start, length, access): libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(length), access)
def flagged(file):
    size = os.fstat(file).st_size // step * step
    where = libc.mmap(None, ctypes.c_size_t(size), 3, 2, file, ctypes.c_long(0))
    libc.madvise(ctypes.c_void_p(where), ctypes.c_size_t(size), mmap.MADV_RANDOM)  # looking is no use of a page then
    for place in range(where, where + size, mmap.PAGESIZE): ctypes.string_at(place, 1)
    ctypes.memset(where + size - 1, 1, 1)
    for place in range(where, where + size, 2 * step): protect(place, step, 1)
    ends = os.pipe()
    if os.fork() == 0:
        found, start = set(), 0
        for line in open('/proc/self/smaps'):
            words = line.split()
            if len(words) > 4 and '-' in words[0]: start = int(words[0].split('-')[0], 16)
            elif words[0] == 'Referenced:' and words[1] != '0': found.add(start)
        os.write(ends[1], b'%d' % sum(place in found for place in range(where, where + size, step)))
        os._exit(0)
    os.wait()
    libc.munmap(ctypes.c_void_p(where), ctypes.c_size_t(size))
    return int(os.read(ends[0], 99))
"""
)
FLAGGING: list[Row] = [
    (
        "leave a message in the flags of a shared file's pages",
        FLAGS + "found = []\nfor _ in range(6):\n    found.append(flagged(os.open(DATA + '/long.txt', os.O_RDONLY)))\n"
        "    open(DATA + '/long.txt', 'rb').read()\nprint('LEAK' if max(found) - min(found) > 4 else 'the same', found)",
    ),
    (
        "clear the flags of shared pages",
        "open('/proc/self/clear_refs', 'w').write('1')\nprint('LEAK')",
    ),
]
LINKING: list[Row] = [
    (
        "link boxes by a lock on a shared file",
        LIBRARY
        + "fcntl.flock(file, fcntl.LOCK_EX)\ntry: fcntl.flock(os.open(library, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except BlockingIOError: print('LEAK')",
    ),
    (
        "link boxes by record locks on a shared file",
        LIBRARY
        + "if os.fork() == 0:\n    fcntl.lockf(file, fcntl.LOCK_SH, 8, 4242)\n    time.sleep(0.6)\n    os._exit(0)\ntime.sleep(0.3)\n"
        "said = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))\n"
        "print('LEAK' if struct.pack('q', 4242) in said else 'unlocked')",
    ),
    (
        "link boxes by locks of open files",
        LIBRARY + "fcntl.fcntl(file, 37, struct.pack('hhqqi', fcntl.F_RDLCK, 0, 4242, 8, 0))\nprint('LEAK')",
    ),
    (
        "link boxes by record locks on a device",
        LIBRARY
        + "null = os.open('/dev/null', os.O_RDWR)\ntry: fcntl.lockf(null, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, LOCKED)\n"
        "except BlockingIOError: print('LEAK')",
    ),
    (
        "hold a lease on a shared file",
        LIBRARY + "fcntl.fcntl(file, 1024, fcntl.F_RDLCK)\nprint('LEAK')",
    ),
    (
        "watch who opens a shared file",
        LIBRARY
        + "watch = libc.inotify_init1(0)\nassert watch >= 0\nprint('LEAK' if libc.inotify_add_watch(watch, library.encode(), 0x20) >= 0 else 'no')",
    ),
    (
        "mark a shared file with a write hint",
        LIBRARY
        + "fcntl.fcntl(file, 1036, struct.pack('Q', 3))\nprint('LEAK' if fcntl.fcntl(file, 1035, struct.pack('Q', 0))[0] == 3 else 'no')",
    ),
]
NAMED = "DATA + '/train.csv'"
LEAVING: list[Row] = [
    (
        "leave a message queue",
        LIBRARY + "assert libc.msgget(0x5EC2E7, 0o600) == -1, 'LEAK'\nqueue = libc.msgget(0x5EC2E7, 0o1600)\n"
        "print(libc.msgsnd(queue, struct.pack('l9s', 1, b'answers\\0'), 8, 0))",
        ANY,
        False,
        2,
    ),
    (
        "leave semaphores",
        LIBRARY + "assert libc.semget(0x5EC2E7, 1, 0o600) == -1, 'LEAK'\nprint(libc.semget(0x5EC2E7, 1, 0o1600))",
        ANY,
        False,
        2,
    ),
    (
        "leave shared memory",
        LIBRARY
        + "assert libc.shmget(0x5EC2E7, ctypes.c_size_t(4096), 0o600) == -1, 'LEAK'\nprint(libc.shmget(0x5EC2E7, ctypes.c_size_t(4096), 0o1600))",
        ANY,
        False,
        2,
    ),
    (
        "leave a file in shared memory",
        "import os\nassert not os.path.exists('/dev/shm/answers'), 'LEAK'\nopen('/dev/shm/answers', 'w').write('1,2')",
        ANY,
        False,
        2,
    ),
    (
        "leave closed folders in shared memory",
        "import os\nassert not os.path.exists('/dev/shm/a'), 'LEAK'\nos.chdir('/dev/shm')\n"
        "for _ in range(200):\n    os.mkdir('a'); os.chdir('a')\nopen('b', 'wb').write(bytes(9 << 20))\nos.chmod('.', 0)",
        ANY,
        False,
        2,
    ),
    (
        "leave a file in the temporary folder",
        "import os\nfor f in ('/tmp/answers', '/var/tmp/answers', '/run/answers', '../answers'):\n    assert not os.path.exists(f), 'LEAK'\n"
        "    try: open(f, 'w').write('1,2')\n    except OSError as e: print(e)",
        ANY,
        False,
        2,
    ),
    (
        "leave a message in a file's times",
        f"import os\nos.utime({NAMED}, (7, 7))\nprint('LEAK' if os.stat({NAMED}).st_mtime == 7 else 'no')",
    ),
    (
        "leave a message in a device's times",
        "import os\nfor name in ('null', 'full', 'random', 'urandom'):\n    before = os.stat('/dev/' + name).st_mtime_ns\n"
        "    try: os.utime('/dev/' + name)\n    except OSError as e: print(e)\n"
        "    print('LEAK' if os.stat('/dev/' + name).st_mtime_ns != before else 'the same')",
    ),
    (
        "leave a message in a counter of the machine",
        "import os\nPLACES = [os.path.join('/proc', name) for name in ('stat', 'vmstat', 'softirqs', 'interrupts', 'zoneinfo', 'pressure/cpu', 'sys/fs/dentry-state')]\n"
        "def look(): return [open(place).read() for place in PLACES if os.path.exists(place)]\nbefore = look()\n"
        "for _ in range(20):\n    if os.fork() == 0: os._exit(0)\n    os.wait()\nprint('LEAK' if look() != before else 'the same')",
    ),
    (
        "leave a message in the numbers of sockets",
        "import socket\nfor number in (57, 71):\n    try: print('LEAK', socket.socketpair()[0].getsockopt(socket.SOL_SOCKET, number, 8))\n"
        "    except OSError as e: print(e)",
    ),
    (
        "leave a message in a file's mode",
        f"import os\nos.chmod({NAMED}, 0o4755)\nprint('LEAK' if os.stat({NAMED}).st_mode & 0o7777 == 0o4755 else 'no')",
    ),
    (
        "leave a message in a file's attributes",
        f"import os\nos.setxattr({NAMED}, 'user.answers', b'1,2')\nprint('LEAK' if os.listxattr({NAMED}) else 'no')",
    ),
    (
        "leave a message in a file's flags",
        LIBRARY
        + f"named = os.open({NAMED}, os.O_RDONLY)\nfcntl.ioctl(named, 0x40086602, struct.pack('l', 0xC0))\nprint('LEAK')",
    ),
]
OTHERS = "import os, resource\nprocesses = [int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid()] + [SUPERVISOR, VICTIM]\n"
HARMING: list[Row] = [
    (
        "limit the files of its init",
        "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))\nprint('LEAK')",
    ),
    (
        "limit the CPU time of everybody",
        OTHERS
        + "for p in processes:\n    try: resource.prlimit(p, resource.RLIMIT_CPU, (1, 1)); print('LEAK')\n    except OSError as e: print(e)",
    ),
    (
        "slow everybody down",
        OTHERS
        + "for way, who in [(os.PRIO_PROCESS, p) for p in processes] + [(os.PRIO_USER, 0), (os.PRIO_USER, os.getuid()), (os.PRIO_PGRP, os.getpgid(0))]:\n"
        "    try: os.setpriority(way, who, 19); print('LEAK')\n    except OSError as e: print(e)",
    ),
    (
        "take the disk away from everybody",
        LIBRARY + OTHERS + "for way, who in [(1, p) for p in processes] + [(3, os.getuid())]:\n"
        "    if libc.syscall(30 if arm else 251, way, who, 3 << 13) == 0: print('LEAK')",
    ),
]
# Each would keep more than the limit of 512 MiB (64 MiB on disk) and then wait for the deadline.
FILL = """import os, socket, time
def fill(end):
    end.setblocking(False)
    try:
        while end.send(bytes(1 << 16)): pass
    except OSError: pass
"""
HOARDING: list[Row] = [
    (
        "hoard page tables",
        "import mmap, time\nx = mmap.mmap(-1, 320 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ)\n"
        "for place in range(0, 320 << 30, 1 << 21): x[place]\ntime.sleep(60)",
        STOPPED,
    ),
    (
        "hoard socket buffers",
        FILL
        + "for _ in range(4):\n    if os.fork() == 0: break\nkept = []\nfor _ in range(500):\n    pair = socket.socketpair()\n"
        "    for end in pair: fill(end)\n    kept.append(pair)\ntime.sleep(60)",
        STOPPED,
    ),
    (
        "hoard socket buffers that nobody sends to any more",
        FILL
        + "for _ in range(5):\n    if os.fork() == 0: break\nkept = []\nfor _ in range(900):\n    a, b = socket.socketpair()\n"
        "    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)\n    fill(a); a.close(); kept.append(b)\ntime.sleep(60)",
        STOPPED,
    ),
    (
        "hoard pipes",
        "import fcntl, os, time\nfor _ in range(6): os.fork()\nkept = []\nfor _ in range(500):\n    ends = os.pipe()\n    os.set_blocking(ends[1], False)\n"
        "    try: fcntl.fcntl(ends[1], 1031, 1 << 20)\n    except OSError: pass\n"
        "    try:\n        while os.write(ends[1], bytes(4096)): pass\n    except OSError: pass\n    kept.append(ends)\nos.pipe()\ntime.sleep(60)",
        (*STOPPED, "timeout"),
    ),
    (
        "hoard files without a name or folder",
        "import os, shutil, time\nkept = []\nfor _ in range(6):\n    f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o600); kept.append(f)\n    os.write(f, os.urandom(1 << 20) * 20)\n"
        "for name in os.listdir('.'): shutil.rmtree(name, True) if os.path.isdir(name) else os.remove(name)\ntime.sleep(60)",
        STOPPED,
    ),
]
NAMELESS = "import os, time\nkept = []\nfor _ in range(6):\n    f = open('x', 'wb'); os.remove('x'); kept.append(f)\n    f.write(os.urandom(1 << 20) * 20); f.flush()\ntime.sleep(60)"
MUCH = "import time\nx = bytearray(b'x') * (100 << 20)\ntime.sleep(60)"
# Of a process whose main thread has ended /proc shows nothing under its own number.
LEADERLESS = """import ctypes, os, threading, time
def keep():
    time.sleep(0.2)
    exec({keep!r}, {{}})
for _ in range({count}):
    if os.fork() == 0:
        threading.Thread(target=keep).start()
        ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)
for _ in range({count}): os.wait()
raise SystemExit(1)"""
HOARDING += [
    ("hoard files without a name", NAMELESS, STOPPED),
    (
        "hoard files without a name in a process that hides its descriptors",
        "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n" + NAMELESS,
        STOPPED,
    ),
    (
        "hoard files without a name in a program that cannot be read",
        "import os, sys\nwith open(os.path.realpath(sys.executable), 'rb') as f: program = f.read()\n"
        "copy = os.open('program', os.O_CREAT | os.O_WRONLY, 0o111)\nos.write(copy, program)\nos.close(copy)\n"
        f"os.execve('program', ['program', '-c', {NAMELESS!r}], {{**os.environ, 'PYTHONHOME': sys.base_prefix}})",
        STOPPED,
    ),
    (
        "hoard files without a name in a process without a main thread",
        LEADERLESS.format(keep=NAMELESS, count=1),
        STOPPED,
    ),
    (
        "hoard files without a name in a thread with descriptors of its own",
        "import ctypes, threading\ndef keep():\n"
        "    if ctypes.CDLL(None).syscall(436, 1000, 1000, 2) == 0: exec(" + repr(NAMELESS) + ", {})\n"
        "    else: raise SystemExit('refused')\n"
        "thread = threading.Thread(target=keep)\nthread.start()\nthread.join()\nraise SystemExit(1)",
        STOPPED,
    ),
    ("hoard memory in processes without a main thread", LEADERLESS.format(keep=MUCH, count=9), STOPPED),
    (
        "hoard memory in processes that cannot be looked at",
        f"import ctypes, os, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nfor _ in range(9):\n    if os.fork() == 0: exec({MUCH!r})\n"
        "time.sleep(60)",
        STOPPED,
    ),
    (
        "hoard descriptors under way between sockets",
        "import array, os, socket, time\nnothing, kept = array.array('i', [os.open('/dev/null', 0)] * 250), []\ntry:\n    while len(kept) < 99:\n"
        "        kept.append(socket.socketpair())\n        kept[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, nothing)])\n"
        "except OSError as e: print(e)\ntime.sleep(0.3)",
        ANY,
        False,
        2,
    ),
]
# Memory that no process is seen to have. Each row prints LEAK when it holds more than the limit.
MAPPING = (
    LIBRARY
    + """
libc.mmap.restype, size, page = ctypes.c_void_p, 64 << 20, mmap.PAGESIZE
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def shared(file, flags):
    where = libc.mmap(None, ctypes.c_size_t(size), 3, flags, file, ctypes.c_long(0))
    if where == ctypes.c_void_p(-1).value: sys.exit('refused')
    ctypes.memset(where, 1, size)
    return where
"""
)
HOARDING += [
    (
        "hoard shared memory of which one page is mapped",
        MAPPING
        + "for _ in range(12): libc.munmap(shared(-1, 0x21) + page, size - page)\ntime.sleep(0.3)\nprint('LEAK')",
        (*STOPPED, "timeout"),
    ),
    (
        "hoard shared memory that is given back",
        MAPPING + "for _ in range(12): libc.madvise(shared(-1, 0x21), size, 4)\ntime.sleep(0.3)\nprint('LEAK')",
        (*STOPPED, "timeout"),
    ),
    (
        "hoard shared memory of a device",
        MAPPING
        + "zero = os.open('/dev/zero', os.O_RDWR)\nfor _ in range(12): libc.munmap(shared(zero, 1) + page, size - page)\n"
        "time.sleep(0.3)\nprint('LEAK')",
        (*STOPPED, "timeout"),
    ),
    (
        "keep pages in a pipe",
        LIBRARY + "ends = os.pipe()\nbyte = ctypes.create_string_buffer(1)\n"
        "where = ctypes.create_string_buffer(struct.pack('QQ', ctypes.addressof(byte), 1))\n"
        "print('LEAK' if libc.vmsplice(ends[1], where, ctypes.c_ulong(1), 0) == 1 else 'refused')",
    ),
    (
        "keep programs in sockets",
        LIBRARY
        + "import socket\nprogram = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 1))\nwhere = struct.pack('HxxxxxxQ', 1, ctypes.addressof(program))\n"
        "for number in (26, 51):\n    try: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, number, where); print('LEAK')\n    except OSError as e: print(e)",
    ),
    (
        "keep rules in a ruleset",
        LIBRARY
        + "print('LEAK' if libc.syscall(444, struct.pack('QQQ', 1, 0, 0), ctypes.c_size_t(8), 0) >= 0 else 'refused')",
    ),
    (
        "hoard the buffers of connections",
        "import os, socket, time\nfor _ in range(4):\n    if os.fork() == 0: break\n"
        "listener, kept = socket.create_server(('127.0.0.1', 0), backlog=400), []\nfor _ in range(340):\n"
        "    kept += [socket.create_connection(listener.getsockname()), listener.accept()[0]]\n    kept[-1].send(bytes(1 << 15))\ntime.sleep(60)",
        STOPPED,
    ),
    (
        "fill the disk below a path too long to be named",
        "import os, time\nfor _ in range(30):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n"
        "for n in range(6): open(f'x{n}', 'wb').write(os.urandom(1 << 20) * 20)\ntime.sleep(60)",
        STOPPED,
    ),
    (
        "fill the disk in a folder that cannot be listed",
        "import os, time\nos.mkdir('d', 0o300)\nfor n in range(6): open(f'd/x{n}', 'wb').write(os.urandom(1 << 20) * 20)\ntime.sleep(60)",
        STOPPED,
    ),
]
# What the kernel keeps for the whole machine. What cannot be had here (keys of a file system, a second node of memory,
# a store of huge pages) must be refused all the same: anything but EPERM is a leak.
EPERM_ONLY = (
    LIBRARY
    + "def said(result):\n    if result != -1 or ctypes.get_errno() != errno.EPERM: print('LEAK', result, ctypes.get_errno())\n"
)
REACHING: list[Row] = [
    (
        "leave keys and seals with a file system",
        LIBRARY + "place = os.open(os.path.dirname(os.__file__), os.O_RDONLY)\n"
        "for number in (0xC0506617, 0xC080661A, 0xC0406618, 0x40806685, 0x5000940E, 0xC0189436):\n"
        "    for where in (file, place):\n        try: fcntl.ioctl(where, number, bytearray(4096 if number == 0x5000940E else 128)); print('LEAK', hex(number))\n"
        "        except OSError as e: print('LEAK' if e.errno != errno.EPERM else 'refused', hex(number))",
    ),
    (
        "move a library's pages to another node",
        EPERM_ONLY
        + "libc.mmap.restype = ctypes.c_void_p\nwhere = libc.mmap(None, ctypes.c_size_t(4096), 1, 2, file, ctypes.c_long(0))\n"
        "said(libc.syscall(235 if arm else 237, ctypes.c_void_p(where), ctypes.c_long(4096), 2, struct.pack('Q', 1), ctypes.c_long(2), 2))",
    ),
    (
        "take from the machine's huge pages",
        EPERM_ONLY
        + "libc.mmap.restype = ctypes.c_long\nfor flags in (0x40022, 0x40021): said(libc.mmap(None, ctypes.c_size_t(1 << 21), 3, flags, -1, ctypes.c_long(0)))\n"
        "said(libc.memfd_create(b'x', 4))\nsaid(libc.shmget(0, ctypes.c_size_t(1 << 21), 0o5600))",
    ),
    ("write the quotas to the disk", EPERM_ONLY + "said(libc.syscall(443, os.open('.', 0), 0x80000100, 0, None))"),
    (
        "have a module loaded by a socket",
        "import socket\nfor family, kind, protocol in ((2, 2, 136), (2, 1, 132), (2, 1, 262), (10, 2, 136), (16, 3, 2), (16, 3, 6), (16, 3, 15)):\n"
        "    try: socket.socket(family, kind, protocol); print('LEAK', family, kind, protocol)\n    except OSError as e: print(e)",
    ),
    (
        "have the host's program dump its memory",
        "import resource\nbefore = resource.getrlimit(resource.RLIMIT_CORE)\nresource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "print('LEAK' if resource.getrlimit(resource.RLIMIT_CORE) != before else 'unchanged', before)",
    ),
]
WORKING: list[Row] = [
    (
        "honest: a database",
        "import sqlite3\nfor mode in ('delete', 'truncate', 'persist', 'memory'):\n    a = sqlite3.connect(mode + '.db')\n    a.execute(f'pragma journal_mode={mode}')\n"
        "    a.execute('create table t(x)')\n    a.execute('insert into t values (1)')\n    a.commit()\n    b = sqlite3.connect(mode + '.db')\n    assert b.execute('select x from t').fetchall() == [(1,)]",
        ("ok",),
        True,
        1,
    ),
    (
        "honest: copy, pack and lock files of its own",
        "import fcntl, os, shutil, subprocess, tarfile\nopen('a', 'w').write('x' * 99999)\nshutil.copy2('a', 'b'); shutil.copytree('data', 'c', symlinks=True)\n"
        "with tarfile.open('t.tar', 'w') as t: t.add('a')\nwith tarfile.open('t.tar') as t: t.extractall('d')\nassert os.path.getsize('d/a') == 99999\n"
        "subprocess.run(['cp', 'a', 'e'], check=True)\nf = open('a', 'r+')\nfcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)\n"
        "os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)\nos.nice(1)",
        ("ok",),
        True,
        1,
    ),
    (
        "honest: an event loop",
        "import asyncio\nasync def main():\n    made = await asyncio.create_subprocess_exec('true')\n    assert await made.wait() == 0\nasyncio.run(main())",
        ("ok",),
        True,
        1,
    ),
]
ROWS: list[Row] = [*RESIDENCY, *FLAGGING, *LINKING, *LEAVING, *HARMING, *HOARDING, *REACHING, *WORKING]
