import numpy as np
import pytest

from rewardrate.reports import chart as room
from rewardrate.reports.chart import Area, Chart, Line, Points
from rewardrate.reports.style import BLUE, ORANGE

X = np.arange(1.0, 6.0)


def lines(**changes):
    made = Line("rpg", BLUE, X, X**2, X**2 - 1, X**2 + 1)
    return Chart("one", "title", "caption", "step", "y", (made, Line("gap", ORANGE, X, X * np.nan)), **changes)


def test_the_cursor_knows_where_the_axes_lie_and_every_value():
    text, cursor = room.on_page(lines())
    assert text.startswith("<svg")
    left, top, width, height = cursor["box"]
    assert 0 < left < left + width < 72 * room.SIZE[0]
    assert 0 < top < top + height < 72 * room.SIZE[1]
    assert cursor["lines"][0]["y"] == [1, 4, 9, 16, 25]
    assert cursor["lines"][0]["low"] == [0, 3, 8, 15, 24]
    assert cursor["lines"][1]["y"] == [None] * 5
    assert cursor["x"][0] <= 1 < 5 <= cursor["x"][1]


def test_a_stack_says_each_layer_and_where_its_middle_lies():
    made = Chart("a", "t", "c", "step", "y", areas=(Area("p", BLUE, X), Area("q", ORANGE, X)), area_x=X)
    cursor = room.on_page(made)[1]
    assert [line["label"] for line in cursor["lines"]] == ["p", "q"]
    assert cursor["lines"][1]["at"] == [1.5, 3, 4.5, 6, 7.5]


@pytest.mark.parametrize("count", [0, 1, 30, 3000])
def test_dots_are_drawn_for_the_page_and_for_a_file(tmp_path, count):
    rng = np.random.default_rng(0)
    dots = Points(rng.random(count) + 0.1, rng.random(count), rng.integers(1, 50, count).astype(float))
    made = Chart("dots", "t", "c", "seconds", "score", points=dots, log_x=True)
    text, cursor = room.on_page(made)
    assert text.count("h0") == count
    assert "points" in cursor
    assert [path.suffix for path in room.write(made, tmp_path)] == [".svg", ".png"]


def test_dots_in_a_file_are_seen(tmp_path):
    from matplotlib.image import imread

    dots = Points(np.full(50, 1.0), np.linspace(0, 1, 50), np.full(50, 50.0))
    room.write(Chart("dots", "t", "c", "x", "y", points=dots), tmp_path)
    image = imread(tmp_path / "dots.png")[..., :3]
    assert ((image - np.array([0x3A, 0x2A, 0x5E]) / 255).__abs__().max(axis=-1) < 0.2).sum() > 100


def test_a_chart_of_nothing_is_drawn():
    assert room.on_page(Chart("none", "t", "c", "step", "y", y_range=(0, None)))[0].startswith("<svg")


def test_a_grid_puts_charts_side_by_side():
    from rewardrate.reports.style import pyplot

    figure = room.draw_grid([lines(small=True)] * 5, columns=4)
    assert sum(axis.get_visible() for axis in figure.axes) == 5
    pyplot().close(figure)


def figure_of(made):
    from rewardrate.reports.style import pyplot

    figure = room.draw(made)
    pyplot().close(figure)
    return figure.axes[0]


@pytest.mark.parametrize("count", [1, 2, 12])
def test_every_bar_of_a_stack_is_as_wide_as_a_step(count):
    steps = np.arange(1.0, count + 1)
    shares = np.linspace(0.2, 0.4, count)
    axis = figure_of(Chart("a", "t", "c", "step", "y", areas=(Area("p", BLUE, shares),), area_x=steps))
    assert axis.get_xlim() == (0.5, count + 0.5)
    corners = axis.collections[0].get_paths()[0].vertices
    for step, share in zip(steps, shares, strict=True):
        for edge in (step - 0.5, step + 0.5):
            assert any(np.allclose(corner, (edge, share)) for corner in corners), "the bar's upper corners"


def test_one_step_is_a_dot_above_its_number():
    one = np.array([1.0])
    axis = figure_of(Chart("a", "t", "c", "step", "y", (Line("rpg", BLUE, one, one * 0.7),), y_range=(0, None)))
    assert axis.get_lines()[0].get_marker() == "o"
    assert axis.get_xticks().tolist() == [1.0]
    assert axis.get_ylim()[1] > 0.7
    assert figure_of(lines()).get_lines()[0].get_marker() in ("", "None"), "a line needs no dots"


@pytest.mark.parametrize("values", [0.7 + 1e-9 * X, 0.0 * X, -1e6 + 1e-3 * X])
def test_rounding_does_not_look_like_movement(values):
    low, high = figure_of(Chart("a", "t", "c", "step", "y", (Line("rpg", BLUE, X, values),))).get_ylim()
    assert high - low >= 0.09 * abs(values[0])
    assert high - low > 100 * np.ptp(values)
