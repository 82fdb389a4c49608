"""Random problems with a deadline: what an agent is said to know of them is true of them."""

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.theory.deadline_problems import FAMILIES, MOST_SECONDS, draw_problem


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_known_in_a_state_is_what_its_tables_say(family):
    for number in range(40):
        problem = draw_problem(np.random.default_rng([5, number]), family)
        horizon = problem.horizon
        assert 1 <= problem.budget <= MOST_SECONDS
        assert ((problem.valid > 0) & (problem.valid <= 1)).all()
        assert (problem.reward > 0).all()
        assert (problem.reward <= 1 + 1e-12).all()
        assert (problem.gain >= 0).all()
        assert (problem.level <= problem.best + 1e-12).all()
        assert 1 <= problem.mean_seconds.min() <= problem.mean_seconds.max() <= 15
        assert (horizon.final >= 0).all()
        if family == "search":
            assert (np.diff(horizon.final) > 0).all()
            success = horizon.final[horizon.success] - horizon.final[:, None]
            np.testing.assert_allclose(problem.reward, horizon.final[:, None] + horizon.chance * success, atol=1e-12)
        else:  # an attempt's reward is what the policy would show if it stayed there
            np.testing.assert_allclose(horizon.final[horizon.failure], problem.reward, atol=1e-12)


def test_the_gain_of_a_policy_that_stays_is_the_rise_of_its_score():
    problem = draw_problem(np.random.default_rng(1), "inertia")
    horizon = problem.horizon
    stay = 0
    rise = horizon.chance[:, stay] * (horizon.final[horizon.success[:, stay]] - horizon.final)
    np.testing.assert_allclose(problem.gain, rise, atol=1e-15)
    np.testing.assert_array_equal(horizon.failure[:, stay], np.arange(horizon.final.size))


def test_a_policy_that_has_committed_stays_and_one_with_inertia_moves_by_one_place():
    for number in range(20):
        committed = draw_problem(np.random.default_rng([2, number]), "commit").horizon
        kinds = committed.chance.shape[1]
        for state, row in enumerate(committed.failure):
            place = state % (kinds + 1)
            assert len(set(row)) == (1 if place < kinds else kinds)
        slow = draw_problem(np.random.default_rng([2, number]), "inertia").horizon
        assert (np.abs(slow.failure - np.arange(len(slow.failure))[:, None]) <= 1).all()


def test_the_same_numbers_give_the_same_problem_and_an_unknown_family_is_refused():
    one, other = (draw_problem(np.random.default_rng(4), "free") for _ in range(2))
    np.testing.assert_array_equal(one.reward, other.reward)
    with pytest.raises(InputError, match="did you mean 'search'"):
        draw_problem(np.random.default_rng(4), "serch")
