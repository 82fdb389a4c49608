"""Landlock hides what is not on the list, in a process of its own."""

import subprocess
import sys

import pytest

from rewardrate.sandbox.box import landlock

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux") or not landlock.version(), reason="needs Landlock")

PROGRAM = """
import sys
from rewardrate.sandbox.box import kernel, landlock
inside, outside = sys.argv[1:]
kernel.prctl(kernel.NO_NEW_PRIVS, 1)
landlock.restrict(['/usr', '/nonexistent'], [inside])
open(inside + '/new', 'w').write('x')
print(open(inside + '/new').read(), open('/dev/null').read() == '')
for path, mode in ((outside + '/secret', 'r'), (outside + '/new', 'w'), ('/etc/passwd', 'r')):
    try: open(path, mode); print('open')
    except PermissionError: print('refused')
"""


def test_only_the_listed_places_exist(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("s")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(inside), str(outside)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["x", "True", "refused", "refused", "refused"]
