"""Chains that do not wait: every attempt enters one update, in start order, none too old; a killed run resumes."""

import contextlib
import itertools
import json
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import simulated_cluster
import toy_agent
from rewardrate.attempt import Outcome
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.runlog import RunLog
from rewardrate.theory.streams import play_stream
from rewardrate.training.under_way import UnderWay


def run(folder, **options):
    loop = toy_agent.stream_loop(folder, **options)
    with loop.log:
        loop.run()
    with RunLog.open(folder, read_only=True) as log:
        return loop, log.attempts(), log.steps(), log.pending()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
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


@pytest.mark.parametrize("age", [0, 2, 6])
def test_on_a_simulated_clock_every_update_comes_when_theory_says(age):
    """The real loop against `theory.streams.play_stream`: what its tables say of speed is true of training."""
    seconds = np.exp(0.7 * np.random.default_rng(age).standard_normal(8 * 30))
    played = simulated_cluster.play(seconds, 8, 20, age)
    expected = play_stream(seconds, 8, 20, age=age, order="start")
    assert played.times == pytest.approx(expected.times)
    assert played.busy == pytest.approx(expected.busy)
    assert played.ages == tuple(expected.ages.ravel())


def test_while_the_policy_learns_attempts_go_on_and_a_step_that_waits_does_not():
    seconds = np.exp(0.7 * np.random.default_rng(3).standard_normal(8 * 40))
    waited, streamed = (simulated_cluster.play(seconds, 8, 20, age, learn=0.5).seconds for age in (None, 8))
    without = simulated_cluster.play(seconds, 8, 20, 8).seconds
    assert waited == pytest.approx(simulated_cluster.play(seconds, 8, 20, None).seconds + 20 * 0.5)
    assert without < streamed < without + 0.6 * 20 * 0.5


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


def stopping(owner, name, calls):
    """The method ends the run at its so many-th call: before it has done anything, or after, where it writes."""
    method, left = getattr(owner, name), [calls]

    def call(*given, **named):
        left[0] -= 1
        if left[0] > 0:
            return method(*given, **named)
        if name in ("save", "commit_step", "begin"):
            method(*given, **named)
        raise RuntimeError("no power")

    setattr(owner, name, call)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("policy", "propose"),
        ("log", "begin"),
        ("log", "ended"),
        ("pricer", "price"),
        ("policy", "learn"),
        ("policy", "save"),
        ("log", "commit_step"),
    ],
)
def test_a_run_that_ends_within_any_part_of_a_step_resumes_as_if_nothing_had_been(part, name, tmp_path):
    run(tmp_path / "whole", steps=7, batch=4)
    loop = toy_agent.stream_loop(tmp_path / "broken", steps=7, batch=4)
    stopping(getattr(loop, part), name, 4)
    with loop.log, pytest.raises(RuntimeError, match="no power"):
        loop.run()
    run(tmp_path / "broken", steps=7, batch=4)
    assert content(tmp_path / "broken") == content(tmp_path / "whole")


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


class Stops(toy_agent.TwoArms):
    """Breaks down after so many attempts."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def stream(self, replies, parents=None):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("no power")
        yield from super().stream(replies, parents)


def in_groups(folder, together, left=10**6):
    """Ten steps whose chains are written for in groups, three steps a checkpoint; an attempt may be one too many."""
    loop = toy_agent.stream_loop(folder, steps=10, batch=8, every=3, environment=Stops(left))
    loop.together = together
    with loop.log, contextlib.suppress(RuntimeError):
        loop.run()
    return loop


@pytest.mark.parametrize("stops", [5, 30, 61])
def test_groups_that_are_written_for_at_once_resume_as_they_were(stops, tmp_path):
    in_groups(tmp_path / "whole", 3)
    in_groups(tmp_path / "killed", 3, left=stops)
    in_groups(tmp_path / "killed", 3)
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5)])
def test_a_run_that_resumes_on_a_machine_with_other_cores_begins_recorded_attempts_as_they_began(
    before, after, tmp_path
):
    """How many chains are written for at once depends on the cores; the policy that wrote an attempt does not."""
    for together, stops in ((before, 43), (after, 20), (before, 10**6)):
        loop = in_groups(tmp_path / "run", together, left=stops)
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        attempts, steps = log.attempts(), log.steps()
    assert [one.id for one in attempts] == list(range(1, 81))
    ages = [one.step - 1 - one.updates for one in attempts]
    assert [step.metrics["age_max"] for step in steps] == [max(ages[at : at + 8]) for at in range(0, 80, 8)]
    assert max(ages) <= loop.stream.age


def test_who_watches_a_resumed_run_is_told_of_new_ends_alone(tmp_path):
    seen = []
    for stops in (30, 10**6):
        loop = toy_agent.stream_loop(tmp_path / "run", steps=6, batch=8, every=4, environment=Stops(stops))
        loop.on_attempt = lambda place, outcome: seen.append(outcome.code)
        with loop.log, contextlib.suppress(RuntimeError):
            loop.run()
    assert len(seen) == len(set(seen)) >= 48


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
