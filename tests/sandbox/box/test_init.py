"""The init reports a failure of its own instead of dying with it."""

import json
import os
import struct
import subprocess
import sys

import pytest

from rewardrate.sandbox.launch import SOURCE, START

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the box is Linux's")


def test_a_template_that_cannot_be_carried_out_comes_back_as_a_failure():
    template, report, out, err, control = (os.pipe() for _ in range(5))
    ends = [template[0], report[1], out[1], err[1], control[0]]
    init = subprocess.Popen([sys.executable, "-ISB", "-c", START, SOURCE, *map(str, ends)], pass_fds=ends)
    for end in ends:
        os.close(end)
    os.write(template[1], json.dumps({"groups": ["/nonexistent/cgroup.procs"], "can": {}}).encode())
    os.close(template[1])
    body = os.read(report[0], 65536)
    assert init.wait(10) == 0
    size = struct.unpack("<I", body[:4])[0]
    assert "FileNotFoundError" in json.loads(body[4 : 4 + size])["failure"]
    for end in (report[0], out[0], err[0], control[1]):
        os.close(end)
