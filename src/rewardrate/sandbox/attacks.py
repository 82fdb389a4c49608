"""Hostile scripts, and a stage with something to steal, kill and reach: what `rewardrate sandbox check` runs.

Every attack is judged from outside: the secret must not be in anything that came back, the victim must live, no
connection must have reached our sockets, data and other runs must be unchanged, no process may be left, the deadline must hold
to half a second. `statuses` says how the script itself may end. Honest scripts are controls: they must work.
"""

from __future__ import annotations

from dataclasses import dataclass

from rewardrate.sandbox import attacks_clock
from rewardrate.sandbox.attacks_isolation import ROWS
from rewardrate.sandbox.levels import LEVELS
from rewardrate.sandbox.result import Clock

LIMIT = 2.0  # seconds an attack gets


@dataclass(frozen=True)
class Attack:
    """One script. The stage's secrets are in its names: ANSWERS, HIDDEN, LABELS, OTHER, VICTIM, SUPERVISOR, PORT..."""

    name: str
    script: str
    statuses: tuple[str, ...] = ("ok", "error", "killed")
    honest: bool = False
    runs: int = 1  # one after the other: what one has left, the next must not find
    measured: bool = False  # its submission says how many seconds it worked, and that many it must be charged
    clock: Clock | None = None  # by which it is priced, if not by the stage's


def _quiet(body: str) -> str:
    """The body, with every exception swallowed and shown: what matters is what it reached."""
    indented = "\n".join("    " + line for line in body.strip().splitlines())
    return f"try:\n{indented}\nexcept BaseException as e:\n    print(type(e).__name__, e)\n"


