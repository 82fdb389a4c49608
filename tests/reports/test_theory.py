"""The theory figure shows runs inside their bounds, because they are."""

import json
from pathlib import Path

import numpy as np
import pytest

from rewardrate.errors import InputError
from rewardrate.reports.theory import GAMMA, LEARNING_RATE, REWARD, SECONDS, STEPS, P, draw, page
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


def test_the_page_of_a_check_has_a_line_for_every_statement():
    folder = Path(__file__).parents[2] / "results" / "2026-11-19-theory-check"
    text = page(folder)
    found = json.loads((folder / "theory.json").read_text())
    assert text.count("<tr>") == len(found["statements"]) + 1
    assert "Inside the bounds" in text


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"statements": 3}', '{"statements": [{"statement": 1}]}', "\x00"])
def test_a_damaged_check_is_reported(tmp_path, text):
    (tmp_path / "theory.json").write_text(text)
    with pytest.raises(InputError, match="it cannot be read"):
        page(tmp_path)
