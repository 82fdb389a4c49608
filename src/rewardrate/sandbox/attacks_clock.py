"""Attacks on the clock and on the verdict: work that is not charged, and endings that cannot be read.

Rows of (name, script, statuses, clock). A script of these writes into its submission how many seconds it worked, by the
clock that it is priced by: that many it must be charged. A clock of None is that of the stage.
"""

from __future__ import annotations

from rewardrate.sandbox.result import Clock

LATE = ("ok", "timeout")  # on a busy machine
# What the rows share: `work_on()` never ends and keeps the submission up to date, `orphaned()` waits for the main
# process's end, `linger()` gives the kernel much to forget when this process is reaped.
COMMON = """
import ctypes, mmap, os, signal, sys, threading, time
START, MAIN, LIBC = time.monotonic(), os.getpid(), ctypes.CDLL(None)
_read, _write = os.pipe()
def submit(seconds):
    with open("submission.csv", "w") as file: file.write(f"{seconds:.6f}")
def work_on():
    file = os.open("submission.csv", os.O_CREAT | os.O_WRONLY)
    while True: os.pwrite(file, b"%.6f" % (time.monotonic() - START), 0)
def orphaned():
    os.close(_write)
    os.read(_read, 1)
def linger(count=400):
    files = [os.open("/dev/null", 0) for _ in range(count)]
    for thread in os.listdir("/proc/self/task"):
        for number in files: os.stat(f"/proc/self/task/{thread}/fdinfo/{number}")
def burn(seconds):
    while time.process_time() < seconds: pass
def child(work):
    process = os.fork()
    if process == 0:
        try: work()
        finally: os._exit(0)
    return process
def wait_for_all():  # without waiting for anyone in particular: until no process holds the pipe
    os.close(_write)
    os.read(_read, 1)
"""
LINGERING = [
    (
        "work on while the main process is reaped",
        "child(lambda: (orphaned(), work_on()))\nevent = threading.Event()\n"
        "for _ in range(16): threading.Thread(target=event.wait, daemon=True).start()\nlinger(900)\nos._exit(0)",
    ),
    ("work on in many children", "for _ in range(16): child(lambda: (orphaned(), work_on()))\nos._exit(0)"),
    (
        "work on in the last thread",
        "def last():\n    burn(0.4)\n    submit(time.monotonic() - START)\n    os._exit(0)\nthreading.Thread(target=last).start()\n"
        "LIBC.syscall(60 if os.uname().machine == 'x86_64' else 93, 0)",
    ),
    (
        "work on after being stopped and woken",
        "def sleeper():\n    os.kill(os.getpid(), signal.SIGSTOP)\n    work_on()\nstopped = child(sleeper)\n"
        "def waker():\n    orphaned()\n    while True: os.kill(stopped, signal.SIGCONT)\nchild(waker)\nos._exit(0)",
    ),
    (
        "work on in a session of a grandchild's own",
        "def grandchild():\n    os.setsid()\n    child(lambda: (orphaned(), work_on()))\nchild(grandchild)\nos._exit(0)",
    ),
    (
        "work on under a name that is not text",
        "def named():\n    LIBC.prctl(15, b'\\xff\\xfe')\n    orphaned()\n    work_on()\nchild(named)\nlinger()\nos._exit(0)",
    ),
    (
        "work on under a name that looks like a state",
        "def named():\n    LIBC.prctl(15, b'x) Z 1 1 (y')\n    orphaned()\n    work_on()\nchild(named)\nlinger()\nos._exit(0)",
    ),
    (
        "work on in a chain of forks",
        "def link():\n    orphaned()\n    while True:\n        submit(time.monotonic() - START)\n        if os.fork(): os._exit(0)\nchild(link)\nos._exit(0)",
    ),
    (
        "kill whoever comes to kill",
        "def guard():\n    orphaned()\n    file = os.open('submission.csv', os.O_CREAT | os.O_WRONLY)\n    while True:\n"
        "        try: os.kill(-1, signal.SIGKILL)\n        except OSError: pass\n        os.pwrite(file, b'%.6f' % (time.monotonic() - START), 0)\n"
        "child(guard)\nos._exit(0)",
    ),
]
UNWAITED = [
    (
        "ignore its children's ends",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor _ in range(3): child(lambda: burn(0.2))\nwait_for_all()\nsubmit(0.6)",
    ),
    (
        "ask the kernel not to keep its children",
        "class Action(ctypes.Structure):\n    _fields_ = [('handler', ctypes.c_void_p), ('mask', ctypes.c_ulong * 16), ('flags', ctypes.c_int), ('restorer', ctypes.c_void_p)]\n"
        "assert LIBC.sigaction(17, ctypes.byref(Action(None, flags=2)), None) == 0\nchild(lambda: burn(0.5))\nwait_for_all()\nsubmit(0.5)",
    ),
    (
        "ignore the children of a child",
        "def parent():\n    signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n    process = child(lambda: burn(0.5))\n    try:\n"
        "        while True: os.kill(process, 0); time.sleep(0.01)\n    except OSError: pass\nchild(parent)\nwait_for_all()\nsubmit(0.5)",
    ),
    (
        "rest at every tick in a child that is not waited for",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\ndef rest():\n    while time.process_time() < 0.4:\n        end = time.monotonic() + 0.002\n"
        "        while time.monotonic() < end: pass\n        time.sleep(0.0005)\nchild(rest)\nwait_for_all()\nsubmit(0.4)",
    ),
    (
        "work in threads of a child that is not waited for",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\ndef many():\n    threads = [threading.Thread(target=burn, args=(0.5,)) for _ in range(4)]\n"
        "    for thread in threads: thread.start()\n    for thread in threads: thread.join()\nchild(many)\nwait_for_all()\nsubmit(0.5)",
    ),
    (
        "work in a child that ends without a signal",
        "if LIBC.syscall(56 if os.uname().machine == 'x86_64' else 220, 0, 0, 0, 0, 0) == 0:\n    burn(0.5)\n    os._exit(0)\nwait_for_all()\nsubmit(0.5)",
    ),
]
ENDING = [
    ("end by a real-time signal", "os.kill(MAIN, 40)", ("killed",)),
    ("end by the last signal", "os.kill(MAIN, 64)", ("killed",)),
    ("end a thread by a real-time signal", "signal.pthread_kill(threading.get_ident(), 63)", ("killed",)),
    ("end by a signal of its own child", "child(lambda: os.kill(MAIN, 47))\ntime.sleep(9)", ("killed",)),
    ("exit with the largest code", "os._exit(255)", ("error",)),
    (
        "copy large page tables into many children",
        "memory = mmap.mmap(-1, 128 << 20, flags=0x22)\nmemory.madvise(15)\nfor place in range(0, 128 << 20, 4096): memory[place] = 1\n"
        "try:\n    for _ in range(60): child(lambda: time.sleep(60))\nexcept OSError: pass\nos._exit(0)",
        ("ok", "timeout", "memory", "error", "killed"),
    ),
    (
        "print for ever from many children",
        "for _ in range(30): child(lambda: [os.write(1, bytes(65536)) for _ in iter(int, 1)])\ntime.sleep(60)",
        ("killed", "timeout", "memory"),
    ),
    (
        "leave orphans that are slow to bury",
        "def orphan():\n    child(lambda: linger(900))\nwhile True:\n    try: os.waitpid(child(orphan), 0)\n    except OSError: pass",
        ("timeout", "memory", "killed"),
    ),
    (
        "keep memory under a name that is not text",
        "def keep():\n    LIBC.prctl(15, b'\\xff\\xfe')\n    x = bytearray(100 << 20)\n    time.sleep(60)\nfor _ in range(6): child(keep)\ntime.sleep(60)",
        ("memory", "killed", "error"),
    ),
    (
        "leave a daemon whose name is not text",
        "def daemon():\n    os.setsid()\n    LIBC.prctl(15, b'\\xfe\\xff')\n    child(lambda: time.sleep(60))\n    time.sleep(60)\nchild(daemon)\ntime.sleep(0.1)",
        ("ok",),
    ),
]
ENDING += [
    (
        "write to the disk for ever",
        "for _ in range(30): child(lambda: [os.sync() for _ in iter(int, 1)])\nwhile True: os.sync()",
        ("timeout",),
    ),
    (
        "tell its init for ever that a child has ended",
        "def tell():\n    while True:\n        try: os.kill(1, signal.SIGCHLD)\n        except OSError: time.sleep(1)\n"
        "for _ in range(30): child(tell)\ntime.sleep(60)",
        ("timeout", "memory"),
    ),
    (
        "leave children of its init",
        "for _ in range(20):\n    if LIBC.syscall(56 if os.uname().machine == 'x86_64' else 220, 0x8000 | 17, 0, 0, 0, 0) == 0: time.sleep(60)\nos._exit(0)",
        ("ok",),
    ),
    (
        "execute from another thread",
        "threading.Thread(target=lambda: os.execv(sys.executable, [sys.executable, '-c', 'import os; os._exit(7)'])).start()\ntime.sleep(60)",
        ("error",),
    ),
    (
        "queue signals for its init",
        "for number in range(1, 65):\n    for process in {1, os.getppid()}:\n        try: signal.pidfd_send_signal(os.pidfd_open(process), number)\n        except OSError: pass\n"
        "os._exit(3)",
        ("error",),
    ),
    (
        "have a pipe signal its init",
        "import fcntl\nread, write = os.pipe()\nfor number in (9, 15, 19, 40):\n    try:\n        fcntl.fcntl(read, 8, os.getppid()); fcntl.fcntl(read, 10, number)\n"
        "        fcntl.fcntl(read, 4, 0o20000); os.write(write, b'x'); os.read(read, 1)\n    except OSError: pass\nos._exit(3)",
        ("error",),
    ),
]
HONEST: list[tuple[str, str, Clock | None]] = [
    (
        "honest: more threads than cores",
        "import hashlib\ndef work():\n    while time.process_time() < 0.55: hashlib.pbkdf2_hmac('sha256', b'x', b'y', 1000)\n"
        "threads = [threading.Thread(target=work) for _ in range(7)]\nfor thread in threads: thread.start()\nwork()\nfor thread in threads: thread.join()\nsubmit(time.monotonic() - START)",
        None,
    ),
    (
        "honest: children that are waited for",
        "for process in [child(lambda: burn(0.1)) for _ in range(3)]: os.waitpid(process, 0)\nsubmit(0.3)",
        "cpu",
    ),
]
ROWS: list[tuple[str, str, tuple[str, ...], Clock | None]] = [
    *((name, COMMON + script, LATE, None) for name, script in LINGERING),
    *((name, COMMON + script, LATE, "cpu") for name, script in UNWAITED),
    *((name, COMMON + script, statuses, None) for name, script, statuses in ENDING),
    *((name, COMMON + script, LATE, clock) for name, script, clock in HONEST),
]
