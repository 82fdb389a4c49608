import shutil
from dataclasses import replace

import pytest

from fuzz import sizes
from rewardrate.environments.mle import load, validation
from rewardrate.environments.mle.environment import Settings
from rewardrate.environments.mle.folder import shipped
from rewardrate.errors import InputError
from rewardrate.sandbox import Pool
from rewardrate.sandbox.runner import isolation

boxed = pytest.mark.skipif(
    not isolation().level.name.startswith("namespaces"), reason="this machine allows no namespaces"
)


def test_a_sound_task_passes_every_check_of_its_grader(task):
    checks = list(validation.prepare_and_check(task))
    assert len(checks) > 12
    assert [check for check in checks if not check.passed] == []


def test_a_grader_that_likes_everything_is_found_out(task):
    lax = replace(task, grade_function=lambda submission, answers: 0.99)
    failed = [check.name for check in validation.check_answers(lax) if not check.passed]
    assert "the true answers beat every reference (reward)" in failed
    flat = replace(task, grade_function=lambda submission, answers: 1.0 if submission["benign"].nunique() > 1 else 0.5)
    failed = [check.name for check in validation.check_answers(flat) if not check.passed]
    assert failed == [
        "the true answers beat answers with mistakes (reward)",
        "the true answers beat answers with mistakes (report)",
        "true answers on the wrong rows are worth little",
    ]


def test_a_direction_that_is_the_wrong_way_round_is_found_without_any_leaderboard(task):
    wrong = replace(task, direction="minimize", references=())
    failed = {check.name: check.found for check in validation.check_answers(wrong) if not check.passed}
    assert "the true answers beat the sample submission (reward)" in failed
    assert "the true answers beat answers with mistakes (report)" in failed
    assert all("`direction: minimize` in config.yaml" in found for found in failed.values())


def test_a_measurement_is_written_only_when_every_check_passes(folder, tmp_path):
    import shutil

    copy = tmp_path / "tumours"
    shutil.copytree(folder, copy)
    (copy / "leaderboard.csv").unlink()
    own = load(str(copy), data=tmp_path / "data")
    rows = [row("01_one_measure", 0.94), row("02_logistic", 0.995), row("00_copy_sample", 0.5)]
    wrong = validation.check_and_write(replace(own, direction="minimize"), rows)
    assert not wrong[-1].passed
    assert not (copy / "leaderboard.csv").exists()
    assert any("wrong way round" in check.found for check in wrong)
    broken = validation.check_and_write(own, [*rows[:1], row("02_logistic", None, status="error")])
    assert not broken[-1].passed
    assert list(copy.glob("leaderboard*")) == []
    right = validation.check_and_write(own, rows)
    assert [check for check in right if not check.passed] == []
    assert [reference.script for reference in load(str(copy)).references] == ["02_logistic", "01_one_measure"]


def test_a_hidden_path_that_is_not_there_fails(task):
    (good,) = validation.check_hiding(task)
    assert good.passed
    typo = replace(task, source=replace(task.source, hide=("sklearn/datasets/data", "sklearn/datasets/dta")))
    (bad,) = validation.check_hiding(typo)
    assert (bad.passed, bad.found) == (False, "sklearn/datasets/dta")


def row(script, score, **changes):
    values = {"status": "ok", "report": 0.9, "seconds": 1.0, "cpu_seconds": 1.0, "message": "", "clean": True}
    return validation.Measured(script, score=score, **{**values, **changes})


def test_data_of_a_package_of_which_nothing_is_hidden_fail(task):
    assert all(check.passed for check in validation.check_hiding(task))
    bare = replace(task, source=replace(task.source, package="scikit-learn", hide=()))
    (found,) = [check for check in validation.check_hiding(bare) if not check.passed]
    assert "nothing of scikit-learn is" in found.found


def test_a_score_that_is_not_reproduced_fails(task):
    good = [
        row("02_logistic", 0.995, report=0.994),
        row("01_one_measure", 0.94, report=0.93),
        row("00_copy_sample", 0.5),
    ]
    assert all(check.passed for check in validation.check_references(task, good))
    off = [row("02_logistic", 0.97, report=0.994), row("01_one_measure", None, status="error", message="boom")]
    failed = {check.name: check.found for check in validation.check_references(task, off) if not check.passed}
    assert "reproduced: 02_logistic" in failed
    assert failed["runs: 01_one_measure"] == "error: boom"
    unknown = [row("09_new", 0.9)]
    assert "--measure" in [c for c in validation.check_references(task, unknown) if not c.passed][-1].found


def test_a_script_that_failed_is_not_written_into_a_leaderboard(task):
    before = (task.folder / "leaderboard.csv").read_text()
    with pytest.raises(InputError, match="01_one_measure"):
        validation.write_leaderboard(task, [row("02_logistic", 0.99), row("01_one_measure", None, status="timeout")])
    assert (task.folder / "leaderboard.csv").read_text() == before


@boxed
def test_reference_scripts_are_run_graded_on_both_splits_and_written_best_first(folder, tmp_path):
    copy = tmp_path / "tumours"
    shutil.copytree(folder, copy)
    own = load(str(copy), data=tmp_path / "data")
    list(validation.prepare_and_check(own))
    seen = []
    with Pool(repeats=0) as pool:
        measured = validation.measure(own, pool, Settings(cores=1), on_done=seen.append)
    assert seen == [1, 2, 3]
    assert [row.script for row in measured] == ["00_copy_sample", "01_one_measure", "02_logistic"]
    assert all(row.status == "ok" and row.report is not None for row in measured)
    validation.write_leaderboard(own, measured)
    again = load(str(copy), data=tmp_path / "data")
    assert [reference.script for reference in again.references] == ["02_logistic", "01_one_measure"]
    assert all(check.passed for check in validation.check_references(again, measured))


@boxed
@pytest.mark.parametrize("name", sizes(sorted(shipped()), every=3))
def test_a_shipped_task_is_sound_and_its_quickest_script_is_reproduced(name, tmp_path_factory):
    """The whole of `tasks validate` takes an hour; this checks every grader and each task's quickest honest script."""
    own = load(name, data=tmp_path_factory.getbasetemp() / "tasks")
    checks = list(validation.prepare_and_check(own))
    quickest = min(own.references, key=lambda reference: reference.seconds).script
    with Pool(clock="warm", repeats=0) as pool:  # scores are compared, not seconds
        measured = validation.measure(own, pool, Settings(cores=1), names=[quickest, validation.COPY])
    checks += list(validation.check_references(own, measured))
    failed = [check for check in checks if not check.passed and not check.name.startswith("at least")]
    assert failed == []
    assert len(own.references) >= 6
