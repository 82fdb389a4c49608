"""The page of a comparison: everything once the plan is complete, and no difference of arms before."""

import re
import shutil

import pytest

import made_comparison
from rewardrate.reports.comparison import ComparisonResult
from rewardrate.reports.comparison_page import panels, write
from rewardrate.reports.survey import survey


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """One of two blocks is complete, the other has one arm."""
    plan = made_comparison.plan(tasks=("diamonds",), hypothesis="<b>rpg</b> wins")
    folder = made_comparison.freeze(tmp_path_factory.mktemp("begun") / "study", plan)
    first, second = plan.blocks
    for block, arm in ((first, "rpg"), (first, "vanilla"), (second, "rpg")):
        made_comparison.add(folder, block, arm)
    return folder


@pytest.fixture(scope="module")
def written(compared, tmp_path_factory):
    place = tmp_path_factory.mktemp("written") / "study"
    shutil.copytree(compared.path, place)
    return write(place)


def test_a_finished_comparison_is_written_whole(written):
    text = written.page.read_text()
    for name in ("result", "tasks", "curves", "progress", "deviations", "plan"):
        assert f'<section id="{name}">' in text
    assert "Unfinished" not in text
    for contrast in written.result.contrasts:
        for sentence in contrast.headline:
            assert sentence in text
    assert {path.name for path in written.figures} == {
        f"{name}.{kind}" for name in ("forest", "budget-grid", "difference") for kind in ("svg", "png")
    }
    assert all(path.stat().st_size > 100 for path in (*written.figures, *written.tables))
    charts = set(re.findall(r'data-chart="([^"]+)"', text))
    assert {"forest-0", "forest-2", "difference-2", "budget-reward-current-2"} <= charts


def test_a_task_that_is_a_folder_has_its_name_and_its_interval(tmp_path):
    folder = made_comparison.complete(tmp_path / "study", tasks=("tasks/diamonds", "grants"), seeds=(0,))
    result = ComparisonResult(survey(folder))
    (panel,) = panels(result.contrasts)
    assert [row.name for row in panel.rows] == ["diamonds", "grants"]
    assert all(row.difference.low is not None for row in panel.rows)


def test_before_the_plan_is_complete_no_arm_can_be_told_from_another(begun, tmp_path):
    shutil.copytree(begun.path, tmp_path / "study")
    written = write(tmp_path / "study")
    text = written.page.read_text()
    assert (written.result, written.figures, written.tables) == (None, (), ())
    assert "Unfinished: 1 of 2 blocks are complete" in text
    assert "diamonds:1" in text
    for word in ("less vanilla", "reward at T", "valid share", "reward per second", "<svg"):
        assert word not in text
    assert not list(written.page.parent.glob("figures/*"))
    assert "&lt;b&gt;rpg" in text


def test_who_looks_before_the_end_is_said_to_have_looked(begun, tmp_path):
    shutil.copytree(begun.path, tmp_path / "study")
    text = write(tmp_path / "study", peek=True).page.read_text()
    assert "they may choose when to stop" in text
    assert "rpg less vanilla" in text
    assert "mean over 1 task and 1 block." in text


def test_a_plan_without_a_run_has_a_page(tmp_path):
    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan())
    written = write(folder.path, peek=True)
    assert written.result is None
    assert "0 of 6 blocks are complete" in written.page.read_text()


def test_a_browser_shows_the_page_without_a_complaint(written, look):
    page = look(written.page.as_uri())
    assert page.locator("figure.chart").count() == 9
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
