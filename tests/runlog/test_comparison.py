"""The plan of a comparison is written down once; what differs from it afterwards is refused by name, or on record."""

import json
import shutil
import tomllib

import pytest

import made_comparison
from rewardrate import config
from rewardrate.errors import InputError
from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan, PretrainedStart, TaskBlock, digest
from rewardrate.runlog.folder import WriterLock
from rewardrate.training import comparison as training
from rewardrate.training.comparison import resolve

NAMED = made_comparison.plan()
RECIPE = config.dumps(resolve(NAMED))


@pytest.fixture
def folder(tmp_path):
    found = ComparisonFolder(tmp_path / "study")
    found.freeze(NAMED, RECIPE)
    return found


def test_a_frozen_plan_reads_back_with_the_digest_of_plan_and_recipe(folder):
    assert folder.frozen()
    assert (folder.plan(), folder.recipe()) == (NAMED, RECIPE)
    state = folder.state()
    assert state["sha256"] == digest(config.dumps(NAMED), RECIPE)
    assert state["changes"] == []
    before = (folder.path / "plan.json").read_bytes()
    folder.freeze(NAMED, RECIPE)
    assert (folder.path / "plan.json").read_bytes() == before, "the same plan again changes nothing"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seeds": (0, 1, 2)}, "seeds"),
        ({"script_seconds": 25.0}, "script_seconds"),
        ({"hypothesis": "vanilla wins"}, "hypothesis"),
        ({"start": PretrainedStart()}, "start.kind"),
    ],
)
def test_another_plan_is_refused_with_the_first_setting_that_differs(folder, change, named):
    other = made_comparison.plan(**change)
    with pytest.raises(InputError, match="was frozen on") as error:
        folder.freeze(other, RECIPE)
    assert error.value.field == named
    assert folder.plan() == NAMED, "nothing was written"


def test_a_recipe_that_changed_under_its_name_is_refused_too(folder):
    with pytest.raises(InputError, match=r"recipe: objective\.penalty"):
        folder.freeze(NAMED, RECIPE.replace("penalty = -1.0", "penalty = -2.0"))


def test_a_change_that_is_accepted_is_on_record(folder):
    other = made_comparison.plan(seeds=(0, 1, 2))
    folder.freeze(other, RECIPE, accept_changes=True)
    state = folder.state()
    assert folder.plan() == other
    assert state["sha256"] == digest(config.dumps(other), RECIPE)
    (change,) = state["changes"]
    assert (change["setting"], change["was"], change["now"]) == ("seeds", [0, 1], [0, 1, 2])


def test_a_plan_that_was_edited_after_it_was_frozen_is_noticed_and_the_frozen_one_puts_it_back(folder):
    path = folder.path / "plan.toml"
    path.write_text(path.read_text().replace("seeds = [0, 1]", "seeds = [0]"))
    with pytest.raises(InputError, match="edited after it was frozen"):
        folder.state()
    other = made_comparison.plan(seeds=(0,))
    with pytest.raises(InputError, match="edited after it was frozen"):
        folder.freeze(other, RECIPE)
    folder.freeze(NAMED, RECIPE)
    assert (folder.plan(), folder.state()["changes"]) == (NAMED, [])
    path.write_text(path.read_text().replace("seeds = [0, 1]", "seeds = [0]"))
    folder.freeze(other, RECIPE, accept_changes=True)
    assert [change["setting"] for change in folder.state()["changes"]] == ["sha256"]


def test_a_change_that_is_killed_between_two_files_is_completed_by_the_same_command(folder, tmp_path):
    other, recipe = made_comparison.plan(seeds=(0, 1, 2)), RECIPE.replace("penalty = -1.0", "penalty = -2.0")
    whole = ComparisonFolder(tmp_path / "whole")
    shutil.copytree(folder.path, whole.path)
    whole.freeze(other, recipe, accept_changes=True)
    for written in (("plan.json",), ("plan.json", "recipe.toml")):
        half = ComparisonFolder(tmp_path / f"half-{len(written)}")
        shutil.copytree(folder.path, half.path)
        for name in written:
            shutil.copy(whole.path / name, half.path / name)
        with pytest.raises(InputError, match="edited after it was frozen"):
            half.state()
        half.freeze(other, recipe)
        assert (half.plan(), half.recipe(), half.state()) == (other, recipe, whole.state())
        assert [change["setting"] for change in half.state()["changes"]] == ["seeds", "recipe: objective.penalty"]


def test_a_first_plan_that_was_killed_before_the_last_file_is_written_anew(tmp_path):
    folder = ComparisonFolder(tmp_path / "new")
    folder.path.mkdir()
    (folder.path / "recipe.toml").write_text("half")
    assert not folder.frozen()
    folder.freeze(NAMED, RECIPE)
    assert (folder.plan(), folder.recipe(), folder.state()["changes"]) == (NAMED, RECIPE, [])


def test_a_plan_is_not_changed_under_a_sitting_and_the_same_one_is_no_change(folder):
    lock = WriterLock(folder.path)
    try:
        folder.freeze(NAMED, RECIPE)
        with pytest.raises(InputError, match="another process"):
            folder.freeze(made_comparison.plan(seeds=(0,)), RECIPE, accept_changes=True)
    finally:
        lock.release()
    assert folder.plan() == NAMED


VARIANTS = {
    "arms": ("vanilla", "rpg", "buffer-only"),
    "variants": ("buffer-only: rpg objective.price_in=buffer objective.penalty=-2",),
}


