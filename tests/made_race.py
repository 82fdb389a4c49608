"""Runs of a race for tests of reports: a short history by hand, and run folders."""

import dataclasses

import made_run
from rewardrate.attempt import RateEstimate
from rewardrate.reports.evaluation import chains
from rewardrate.reports.run import COLUMNS, Run
from rewardrate.runlog import AttemptRow, StepRow

BLANK = {field.name: "" for field in dataclasses.fields(AttemptRow)}


def attempt(number, step, row, loss, seconds, status="ok", **more):
    numbers = {"tokens": 0, "generation_seconds": 0.0, "reward": 10 - loss, "bonus": 0.0, "finished": 0.0}
    facts = {
        "id": number,
        "step": step,
        "row": row,
        "parent": None,
        "valid": status == "ok",
        "score": loss,
    }
    rest = {
        "seconds": seconds,
        "status": status,
        "relative_reward": 1.0,
        "contaminated": False,
        "trains": None,
        "rank_key": None,
        "chain": row,
    }
    return AttemptRow(**{**BLANK, **numbers, **facts, **rest, "code": f"lr = {number}\n", **more})


HISTORY = [
    attempt(1, 1, 0, 3.30, 50.0, seed="old"),
    attempt(2, 1, 1, 3.27, 40.0, seed="old"),
    attempt(3, 2, 0, 3.26, 30.0, parent=2),
    attempt(4, 2, 1, 3.20, 20.0, "error"),
    attempt(5, 3, 0, 3.28, 10.0, parent=3),
    attempt(6, 3, 1, 3.10, 10.0, "sandbox-failure"),
]


def run(tmp_path, arm, history):
    facts = {"arm": arm, "task": "mini", "seed": "0", "clock": "wall", "direction": "minimize", "race": "mini"}
    rate = RateEstimate(0.1, 0.1, 0.1, 0.1, 1)
    steps = tuple(StepRow(step, rate, {}, {}, 10.0, None, 0.0) for step in (1, 2, 3))
    columns = {name: [getattr(one, name) for one in history] for name in COLUMNS}
    return Run(tmp_path, {**facts, "target_loss": "3.28"}, tuple(history), steps, chains(columns))


def folder(path, arm, seed=0, steps=8):
    """A run folder, drawn: losses between 3.5 and 3.2, attempts of about a minute."""

    def as_race(_, fields):
        if fields["valid"]:
            fields |= {"score": 3.5 - 0.3 * fields["reward"], "seconds": 30 + 5 * fields["seconds"]}
            fields |= {"reward": 10 - fields["score"]}
        return fields

    about = {"race": "nanogpt-mini", "target_loss": "3.28", "direction": "minimize"}
    return made_run.make(path, arm=arm, seed=seed, steps=steps, task="nanogpt-mini", about=about, spoil=as_race)
