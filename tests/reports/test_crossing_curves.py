"""The budget curve of a race, by hand."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_race import HISTORY, attempt, folder, run
from rewardrate.environments.speedrun import seeds
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.reports import files
from rewardrate.reports.crossing_curves import HEAD, by_chain, charts, curve, final, markdown, rows
from rewardrate.reports.page import page
from rewardrate.reports.run import experiments
from rewardrate.reports.speedrun import crossings, margin

BUDGETS = np.array([0.0, 39.0, 40.0, 80.0, 90.0, 500.0])


def test_a_chain_shows_its_best_crossing_by_a_budget(tmp_path):
    loss, seconds = (by_chain(run(tmp_path, "rpg", HISTORY), BUDGETS, kind) for kind in ("loss", "seconds"))
    inf = np.inf
    assert loss.T.tolist() == [[inf, inf, inf, 3.26, 3.26, 3.26], [inf, inf, 3.27, 3.27, 3.27, 3.27]]
    assert seconds.T.tolist() == [[inf, inf, inf, 30.0, 10.0, 10.0], [inf, inf, 40.0, 40.0, 40.0, 40.0]]


def test_a_run_shows_the_best_of_its_chains_and_the_target_before(tmp_path):
    found = curve([run(tmp_path, "rpg", HISTORY)], BUDGETS, "loss")
    assert found.mean.tolist() == [3.28, 3.28, 3.27, 3.26, 3.26, 3.26]
    assert np.all(found.low <= found.mean)
    assert np.all(found.mean <= found.high)
    assert found.high[-1] == 3.27, "a draw may miss the better chain"
    assert found.high[2] == 3.28, "or the only one"
    quick = curve([run(tmp_path, "rpg", HISTORY)], BUDGETS, "seconds")
    assert np.isnan(quick.mean[:2]).all()
    assert quick.mean[2:].tolist() == [40.0, 30.0, 10.0, 10.0]


def test_repetitions_are_averaged_and_seconds_need_them_all(tmp_path):
    late = [attempt(1, 1, 0, 3.30, 60.0), attempt(2, 2, 0, 3.20, 30.0)]
    both = [run(tmp_path, "rpg", HISTORY), run(tmp_path, "rpg", late)]
    assert curve(both, BUDGETS, "loss").mean == pytest.approx([3.28, 3.28, 3.275, 3.27, 3.23, 3.23])
    seconds = curve(both, BUDGETS, "seconds")
    assert np.isnan(seconds.mean[:4]).all()
    assert seconds.mean[4:].tolist() == [20.0, 20.0]
    assert curve(both, BUDGETS, "loss").repetitions.shape == (2, 6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.floats(3, 3.5), st.floats(0.1, 50)), min_size=1, max_size=12))
def test_the_curve_is_the_target_less_the_margin_and_never_rises(tmp_path_factory, drawn):
    history = [attempt(place + 1, place + 1, row, loss, spent) for place, (row, loss, spent) in enumerate(drawn)]
    made = run(tmp_path_factory.getbasetemp(), "rpg", history)
    found = curve([made], BUDGETS, "loss", draws=50)
    expected = [3.28 - margin(crossings(history, 3.28), budget) for budget in BUDGETS]
    assert found.mean == pytest.approx(expected)
    assert np.all(np.diff(found.mean) <= 0)
    assert np.all((found.low <= found.mean + 1e-9) & (found.mean <= found.high + 1e-9))


def pair(tmp_path):
    seeds.write(tmp_path / "seeds", [Seed("old", "lr = 0\n", Record(True, 3.275, 55.0, "fine"))])
    return [run(tmp_path, "rpg", HISTORY), run(tmp_path, "vanilla", HISTORY[:2] + HISTORY[3:4])]


def test_the_charts_have_both_arms_the_target_and_the_seed_at_time_zero(tmp_path):
    (experiment,) = experiments(pair(tmp_path))
    by_loss, by_seconds = charts(experiment)
    assert [line.label for line in by_loss.lines] == ["target", "best seed", "rpg", "vanilla"]
    assert by_loss.lines[1].x.tolist() == [0.0]
    assert by_loss.lines[1].y.tolist() == [3.275]
    assert [line.label for line in by_seconds.lines] == ["rpg", "vanilla"]
    assert by_loss.lines[2].x[-1] == final(experiment) == 55.0


def test_the_table_tells_both_curves_at_four_budgets(tmp_path):
    (experiment,) = experiments(pair(tmp_path))
    found = rows(experiment)
    assert [row[:2] for row in found[:4]] == [["rpg", "14"], ["rpg", "28"], ["rpg", "41"], ["rpg", "55"]]
    assert found[3][2:] == ["3.2700", "3.2700 to 3.2800", "0.0100", "40.0", "40.0 to 40.0"]
    assert found[0][2:] == ["3.2800", "3.2800 to 3.2800", "0.0000", "-", "-"]
    assert markdown(experiment).count("\n") == 2 + len(found)
    assert len(HEAD) == len(found[0])


def test_the_page_has_the_curves_and_the_table(tmp_path):
    text = page(pair(tmp_path), "race")
    assert 'id="crossing-curves"' in text
    assert "race-loss" in text
    assert "Fastest crossing at a time budget" in text
    assert "3.2700 to 3.2800" in text


def test_two_races_on_one_page_have_figures_of_their_own(tmp_path):
    first = pair(tmp_path)
    second = [dataclasses.replace(one, about={**one.about, "task": "other"}) for one in first]
    text = page([*first, *second], "races")
    assert text.count('id="crossing-curves"') == 1
    assert "race-loss-0" in text
    assert "race-loss-1" in text


def test_nothing_is_drawn_of_a_run_that_is_no_race_or_has_no_crossing(tmp_path):
    plain = dataclasses.replace(run(tmp_path, "rpg", HISTORY), about={"task": "digits8x8"})
    assert charts(experiments([plain])[0]) == []
    assert rows(experiments([plain])[0]) == []
    slow = run(tmp_path, "rpg", HISTORY[:1])
    assert charts(experiments([slow])[0]) == []
    assert "crossing-curves" not in page([slow], "race")


def test_figures_and_table_are_files_too(tmp_path):
    for arm in ("rpg", "vanilla"):
        folder(tmp_path / "race" / arm, arm)
    written = files.write([tmp_path / "race"], tmp_path / "out")
    names = {path.name for path in (*written.figures, *written.tables)}
    assert {"race-loss.svg", "race-loss.png", "race-seconds.svg", "race-seconds.png", "crossings.md"} <= names
