"""A file mounted read-only cannot be changed by its own owner."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rewardrate.sandbox.launch import SOURCE

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")

PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
from rewardrate.sandbox.box.read_only import make_read_only
before = os.getuid(), os.getgid()
os.chmod(sys.argv[2], 0o755)
try: make_read_only(sys.argv[2])
except OSError as error: print("no namespaces", error); raise SystemExit
assert (os.getuid(), os.getgid()) == before
for change in (lambda: os.chmod(sys.argv[2], 0o700), lambda: open(sys.argv[2], "a"), lambda: os.utime(sys.argv[2])):
    try: change(); print("changed")
    except OSError as error: print(error.strerror)
"""


def test_the_owner_of_a_read_only_file_cannot_change_it():
    folder = Path(tempfile.mkdtemp(prefix="rewardrate-read-only-"))
    try:
        folder.chmod(0o755)
        shutil.copytree(Path(SOURCE) / "rewardrate", folder / "source" / "rewardrate")
        file = folder / "file"
        file.write_text("x")
        who = {}
        if os.geteuid() == 0:
            os.chown(file, 65534, 65534)
            who = {"user": 65534, "group": 65534, "extra_groups": []}
        python = "/usr/bin/python3" if os.geteuid() == 0 else sys.executable
        if not os.access(python, os.X_OK):
            pytest.skip("needs a Python that every user may run")
        command = [python, "-ISB", "-c", PROGRAM, str(folder / "source"), str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/", **who)
        if "no namespaces" in done.stdout:
            pytest.skip(done.stdout)
        assert done.stdout.splitlines() == ["Read-only file system"] * 3
    finally:
        shutil.rmtree(folder)
