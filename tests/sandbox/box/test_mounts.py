"""The box's world, seen from inside."""

import sys

import pytest

from rewardrate.sandbox import Limits, levels, run

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
    result = run(LOOK, Limits(seconds=5, cores=1, memory_bytes=2**28))
    root, names, processes, last = result.stdout.splitlines()
    assert result.status == "ok", result.stderr
    assert {"job", "proc", "usr", "dev", "tmp"} <= set(eval(root))
    assert "home" not in root
    assert names == "box False [] []"
    assert int(processes) == 2
    assert last == "loopback works"
