"""The box's world, seen from inside."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from rewardrate.sandbox import Limits, job_template, levels, run
from rewardrate.sandbox.box import mounts

LOOK = """
import os, socket
print(sorted(os.listdir('/')))
print(socket.gethostname(), os.path.exists('/etc/passwd'), os.listdir('/tmp'), os.listdir('/dev/shm'))
print(sum(1 for p in os.listdir('/proc') if p.isdigit()))
for path in ('/', '/usr', '/dev', '/etc'):
    try: open(path + '/x', 'w'); print('wrote')
    except OSError: pass
s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); socket.create_connection(s.getsockname(), 1); print('loopback works')
"""


def test_inside_there_is_a_small_read_only_world_with_loopback_and_two_processes():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    result = run(LOOK, Limits(seconds=30, cores=1, memory_bytes=2**28))
    root, names, processes, last = result.stdout.splitlines()
    assert result.status == "ok", result.stderr
    shown = {target.split("/")[1] for _, target in job_template.python_mounts(sys.executable)}
    assert set(eval(root)) == {"job", "proc", "usr", "dev", "tmp", "etc", "bin", "sbin", "lib", "lib64"} | shown
    assert names.startswith("box False [")
    assert names.endswith("] []")
    assert int(processes) == 2
    assert last == "loopback works"


COUNTERS = """
import os
shown = {name for name in os.listdir('/proc') if not name.isdigit() and (os.path.isdir('/proc/' + name) or open('/proc/' + name).read())}
print(sorted(name for name in shown if os.path.isfile('/proc/' + name) or os.listdir('/proc/' + name)))
print({word for line in open('/proc/stat') if 'btime' not in line for word in line.split()[1:]}, os.cpu_count())
print([oct(os.stat('/dev/' + name).st_mode) for name in ('null', 'urandom')], os.urandom(1) and open('/dev/null', 'wb').write(b'x'))
"""


def test_of_proc_a_box_shows_no_counters_of_the_machine():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    result = run(COUNTERS, Limits(seconds=30, cores=1, memory_bytes=2**28))
    assert result.status == "ok", result.stderr
    shown, times, devices = result.stdout.splitlines()
    assert set(eval(shown)) <= mounts.SHOWN_OF_PROC
    assert {"cpuinfo", "meminfo", "self", "stat", "sys"} <= set(eval(shown))
    assert times == f"{{'0'}} {os.cpu_count()}"
    assert devices == "['0o20666', '0o20666'] 1"


def test_an_interpreter_that_lives_below_tmp_is_not_covered_by_the_boxes_own():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    folder = tempfile.mkdtemp(prefix="rewardrate-venv-", dir="/tmp")
    try:
        os.chmod(folder, 0o755)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        result = run("print('here')", Limits(seconds=30, cores=1, memory_bytes=2**28), python=f"{folder}/bin/python")
        assert (result.status, result.stdout) == ("ok", "here\n"), result.message
    finally:
        shutil.rmtree(folder)
