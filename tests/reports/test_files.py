import json
from pathlib import Path

import pytest

from rewardrate.errors import InputError
from rewardrate.reports import files

ROOT = Path(__file__).parents[2]


def test_one_task_gives_the_page_every_chart_and_the_table(both, tmp_path):
    written = files.write([both], tmp_path)
    assert written.page == tmp_path / "report.html"
    assert {path.suffix for path in written.figures} == {".svg", ".png"}
    assert (tmp_path / "figures" / "budget-reward-current.svg").stat().st_size > 5_000
    assert [path.name for path in written.tables] == ["table.md", "table.tex", "table.csv"]
    assert not list(tmp_path.rglob("*.part"))


def test_several_tasks_give_three_grids(many, tmp_path):
    written = files.write([many / "digits8x8", many / "grants"], tmp_path, "reward")
    assert [path.name for path in written.figures] == [
        "budget-grid.svg", "budget-grid.png", "cumulative-grid.svg", "cumulative-grid.png", "steps-grid.svg",
        "steps-grid.png",
    ]  # fmt: skip
    assert [row.metric for row in written.table.rows] == ["reward", "reward"]


def test_a_theory_check_gives_its_page(tmp_path):
    written = files.write([ROOT / "results" / "2026-11-19-theory-check"], tmp_path)
    assert "0</strong><span>violations" in written.page.read_text()
    assert written.figures == ()


def test_mistakes_are_reported(both, tmp_path):
    with pytest.raises(InputError, match="--out DIR"):
        files.write([both / "rpg", both / "vanilla"])
    with pytest.raises(InputError, match="finished run of each arm"):
        files.write([both / "rpg"], tmp_path, "score")
    (tmp_path / "theory.json").write_text(json.dumps({"statements": [{}]}))
    with pytest.raises(InputError, match="it cannot be read"):
        files.write([tmp_path])


@pytest.mark.parametrize("name", ["figures", "tables"])
def test_a_file_where_a_folder_is_needed_is_reported_before_anything_is_written(name, both, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InputError, match=rf"--out = .* a file named {name} is where a folder must be"):
        files.write([both], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_one_arm_alone_has_no_table(both, tmp_path):
    written = files.write([both / "rpg"], tmp_path)
    assert written.tables == ()
    assert written.table is None


def test_a_bandit_experiment_has_its_figure_already(tmp_path):
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(InputError, match=r"one bandit experiment.*rewardrate bandit study"):
        files.write([tmp_path])