READING = [
    Attack("read the answers", _quiet("print(open(ANSWERS).read())")),
    Attack(
        "read the answers through a link",
        _quiet("import os\nos.symlink(ANSWERS, 'out.csv')\nprint(open('out.csv').read())"),
    ),
    Attack("have a linked answer collected", _quiet("import os\nos.symlink(ANSWERS, 'submission.csv')")),
    Attack("have a hard-linked answer collected", _quiet("import os\nos.link(ANSWERS, 'submission.csv')")),
    Attack(
        "read the answers through another process's root",
        _quiet(
            "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n        for way in ('root', 'cwd'):\n"
            "            try: print(open(f'/proc/{p}/{way}{ANSWERS}').read())\n            except OSError: pass"
        ),
    ),
    Attack(
        "read the supervisor's environment",
        _quiet(
            "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and int(p) != os.getpid():\n"
            "        try: print(open(f'/proc/{p}/environ').read())\n        except OSError: pass"
        ),
    ),
    Attack("read another run", _quiet("import os\nprint(open(os.path.join(OTHER, 'secret.txt')).read())")),
    Attack(
        "walk the disk",
        _quiet(
            "import os\nfor d, _, fs in os.walk(os.path.dirname(ANSWERS)):\n    for f in fs: print(open(os.path.join(d, f)).read())"
        ),
    ),
    Attack("read the victim's memory", _quiet("print(open(f'/proc/{VICTIM}/mem', 'rb').read(10))")),
    Attack(
        "trace the victim",
        _quiet(
            "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nr = libc.ptrace(16, VICTIM, 0, 0)\nassert r != 0\nprint(r)"
        ),
    ),
    Attack(
        "list other processes' commands",
        _quiet(
            "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n        try: print(open(f'/proc/{p}/cmdline').read())\n        except OSError: pass"
        ),
    ),
    Attack(
        "inherited descriptors",
        _quiet("import os\nfor n in range(3, 256):\n    try: print(n, os.read(n, 100))\n    except OSError: pass"),
    ),
]
HIDING = [
    Attack("read a hidden file", _quiet("print(open(HIDDEN).read())")),
    Attack("read a file that is hidden alone", _quiet("print(open(LABELS).read())")),
    Attack(
        "read a hidden file through links",
        _quiet(
            "import os\nos.symlink(HIDDEN, 'a')\nos.symlink(os.path.dirname(HIDDEN), 'b')\nos.symlink(os.path.dirname(LABELS), 'c')\n"
            "for p in ('a', 'b/answers.csv', 'c/labels.csv', 'c/values/answers.csv'):\n    try: print(open(p).read())\n    except OSError as e: print(e)"
        ),
    ),
    Attack(
        "read a hidden file through /proc",
        _quiet(
            "import os\nfor way in ('/proc/self/root', '/proc/1/root', '/proc/thread-self/root', f'/proc/{os.getppid()}/root', '/proc/self/cwd/..'):\n"
            "    for p in (HIDDEN, LABELS):\n        try: print(open(way + p).read())\n        except OSError as e: print(e)"
        ),
    ),
    Attack("list a hidden folder", _quiet("import os\nprint(os.listdir(os.path.dirname(HIDDEN)))")),
    Attack(
        "read a hidden file from its folder's descriptor",
        _quiet(
            "import os\nd = os.open(os.path.dirname(LABELS), os.O_PATH)\nos.chdir(os.path.dirname(LABELS))\n"
            "for p in ('labels.csv', 'values/answers.csv', 'values/../values/answers.csv', '../package/labels.csv'):\n"
            "    try: print(os.read(os.open(p, 0, dir_fd=d), 99))\n    except OSError as e: print(e)\n"
            "    try: print(open(p).read())\n    except OSError as e: print(e)"
        ),
    ),
    Attack(
        "read a hidden file from another process",
        _quiet(
            "import subprocess, sys\nfor p in (HIDDEN, LABELS):\n    print(subprocess.run([sys.executable, '-c', f'print(open({p!r}).read())'], capture_output=True, text=True).stdout)\n"
            "    print(subprocess.run(['cat', p], capture_output=True, text=True).stdout)"
        ),
    ),
    Attack(
        "hard-link a hidden file",
        _quiet(
            "import os\nfor p in (HIDDEN, LABELS):\n    os.link(p, 'x')\n    print(open('x').read())\n    os.remove('x')"
        ),
    ),
    Attack(
        "unmount what hides",
        _quiet(
            "import ctypes, os\nlibc = ctypes.CDLL(None)\nfor p in (os.path.dirname(HIDDEN), LABELS, DATA):\n    print([libc.umount2(p.encode(), f) for f in (0, 1, 2, 8)])\n"
            "for p in (HIDDEN, LABELS):\n    try: print(open(p).read())\n    except OSError as e: print(e)"
        ),
    ),
    Attack(
        "mount over what hides",
        _quiet(
            "import ctypes, os\nlibc = ctypes.CDLL(None)\nos.mkdir('m')\nfor source in (DATA, '/', os.path.dirname(LABELS)):\n    print([libc.mount(source.encode(), b'm', None, f, None) for f in (4096, 4096 | 16384, 8192, 32 | 4096)])\n"
            "for p in (HIDDEN, 'm/package/values/answers.csv', 'm/values/answers.csv', 'm/labels.csv', 'm' + LABELS):\n    try: print(open(p).read())\n    except OSError as e: print(e)"
        ),
    ),
    Attack(
        "take what hides away",
        _quiet(
            "import os, shutil\nhome = os.path.dirname(LABELS)\nfor f in (lambda: os.rename(home, home + '2'), lambda: os.rename(LABELS, 'x'), lambda: shutil.rmtree(os.path.dirname(HIDDEN), ignore_errors=True), lambda: os.remove(LABELS), lambda: os.chmod(os.path.dirname(HIDDEN), 0o777)):\n"
            "    try: f()\n    except OSError as e: print(e)\nfor p in (HIDDEN, LABELS, 'x', home + '2/labels.csv'):\n    try: print(open(p).read())\n    except OSError as e: print(e)"
        ),
    ),
    Attack(
        "honest: import what lies beside something hidden",
        "import sys\nsys.path.insert(0, DATA)\nfrom package import sibling\nfrom package.below import deep\nassert sibling.VALUE + deep.VALUE == 42\nimport os\nassert 'sibling.py' in os.listdir(os.path.dirname(LABELS))",
        ("ok",),
        True,
    ),
]
REACHING = [
    Attack("connect over TCP", _quiet("import socket\nsocket.create_connection(('127.0.0.1', PORT), 1).send(b'x')")),
    Attack(
        "connect to a UNIX socket",
        _quiet("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(SOCKET)\ns.send(b'x')"),
    ),
    Attack(
        "connect to an abstract socket",
        _quiet("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + ABSTRACT)\ns.send(b'x')"),
    ),
    Attack(
        "open a vsock",
        _quiet(
            "import socket\ns = socket.socket(40, socket.SOCK_STREAM)\nopen('leak', 'w').write('x')\nprint('LEAK', 'opened')"
        ),
    ),
    Attack(
        "open a raw socket",
        _quiet("import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nprint('LEAK', 'opened')"),
    ),
]
KILLING = [
    Attack("kill the victim", _quiet("import os\nos.kill(VICTIM, 9)")),
    Attack("kill the supervisor", _quiet("import os\nos.kill(SUPERVISOR, 9)")),
    Attack("kill everybody", _quiet("import os, signal\nsignal.signal(15, signal.SIG_IGN)\nos.kill(-1, 15)")),
    Attack("kill its init", _quiet("import os\nfor s in (2, 15, 9, 1, 10):\n    os.kill(os.getppid(), s)")),
    Attack("stop its init", _quiet("import os, time\nos.kill(os.getppid(), 19)\ntime.sleep(0.2)")),
]
CHANGING = [
    Attack("change the data", _quiet("import os\nopen(os.path.join(DATA, 'train.csv'), 'w').write('forged')")),
    Attack(
        "make the data writable",
        _quiet(
            "import os\nos.chmod(DATA, 0o777)\nos.chmod(os.path.join(DATA, 'train.csv'), 0o777)\nopen(os.path.join(DATA, 'train.csv'), 'w').write('forged')"
        ),
    ),
    Attack("delete the data", _quiet("import os\nos.remove(os.path.join(DATA, 'train.csv'))")),
    Attack("change another run", _quiet("import os\nopen(os.path.join(OTHER, 'secret.txt'), 'w').write('forged')")),
    Attack(
        "change the interpreter",
        _quiet(
            "import os, sys\nopen(os.path.join(os.path.dirname(os.__file__), 'os.py'), 'a').write('# forged')\nprint('LEAK', 'wrote')"
        ),
    ),
    Attack(
        "change the running interpreter's file",
        _quiet(
            "import os\nexe = '/proc/self/exe'\nbefore = os.stat(exe)\nfor f in (lambda: os.chmod(exe, before.st_mode & 0o777), lambda: os.setxattr(exe, 'user.x', b'y')):\n"
            "    try: f(); print('LEAK changed' if os.stat(exe).st_ctime_ns != before.st_ctime_ns else 'same')\n    except OSError as e: print(e)\n"
            "try: open(exe, 'r+b'); print('LEAK', 'opened')\nexcept OSError as e: print(e)"
        ),
    ),
    Attack(
        "remount the data",
        _quiet(
            "import ctypes\nr = ctypes.CDLL(None).mount(b'none', DATA.encode(), None, 32 | 4096, None)\nprint('LEAK' if r == 0 else 'refused')"
        ),
    ),
    Attack(
        "a new user namespace",
        _quiet("import ctypes\nr = ctypes.CDLL(None).unshare(0x10000000)\nprint('LEAK' if r == 0 else 'refused')"),
    ),
    Attack(
        "leave its cores",
        _quiet(
            "import os\nbefore = os.sched_getaffinity(0)\nos.sched_setaffinity(0, range(64))\nprint('LEAK' if os.sched_getaffinity(0) != before else 'same')"
        ),
    ),
    Attack(
        "raise its limits",
        _quiet("import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (10**5, 10**5))\nprint('LEAK', 'raised')"),
    ),
    Attack(
        "use the keyring",
        _quiet(
            "import ctypes\nr = ctypes.CDLL(None).syscall(248, b'user', b'x', b'y', 1, -3)\nprint('LEAK' if r > 0 else 'refused')"
        ),
    ),
    Attack("set the clock", _quiet("import time\ntime.clock_settime(time.CLOCK_REALTIME, 0)\nprint('LEAK', 'set')")),
]
STAYING = [
    Attack("never end", "while True: pass", ("timeout",)),
    Attack(
        "sleep through every signal",
        "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except OSError: pass\nwhile True: time.sleep(10)",
        ("timeout",),
    ),
    Attack("stop itself", "import os\nos.kill(os.getpid(), 19)\nwhile True: pass", ("timeout",)),
    Attack(
        "leave a daemon",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        while True: time.sleep(1)\n    os._exit(0)",
        ("ok",),
    ),
    Attack(
        "leave a daemon that holds the output",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    while True: time.sleep(1)",
        ("ok",),
    ),
    Attack(
        "leave stopped children",
        "import os, signal\nfor _ in range(5):\n    if os.fork() == 0: os.kill(os.getpid(), signal.SIGSTOP)",
        ("ok",),
    ),
    Attack(
        "a fork bomb",
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        ("timeout", "killed", "memory", "error"),
    ),
    Attack(
        "a fork bomb with sessions",
        "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass",
        ("timeout", "killed", "memory", "error"),
    ),
    Attack(
        "a thread bomb",
        "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n    except RuntimeError: time.sleep(0.1)",
        ("timeout", "killed", "memory", "error"),
    ),
    Attack(
        "zombies",
        "import os\nfor _ in range(300):\n    try:\n        if os.fork() == 0: os._exit(0)\n    except OSError: pass",
        ("ok", "error", "timeout"),
    ),
]
EATING = [
    Attack("eat memory", "x = []\nwhile True: x.append(bytearray(16 << 20))", ("memory", "error", "killed")),
    Attack(
        "eat memory in many processes",
        "import os, time\nfor _ in range(6): os.fork()\nx = [bytearray(16 << 20) for _ in range(64)]\ntime.sleep(60)",
        ("memory", "error", "killed", "timeout"),
    ),
    Attack(
        "eat shared memory",
        "import os\nf = open('/dev/shm/x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
        ("error", "memory", "killed"),
    ),
    Attack(
        "fill the disk",
        "f = open('x', 'wb')\nwhile True: f.write(bytes(1 << 20)); f.flush()",
        ("error", "killed", "memory"),
    ),
    Attack(
        "fill the temporary folder",
        "import tempfile\nf = tempfile.TemporaryFile()\nwhile True: f.write(bytes(1 << 20)); f.flush()",
        ("error", "killed", "memory"),
    ),
    Attack(
        "make a million files",
        "i = 0\nwhile True:\n    open(f'f{i}', 'w').close(); i += 1",
        ("error", "killed", "memory", "timeout"),
    ),
    Attack(
        "bury closed folders deep",
        "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nos.chmod('.', 0)",
        ("ok", "error", "timeout"),
    ),
    Attack("print for ever", "import sys\nwhile True: sys.stdout.write('x' * 65536)", ("killed",)),
    Attack("print to the error stream for ever", "import os\nwhile True: os.write(2, b'x' * 65536)", ("killed",)),
]
FORGING = [
    Attack("a fifo as submission", "import os\nos.mkfifo('submission.csv')", ("ok",)),
    Attack("a folder as submission", "import os\nos.mkdir('submission.csv')", ("ok",)),
    Attack("a huge sparse submission", "f = open('submission.csv', 'wb')\nf.truncate(40 << 20)", ("ok", "error")),
    Attack("a device as submission", _quiet("import os\nos.mknod('submission.csv', 0o20666, os.makedev(1, 5))")),
    Attack("swap the working directory", _quiet("import os\nos.rename(os.getcwd(), os.getcwd() + '2')")),
    Attack(
        "write a report of its own",
        _quiet(
            "import os\nfor n in range(3, 64):\n    try: os.write(n, b'\\x02\\x00\\x00\\x00{}')\n    except OSError: pass\nfor n in range(64):\n    try: os.write(os.open(f'/proc/{os.getppid()}/fd/{n}', 1), b'\\x02\\x00\\x00\\x00{}')\n    except OSError: pass"
        ),
    ),
    Attack("control characters", "print('\\x1b[2J\\x1b]0;owned\\x07\\x00\\x9b', flush=True)", ("ok",)),
    Attack("exit as if well", "import os\nos._exit(0)", ("ok",)),
    Attack("end by a signal", "import os\nos.kill(os.getpid(), 11)", ("killed",)),
]
HONEST = [
    Attack("honest: write a submission", "open('submission.csv', 'w').write('id,y\\n1,2\\n')", ("ok",), True),
    Attack("honest: read the data", "import os\nprint(open(os.path.join(DATA, 'train.csv')).read())", ("ok",), True),
    Attack(
        "honest: threads",
        "import threading\nt = [threading.Thread(target=sum, args=(range(10**5),)) for _ in range(8)]\n[x.start() for x in t]\n[x.join() for x in t]",
        ("ok",),
        True,
    ),
    Attack(
        "honest: subprocess",
        "import subprocess, sys\nassert subprocess.run([sys.executable, '-c', 'print(3)'], capture_output=True).stdout == b'3\\n'",
        ("ok",),
        True,
    ),
    Attack(
        "honest: multiprocessing",
        "import multiprocessing as mp\nif __name__ == '__main__':\n    with mp.Pool(2) as pool:\n        assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]",
        ("ok",),
        True,
    ),
    Attack(
        "honest: temporary files",
        "import tempfile\nwith tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').write('y')",
        ("ok",),
        True,
    ),
]
SHARING = [Attack(*row) for row in ROWS]
TIMING = [
    Attack(name, script, statuses, name.startswith("honest"), measured=True, clock=clock)
    for name, script, statuses, clock in attacks_clock.ROWS
]
# What each level is known not to hold: a check fails both when more gets through and when an entry is stale.
KNOWN: dict[str, frozenset[str]] = {
    level.name: level.known_attacks for level in LEVELS if level.known_attacks is not None
}
ATTACKS: tuple[Attack, ...] = (
    *READING,
    *HIDING,
    *REACHING,
    *KILLING,
    *CHANGING,
    *STAYING,
    *EATING,
    *FORGING,
    *SHARING,
    *TIMING,
    *HONEST,
)
