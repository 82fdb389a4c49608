from dataclasses import replace

import pytest

import made_run
import toy_agent
from rewardrate.errors import InputError
from rewardrate.reports import run as runs
from rewardrate.runlog import RunLog


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Both arms of the toy, trained for a few steps."""
    place = tmp_path_factory.mktemp("both")
    for arm in ("rpg", "vanilla"):
        loop = toy_agent.loop(place / arm, arm=arm, steps=6, batch=4)
        loop.run()
        loop.log.close()
    return place


def test_a_summary_is_what_the_attempts_say(folder):
    read = runs.read(folder / "rpg")
    found = runs.numbers(read)
    assert found["attempts"] == 24
    assert found["valid_share"] == 1.0
    reward, seconds = (sum(getattr(attempt, name) for attempt in read.attempts) for name in ("reward", "seconds"))
    assert found["reward_per_attempt"] == pytest.approx(reward / 24)
    assert found["reward_per_second"] == pytest.approx(reward / seconds)
    assert found["script_seconds"] == pytest.approx(seconds)
    assert all(name.isidentifier() for name in found)
    assert found["steps"] == 6


def test_both_arms_are_found_below_a_folder_and_compared(folder):
    both = runs.comparison(runs.find(folder))
    assert both is not None
    assert both.rpg.value is not None
    assert runs.comparison(runs.find(folder / "rpg")) is None


def test_the_best_script_is_the_highest_reward_and_then_the_quickest(folder):
    read = runs.read(folder / "vanilla")
    assert read.best.reward == 1.5
    assert read.quickest.reward == 1.0  # 1 in one second beats 1.5 in five


def test_the_best_script_of_a_race_is_the_one_with_the_highest_rank_key(tmp_path):
    def keyed(_, fields):
        return fields | ({"rank_key": -fields["reward"]} if fields["valid"] else {})

    read = runs.read(made_run.make(tmp_path / "run", steps=2, batch=4, spoil=keyed))
    worst = min(read.valid, key=lambda attempt: attempt.reward)
    assert read.best == worst
    assert runs.numbers(read)["best_reward"] == worst.reward


def test_a_folder_without_a_run_and_one_without_a_step_are_reported(folder, tmp_path):
    with pytest.raises(InputError, match="there is no run in it"):
        runs.find(tmp_path)
    loop = toy_agent.loop(tmp_path / "new", steps=1)
    loop.log.close()
    with pytest.raises(InputError, match="no finished step yet"):
        runs.read(tmp_path / "new")


def test_runs_of_different_tasks_are_not_compared(folder):
    first, second = runs.find(folder)
    with pytest.raises(InputError, match="different tasks or clocks"):
        runs.comparison([first, replace(second, about={**second.about, "task": "another"})])
    assert runs.comparison([first, replace(second, about={**second.about, "seed": "7"})]) is None


def test_runs_are_found_at_any_depth_and_grouped_by_task_and_arm(many):
    found = runs.experiments(runs.find(many))
    assert [one.task for one in found] == ["diamonds", "digits8x8", "grants"]
    for one in found:
        assert list(one.arms) == ["rpg", "vanilla"]
        assert [(rpg.seed, vanilla.seed) for rpg, vanilla in one.pairs] == [("0", "0"), ("1", "1")]
    assert [one.higher_is_better for one in found] == [False, True, True]


def test_every_arm_is_compared_with_vanilla(both, tmp_path):
    made_run.make(tmp_path / "horizon", arm="horizon", steps=6, batch=8)
    (one,) = runs.experiments([*runs.find(both), runs.read(tmp_path / "horizon")])
    assert list(one.arms) == ["rpg", "horizon", "vanilla"]
    assert (list(one.contrasts), one.first) == (["rpg", "horizon"], "rpg")
    assert one.compare(arm="horizon").vanilla.value == one.compare().vanilla.value
    assert one.compare(arm="horizon").rpg.value != one.compare().rpg.value
    assert one.compare(arm="nobody") is None
    (alone,) = runs.experiments([*runs.find(both / "vanilla"), runs.read(tmp_path / "horizon")])
    assert (alone.first, len(alone.pairs)) == ("horizon", 1)


def test_fixed_prices_are_arms_of_their_own_by_their_number(both, tmp_path):
    for number in (0.05, 0.5):
        made_run.make(tmp_path / str(number), arm="fixed", config=f"reward_per_second = {number}\n")
    (one,) = runs.experiments([*runs.find(both / "vanilla"), *runs.find(tmp_path)])
    assert list(one.contrasts) == ["fixed 0.05", "fixed 0.5"]
    assert runs.differing(one) == []


def test_T_is_the_stated_budget_of_script_seconds_once_all_runs_have_used_it_up(tmp_path):
    for seconds, stated in ((4.0, True), (1e6, False)):
        config = f"batch = 3\n[budget]\nscript_seconds = {seconds}\n"
        place = tmp_path / str(stated)
        for arm in ("rpg", "vanilla"):
            made_run.make(place / arm, arm=arm, steps=4, batch=3, config=config)
        (one,) = runs.experiments(runs.find(place))
        used = min(run.chains.total.mean() for run in one.runs)
        assert (one.stated, one.final) == (stated, pytest.approx(seconds / 3 if stated else used))
        assert one.compare().final == one.final


def test_the_held_out_reward_is_that_of_the_latest_report(both):
    read = runs.read(both / "rpg")
    assert read.held_out_reward == 0.9
    assert replace(read, events=()).held_out_reward is None


def test_a_seed_that_was_run_twice_is_paired_by_its_folder(both, tmp_path):
    for arm in ("rpg", "vanilla"):
        made_run.make(tmp_path / "again" / arm, arm=arm, steps=2, batch=3)
    (one,) = runs.experiments([*runs.find(both), *runs.find(tmp_path)])
    assert len(one.pairs) == 2
    assert all(rpg.folder.parent == vanilla.folder.parent for rpg, vanilla in one.pairs)


def test_other_price_scales_are_arms_of_their_own(both, tmp_path):
    config = '[objective]\narm = "rpg"\nprice_scale = 0.5\n'
    half = made_run.make(tmp_path / "half", steps=2, batch=3, config=config)
    (one,) = runs.experiments([*runs.find(both), runs.read(half)])
    assert list(one.arms) == ["rpg", "rpg x 0.5", "vanilla"]
    assert len(one.pairs) == 1
    assert runs.read(both / "vanilla").price_scale == 0.0


def test_a_run_that_cannot_be_read_is_left_out_unless_it_is_the_only_one(both, tmp_path):
    toy_agent.loop(tmp_path / "new", steps=1).log.close()
    made_run.make(tmp_path / "old", steps=1, batch=2)
    found, problems = runs.gather([tmp_path, both])
    assert [run.folder.name for run in found] == ["old", "rpg", "vanilla"]
    assert len(problems) == 1
    with pytest.raises(InputError, match="no finished step yet"):
        runs.gather([tmp_path / "new"])
    assert len(runs.gather([both, both / "rpg"])[0]) == 2  # named twice, read once
    assert len(runs.gather([both / "rpg", tmp_path / "new"])[1]) == 1


def test_a_score_without_a_direction_is_not_compared(tmp_path):
    run = runs.read(made_run.make(tmp_path / "run", steps=1, batch=2, task="of my own"))
    assert run.higher_is_better is None
    with pytest.raises(InputError, match="which way its metric points"):
        run.chains_of("score")
    told = replace(run, about={**run.about, "direction": "minimize"})
    assert told.higher_is_better is False
    bench = replace(run, about={**run.about, "task": "mlebench:leaf-classification"})
    assert bench.higher_is_better is False


def test_a_link_to_a_run_is_followed_and_a_circle_of_links_is_not(both, tmp_path):
    (tmp_path / "linked").symlink_to(both / "rpg")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert runs.folders(tmp_path) == [tmp_path / "linked"]


@pytest.mark.parametrize(
    ("config", "about", "event"),
    [
        (f"[budget]\nscript_seconds = 1{'0' * 400}\n", {}, ""),
        (f"batch = 1{'0' * 5000}\n", {}, ""),
        (f"[objective]\nprice_scale = 1{'0' * 400}\n", {}, ""),
        ("[budget]\nscript_seconds = true\n", {"seed": "9" * 5000}, "attempt 1: reward 1.2.3"),
        ("", {}, f"attempt 1: reward {'9' * 400}"),
    ],
)
def test_numbers_that_no_run_has_are_read_as_none(config, about, event, tmp_path):
    for arm in ("rpg", "vanilla"):
        folder = made_run.make(tmp_path / arm, arm=arm, steps=2, batch=2, config=config, about=about)
        with RunLog.open(folder) as log:
            log.note("report", event)
    found = runs.find(tmp_path)
    (one,) = runs.experiments(found)
    assert (one.stated, found[0].price_scale, found[0].held_out_reward in (None, 1.2)) == (False, 1.0, True)
    assert one.compare() is not None
    assert one.efficiency()["held_out_reward"].rpg.low is None


def test_T_follows_a_budget_that_has_grown(tmp_path):
    for arm in ("rpg", "vanilla"):
        config = "[budget]\nscript_seconds = 2.0\n"
        folder = made_run.make(tmp_path / arm, arm=arm, steps=4, batch=2, config=config)
        with RunLog.open(folder) as log:
            log.note("budget", "script_seconds = 6.0")
    (one,) = runs.experiments(runs.find(tmp_path))
    assert (one.stated, one.final) == (True, 3.0)
