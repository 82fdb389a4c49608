"""What is in the folder of a comparison: nothing is used or left out without a word."""

import json
import shutil

import pytest

import made_comparison
from rewardrate.reports.comparison import ComparisonResult
from rewardrate.reports.survey import survey


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One task, two seeds, both arms."""
    return made_comparison.complete(tmp_path_factory.mktemp("survey") / "study", tasks=("diamonds",))


@pytest.fixture
def folder(whole, tmp_path):
    """A copy to damage."""
    shutil.copytree(whole.path, tmp_path / "study")
    return type(whole)(tmp_path / "study")


def found(folder):
    """Deviations, by block, and how many blocks are complete."""
    state = survey(folder)
    return state.deviations, len(state.complete)


def edit(folder, block, arm, **change):
    folder.note(block, arm, folder.notes(block)[arm] | change)


def test_a_folder_as_planned_has_no_deviation(whole):
    state = survey(whole)
    assert (state.deviations, state.finished, state.final) == ((), True, 20.0)
    assert [one.start for one in state.blocks] == [made_comparison.START] * 2


def test_what_was_not_begun_is_no_deviation_and_a_stopping_rule_may_want_fewer(folder, tmp_path):
    shutil.rmtree(folder.path / "diamonds-s1")
    state = survey(folder)
    assert (state.deviations, state.finished) == ((), False)
    fewer = made_comparison.freeze(tmp_path / "fewer", made_comparison.plan(tasks=("diamonds",), stop_after=1))
    shutil.copytree(folder.path / "diamonds-s0", fewer.path / "diamonds-s0")
    assert survey(fewer).finished


def test_an_arm_that_is_missing_or_ended_before_T_makes_a_block_unused(folder):
    first, second = folder.plan().blocks
    shutil.rmtree(folder.block(first) / "rpg")
    shutil.rmtree(folder.block(second) / "vanilla")
    made_comparison.add(folder, second, "vanilla", steps=1)
    deviations, complete = found(folder)
    assert complete == 0
    assert deviations[0] == "diamonds:0: rpg is missing (not used)"
    assert deviations[1].startswith("diamonds:1: vanilla ended, or stands, at ")
    assert deviations[1].endswith(" % of its script seconds (not used)") or "% of its script" in deviations[1]


def test_notes_that_do_not_match_are_deviations_of_a_block_that_is_used(folder):
    first, second = folder.plan().blocks
    edit(folder, first, "rpg", plan="c" * 64, start="b" * 64)
    sitting = folder.notes(second)["rpg"]["sittings"][0]
    edit(folder, second, "rpg", sittings=[sitting | {"side_by_side": 5, "slots": 3}])
    deviations, complete = found(folder)
    assert complete == 2
    assert deviations == (
        "diamonds:0: rpg: run under another plan (cccccccccccc) (used)",
        "diamonds:0: its arms began from 2 different starts (used)",
        "diamonds:1: its arms were run with 2 and 5 runs side by side (used)",
        "diamonds:1: its arms were run with 1 and 3 slots (used)",
    )


def test_a_block_without_notes_is_used_and_said(folder):
    (folder.path / "diamonds-s0" / "block.json").unlink()
    deviations, complete = found(folder)
    assert complete == 2
    assert deviations == tuple(
        f"diamonds:0: {arm}: there is no note of its start and plan (used)" for arm in ("vanilla", "rpg")
    )


def test_other_settings_are_named_but_not_those_in_which_runs_differ_anyway(folder):
    path = folder.path / "diamonds-s0" / "rpg" / "config.toml"
    text = path.read_text().replace('name = "tiny"', 'name = "elsewhere"')
    path.write_text(text)
    assert found(folder)[0] == ()
    path.write_text(text.replace("penalty = -1.0", "penalty = -2.0"))
    assert found(folder)[0] == ("diamonds:0: rpg: other settings: objective.penalty (used)",)


def test_contaminated_measurements_count_above_two_in_a_hundred(folder):
    first, second = folder.plan().blocks
    for block, every in ((first, 60), (second, 20)):
        shutil.rmtree(folder.block(block) / "rpg")
        made_comparison.add(
            folder,
            block,
            "rpg",
            spoil=lambda number, fields, every=every: fields | {"contaminated": not number % every},
        )
    deviations, complete = found(folder)
    assert complete == 2
    assert deviations == ("diamonds:1: rpg: 4.8% of its measurements shared their cores with other work (used)",)


def test_runs_that_are_another_or_cannot_be_read_are_not_used(folder):
    first, second = folder.plan().blocks
    shutil.rmtree(folder.block(first) / "rpg")
    shutil.copytree(folder.block(first) / "vanilla", folder.block(first) / "rpg")
    (folder.block(second) / "rpg" / "run.sqlite").write_bytes(b"nothing")
    deviations, complete = found(folder)
    assert complete == 0
    assert deviations[0] == "diamonds:0: rpg: its record says arm 'vanilla' (not used)"
    assert "is damaged or not a run log" in deviations[1]


def test_an_arm_with_settings_of_its_own_is_held_to_those_and_shown_by_its_name(tmp_path):
    variants = ("cheap: rpg objective.price_scale=0.25", "buffer-only: rpg objective.price_in=buffer")
    arms = ("vanilla", "rpg", "cheap", "buffer-only")
    folder = made_comparison.complete(tmp_path / "study", tasks=("diamonds",), seeds=(0,), arms=arms, variants=variants)
    state = survey(folder)
    assert (state.deviations, len(state.complete)) == ((), 1)
    assert [run.label for run in state.blocks[0].runs.values()] == ["vanilla", "rpg", "cheap", "buffer-only"]
    names = [one.name for one in ComparisonResult(state).contrasts]
    assert names[:3] == ["rpg less vanilla", "cheap less vanilla", "buffer-only less vanilla"]
    block = folder.plan().blocks[0]
    shutil.rmtree(folder.run(block, "cheap"))
    shutil.copytree(folder.run(block, "buffer-only"), folder.run(block, "cheap"))
    shutil.copytree(folder.run(block, "rpg"), folder.block(block) / "cheap" / "horizon")
    settings = "objective.price_in, objective.price_scale"
    assert found(folder)[0] == (
        "diamonds-s0/cheap/horizon: the plan does not name it (not used)",
        f"diamonds:0: cheap: other settings: {settings} (used)",
    )


def test_folders_that_the_plan_does_not_name_are_listed(folder):
    shutil.copytree(folder.path / "diamonds-s0", folder.path / "diamonds-s7")
    shutil.copytree(folder.path / "diamonds-s0" / "rpg", folder.path / "diamonds-s0" / "horizon")
    assert found(folder) == (
        (
            "diamonds-s0/horizon: the plan does not name it (not used)",
            "diamonds-s7/rpg: the plan does not name it (not used)",
            "diamonds-s7/vanilla: the plan does not name it (not used)",
        ),
        2,
    )


def test_changes_of_the_plan_and_a_plan_younger_than_its_runs_are_deviations(folder):
    path = folder.path / "plan.json"
    state = json.loads(path.read_text())
    state |= {"frozen": "2099-06-01T00:00:00Z"}
    state["changes"] = [{"setting": "seeds", "was": [0], "now": [0, 1], "on": "2099-05-01T00:00:00Z"}]
    path.write_text(json.dumps(state))
    assert found(folder)[0] == (
        "the plan was changed on 2099-05-01T00:00:00Z: seeds from [0] to [0, 1]",
        "the plan in this folder was written down on 2099-06-01T00:00:00Z, the first run began on 2099-01-01T00:00:00Z",
    )
