from dataclasses import dataclass, field

from rewardrate.environments.mle.task import Reference
from rewardrate.reports import tasks


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
