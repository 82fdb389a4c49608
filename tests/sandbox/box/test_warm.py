"""A script in a warm process cannot tell, but for the time that it did not wait for imports."""

import os
import re
import sys
from dataclasses import replace

import pytest

from rewardrate.sandbox import Job, Limits, Pool, levels

LIMITS = Limits(seconds=30, memory_bytes=2**30, cores=1)


@pytest.fixture(scope="module")
def pools():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    with Pool(repeats=0) as cold, Pool(clock="warm", repeats=0) as warm:
        yield cold, warm


def both(pools, script, limits=LIMITS, **arguments):
    return [pool.run([Job(script, limits, **arguments)])[0] for pool in pools]


LOOK = """
import os, signal, sys, threading, tempfile, io
print(sys.argv, sys.path, sys.executable, sys.prefix, sys.orig_argv)
print(__name__, __file__, __doc__, __spec__, __cached__, type(__loader__).__name__, __annotations__, sorted(vars()))
print(sys.modules['__main__'].__dict__ is globals(), os.getcwd(), sorted(os.environ.items()))
print([(s, signal.getsignal(s)) for s in range(1, 32) if s not in (9, 19)])
print(repr(sys.stdin.read()), sys.stdin.encoding, sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors)
print(sys.stdout.line_buffering, sys.stdout.name, sys.stderr.name, sys.stdout.isatty(), sys.flags.dont_write_bytecode)
print(sorted(os.listdir('/proc/self/fd'))[:3], os.getpid(), os.getsid(0) == os.getpid(), threading.active_count())
print(tempfile.gettempdir(), sys.getrecursionlimit(), sys.excepthook is sys.__excepthook__, sys.gettrace())
print('rewardrate' in sys.modules, threading.current_thread().name, threading.main_thread() is threading.current_thread())
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print([status[name].strip() for name in ('CapEff', 'CapBnd', 'NoNewPrivs', 'Seccomp', 'Groups')])
print(os.access('/proc/self/fd', os.R_OK), os.stat('/proc/self').st_uid == os.getuid(), open('/proc/self/oom_score_adj').read())
"""


def test_it_sees_what_it_would_see_in_a_fresh_interpreter(pools):
    cold, warm = both(pools, LOOK, environment={"MINE": "1"}, files={"x": b"y"})
    assert (cold.status, warm.status) == ("ok", "ok"), warm.stderr
    for fresh, forked in zip(cold.stdout.splitlines(), warm.stdout.splitlines(), strict=True):
        assert forked == fresh
    assert (cold.clock, warm.clock) == ("wall", "warm")
    assert warm.priced_seconds == warm.seconds


