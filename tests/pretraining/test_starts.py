"""The start with a given share of valid scripts is found with few measurements (benchmarks/starts.py)."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def starts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("starts", BENCHMARKS / "starts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("first_scripts", None)


@pytest.mark.parametrize("passes", [100, 250, 500, 800, 900])
def test_the_search_measures_both_neighbours_of_the_target(starts, passes):
    numbers = [100, 150, 200, 250, 300, 350, 400, 500, 600, 700, 800]
    seen = starts.by_halves(numbers, lambda number: 0.2 if number >= passes else 0.0, 0.1, 4)
    below, above = [n for n in numbers if n < passes], [n for n in numbers if n >= passes]
    assert len(seen) == len(set(seen)) <= 4
    assert {*below[-1:], *above[:1]} <= set(seen)


def test_the_search_ends_at_the_most_and_when_there_is_no_time_left(starts):
    assert starts.by_halves(range(100), lambda number: 0.0, 0.1, 2) == [49, 74]
    assert starts.by_halves(range(100), lambda number: 0.0 if number < 60 else None, 0.1, 9) == [49]


def test_nearness_is_of_odds_and_no_share_is_infinitely_far(starts):
    assert starts.distance(0.19, 0.1, 10**6) == pytest.approx(starts.distance(0.05, 0.1, 10**6), rel=0.03)
    assert starts.distance(0.0, 0.1, 144) < starts.distance(0.0, 0.1, 10**6) < 20
