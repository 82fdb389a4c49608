"""Algorithm 1 on a toy world: both arms learn what they should, and a run survives any number of kills."""

import contextlib
import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import toy_agent
from rewardrate.attempt import Outcome
from rewardrate.errors import InfrastructureError, InputError
from rewardrate.rates import Fixed, FixedPrice, Horizon, RatePrice
from rewardrate.runlog import RunLog
from rewardrate.training.loop import Budget
from rewardrate.training.objective import Overhead


@pytest.mark.parametrize("seed", range(10))
def test_rpg_takes_the_quick_arm_and_vanilla_the_one_that_earns_more(seed, tmp_path):
    """1 in 1 s is a rate of 1; 1.5 in 5 s is 0.3, but the larger reward."""
    ends = {}
    for arm in ("rpg", "vanilla"):
        loop = toy_agent.loop(tmp_path / arm, arm=arm, seed=seed, steps=50, batch=8)
        loop.run()
        loop.log.close()
        ends[arm] = loop.policy.probabilities()
    assert ends["rpg"][0] > 0.95
    assert ends["vanilla"][1] > 0.95


def test_the_price_before_a_deadline_is_on_record_falls_to_zero_and_resumes(tmp_path):
    class Stop(Exception):
        pass

    def at_four(step):
        if step.step == 4:
            raise Stop

    budget = Budget(script_seconds=300.0)
    records = []
    for name, on_step in (("straight", None), ("stopped", at_four)):
        loop = toy_agent.loop(tmp_path / name, budget=budget, batch=8, price=Horizon(), on_step=on_step)
        with contextlib.suppress(Stop):
            loop.run()
        loop.log.close()
        if on_step is not None:
            loop = toy_agent.loop(tmp_path / name, budget=budget, batch=8, price=Horizon())
            loop.run()
            loop.log.close()
        with RunLog.open(tmp_path / name, read_only=True) as log:
            records.append([step.metrics for step in log.steps()])
            relative = [(row.reward, row.seconds, row.relative_reward) for row in log.attempts() if row.step == 2]
    assert records[0] == records[1]
    prices = [metrics["price"] for metrics in records[0]]
    assert prices[0] > 0
    assert prices[-1] == 0.0  # the last step ends at the deadline or after it
    assert all(left == pytest.approx(reward - prices[1] * seconds) for reward, seconds, left in relative)


def test_a_price_that_is_not_the_rate_is_on_record(tmp_path):
    found = {}
    for name, price in (("rate", RatePrice()), ("fixed", FixedPrice(0.125))):
        loop = toy_agent.loop(tmp_path / name, steps=2, batch=4, price=price)
        loop.run()
        found[name] = [step.metrics.get("price") for step in loop.log.steps()]
        loop.log.close()
    assert found == {"rate": [None, None], "fixed": [0.125, 0.125]}


def test_a_run_begun_without_a_deadline_cannot_get_one(tmp_path):
    loop = toy_agent.loop(tmp_path / "run", steps=2, batch=4)
    loop.run()
    loop.log.close()
    loop = toy_agent.loop(tmp_path / "run", budget=Budget(script_seconds=900.0), batch=4, price=Horizon())
    with pytest.raises(InputError, match="begun without a deadline"):
        loop.run()
    loop.log.close()


@pytest.mark.parametrize(("price_in", "paid", "ranked"), [("both", 1, 1), ("reward", 1, 0), ("buffer", 0, 1)])
def test_seconds_are_paid_for_where_the_objective_says(price_in, paid, ranked, tmp_path):
    loop = toy_agent.loop(tmp_path / "run", steps=1, batch=8)
    loop.pricer.estimator = Fixed(0.25)
    loop.pricer.objective = dataclasses.replace(loop.pricer.objective, price_in=price_in)
    loop.run()
    rows = loop.log.attempts()
    assert all(row.relative_reward == row.reward - 0.25 * paid * row.seconds for row in rows)
    first = loop.pricer.buffer.select(1)[0]
    assert first.seconds == (1.0 if ranked else 5.0)  # 1 - 0.25 beats 1.5 - 1.25, and 1.5 beats 1
    loop.log.close()


def test_an_overhead_that_every_attempt_pays_makes_the_slow_arm_the_better_rate(tmp_path):
    """With 20 s on top of each, 1 in 21 s is 0.048 a second and 1.5 in 25 s is 0.06."""
    loop = toy_agent.loop(tmp_path / "run", seed=1, steps=80, batch=16, overhead=Overhead(seconds=20.0))
    loop.run()
    assert loop.policy.probabilities()[1] > 0.9
    assert {attempt.seconds for attempt in loop.log.attempts()} == {21.0, 25.0}
    assert loop.log.steps()[-1].script_seconds == sum(attempt.seconds for attempt in loop.log.attempts())
    loop.log.close()


