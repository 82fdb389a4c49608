import shutil
from dataclasses import replace

import pytest

from rewardrate.environments.mle import load
from rewardrate.environments.mle.task import read_leaderboard
from rewardrate.errors import InputError


def submission(task, values):
    return (
        "id,benign\n" + "".join(f"{key},{value}\n" for key, value in zip(task.form.ids, values, strict=True))
    ).encode()


def test_the_sample_submission_is_the_baseline(task, sample):
    assert task.grade(sample).score == task.baseline == 0.5


def test_a_submission_is_judged_on_the_rows_of_one_split_only(task):
    import pandas as pd

    split = pd.read_csv(task.private / "split.csv").set_index("id")["split"]
    answers = pd.read_csv(task.private / "test.csv").set_index("id")["benign"]
    keys = [int(key) for key in task.form.ids]
    right_on_reward = [answers[key] if split[key] == "reward" else 1 - answers[key] for key in keys]
    data = submission(task, right_on_reward)
    assert task.grade(data, "reward").score == 1.0
    assert task.grade(data, "report").score == 0.0, "a score of 0 is a score"
    assert task.grade(data, "report").valid


def test_a_refused_submission_says_why_and_raises_nothing(task):
    assert task.grade(b"").message == "submission.csv is empty"
    assert not task.grade(b"").valid
    assert task.grade(b"").score is None


def test_rewards_are_gain_by_default_and_percentile_or_raw_if_asked(task):
    assert task.reward_of(0.995) == pytest.approx(1.0)
    assert task.reward_of(0.7475) == pytest.approx(0.5)
    assert task.reward_of(0.96, "percentile") == 0.5
    assert task.reward_of(0.96, "raw") == 0.96
    assert not task.gains(0.5)
    assert not task.gains(0.3)
    assert task.gains(0.500001)
    assert task.gains(0.3, "raw"), "the paper's kinds know no baseline"


def test_a_task_that_is_not_prepared_says_how(folder, tmp_path):
    bare = load(str(folder), data=tmp_path)
    with pytest.raises(InputError, match=r"rewardrate tasks prepare .*tumours"):
        bare.grade(b"x")


def test_data_that_another_prepare_py_made_are_not_taken_for_ones_own(task, tmp_path):
    copy = tmp_path / "tumours"
    shutil.copytree(task.folder, copy)
    (copy / "prepare.py").write_text((copy / "prepare.py").read_text() + "# other\n")
    with pytest.raises(InputError, match=r"made by another prepare\.py"):
        load(str(copy), data=task.public.parents[2]).grade(b"x")


def test_a_task_without_a_report_split_says_so(task, tmp_path):
    import shutil

    shutil.copytree(task.private, tmp_path / "private")
    (tmp_path / "private" / "split.csv").unlink()
    alone = replace(task, private=tmp_path / "private")
    assert alone.grade((task.public / "sample_submission.csv").read_bytes()).valid
    with pytest.raises(InputError, match="no report split"):
        alone.grade((task.public / "sample_submission.csv").read_bytes(), "report")


def test_answers_with_other_ids_than_the_sample_are_refused(task, tmp_path, sample):
    (tmp_path / "test.csv").write_text("id,benign\n1,0\n")
    with pytest.raises(InputError, match="not those of the sample"):
        replace(task, private=tmp_path).grade(sample)


def test_an_overflow_in_the_metric_is_a_refusal_not_a_score(task, sample):
    wild = replace(task, grade_function=lambda submission, answers: float("inf"))
    assert wild.grade(sample).message.startswith("its score is not a number")
    fussy = replace(task, grade_function=lambda submission, answers: int("seven"))
    assert fussy.grade(sample).message.startswith("it cannot be graded: invalid literal")
    clumsy = replace(task, grade_function=lambda submission, answers: submission["no such column"])
    assert clumsy.grade(sample).message.startswith("the grader failed on it: KeyError")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rank,points\n1,0.5\n", "no column `score`"),
        ("score\n0.5\n0.9\n", "not sorted best first"),
        ("score\nnan\n", "finite number"),
        ("score\nhigh\n", "finite number"),
        ("score,seconds\n0.5,soon\n", "seconds must be a finite number"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git-LFS pointer"),
    ],
)
def test_a_broken_leaderboard_is_refused(text, why, tmp_path):
    (tmp_path / "leaderboard.csv").write_text(text)
    with pytest.raises(InputError, match=why):
        read_leaderboard(tmp_path / "leaderboard.csv", "maximize")


def test_gain_without_a_leaderboard_names_the_command_that_makes_one(task):
    with pytest.raises(InputError, match=r"tasks validate .*tumours --measure"):
        replace(task, references=()).reward_of(0.9)


def test_gain_on_the_report_split_has_that_splits_own_scale(task):
    """The sample submission and the best reference score differently there."""
    import pandas as pd

    split = pd.read_csv(task.private / "split.csv").set_index("id")["split"]
    there = lambda submission, answers: 0.4 if split[submission["id"].iloc[0]] == "report" else 0.5
    own = replace(task, grade_function=there)
    assert own.scale("report") == (0.4, 0.994)
    assert own.reward_of(0.994, split="report") == pytest.approx(1.0)
    assert own.gains(0.45, split="report")
    assert not own.gains(0.45)
    assert own.reward_of(0.97, "percentile", "report") == 0.5


def test_a_class_called_none_is_a_class(task, tmp_path):
    (tmp_path / "public").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "public" / "sample_submission.csv").write_text("id,kind\n1,a\n2,a\n")
    (tmp_path / "private" / "test.csv").write_text("id,kind\n1,None\n2,NA\n")
    right = lambda submission, answers: float((submission["kind"] == answers["kind"]).mean())
    own = replace(task, public=tmp_path / "public", private=tmp_path / "private", grade_function=right)
    assert own.grade(b"id,kind\n1,None\n2,NA\n").score == 1.0


def with_grader(task, place, body):
    """The task with another grade.py."""
    copy = place / task.id
    shutil.copytree(task.folder, copy)
    (copy / "grade.py").write_text("import os, sys, time\n\ndef grade(submission, answers):\n" + body)
    return replace(load(str(copy), data=task.public.parents[2]), grading_seconds=10.0 if "sleep" in body else 60.0)


ODD = "    odd = submission['benign'].max() > 5\n"


@pytest.mark.parametrize("does", ["sys.exit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)", "time.sleep(600)"])
def test_a_grader_that_does_not_come_back_is_the_submissions_failure_if_the_sample_fares_better(
    task, sample, tmp_path, does
):
    own = with_grader(task, tmp_path, f"{ODD}    if odd: {does}\n    return 0.5\n")
    assert own.grade(sample).score == 0.5
    bad = own.grade(submission(task, [7] * len(task.form.ids)))
    assert (bad.valid, bad.score) == (False, None)
    assert bad.message.startswith("the grader failed on it: ")
    assert own.grade(sample).score == 0.5


@pytest.mark.parametrize("does", ["sys.exit(0)", "os._exit(0)", "time.sleep(600)"])
def test_a_grader_that_never_comes_back_is_the_tasks_own_fault(task, sample, tmp_path, does):
    own = with_grader(task, tmp_path, f"    {does}\n")
    with pytest.raises(InputError, match=r"grade\.py = .*: tumours: on the sample submission it .*; let it return"):
        own.grade(sample)


def test_a_function_given_as_a_grader_cannot_end_the_process_either(task, sample):
    def leave(submission, answers):
        raise SystemExit(0)

    with pytest.raises(InputError, match="on the sample submission it raised SystemExit"):
        replace(task, grade_function=leave).grade(sample)
