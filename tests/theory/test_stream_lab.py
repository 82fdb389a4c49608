"""The tables of errors and costs: reproducible, ours right from the first update, the naive ways wrong."""

import json

import pytest

from rewardrate.errors import InputError
from rewardrate.theory.stream_lab import (
    ENDED,
    FIRST,
    RUNNING,
    STALE,
    START,
    STEP,
    WAYS,
    StreamConfig,
    judge_costs,
    judge_streams,
)

CONFIG = StreamConfig(runs=12, cost_runs=1, chains=(16,))


@pytest.fixture(scope="module")
def bias():
    return {(row.slow, row.way): row for row in judge_streams(CONFIG)}


@pytest.mark.slow
def test_start_order_is_right_from_the_first_update_and_the_other_ways_are_not(bias):
    """108 intervals of 5 standard errors."""
    for slow in (3.0, 10.0, 100.0):
        for way in (STEP, START):
            row = bias[slow, way]
            for cell, true in ((row.early_share, 0.5), (row.late_share, 0.5), (row.late_rate, 1.0)):
                assert abs(cell.mean - true) <= 5 / 1.96 * (cell.high - cell.mean) + 0.01
        assert bias[slow, ENDED].early_share.high < 0.5
        assert bias[slow, STALE[2]].late_share.high < 0.42
        assert bias[slow, FIRST].late_share.high < 0.42
    assert bias[10.0, ENDED].early_rate.low > 1.2
    assert bias[10.0, RUNNING].early_rate.high < 0.9
    assert bias[100.0, RUNNING].early_rate.low > 1.5  # counting running time is no safe side either


@pytest.mark.slow
def test_the_tables_are_complete_reproducible_and_plain(bias):
    assert set(bias) == {(slow, way) for slow in (3.0, 10.0, 100.0) for way in WAYS}
    few = judge_streams(StreamConfig(runs=2, chains=(16,)))
    assert few == judge_streams(StreamConfig(runs=2, chains=(16,)))
    assert json.loads(json.dumps(few[0].to_json(), allow_nan=False))["early_share_low"] == few[0].early_share.low
    costs = judge_costs(StreamConfig(cost_runs=1, chains=(8,)))
    assert len(costs) == 3 * 2 * 5
    for row in costs:
        if row.order == "start" and row.age == 0:
            assert (row.speed, row.mean_age) == (pytest.approx(1.0), 0.0)
        if row.order == "start" and row.age is not None:
            assert row.largest_age <= row.age
        if row.age is None:
            assert row.busy == pytest.approx(1.0)
            assert row.speed > 1.3


def test_wrong_numbers_of_chains_are_refused():
    with pytest.raises(InputError, match="chains"):
        StreamConfig(chains=(2,))
