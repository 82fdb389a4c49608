"""The box's world, seen from inside."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

from rewardrate.sandbox import Limits, job_template, levels, run

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