def test_generation_is_charged_only_where_the_recipe_says_so(tmp_path):
    class Writer(toy_agent.Softmax):
        def propose(self, prompts, seed):
            return [dataclasses.replace(proposal, seconds=0.5) for proposal in super().propose(prompts, seed)]

    for name, overhead, expected in (("off", Overhead(), {1.0, 5.0}), ("on", Overhead(generation=True), {1.5, 5.5})):
        loop = toy_agent.loop(tmp_path / name, steps=2, overhead=overhead)
        loop.policy = Writer()
        loop.run()
        assert {attempt.seconds for attempt in loop.log.attempts()} == expected
        loop.log.close()


def test_every_attempt_step_and_rate_is_on_record(tmp_path):
    loop = toy_agent.loop(tmp_path / "run", steps=5)
    seen = []
    loop.on_step = seen.append
    loop.run()
    log = loop.log
    assert [step.step for step in log.steps()] == [1, 2, 3, 4, 5]
    attempts = log.attempts()
    assert [attempt.id for attempt in attempts] == list(range(1, 81))
    assert all(attempt.parent is None for attempt in attempts[:16])
    assert all(1 <= attempt.parent < attempt.id for attempt in attempts[16:])
    assert [step.rate.rate for step in log.steps()] == [step.rate.rate for step in seen]
    assert {"propose", "execute", "fit", "learn", "save"} == set(seen[0].phases)
    first = attempts[0]
    assert first.relative_reward == pytest.approx(first.reward - log.steps()[0].rate.rate * first.seconds)
    log.close()


def test_parents_are_the_best_by_relative_reward(tmp_path):
    loop = toy_agent.loop(tmp_path / "run", steps=3)
    loop.run()
    parents = [loop.log.attempt(attempt.parent).code.split()[0] for attempt in loop.log.attempts(3)]
    assert set(parents) == {"quick"}
    loop.log.close()


@pytest.mark.parametrize(
    ("budget", "steps"),
    [(Budget(steps=2), 2), (Budget(script_seconds=60.0), None), (Budget(steps=4, wall_seconds=1e-9), 1)],
)
def test_a_run_ends_at_the_first_limit_and_its_last_step_has_a_checkpoint(tmp_path, budget, steps):
    loop = toy_agent.loop(tmp_path / "run", budget=budget, every=100)
    loop.run()
    rows = loop.log.steps()
    if steps is not None:
        assert len(rows) == steps
    else:
        assert rows[-1].script_seconds >= 60 > (rows[-2].script_seconds if len(rows) > 1 else 0)
    assert rows[-1].checkpoint
    loop.log.close()


