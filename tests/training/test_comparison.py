"""The runs of a comparison before they begin: one recipe, one start, and only blocks that end in time."""

import os
from hashlib import sha256

import pytest

import made_comparison
from rewardrate.errors import InputError
from rewardrate.runlog.comparison import ModelStart, PretrainedStart
from rewardrate.sandbox import cores
from rewardrate.training import comparison
from rewardrate.training.comparison import (
    RunTimes,
    check,
    example,
    fitting,
    guessed_pace,
    makespan,
    resolve,
    settings_of,
    side_by_side,
    start_digest,
    used,
)


def test_the_example_is_a_plan_that_resolves():
    recipe = resolve(example())
    assert (recipe.budget.script_seconds, recipe.sandbox.slots, recipe.task) == (480.0, 2, "diamonds")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arms": ("vanilla", "rgp")}, "did you mean 'rpg'"),
        ({"settings": ("seed=3",)}, "set seeds"),
        ({"settings": ("budget.script_seconds=3",)}, "set script_seconds"),
        ({"settings": ("policy.name=tiny",)}, r"set start\.name"),
        ({"settings": ("objective.penatly=-3",)}, "did you mean 'penalty'"),
        ({"arms": ("vanilla", "a"), "variants": ("a: rgp window=3",)}, "did you mean 'rpg'"),
        ({"arms": ("vanilla", "a"), "variants": ("a: rpg batch=8",)}, "the same for all arms"),
        ({"arms": ("vanilla", "a"), "variants": ("a: rpg environment.time_limit=8",)}, "the same for all arms"),
        ({"arms": ("vanilla", "a"), "variants": ("a: rpg price=horizon",)}, "set arms"),
        ({"arms": ("vanilla", "a"), "variants": ("a: rpg objective.penatly=-3",)}, "did you mean 'penalty'"),
        ({"arms": ("vanilla", "rpg"), "variants": ("rpg: rpg window=3",)}, "choose another name"),
        ({"recipe": "lapptop"}, "did you mean 'laptop'"),
        ({"recipe": "sql-tuning", "settings": (), "start": ModelStart(name="tiny")}, "endpoint"),
        ({"recipe": "sql-tuning", "settings": (), "start": PretrainedStart()}, "endpoint"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_written(change, words):
    with pytest.raises(InputError, match=words):
        resolve(made_comparison.plan(**change))


def test_all_runs_begin_from_the_start_that_the_plan_names(tmp_path):
    for start, name in (
        (ModelStart(), '"tiny"'),
        (ModelStart(name="runs/start"), '"runs/start"'),
        (PretrainedStart(), f'"{tmp_path / "start"}"'),
    ):
        plan = made_comparison.plan(start=start)
        assert settings_of(plan, resolve(plan), tmp_path) == (f"policy.name={name}",)
    endpoint = made_comparison.plan(recipe="sql-tuning", settings=())
    assert settings_of(endpoint, resolve(endpoint), tmp_path) == ()


def test_a_start_is_known_by_its_weights(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"one")
    assert start_digest(str(tmp_path)) == sha256(b"one").hexdigest()
    assert start_digest(str(tmp_path / "model.safetensors")) == sha256(b"one").hexdigest()
    assert start_digest("someone/model") == "name:someone/model"
    assert len(start_digest("tiny")) == 64
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no weights"):
        start_digest(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("width", "left", "blocks"),
    [(5, 99, 0), (5, 100, 1), (5, 199, 1), (5, 200, 3), (3, 200, 2), (1, 899, 2), (1, 900, 3), (20, 100, 3)],
)
def test_only_blocks_whose_last_run_ends_in_time_are_begun(width, left, blocks):
    assert fitting([[100.0] * 3] * 3, width, left) == blocks


def test_a_long_block_is_not_passed_over_and_a_complete_one_takes_no_time():
    assert fitting([[10.0] * 3, [500.0] * 3, [10.0] * 3], 3, 100.0) == 1
    assert fitting([[], [], [50.0]], 1, 50.0) == 3
    assert fitting([[], [60.0]], 1, 50.0) == 1
    assert fitting([], 1, 0.0) == 0


def test_runs_under_way_take_their_places_first():
    assert fitting([[10.0]], 2, 10.0, busy=[30.0]) == 1
    assert fitting([[10.0, 10.0]], 2, 15.0, busy=[30.0]) == 0
    assert fitting([[10.0]], 1, 39.0, busy=[30.0]) == 0
    assert makespan([10.0, 10.0, 10.0], 2) == 20.0
    assert makespan([10.0], 2, busy=[30.0, 5.0]) == 30.0
    assert makespan([], 3) == 0.0


def test_as_many_runs_as_the_cores_allow(monkeypatch):
    monkeypatch.setattr(cores, "usable", lambda: list(range(8)))
    three, free = made_comparison.plan(settings=("sandbox.slots=3",)), made_comparison.plan(settings=())
    assert side_by_side(resolve(three), None, 1) == (2, 3)
    assert side_by_side(resolve(three), None, 2) == (1, 3)
    assert side_by_side(resolve(three), 1, 1) == (1, 3)
    assert side_by_side(resolve(free), None, 1) == (1, 8)
    with pytest.raises(InputError, match="cores for 2"):
        side_by_side(resolve(three), 3, 1)
    with pytest.raises(InputError, match=r'add "sandbox\.slots=4"'):
        side_by_side(resolve(free), 2, 1)


def test_a_task_that_is_not_there_is_said_before_anything_is_run():
    recipe = resolve(made_comparison.plan())
    check(recipe, ["digits8x8"], None)
    with pytest.raises(InputError, match="did you mean 'diamonds'"):
        check(recipe, ["digits8x8", "diamond"], None)
    with pytest.raises(InputError, match="--jobs"):
        check(recipe, ["digits8x8"], 1000)
    check(recipe, ["digits8x8"], None, "")
    with pytest.raises(InputError, match=r"model = '\./nowhere'"):
        check(recipe, ["digits8x8"], None, "./nowhere")


def test_a_forecast_is_the_pace_so_far_and_nothing_for_what_has_reached_T(tmp_path):
    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan())
    plan = folder.plan()
    first, second, third, *_ = plan.blocks
    assert used(folder.block(first) / "rpg") == (0.0, 0.0)
    before = RunTimes(folder, plan, slots=2)
    assert before.run(first, "rpg") == pytest.approx(plan.script_seconds * guessed_pace(2))
    made_comparison.add(folder, first, "vanilla")
    made_comparison.add(folder, first, "rpg", steps=1)
    script, wall = (sum(column) for column in zip(*(used(folder.block(first) / arm) for arm in plan.arms), strict=True))
    now = RunTimes(folder, plan, slots=2)
    assert now.run(first, "vanilla") == 0.0
    assert not now.complete(first)
    assert now.run(second, "rpg") == pytest.approx(plan.script_seconds * wall / script)
    assert now.look(first, "rpg") == pytest.approx(used(folder.block(first) / "rpg")[0] / plan.script_seconds)
    made_comparison.add(folder, second, "rpg", steps=2)
    other = used(folder.block(second) / "rpg")
    now.look(second, "rpg")
    assert now.run(second, "vanilla") == pytest.approx(plan.script_seconds * other[1] / other[0]), "by its own task"
    assert now.run(third, "rpg") != now.run(second, "vanilla")


def test_a_log_that_cannot_be_read_this_moment_changes_no_expectation(tmp_path):
    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan())
    block = folder.plan().blocks[0]
    path = made_comparison.add(folder, block, "rpg", steps=1)
    times = RunTimes(folder, folder.plan(), slots=1)
    share = times.look(block, "rpg")
    os.truncate(path / "run.sqlite", 100)
    assert times.look(block, "rpg") == share > 0


def test_the_arms_of_a_plan_are_those_of_a_recipe():
    recipe = resolve(made_comparison.plan())
    assert [recipe.with_arm(arm).arm for arm in comparison.ARMS] == list(comparison.ARMS)
