"""Rewards of a run folder beside those that verl wrote down; the real thing is in test_verl_adapter."""

import json

import pytest

from made_run import make
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog
from rewardrate.scale.verl_dump import Agreement, agreement, trained_on


@pytest.fixture
def pair(tmp_path):
    """(run folder, verl's own account of it)."""
    run, dumps = tmp_path / "run", tmp_path / "rollouts"
    make(run, steps=2, batch=4)
    dumps.mkdir()
    with RunLog.open(run, read_only=True) as log:
        rows = list(log.attempts())
    for step in (1, 2):
        told = [
            {"output": row.reply, "score": row.relative_reward + row.bonus, "uid": str(row.id)}
            for row in reversed(rows)
            if row.step == step and row.charged
        ]
        padding = {"output": told[0]["output"], "score": 0.0, "uid": "pad-1"}
        (dumps / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*told, padding]))
    return run, dumps, len([row for row in rows if row.charged])


def test_equal_accounts_agree_in_every_attempt_whatever_their_order_and_verls_padding(pair):
    run, dumps, charged = pair
    assert agreement(run, dumps) == Agreement(2, charged, 0.0)


def test_the_largest_difference_is_told(pair):
    run, dumps, _ = pair
    lines = (dumps / "2.jsonl").read_text().splitlines()
    changed = json.loads(lines[0])
    changed["score"] += 0.25
    (dumps / "2.jsonl").write_text("\n".join([json.dumps(changed), *lines[1:]]))
    assert agreement(run, dumps).difference == pytest.approx(0.25)


def test_accounts_of_different_attempts_are_refused(pair):
    run, dumps, _ = pair
    (dumps / "2.jsonl").write_text((dumps / "1.jsonl").read_text())
    assert len(trained_on(dumps, 2)) == len(trained_on(dumps, 1))
    with pytest.raises(InputError, match=r"step 2: its replies are not those of .*2.jsonl; name the two folders"):
        agreement(run, dumps)
