"""What is known of reference scripts without data: tests/training/test_measured.py plans with it."""

import pytest

from rewardrate.environments.mle.folder import load, shipped
from rewardrate.environments.mle.preparation import current
from rewardrate.environments.mle.references import baselines, measured_scripts


def test_every_task_that_comes_with_the_package_has_a_baseline_and_scripts_without_any_data():
    assert set(baselines()) == set(shipped())
    for name in shipped():
        rewards, seconds = zip(*measured_scripts(load(name), "gain", 2), strict=True)
        assert max(rewards) == pytest.approx(1.0)
        assert min(seconds) >= 0.1


def test_the_stored_baselines_are_the_scores_of_the_sample_submissions():
    for name, stored in baselines().items():
        task = load(name)
        if current(task):  # data that are not prepared are not made for this
            assert task.baseline == pytest.approx(stored, rel=1e-8)
