"""Shared by the tests of the corpus: choices of one kind, and scripts that are really run."""

from dataclasses import replace
from random import Random

from rewardrate.environments.mle import load, messages
from rewardrate.environments.mle.environment import Settings, order
from rewardrate.environments.mle.extraction import extract
from rewardrate.environments.mle.preparation import prepare
from rewardrate.pretraining.corpus import drawing
from rewardrate.pretraining.corpus.shipped import BRIEFS
from rewardrate.sandbox import Pool

BY_NAME = {brief.task: brief for brief in BRIEFS}


def drawn(task, seed=0, count=400, **wanted):
    """Choices for a task whose fields have the values that are wanted."""
    random = Random(seed)
    for _ in range(count):
        choices = drawing.draw(random, BY_NAME[task])
        if all(getattr(choices, name) == value for name, value in wanted.items()):
            return choices
    raise AssertionError(f"nothing like {wanted} in {count} draws for {task}")


def outcomes(task_name, texts, data):
    """Status and message of each script, run in the sandbox on one core and graded."""
    task = load(task_name, data=data)
    if not task.prepared:
        prepare(task)
    job = order(task, Settings(cores=1, time_limit=300.0))
    codes = [extract(text).code for text in texts]
    with Pool(clock="warm", repeats=0) as pool:  # what a script comes to is asked, not what it takes
        results = iter(pool.run([replace(job, script=code) for code in codes if code is not None]))
    return [("format", "") if code is None else _verdict(task, code, next(results)) for code in codes]


def _verdict(task, code, result):
    if result.status == "error":
        return "error", messages.crash(code, result.stderr, result.exit_code)
    if result.status != "ok":
        return result.status, result.message
    if "submission.csv" not in result.files:
        return "no-submission", ""
    grade = task.grade(result.files["submission.csv"])
    if not grade.valid:
        return "bad-submission", grade.message
    return ("ok" if task.gains(grade.score) else "no-gain"), f"score {grade.score}"
