"""The benchmark measures what it says, on a small scale."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from rewardrate.sandbox import levels

PATH = Path(__file__).parents[2] / "benchmarks" / "bench_sandbox.py"


@pytest.fixture
def bench():
    if not sys.platform.startswith("linux") or "namespaces" not in levels.try_isolation().level.name:
        pytest.skip("needs namespaces")
    spec = importlib.util.spec_from_file_location("bench_sandbox", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_overhead_bias_and_throughput_are_measured(bench):
    names = bench.available()
    assert "namespaces" in names
    middle, high, inside = bench.overheads("namespaces", 3)
    assert 0 < middle <= high
    assert inside > 0
    before = os.sched_getaffinity(0)
    boxed, plain = bench.bias(1, "x = sum(range(10**6))")
    assert 0 < boxed < 20
    assert 0 < plain < 20
    assert os.sched_getaffinity(0) == before
    assert bench.throughput("wall", 2, "pass") > 0
