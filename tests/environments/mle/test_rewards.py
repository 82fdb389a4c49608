import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardrate.environments.mle.rewards import better, direction_of, gain, percentile
from rewardrate.errors import InputError

finite = st.floats(-1e6, 1e6)
direction = st.sampled_from(["maximize", "minimize"])


def test_gain_is_nought_at_the_sample_one_at_the_best_reference_and_more_beyond():
    assert gain(0.5, 0.5, 0.9, "maximize") == 0
    assert gain(0.9, 0.5, 0.9, "maximize") == 1
    assert gain(0.98, 0.5, 0.9, "maximize") == pytest.approx(1.2)
    assert gain(2.0, 3.0, 1.0, "minimize") == pytest.approx(0.5)
    assert gain(7.0, 3.0, 1.0, "minimize") == 0, "worse than the sample is nought, not negative"


def test_gain_is_refused_when_no_reference_beats_the_sample():
    with pytest.raises(InputError, match="does not beat the sample"):
        gain(0.7, 0.5, 0.5, "maximize")


def test_percentile_counts_ties_half_as_in_the_paper():
    board = [0.1, 0.2, 0.2, 0.4]  # log losses, best first
    assert percentile(0.2, board, "minimize") == (1 + 2 / 2) / 4
    assert percentile(0.05, board, "minimize") == 1
    assert percentile(9.0, board, "minimize") == 0
    assert percentile(0.1, board, "minimize") == (3 + 0.5) / 4
    assert percentile(0.0, [0.0], "minimize") == 0.5, "a score of exactly 0 is a score"


def test_percentile_leaves_out_what_is_not_a_number_and_refuses_an_empty_leaderboard():
    assert percentile(0.5, [0.9, math.nan, 0.1], "maximize") == 0.5
    with pytest.raises(InputError, match="at least one score"):
        percentile(0.5, [math.nan], "maximize")


@given(finite, st.lists(finite, min_size=1, max_size=30), direction)
def test_percentile_equals_the_mean_of_its_indicators_and_flips_with_the_direction(score, board, way):
    worse = [(entry < score) if way == "maximize" else (entry > score) for entry in board]
    expected = sum(w + 0.5 * (entry == score) for w, entry in zip(worse, board, strict=True)) / len(board)
    assert percentile(score, board, way) == pytest.approx(expected)
    other = "minimize" if way == "maximize" else "maximize"
    assert percentile(score, board, way) + percentile(score, board, other) == pytest.approx(1)


@given(finite, finite, finite, direction)
def test_gain_never_falls_when_the_score_gets_better(first, second, span, way):
    sign = 1 if way == "maximize" else -1
    baseline, best = 0.0, sign * (abs(span) + 1)
    if better(first, second, way):
        assert gain(first, baseline, best, way) >= gain(second, baseline, best, way)


def test_a_leaderboard_tells_its_direction_by_its_ends():
    assert direction_of([0.9, 0.5]) == "maximize"
    assert direction_of([0.1, 0.5]) == "minimize"
    assert direction_of([0.5, 0.5]) is None
    assert direction_of([]) is None


def test_copying_the_sample_wins_under_the_raw_metric_and_earns_nothing_under_gain():
    """The collapse of section 2b: rate of a copy at the 0.1 s floor against an honest script of 1.23 s."""
    copied, honest = 0.5, 0.9038
    assert copied / 0.1 > 6 * honest / 1.23
    assert gain(copied, 0.5, 0.935, "maximize") / 0.1 == 0
    assert gain(honest, 0.5, 0.935, "maximize") / 1.23 > 0.7