ENDINGS = {
    "exit": "import sys; sys.exit()",
    "exit 3": "import sys; sys.exit(3)",
    "exit -1": "import sys; sys.exit(-1)",
    "exit true": "import sys; sys.exit(True)",
    "exit with words": "import sys; print('out'); sys.exit('words')",
    "error": "def f():\n    return 1 / 0\nprint('before')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e",
    "context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    int('x')",
    "group": "raise ExceptionGroup('many', [ValueError('a'), TypeError('b')])",
    "syntax": "x = (\n",
    "indentation": "if True:\nx = 1\n",
    "bytes": "x = '\\0'\ny = 'é'\nprint(ascii(y))",
    "cookie": "# -*- coding: latin-1 -*-\nprint(ascii('é'))",
    "import": "import no_such_module",
    "interrupt": "raise KeyboardInterrupt",
    "interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "crash": "import ctypes\nctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "at exit": "import atexit\natexit.register(print, 'bye')\nprint('hi')",
    "exit in exit function": "import atexit, sys\ndef f(): sys.exit(5)\natexit.register(f)",
    "threads": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
    "daemon": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('x')",
    "thread error": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\nt.start(); t.join()",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "unraisable": "class A:\n    def __del__(self): 1 / 0\nA()",
    "deleted at the end": "class A:\n    def __del__(self): print('deleted')\na = A()",
    "closed output": "import sys\nsys.stdout.close()",
    "recursion": "def f(): f()\ntry: f()\nexcept RecursionError: print('deep')",
    "too big a file": "open('x', 'wb').truncate(2**40)",
    "warning": "import warnings\nwarnings.warn('careful')",
    "big output": "print('x' * 10**6)",
    "future": "x: undefined_name = 1",
    "os exit": "import os; print('lost'); os._exit(4)",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_it_ends_as_it_would_in_a_fresh_interpreter(pools, name):
    cold, warm = both(pools, ENDINGS[name])
    for field in ("status", "exit_code", "signal", "message", "stdout", "stderr"):
        fresh, forked = (re.sub("0x[0-9a-f]+", "0x", str(getattr(result, field))) for result in (cold, warm))
        assert forked == fresh, field


def test_a_file_left_open_is_written(pools):
    script = "f = open('submission.csv', 'w')\nf.write('id,y\\n')"
    for result in both(pools, script, collect=["submission.csv"]):
        assert result.files == {"submission.csv": b"id,y\n"}


def test_random_numbers_are_new_in_every_script(pools):
    pytest.importorskip("numpy")
    _, warm = pools
    script = (
        "import random, numpy as np, os\nprint(random.random(), np.random.rand(), np.random.default_rng().random())"
    )
    numbers = [result.stdout.split() for result in warm.run([Job(script, LIMITS)] * 3)]
    assert all(len(set(column)) == 3 for column in zip(*numbers, strict=True))


def test_what_a_script_does_to_modules_and_builtins_ends_with_it(pools):
    _, warm = pools
    spoil = (
        "import builtins, gc, json, os, sys\n"
        "for module in list(sys.modules.values()):\n    try: vars(module).clear()\n    except Exception: pass\n"
    )
    tests = [Job(spoil, LIMITS), Job("import builtins\nbuiltins.print = None", LIMITS)]
    tests += [Job("import os\nos.kill(os.getppid(), 9)\nprint('still here')", LIMITS)]
    *_, last = warm.run([*tests, Job("import json, os\nprint(json.dumps([1]), os.getpid())", LIMITS)])
    assert (last.status, last.stdout) == ("ok", "[1] 2\n")


def test_the_package_of_ours_is_not_lent_to_scripts(pools):
    cold, warm = both(
        pools, "import rewardrate\nprint(rewardrate.__file__, rewardrate.__path__)\nimport rewardrate.errors"
    )
    assert (warm.status, warm.stdout) == (cold.status, cold.stdout)


@pytest.mark.parametrize(
    "script",
    [
        "from sklearn.ensemble import RandomForestClassifier as F\nF(20, n_jobs=2).fit(X, y).predict(X)",
        "from sklearn.ensemble import HistGradientBoostingClassifier as F\nF(max_iter=5).fit(X, y).predict(X)",
        "from joblib import Parallel, delayed\nassert Parallel(2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]",
        "import multiprocessing as mp\nif __name__ == '__main__':\n    with mp.Pool(2) as p: assert p.map(abs, [-1]) == [1]",
        "import multiprocessing as mp\nif __name__ == '__main__':\n    with mp.get_context('spawn').Pool(1) as p: assert p.map(abs, [-1]) == [1]",
        "import multiprocessing as mp\nif __name__ == '__main__':\n    with mp.get_context('forkserver').Pool(1) as p: assert p.map(abs, [-1]) == [1]",
        "(X @ X.T).sum(); np.linalg.svd(X); import scipy.linalg; scipy.linalg.inv(np.eye(300))",
        "from sklearn.cluster import KMeans\nKMeans(3, n_init=1).fit(X)",
        "import threading\nt = [threading.Thread(target=lambda: X @ X.T) for _ in range(4)]\n[x.start() for x in t]; [x.join() for x in t]",
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_threads_of_blas_and_openmp_and_other_processes_work(pools, script, count):
    pytest.importorskip("sklearn")
    if count > len(os.sched_getaffinity(0)):
        pytest.skip("needs more cores")
    prelude = "import numpy as np\nX = np.random.default_rng(0).normal(size=(300, 20)); y = (X[:, 0] > 0).astype(int)\n"
    limits = Limits(seconds=30, memory_bytes=2**31, cores=count)
    (result,) = pools[1].run([Job(prelude + script + "\nif __name__ == '__main__': print('worked')", limits)])
    assert (result.status, result.stdout, result.stderr) == ("ok", "worked\n", "")


def test_imports_cost_a_warm_script_nothing(pools):
    pytest.importorskip("sklearn")
    script = "import numpy, pandas, sklearn.linear_model"
    cold, warm = both(pools, script)
    again = pools[1].run([Job(script, LIMITS)] * 5)  # on a busy machine even nothing may take a while
    assert min(result.seconds for result in [warm, *again]) < cold.seconds / 3


@pytest.mark.parametrize("level", ["namespaces", "landlock+seccomp", "limits"])
def test_the_limits_hold_in_a_warm_process_at_every_level(pools, level):
    jobs = [
        Job("while True: pass", replace(LIMITS, seconds=1), level=level, minimum="limits"),
        Job("print(open('data/x').read())", LIMITS, level=level, minimum="limits", data={"x": __file__}),
    ]
    late, reads = pools[1].run(jobs)
    assert (late.status, late.seconds) == ("timeout", 1)
    assert reads.status == "ok", reads.stderr


FLAGGED = """
import os
def flagged():
    total = seen = 0
    ends = os.pipe()
    if os.fork() == 0:  # what a copy has not touched counts only if the page itself is flagged
        for line in open('/proc/self/smaps'):
            words = line.split()
            if words[0] == 'Referenced:': here = int(words[1])
            elif words[0] == 'Anonymous:' and int(words[1]) > 1000:
                total, seen = total + int(words[1]), seen + here
        os.write(ends[1], b'%d %d' % (seen, total))
        os._exit(0)
    os.wait()
    return [int(word) for word in os.read(ends[0], 99).split()]
def look():  # by another way than the tables of this process
    with open('/proc/self/maps') as file: lines = [line.split() for line in file]
    with open('/proc/self/mem', 'rb', buffering=0) as memory:
        for words in lines:
            if words[1][:2] == 'rw':
                start, end = (int(word, 16) for word in words[0].split('-'))
                for place in range(start, end, 4096):
                    try: os.pread(memory.fileno(), 1, place)
                    except OSError: break
before, total = flagged()
look()
print(before, flagged()[0], total)
"""


def test_a_script_leaves_no_message_in_the_flags_of_the_pages_that_it_shares_with_the_next(pools):
    """Looking once changes the flag of every page that has not both set; of new pages there are a few."""
    result = pools[1].run([Job(FLAGGED, LIMITS)])[0]
    assert result.status == "ok", result.stderr
    before, after, total = map(int, result.stdout.split())
    assert abs(after - before) < 0.2 * total, result.stdout


AS_USER = """
from rewardrate.sandbox import Limits, run
result = run("import sys; print('json' in sys.modules)", Limits(seconds=30, memory_bytes=2**30, cores=1), clock="warm")
print(result.status, result.stdout, result.message)
"""


def test_an_ordinary_user_has_a_warm_server_too(as_user):
    done = as_user("-c", AS_USER)
    assert done.stdout.split() == ["ok", "True"], done