def test_an_arm_with_settings_of_its_own_has_a_recipe_and_a_folder_of_its_own(tmp_path):
    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan(**VARIANTS))
    block = folder.plan().blocks[0]
    assert folder.settings("buffer-only")["objective.price_in"] == "buffer"
    assert folder.settings("rpg") == folder.settings() == tomllib_leaves(folder.path / "recipe.toml")
    assert folder.run(block, "buffer-only") == folder.block(block) / "buffer-only" / "rpg"
    assert folder.run(block, "rpg") == folder.block(block) / "rpg"
    texts = [(folder.path / name).read_text() for name in ("plan.toml", "recipe.toml", "recipe-buffer-only.toml")]
    assert folder.state()["sha256"] == digest(*texts)
    (folder.path / "recipe-buffer-only.toml").write_text(texts[2].replace("-2.0", "-3.0"))
    with pytest.raises(InputError, match="edited after it was frozen"):
        folder.state()


def test_a_changed_setting_of_one_arm_is_named(tmp_path):
    folder = made_comparison.freeze(tmp_path / "study", made_comparison.plan(**VARIANTS))
    other = made_comparison.plan(**VARIANTS | {"variants": ("buffer-only: rpg objective.price_in=buffer",)})
    with pytest.raises(InputError, match="buffer-only: rpg") as error:
        training.freeze(folder, other)
    assert error.value.field == "variants"
    training.freeze(folder, other, accept_changes=True)
    assert [change["setting"] for change in folder.state()["changes"]] == [
        "variants",
        "recipe-buffer-only: objective.penalty",
    ]


def tomllib_leaves(path):
    return config.leaves(tomllib.loads(path.read_text()))


@pytest.mark.parametrize(
    "text", ["buffer", "buffer:", ": rpg", "a b: rpg", "../x: rpg", "a: rpg price", "a: rpg 'b=1", "-a: rpg b=1"]
)
def test_an_arm_that_does_not_read_as_one_is_refused(text):
    with pytest.raises(InputError, match=r"NAME: ARM|key=value"):
        made_comparison.plan(arms=("vanilla", "a"), variants=(text,))


@pytest.mark.parametrize("variants", [("a: rpg window=3", "a: rpg window=4"), ("b: rpg window=3",)])
def test_an_arm_is_described_once_and_stands_among_the_arms(variants):
    with pytest.raises(InputError, match="stand in arms, and be described once"):
        made_comparison.plan(arms=("vanilla", "a"), variants=variants)


@pytest.mark.parametrize("name", ["plan.toml", "recipe.toml"])
def test_a_file_of_the_plan_that_was_not_copied_is_named(folder, name):
    (folder.path / name).unlink()
    with pytest.raises(InputError, match="belongs to the frozen plan") as error:
        folder.state()
    assert (error.value.value, error.value.remedy) == (
        str(folder.path / name),
        "copy it from where the plan was frozen",
    )


def test_notes_of_arms_are_kept_beside_each_other_and_a_damaged_file_is_named(folder):
    block = TaskBlock("tasks/diamonds", 3)
    assert folder.notes(block) == {}
    folder.note(block, "rpg", {"start": "a"})
    folder.note(block, "vanilla", {"start": "b"})
    folder.note(block, "rpg", {"start": "c"})
    assert folder.notes(block) == {"rpg": {"start": "c"}, "vanilla": {"start": "b"}}
    path = folder.path / "diamonds-s3" / "block.json"
    assert json.loads(path.read_text())["task"] == "tasks/diamonds"
    for text in ("{", "[]", '{"runs": {"rpg": 1}}'):
        path.write_text(text)
        with pytest.raises(InputError, match=r"cannot be read|damaged"):
            folder.notes(block)


def test_every_arm_of_a_plan_is_first_equally_often_and_an_early_end_has_all_tasks():
    plan = made_comparison.plan(arms=("vanilla", "rpg", "horizon"))
    orders = [plan.order(block) for block in plan.blocks]
    assert [order[0] for order in orders] == ["vanilla", "rpg", "horizon", "rpg", "horizon", "vanilla"]
    assert all(sorted(order) == sorted(plan.arms) for order in orders)
    assert {block.task for block in plan.blocks[:3]} == set(plan.tasks)
    assert plan.needed == 6
    assert made_comparison.plan(stop_after=4).needed == 4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tasks": ()}, "tasks"),
        ({"tasks": ("a/diamonds", "b/diamonds")}, "tasks"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"arms": ("rpg", "rpg")}, "arms"),
        ({"arms": ("vanilla",)}, "baseline"),
        ({"baseline": "horizon"}, "baseline"),
        ({"stop_after": 7}, "stop_after"),
    ],
)
def test_a_plan_that_says_nothing_sensible_is_refused_by_the_setting(change, field):
    with pytest.raises(InputError) as error:
        made_comparison.plan(**change)
    assert error.value.field == field


def test_a_block_is_found_by_task_and_seed():
    plan = made_comparison.plan(tasks=("here/diamonds", "grants"))
    for words in ("diamonds:1", "here/diamonds:1", "diamonds-s1"):
        assert plan.find(words) == TaskBlock("here/diamonds", 1)
    for words in ("diamonds", "diamonds:2", ":1", "mnist-5k:0"):
        with pytest.raises(InputError, match="TASK:SEED"):
            plan.find(words)


def test_a_plan_is_toml_and_an_unknown_key_is_refused(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(config.dumps(NAMED, explain=True))
    assert config.load(ComparisonPlan, path) == NAMED
    path.write_text(config.dumps(NAMED) + "\n[start2]\nkind = 'model'\n")
    with pytest.raises(InputError, match="did you mean 'start'"):
        config.load(ComparisonPlan, path)