def test_a_failure_of_the_sandbox_enters_nothing_but_the_record(tmp_path):
    class Shaky(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            broken = Outcome(False, 0.0, None, 3.0, "no cgroup", "sandbox-failure", "")
            for place, outcome in super().stream(replies, parents):
                yield place, broken if place == 0 else outcome

    loop = toy_agent.loop(tmp_path / "run", steps=2, environment=Shaky())
    loop.run()
    assert loop.pricer.chains.seconds[0] == 0
    assert (loop.pricer.chains.seconds[1:] > 0).all()
    first = loop.log.attempts()[0]
    assert (first.status, first.relative_reward) == ("sandbox-failure", None)
    assert [event.kind for event in loop.log.events()].count("sandbox-failure") == 2
    loop.log.close()


class Broken(toy_agent.TwoArms):
    """A machine whose sandbox fails at every attempt, until it is mended."""

    mended = False

    def stream(self, replies, parents=None):
        broken = Outcome(False, 0.0, None, 3.0, "no cgroup", "sandbox-failure", "")
        for place, outcome in super().stream(replies, parents):
            yield place, outcome if self.mended else broken


@pytest.mark.parametrize("every", [1, 3])
def test_a_sandbox_that_fails_at_everything_stops_the_run_and_the_same_command_goes_on(tmp_path, every):
    world = Broken()
    for step in (1, 2):
        loop = toy_agent.loop(tmp_path / "run", steps=4, environment=world, every=every)
        with loop.log, pytest.raises(InfrastructureError, match=f"step {step} failed on our side .no cgroup"):
            loop.run()
    world.mended = True
    loop = toy_agent.loop(tmp_path / "run", steps=4, environment=world, every=every)
    with loop.log:
        loop.run()
        assert loop.log.last_step() == 4
        assert {attempt.step for attempt in loop.log.attempts() if attempt.status != "sandbox-failure"} == {3, 4}


@pytest.mark.parametrize("generation", [False, True])
def test_a_failure_pays_for_the_limit_and_for_all_overhead_that_it_had(tmp_path, generation):
    class Slowly(toy_agent.Softmax):
        def propose(self, prompts, seed):
            found = super().propose(prompts, seed)
            return [dataclasses.replace(one, text="nothing", seconds=20.0 + row) for row, one in enumerate(found)]

    loop = toy_agent.loop(tmp_path / "run", steps=1, batch=4, overhead=Overhead(seconds=2.0, generation=generation))
    loop.policy, loop.pricer.estimator = Slowly(), Fixed(0.1)
    with loop.log:
        loop.run()
        left = [attempt.relative_reward for attempt in loop.log.attempts()]
    assert left == pytest.approx([-10 - 0.1 * (10 + 2 + (20 + row if generation else 0)) for row in range(4)])


def content(folder):
    """All that a run came to, without the clock on the wall."""
    with RunLog.open(folder, read_only=True) as log:
        rows = log.table("id", "step", "row", "parent", "reply", "reward", "seconds", "relative_reward", "bonus")
        rates = [(step.rate, step.script_seconds, dict(step.metrics)) for step in log.steps()]
    weights = sorted((folder / "checkpoints").glob("step-*"))[-1] / "logits.json"
    return rows, rates, weights.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
def test_fifty_kills_change_nothing_and_no_attempt_is_lost_or_run_twice_after_it_was_recorded(tmp_path, every):
    kills, steps = 50, 150  # 50 lives of three attempts or so, more on a busy machine, are a third of it
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    toy_agent.killed_again_and_again(whole, 0, steps, every, "step")
    toy_agent.killed_again_and_again(killed, kills, steps, every, "step")
    assert content(killed) == content(whole)
    runs = Counter(Path(f"{killed}.tally").read_text().splitlines())
    with RunLog.open(killed, read_only=True) as log:
        assert set(runs) == {attempt.reply for attempt in log.attempts()}
    again = sum(count - 1 for count in runs.values())
    assert again <= kills, "only the attempt that was running when it was killed is run again"


def test_the_same_seed_gives_the_same_run(tmp_path):
    results = []
    for name in ("a", "b"):
        loop = toy_agent.loop(tmp_path / name, steps=6, seed=3)
        loop.run()
        loop.log.close()
        results.append(content(tmp_path / name))
    assert results[0] == results[1]
    assert np.isfinite([rate.rate for rate, *_ in results[0][1]]).all()


def test_every_reply_is_executed_on_the_parent_it_was_proposed_for_also_after_a_crash(tmp_path):
    class Edits(toy_agent.TwoArms):
        """Writes down what each reply was to change; may break down in the middle of a step."""

        def __init__(self, seen, breaks_at=None):
            super().__init__()
            self.seen, self.breaks_at = seen, breaks_at

        def stream(self, replies, parents=None):
            for place, (reply, parent) in enumerate(zip(replies, parents, strict=True)):
                if len(self.seen) == self.breaks_at:
                    raise RuntimeError("no power")
                self.seen[reply] = None if parent is None else parent.code
                for _, outcome in super().stream([reply]):
                    yield place, outcome

    seen = {}
    loop = toy_agent.loop(tmp_path / "run", steps=4, batch=4, every=3, environment=Edits(seen, breaks_at=10))
    with loop.log, pytest.raises(RuntimeError, match="no power"):
        loop.run()
    loop = toy_agent.loop(tmp_path / "run", steps=4, batch=4, every=3, environment=Edits(seen))
    with loop.log:
        loop.run()
        attempts = loop.log.attempts()
    codes = {attempt.id: attempt.code for attempt in attempts}
    assert len(attempts) == len(seen) == 16
    assert all(seen[attempt.reply] == codes.get(attempt.parent) for attempt in attempts)
    assert sum(parent is not None for parent in seen.values()) == 12


def test_an_environment_that_loses_a_row_is_named_and_nothing_is_learnt_from_the_rest(tmp_path):
    class Forgets(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            yield from list(super().stream(replies, parents))[1:]

    loop = toy_agent.loop(tmp_path / "run", steps=2, batch=4, environment=Forgets())
    with loop.log, pytest.raises(InputError, match=r"rows \[0\].*without an outcome"):
        loop.run()
    loop = toy_agent.loop(tmp_path / "run", steps=2, batch=4)
    with loop.log:
        loop.run()
        assert [attempt.id for attempt in loop.log.attempts()] == list(range(1, 9))


def test_what_an_environment_still_runs_ends_when_the_loop_ends_with_an_error(tmp_path):
    ended = []

    class Slow(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            try:
                yield from super().stream(replies, parents)
            finally:
                ended.append(True)

    loop = toy_agent.loop(tmp_path / "run", steps=1, batch=4, environment=Slow())
    loop.on_attempt = lambda place, outcome: 1 / 0
    with loop.log, pytest.raises(ZeroDivisionError) as caught:
        loop.run()
    assert ended == [True], "also while the error's traceback is kept"
    assert caught.value is not None
