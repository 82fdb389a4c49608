"""The forest plot: a row a task, the pooled estimate below."""

import pytest

from rewardrate.reports.evaluation import Interval
from rewardrate.reports.forest import Forest, ForestRow, draw
from rewardrate.reports.style import pyplot
from rewardrate.reports.svg import inline

ROWS = (
    ForestRow("digits8x8", Interval(0.1, 0.02, 0.2), (0.05, 0.15)),
    ForestRow("a $task$ & more", Interval(-0.1, None, None), (-0.1,)),
)


@pytest.fixture
def drawn():
    figure = draw([Forest("rpg less vanilla", "difference", ROWS, Interval(0.02, -0.05, 0.09))] * 2)
    yield figure
    pyplot().close(figure)


def test_every_task_has_its_name_once_its_number_in_each_panel_and_the_pooled_row_is_last(drawn):
    text = inline(drawn, "forest")
    assert text.count(">digits8x8<") == 1
    assert text.count("+0.100 (+0.020 to +0.200)") == 2
    assert text.count("+0.020 (-0.050 to +0.090)") == 2
    assert "a $task$ &amp; more" in text
    left, right = drawn.axes
    assert left.get_yticks()[-1] == 0
    assert left.get_xlim() == right.get_xlim(), "panels can be compared by eye"


def test_the_diamond_is_as_wide_as_the_pooled_interval(drawn):
    (diamond,) = drawn.axes[0].patches
    assert sorted({round(float(x), 9) for x, _ in diamond.get_xy()}) == [-0.05, 0.02, 0.09]


def test_a_pooled_estimate_without_an_interval_or_a_value_is_drawn_as_far_as_it_is_known():
    for pooled, patches in ((Interval(0.1, None, None), 1), (Interval(None, None, None), 0)):
        figure = draw([Forest("one", "x", ROWS[:1], pooled)])
        assert len(figure.axes[0].patches) == patches
        pyplot().close(figure)
