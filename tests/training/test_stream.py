"""Chains that do not wait: every attempt enters one update, in start order, none too old; a killed run resumes."""

import itertools
import json
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import toy_agent
from rewardrate.attempt import Outcome
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.runlog import RunLog
from rewardrate.training.under_way import UnderWay


def run(folder, **options):
    loop = toy_agent.stream_loop(folder, **options)
    with loop.log:
        loop.run()
    with RunLog.open(folder, read_only=True) as log:
        return loop, log.attempts(), log.steps(), log.pending()


@pytest.mark.parametrize("seed", range(5))
def test_both_arms_learn_what_they_learn_step_by_step(seed, tmp_path):
    for arm, best in (("rpg", 0), ("vanilla", 1)):
        loop, *_ = run(tmp_path / arm, arm=arm, seed=seed, steps=60, batch=8)
        assert loop.policy.probabilities()[best] > 0.95


@pytest.mark.parametrize("age", [0, 1, 2, 4, 8])
def test_every_attempt_enters_one_update_in_the_order_of_starting_and_none_is_too_old(age, tmp_path):
    _, attempts, steps, pending = run(tmp_path / "run", age=age, batch=8, steps=20)
    assert [one.id for one in attempts] == list(range(1, 161))
    assert [(one.step, one.row) for one in attempts] == [(step, row) for step in range(1, 21) for row in range(8)]
    ages = [one.step - 1 - one.updates for one in attempts]
    assert min(ages) >= 0
    assert max(ages) == {0: 0, 1: 1, 2: 2}.get(age, max(ages)) <= age
    assert [step.metrics["age_max"] for step in steps] == [max(ages[at : at + 8]) for at in range(0, 160, 8)]
    assert len(pending) <= 8 * (age + 1)
    assert [one.attempt for one in pending] == list(range(161, 161 + len(pending)))


def test_a_chain_has_one_attempt_at_a_time_and_the_order_of_ends_is_on_record(tmp_path):
    _, attempts, _, pending = run(tmp_path / "run", batch=8, steps=20)
    arrivals = sorted(one.arrival for one in [*attempts, *pending] if one.arrival is not None)
    assert arrivals == list(range(1, len(arrivals) + 1))
    assert [one.arrival for one in attempts] != sorted(one.arrival for one in attempts), "some overtook others"
    for chain in range(8):
        mine = [one for one in attempts if one.chain == chain]
        assert all(before.arrival < after.arrival for before, after in itertools.pairwise(mine))


def test_with_age_0_every_update_has_one_attempt_of_each_chain(tmp_path):
    _, attempts, *_ = run(tmp_path / "run", age=0, batch=8, steps=5)
    assert all(sorted(one.chain for one in attempts if one.step == step) == list(range(8)) for step in range(1, 6))


def test_attempts_at_one_prompt_begin_together_and_are_learned_from_together(tmp_path):
    loop = toy_agent.stream_loop(tmp_path / "run", batch=8, steps=10)
    loop.pricer.attempts_per_prompt = 4
    with loop.log:
        loop.run()
        attempts = loop.log.attempts()
    for first in range(0, len(attempts), 4):
        group = attempts[first : first + 4]
        assert len({(one.step, one.parent, one.updates) for one in group}) == 1
        assert [one.chain for one in group] in ([0, 1, 2, 3], [4, 5, 6, 7])
    assert max(one.step - 1 - one.updates for one in attempts) >= 1


def test_parents_cover_the_best_solutions_once_an_update(tmp_path):
    """The place in the batch chooses the parent, as with the schedule step: quick chains do not get the best alone."""
    loop = toy_agent.stream_loop(tmp_path / "run", batch=4, steps=12, age=1)
    with loop.log:
        loop.run()
        attempts = loop.log.attempts()
    assert any(len({one.parent for one in attempts if one.step == step}) == 4 for step in range(6, 13))


