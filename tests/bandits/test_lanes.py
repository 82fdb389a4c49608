"""One lane: on a core nothing is shared and nothing changes (the lanes of a warp: test_gradient_cuda)."""

from rewardrate.bandits.lanes import LANES, lane, sum_lanes, sync_lanes


def test_a_core_has_one_lane():
    assert LANES == 1
    assert lane() == 0
    assert sum_lanes(0.1, -2.0, 1e300, 0.0) == (0.1, -2.0, 1e300, 0.0)
    sync_lanes()
