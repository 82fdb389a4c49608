from dataclasses import dataclass, field
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardrate.environments.mle.folder import load, shipped
from rewardrate.environments.mle.preparation import prepare
from rewardrate.environments.mle.task import Reference
from rewardrate.reports import tasks
from rewardrate.reports.style import pyplot


@dataclass
class Shown:
    """What the report reads of a task."""

    id: str = "toy"
    baseline: float = 0.5
    best_reference: float = 0.9
    direction: str = "maximize"
    references: tuple = field(
        default=(
            Reference(0.9, "03_slow", 0.89, 10.0, 12.0),
            Reference(0.8, "02_middle", 0.81, 1.0, 1.1),
            Reference(0.7, "01_worse", 0.7, 2.0, 2.0),
            Reference(0.6, "00_unmeasured"),
        )
    )


def test_the_table_marks_the_best_score_and_the_best_rate():
    rows = tasks.score_table(Shown()).splitlines()[2:]
    assert rows[0].startswith("| 03_slow **best score** | 0.9000 | 0.8900 | 10.00 | 12.00 | 1.000 | 0.100 |")
    assert rows[1].startswith("| 02_middle **best rate** | 0.8000 | 0.8100 | 1.00 |")
    assert "| 0.750 | 0.750 |" in rows[1]
    assert len(rows) == 3, "what was not timed is not shown"


def test_the_front_leaves_out_what_another_script_beats_in_both():
    assert tasks._front([(10, 1.0), (1, 0.75), (2, 0.5), (1, 0.6)]) == [(1, 0.75), (10, 1.0)]


def test_figures_are_written_as_svg_and_png(tmp_path):
    for path in [*tasks.draw(Shown(), tmp_path / "one"), *tasks.draw_all([Shown(), Shown()], tmp_path / "all")]:
        assert path.stat().st_size > 2000
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".png", ".png", ".svg", ".svg"]


# ---------------------------------------------------------------- names beside points


def placed(task, dpi):
    """Boxes of the names, of the points and of the legend in a drawn figure, and of the axis."""
    from matplotlib.text import Annotation, Text
    from matplotlib.transforms import Bbox

    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6.4, 3.9), constrained_layout=True)
    try:
        tasks.plot(axis, task)
        figure.set_dpi(dpi)
        figure.canvas.draw()
        names = {text.get_text(): Text.get_window_extent(text) for text in axis.texts if isinstance(text, Annotation)}
        rows = [(max(0.1, row.seconds), tasks._gain(task, row)) for row in tasks.timed(task)]
        spots = axis.transData.transform(rows)
        points = [Bbox([spot - 2.5 * dpi / 72, spot + 2.5 * dpi / 72]) for spot in spots]
        return names, points, axis.get_legend().get_window_extent().frozen(), axis.get_window_extent().frozen()
    finally:
        plt.close(figure)


def check_names(task, dpi):
    names, points, legend, frame = placed(task, dpi)
    assert len(names) == len(tasks.timed(task))
    for (first, box), (second, other) in combinations(names.items(), 2):
        assert not box.overlaps(other), f"{first} lies on {second}"
    for name, box in names.items():
        assert not box.count_overlaps(points), f"{name} lies on a point"
        assert not box.overlaps(legend), f"{name} lies on the legend"
        assert box.x0 > frame.x0, name
        assert box.x1 < frame.x1 + 3, name


@pytest.mark.parametrize("name", shipped())
@pytest.mark.parametrize("dpi", [72, 150])
def test_the_names_of_a_tasks_scripts_lie_on_nothing_in_either_file(name, dpi):
    task = load(name)
    prepare(task)  # the baseline is that of the sample submission
    check_names(task, dpi)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(0.55, 0.9), st.floats(0.1, 30)), min_size=1, max_size=8), st.floats(1, 3))
def test_names_lie_on_nothing_wherever_the_points_are(rows, spread):
    scripts = [
        Reference(0.5 + (score - 0.5) / spread, f"{place:02}_some model {place}", None, seconds, seconds)
        for place, (score, seconds) in enumerate(sorted(rows, reverse=True))
    ]
    check_names(Shown(best_reference=scripts[0].score, references=tuple(scripts)), 100)


def test_scripts_at_one_point_are_all_named():
    same = tuple(Reference(0.9, f"{place:02}_model {place}", None, 1.0, 1.0) for place in range(6))
    check_names(Shown(references=same), 100)


def test_the_legend_goes_where_no_script_is():
    low = tuple(
        Reference(0.9 - 0.4 * (place > 0), f"{place:02}_m{place}", None, 10.0 / (1 + place), 1) for place in range(5)
    )
    _, points, legend, _ = placed(Shown(references=low), 100)
    assert not legend.count_overlaps(points)