def content(folder):
    """All that a run came to, without the clock on the wall."""
    with RunLog.open(folder, read_only=True) as log:
        names = ("id", "step", "row", "chain", "updates", "arrival", "parent", "reply", "reward", "relative_reward")
        rates = [(step.rate, step.script_seconds, dict(step.metrics)) for step in log.steps()]
        pending = [(one.attempt, one.chain, one.updates, one.arrival, one.proposal.text) for one in log.pending()]
        rows = log.table(*names)
    weights = sorted((folder / "checkpoints").glob("step-*"))[-1] / "logits.json"
    return rows, rates, pending, json.loads(weights.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
def test_fifty_kills_change_nothing_and_no_attempt_is_lost_or_run_twice_after_it_was_recorded(tmp_path, every):
    kills, steps = 50, 60
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    toy_agent.killed_again_and_again(whole, 0, steps, every, "stream")
    toy_agent.killed_again_and_again(killed, kills, steps, every, "stream")
    assert content(killed) == content(whole)
    runs = Counter(Path(f"{killed}.tally").read_text().splitlines())
    with RunLog.open(killed, read_only=True) as log:
        ended = [one.reply for one in log.attempts()]
        ended += [one.proposal.text for one in log.pending() if one.outcome is not None]
    assert set(runs) == set(ended)
    assert sum(count - 1 for count in runs.values()) <= kills, "only what was running when it was killed is run again"


class Busy(toy_agent.TwoArms):
    """Attempts take time on the clock of the wall, side by side; it may break down."""

    def __init__(self, breaks_at=None):
        super().__init__()
        self.breaks_at, self.count, self.lock = breaks_at, 0, threading.Lock()

    def stream(self, replies, parents=None):
        for place, reply in enumerate(replies):
            with self.lock:
                self.count += 1
                broken = self.breaks_at is not None and self.count >= self.breaks_at
            if broken:
                raise RuntimeError("no power")
            reward, seconds = toy_agent.ARMS[reply.split()[0]]
            time.sleep(seconds * 0.003)
            yield place, Outcome(True, reward, reward, seconds, f"earned {reward}", "ok", reply)


def test_in_real_threads_a_run_that_breaks_down_resumes_and_every_attempt_counts_once(tmp_path):
    for breaks_at in (3, 30, 30):
        loop = toy_agent.stream_loop(
            tmp_path / "run", steps=12, batch=8, every=3, under_way=UnderWay, environment=Busy(breaks_at)
        )
        with loop.log, pytest.raises(RuntimeError, match="no power"):
            loop.run()
    _, attempts, steps, _ = run(tmp_path / "run", steps=12, batch=8, every=3, under_way=UnderWay, environment=Busy())
    assert len(steps) == 12
    assert [one.id for one in attempts] == list(range(1, 97))
    assert len({one.arrival for one in attempts}) == 96


def test_attempts_under_way_at_the_end_are_taken_up_when_the_budget_grows(tmp_path):
    _, _, _, pending = run(tmp_path / "run", steps=5, batch=8)
    assert pending
    _, attempts, steps, _ = run(tmp_path / "run", steps=9, batch=8)
    straight = run(tmp_path / "straight", steps=9, batch=8)[1]
    assert len(steps) == 9
    assert [(one.reply, one.chain, one.arrival) for one in attempts] == [
        (one.reply, one.chain, one.arrival) for one in straight
    ]


def test_a_failure_of_the_sandbox_keeps_its_place_and_enters_nothing_but_the_record(tmp_path):
    class Shaky(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            for place, outcome in super().stream(replies, parents):
                broken = int(outcome.code.split()[2]) % 8 == 3
                yield place, Outcome(False, 0.0, None, 3.0, "no cgroup", "sandbox-failure", "") if broken else outcome

    loop, attempts, *_ = run(tmp_path / "run", batch=8, steps=6, environment=Shaky())
    failed = [one for one in attempts if not one.charged]
    assert [one.id for one in failed] == [3, 11, 19, 27, 35, 43]
    assert all(one.relative_reward is None for one in failed)
    seconds = sum(one.seconds for one in attempts if one.charged)
    assert loop.pricer.chains.seconds.sum() == pytest.approx(seconds)


def test_a_sandbox_that_fails_at_everything_stops_the_run(tmp_path):
    class Broken(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            yield 0, Outcome(False, 0.0, None, 3.0, "no cgroup", "sandbox-failure", "")

    loop = toy_agent.stream_loop(tmp_path / "run", steps=4, environment=Broken())
    with loop.log, pytest.raises(InfrastructureError, match=r"step 1 failed on our side \(no cgroup"):
        loop.run()


def test_a_run_that_waited_is_not_resumed_without_waiting(tmp_path):
    loop = toy_agent.loop(tmp_path / "run", steps=2)
    with loop.log:
        loop.run()
    loop = toy_agent.stream_loop(tmp_path / "run", steps=4)
    with loop.log, pytest.raises(InputError, match="begun with another schedule"):
        loop.run()


def test_an_environment_that_loses_an_attempt_is_named(tmp_path):
    class Forgets(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            yield from ()

    loop = toy_agent.stream_loop(tmp_path / "run", steps=2, under_way=UnderWay, environment=Forgets())
    with loop.log, pytest.raises(InputError, match="0 outcomes for one reply"):
        loop.run()
