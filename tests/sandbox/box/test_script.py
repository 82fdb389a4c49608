"""The script starts with its limits set, its privileges gone and nothing inherited."""

import sys

import pytest

from rewardrate.sandbox import Limits, levels, run

LOOK = """
import os, resource
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print(status['CapEff'].strip(), status['CapBnd'].strip(), status['NoNewPrivs'].strip(), status['Seccomp'].strip())
print(os.getuid() != 0, os.getgroups(), sorted(os.listdir('/proc/self/fd'))[:3], os.getsid(0) == os.getpid())
print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NPROC)[1], open('/proc/self/oom_score_adj').read().strip())
"""


def test_what_the_script_starts_with():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    result = run(LOOK, Limits(seconds=30, cores=1, memory_bytes=2**28, processes=77))
    assert result.status == "ok", result.stderr
    capabilities, identity, limits = result.stdout.splitlines()
    assert capabilities == "0000000000000000 0000000000000000 1 2"
    assert identity.startswith("True [")
    assert identity.endswith("['0', '1', '2'] True")
    assert limits in ("(1, 1) 77 1000", "(0, 0) 77 1000")  # 0: what has started us allows no more
