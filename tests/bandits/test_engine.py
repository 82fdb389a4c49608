"""Many trials: the same whatever shares the work; bad input is refused before anything runs."""

import numpy as np
import pytest

from rewardrate.bandits import NPG, SPG, Traces, World, simulate, simulate_many
from rewardrate.bandits.engine import check_marks, check_seeds, log_marks
from rewardrate.errors import InputError

WORLD = World("E2", 6, 4)
AGENT = NPG(0.3, 250)


def test_results_do_not_depend_on_the_number_of_workers():
    alone = simulate(WORLD, AGENT, range(12), 700)
    for workers in (2, 3):
        shared = simulate(WORLD, AGENT, range(12), 700, workers=workers)
        assert (shared.regret == alone.regret).all()
        assert (shared.pseudo_regret == alone.pseudo_regret).all()
        assert (shared.price == alone.price).all()


def test_a_seed_is_the_same_trial_in_any_company():
    alone = simulate(WORLD, AGENT, [5], 700)
    among = simulate(WORLD, AGENT, [9, 5, 2], 700)
    assert (alone.regret[0] == among.regret[1]).all()


def test_several_agents_come_back_in_their_order():
    agents = [NPG(0.3, 250), SPG(0.3, 250), NPG(1.0, 60)]
    together = simulate_many(WORLD, agents, range(3), 400)
    for agent, traces in zip(agents, together, strict=True):
        assert (simulate(WORLD, agent, range(3), 400).regret == traces.regret).all()


def test_traces_have_a_row_for_each_seed_and_a_column_for_each_mark():
    traces = simulate(WORLD, AGENT, [3, 4], 500, marks=[1, 10, 500])
    assert isinstance(traces, Traces)
    assert traces.steps.tolist() == [1, 10, 500]
    assert traces.seeds.tolist() == [3, 4]
    assert traces.regret.shape == traces.pseudo_regret.shape == traces.price.shape == (2, 3)
    assert (traces.final_regret == traces.regret[:, 2]).all()
    assert (np.diff(traces.pseudo_regret) >= 0).all()


def test_marks_only_look():
    coarse = simulate(WORLD, AGENT, [1], 600, marks=[600])
    fine = simulate(WORLD, AGENT, [1], 600, marks=range(1, 601))
    assert coarse.regret[0, -1] == fine.regret[0, -1]
    assert (fine.regret[0, [0, 59, 599]] == simulate(WORLD, AGENT, [1], 600, marks=[1, 60, 600]).regret[0]).all()


def test_agents_with_one_seed_see_the_same_contexts_and_noise():
    """Common random numbers: two agents' regrets rise and fall together, so differences are sharper."""
    one, two = (simulate(WORLD, NPG(rate, 1000), range(60), 400).final_regret for rate in (0.1, 0.11))
    assert np.corrcoef(one, two)[0, 1] > 0.5


def test_realised_and_pseudo_regret_have_the_same_mean():
    """n = 400; their difference has mean zero: within 4 standard errors."""
    traces = simulate(WORLD, AGENT, range(400), 500)
    difference = traces.final_regret - traces.pseudo_regret[:, -1]
    assert abs(difference.mean()) < 4 * difference.std() / 20


def test_log_marks_are_spread_evenly_and_end_at_the_horizon():
    marks = log_marks(30_000, 300)
    assert marks[0] == 1
    assert marks[-1] == 30_000
    assert (np.diff(marks) > 0).all()
    assert 200 < marks.size <= 300
    assert log_marks(30_000, 60).size > 50
    assert log_marks(1).tolist() == [1]
    assert log_marks(30_000, 1).tolist() == [30_000]


def test_progress_counts_trials():
    seen = []
    simulate_many(WORLD, [AGENT, NPG(1.0, 9)], range(3), 10, progress=seen.append, workers=2)
    assert seen == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeds": []}, "seeds = []: there must be at least one"),
        ({"seeds": [1, 1]}, "seeds = 1: each seed may be given once"),
        ({"seeds": [-1]}, "seeds[0] = -1"),
        ({"seeds": [0.5]}, "seeds[0] = 0.5"),
        ({"seeds": None}, "seeds = None"),
        ({"seeds": [2**63]}, "a seed must be below 2^63"),
        ({"steps": 0}, "steps = 0"),
        ({"steps": 10**12}, "steps = 1000000000000: it must be at most"),
        ({"marks": [5, 3]}, "marks = [5, 3]: they must be increasing"),
        ({"marks": [11]}, "between 1 and 10"),
        ({"workers": 0}, "workers = 0"),
        ({"engine": "gpu"}, "engine = 'gpu': there is no such engine"),
        ({"agent": NPG}, "agent = "),
        ({"world": "E1"}, "world = 'E1': it must be a World"),
    ],
)
def test_bad_input_is_one_line(change, words):
    call = {"world": WORLD, "agent": AGENT, "seeds": [0], "steps": 10} | change
    with pytest.raises(InputError) as error:
        simulate(**call)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_seeds_and_marks_become_arrays():
    assert check_seeds(7).tolist() == [7]
    assert check_seeds(np.arange(3)).tolist() == [0, 1, 2]
    assert check_marks(None, 10).tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
