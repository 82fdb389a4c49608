"""Crossings of a race, by hand and on a page."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_race import HISTORY, attempt, run
from rewardrate.environments.speedrun import seeds
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.reports.run import experiments
from rewardrate.reports.speedrun import best, crossings, improvement, kept_seed, margin, section, target_of, with_seeds


def test_crossings_come_in_the_order_in_which_budgets_reach_them():
    found = crossings(HISTORY, 3.28)
    assert [(one.attempt, one.spent) for one in found] == [(2, 40.0), (3, 80.0), (5, 90.0)]
    assert [one.margin for one in found] == pytest.approx([0.01, 0.02, 0.0])


def test_the_best_by_a_budget_is_the_lowest_loss_that_was_there_by_then():
    found = crossings(HISTORY, 3.28)
    assert best(found, 39.0) is None
    assert [best(found, budget).attempt for budget in (40.0, 79.9, 80.0, 1e9)] == [2, 2, 3, 3]
    assert [margin(found, budget) for budget in (39.0, 40.0, 80.0)] == pytest.approx([0.0, 0.01, 0.02])


def test_the_improvement_is_the_paper_s_statistic():
    assert improvement([0.026], [0.014]) == pytest.approx(85.7, abs=0.05)
    assert improvement([0.02, 0.04], [0.01, 0.03]) == pytest.approx(50.0)
    assert improvement([0.02], [0.0]) is None
    assert improvement([], [0.01]) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(3, 3.5), st.floats(0.1, 50)), max_size=20), st.floats(0, 300))
def test_a_larger_budget_never_has_a_smaller_margin(rows, budget):
    history = [attempt(place + 1, place + 1, row, loss, seconds) for place, (row, loss, seconds) in enumerate(rows)]
    found = crossings(history, 3.28)
    assert margin(found, budget) <= margin(found, 2 * budget)


def test_the_page_shows_both_arms_and_what_the_best_crossing_changed(tmp_path):
    seed = tmp_path / "seeds" / "old" / "train_gpt.py"
    seed.parent.mkdir(parents=True)
    seed.write_text("lr = 0\n<b>")
    runs = [run(tmp_path, "rpg", HISTORY), run(tmp_path, "vanilla", HISTORY[:2] + HISTORY[3:4])]
    text = section(experiments(runs))
    assert "3 of 5" in text
    assert "3.2700" in text
    assert "+lr = 2" in text
    assert "&lt;b&gt;" in text
    assert "seed old" in text


def test_a_run_that_is_no_race_has_no_such_section(tmp_path):
    plain = dataclasses.replace(run(tmp_path, "rpg", HISTORY), about={"task": "digits8x8"})
    assert target_of(plain) is None
    assert section(experiments([plain])) == ""
    odd = dataclasses.replace(plain, about={"race": "x", "target_loss": "low"})
    assert target_of(odd) is None


def test_the_seeds_of_a_run_are_the_parents_of_what_was_made_from_them(tmp_path):
    known = [
        Seed("old", "lr = 0\n", Record(True, 3.29, 55.0, "fine")),
        Seed("spare", "lr = 9\n", Record(True, 3.3, 60.0)),
    ]
    seeds.write(tmp_path / "seeds", known)
    gone = attempt(7, 4, 0, 3.2, 10.0, seed="gone")
    names, rows = with_seeds(run(tmp_path, "rpg", [*HISTORY, gone]))
    assert names == ["gone", "old"], "those that something was made from"
    assert [row.id for row in rows] == [-1, -2, 1, 2, 3, 4, 5, 6, 7]
    assert [row.parent for row in rows[2:]] == [-2, -2, 2, None, 3, None, -1]
    missing, old = rows[:2]
    assert (old.code, old.score, old.seconds, old.message, old.valid) == ("lr = 0\n", 3.29, 55.0, "fine", True)
    assert (missing.code, missing.score, missing.valid) == ("", None, False)
    assert rows[4] is HISTORY[2], "attempts with a parent stay as they are"


@pytest.mark.parametrize("name", ["..", ".", "nothing", "../seeds/..", "x\0y", "a" * 5000])
def test_a_seed_that_is_none_is_not_looked_for_elsewhere(tmp_path, name):
    (tmp_path / "train_gpt.py").write_text("secret")
    (tmp_path / "seeds").mkdir()
    assert kept_seed(run(tmp_path, "rpg", HISTORY), name) is None


def test_a_seed_whose_script_is_gone_is_said_to_be_gone(tmp_path):
    text = section(experiments([run(Path(tmp_path / "elsewhere"), "rpg", HISTORY[:2])]))
    assert "its script is gone" in text
