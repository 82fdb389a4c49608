"""The theory figure shows runs inside their bounds, because they are."""

import numpy as np

from rewardrate.reports.theory import GAMMA, LEARNING_RATE, REWARD, SECONDS, STEPS, P, draw
from rewardrate.theory import bounds, greedy_policy, npg


def test_the_figure_is_drawn_as_svg_and_png(tmp_path):
    svg, png = draw(tmp_path / "theory")
    assert "theorem 1" in svg.read_text()
    assert png.stat().st_size > 20_000


def test_what_is_drawn_lies_inside_the_bounds():
    b = bounds(REWARD, SECONDS, P)
    best = greedy_policy(REWARD, SECONDS, b.rho_star)
    assert b.interval(12, GAMMA)[0] > 0, "the drawn interval should say something"
    assert b.k0() < STEPS
    for step in npg(REWARD, SECONDS, P, learning_rate=LEARNING_RATE, steps=STEPS):
        assert 0 <= b.rho_star - step.mean_rate <= b.error(step.k)
        if step.k >= b.k0():
            missing = max(np.delete(step.policy[x], a).sum() for x, a in enumerate(best))
            assert missing <= b.tail(step.k, LEARNING_RATE)
