"""A team of one: on a core nothing is shared and nothing changes (a warp's team is tested in test_gradient_card)."""

from rewardrate.bandits.team import LANES, lane, together, whole


def test_a_core_is_a_team_of_one():
    assert LANES == 1
    assert lane() == 0
    assert whole(0.1, -2.0, 1e300, 0.0) == (0.1, -2.0, 1e300, 0.0)
    together()
