"""One world, several agents."""

import pytest

from rewardrate.bandits import NPG, World, simulate
from rewardrate.bandits.experiment import ExperimentConfig, experiment
from rewardrate.errors import InputError

CONFIG = ExperimentConfig(
    arms=5, agents=("npg learning_rate=0.3 age=60", "spg learning_rate=1 age=60"), steps=200, seeds=6, first_seed=3
)


def test_outcomes_stand_in_the_order_of_the_agents_and_hold_their_traces():
    seen = []
    first, second = experiment(CONFIG, progress=seen.append)
    assert (first.label, second.label) == ("npg", "spg")
    assert seen == [6, 12]
    expected = simulate(World("E1", 5, 4), NPG(0.3, 60), range(3, 9), 200)
    assert (first.traces.final_regret == expected.final_regret).all()
    summary = first.summary()
    assert summary["regret"] == pytest.approx(expected.final_regret.mean())
    assert summary["regret_low"] <= summary["regret"] <= summary["regret_high"]
    assert summary["trials"] == 6


def test_processes_change_nothing():
    for mine, theirs in zip(experiment(CONFIG), experiment(CONFIG, workers=2), strict=True):
        assert (mine.traces.regret == theirs.traces.regret).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agents": ()}, "there must be at least one"),
        ({"agents": ("npg learning_rate=0.1,1 age=60",)}, "it is a grid of 2"),
        ({"agents": ("cucb theory", "cucb theory")}, "two agents have this label"),
        ({"agents": ("npg learning_rate=-1 age=60",)}, "learning_rate = -1"),
        ({"arms": 4}, "arms = 4"),
        ({"seeds": 10**14}, "there may be at most 1,000,000 seeds"),
        ({"first_seed": 2**63}, "a seed must be below 2^63"),
        ({"family": "E0"}, "family = 'E0'"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(change, words):
    with pytest.raises(InputError) as error:
        ExperimentConfig(**change)
    assert words in str(error.value)
