"""Chains that do not wait: every attempt in one update, ages bounded, batches in start order whatever the seconds."""

import heapq
import json

import numpy as np
import pytest
from hypothesis import strategies as st

from fuzz import fuzz
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, Stream, Totals
from rewardrate.rates.renewal import Renewal


def play(stream, seconds, chains, updates, *, reload=False, reward=None):
    """Event by event on as many slots as chains: (time, numbers) of every update, the rate's blocks, largest age."""
    heap, idle, now, history, blocks, oldest = [], list(range(chains)), 0.0, [], [], 0
    while len(history) < updates:
        while idle and stream.may_start():
            number = stream.start(idle.pop(0))
            heapq.heappush(heap, (now + seconds[number % seconds.size], number))
        now, number = heapq.heappop(heap)
        idle.append(number_chain(stream, number))
        earned = float(number) if reward is None else reward[number]
        stream.end(number, earned, seconds[number % seconds.size], valid=number % 3 > 0)
        if reload:
            fresh = Stream(stream.chains, stream.batch_size, age=stream.age, order=stream.order)
            fresh.load_state_dict(json.loads(json.dumps(stream.state_dict(), allow_nan=False)))
            stream = fresh
        while (numbers := stream.batch()) is not None and len(history) < updates:
            oldest = max([oldest, *map(stream.age_of, numbers)])
            blocks += stream.advance()
            history.append((now, numbers))
    return history, blocks, oldest


def number_chain(stream, number):
    return next(row["chain"] for row in stream.state_dict()["attempts"] if row["number"] == number)


SETTINGS = st.tuples(
    st.integers(1, 6), st.integers(1, 6), st.none() | st.integers(0, 4), st.sampled_from(["start", "finish"])
)


@fuzz(SETTINGS, st.integers(0, 2**31), examples=60, deep=2000)
def test_every_attempt_enters_one_update_and_no_age_exceeds_its_bound(settings, seed):
    chains, batch, age, order = settings
    seconds = np.random.default_rng(seed).lognormal(0, 1.5, 400)
    stream = Stream(chains, batch, age=age, order=order)
    history, blocks, oldest = play(stream, seconds, chains, 20)
    learned = [number for _, numbers in history for number in numbers]
    assert len(set(learned)) == len(learned) == 20 * batch
    assert set(learned) | set(stream.running) | {row["number"] for row in stream.state_dict()["attempts"]} >= set(
        range(stream.started)
    )
    if age is not None:
        assert oldest <= (age if order == "start" else age + 1 + max(0, chains - 2) // batch)
    if order == "start":
        assert learned == sorted(learned)
        assert [block.number for block in blocks] == [numbers for _, numbers in history]
    rated = [number for block in blocks for number in block.number]
    assert rated == list(range(len(rated)))
    assert all(len(block.number) == batch for block in blocks)


@fuzz(SETTINGS, st.integers(0, 2**31), examples=20, deep=500)
def test_saved_after_every_attempt_and_loaded_it_does_the_same(settings, seed):
    chains, batch, age, order = settings
    seconds = np.random.default_rng(seed).lognormal(0, 1.5, 200)
    runs = [play(Stream(chains, batch, age=age, order=order), seconds, chains, 8, reload=r) for r in (False, True)]
    assert runs[0] == runs[1]


@fuzz(st.integers(1, 8), st.integers(0, 2**31), examples=40, deep=1000)
def test_an_older_age_never_delays_an_update_and_age_0_waits_for_every_batch(chains, seed):
    """So `stream` is never behind `step`, for the same seconds by number."""
    seconds = np.random.default_rng(seed).lognormal(0, 1.5, 60 * chains)
    times = {
        age: [at for at, _ in play(Stream(chains, chains, age=age), seconds, chains, 12)[0]]
        for age in (0, 1, 2, 5, None)
    }
    waiting = np.cumsum(seconds[: 12 * chains].reshape(12, chains).max(axis=1))
    assert times[0] == pytest.approx(waiting.tolist())
    for earlier, later in ((1, 0), (2, 1), (5, 2), (None, 5)):
        assert all(one <= other + 1e-9 for one, other in zip(times[earlier], times[later], strict=True))


@pytest.mark.parametrize("make", [NIW, Totals])
def test_chains_that_wait_get_the_same_estimate_from_a_stream_as_step_by_step(make):
    rng = np.random.default_rng(5)
    waiting, streaming, one, other = Accumulators(4), Accumulators(4), make(), make()
    stream = Stream(4, 4, age=0)
    for _ in range(6):
        reward, seconds, valid = rng.random(4), rng.lognormal(0, 1, 4), rng.random(4) < 0.6
        present = rng.random(4) < 0.8
        for chain in range(4):
            stream.start(chain)
        for chain in np.argsort(seconds):
            number = stream.version * 4 + int(chain)
            stream.end(number, reward[chain], seconds[chain], valid=valid[chain], charged=present[chain])
        (rows,) = stream.advance()
        streaming.add(rows.chain, rows.reward, rows.seconds, rows.valid, present=rows.charged)
        waiting.update(reward, seconds, valid, present=present)
        assert streaming.fit(other) == waiting.fit(one)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["start", "finish"])
def test_niw_finds_the_rate_of_a_stream_though_chains_have_different_numbers_of_attempts(order):
    """20 runs of 16 chains; the standard error of the mean over updates 4 to 12 is 1 %."""
    process, found = Renewal(spread=0.7, slope=0.2), []
    for seed in range(20):
        reward, seconds = process.draw(np.random.default_rng(seed), 600)
        _, blocks, _ = play(Stream(16, 16, age=8, order=order), seconds, 16, 14, reward=reward)
        chains, estimator = Accumulators(16), NIW(quantile=0.5, seed=seed)
        rates = [chains.add(rows.chain, rows.reward, rows.seconds).fit(estimator).rate for rows in blocks]
        found.append(np.mean(rates[3:12]) / process.rate)
    assert np.mean(found) == pytest.approx(1, abs=0.05)


def test_in_finish_order_the_rate_waits_for_blocks_in_start_order():
    stream = Stream(3, 2, order="finish")
    assert [stream.start(chain) for chain in range(3)] == [0, 1, 2]
    stream.end(1, 1.0, 1.0)
    stream.end(2, 1.0, 1.0)
    assert stream.batch() == (1, 2)
    assert stream.advance() == []  # 0 is running: 1 alone would be a quick one
    assert (stream.start(1), stream.start(2), stream.age_of(0)) == (3, 4, 1)
    stream.end(0, 5.0, 9.0)
    stream.end(4, 1.0, 1.0)
    assert stream.batch() == (0, 4)
    (rows,) = stream.advance()
    assert (rows.number, rows.chain, rows.reward, rows.seconds) == ((0, 1), (0, 1), (5.0, 1.0), (9.0, 1.0))


@pytest.mark.parametrize("order", ["start", "finish"])
def test_at_the_end_of_a_run_the_last_batch_is_what_is_left_and_the_next_ones_are_whole_again(order):
    stream = Stream(3, 2, order=order, age=1)
    for chain in range(3):
        stream.start(chain)
    stream.end(0, 1.0, 1.0)
    stream.end(1, 1.0, 1.0)
    stream.advance()
    assert stream.batch(last=True) is None  # 2 is running
    stream.end(2, 1.0, 1.0)
    assert (stream.batch(), stream.batch(last=True)) == (None, (2,))
    assert [rows.number for rows in stream.advance(last=True)] == [(2,)]
    assert (stream.version, stream.batch(last=True), stream.running) == (2, None, ())
    assert [stream.start(0), stream.start(1)] == [3, 4]
    stream.end(4, 1.0, 1.0)
    stream.end(3, 1.0, 1.0)
    assert sorted(stream.batch()) == [3, 4]
    assert [rows.number for rows in stream.advance()] == [(3, 4)]


def test_a_sandbox_failure_keeps_its_place_and_has_no_row_whatever_it_measured():
    stream = Stream(2, 2)
    stream.start(0)
    stream.start(1)
    stream.end(0, float("nan"), -1.0, charged=False)
    stream.end(1, 2.0, 4.0)
    (rows,) = stream.advance()
    assert (rows.charged, rows.valid) == ((False, True), (False, True))
    chains = Accumulators(2).add(rows.chain, rows.reward, rows.seconds, rows.valid, present=rows.charged)
    assert (chains.reward.tolist(), chains.seconds.tolist()) == ([0.0, 2.0], [0.0, 4.0])


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda stream: stream.start(2), "chain"),
        (lambda stream: stream.start(0), "chain"),
        (lambda stream: stream.start(True), "chain"),
        (lambda stream: stream.end(7, 1.0, 1.0), "number"),
        (lambda stream: stream.end(0, float("nan"), 1.0), "reward"),
        (lambda stream: stream.end(0, 1.0, 0.0), "seconds"),
        (lambda stream: stream.end(0, 1.0, 1.0, valid=2), "valid"),
        (lambda stream: stream.advance(), "batch"),
        (lambda stream: stream.age_of(9), "number"),
    ],
)
def test_a_wrong_call_is_refused_and_changes_nothing(call, field):
    stream = Stream(2, 2)
    stream.start(0)
    before = stream.state_dict()
    with pytest.raises(InputError, match=field):
        call(stream)
    assert stream.state_dict() == before


def test_an_attempt_that_would_be_too_old_is_not_started():
    stream = Stream(2, 1, age=0)
    stream.start(0)
    assert not stream.may_start()
    with pytest.raises(InputError, match="0 updates old"):
        stream.start(1)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"chains": 0}, "chains"), ({"batch": 0}, "batch"), ({"age": -1}, "age"), ({"order": "begin"}, "order")],
)
def test_wrong_settings_are_refused(settings, field):
    with pytest.raises(InputError, match=field):
        Stream(**{"chains": 2, "batch": 2, **settings})


def test_a_damaged_state_is_refused_and_changes_nothing():
    stream = Stream(3, 2)
    for chain in range(3):
        stream.start(chain)
    stream.end(1, 1.0, 1.0)
    good = stream.state_dict()
    broken = [
        None,
        {},
        {**good, "settings": {**good["settings"], "age": 3}},
        {**good, "version": -1},
        {**good, "waiting": [0]},
        {**good, "running": [0, 0]},
        {**good, "running": [2, 0]},
        {**good, "started": 2},
        {**good, "attempts": good["attempts"][1:]},
        {**good, "attempts": [{**row, "seconds": 0.0} for row in good["attempts"]]},
        {**good, "attempts": [{**row, "charged": "yes"} for row in good["attempts"]]},
        {**good, "attempts": [{**row, "chain": 0} for row in good["attempts"]]},
        {name: value for name, value in good.items() if name != "rate_from"},
    ]
    for state in broken:
        with pytest.raises(InputError, match="state"):
            stream.load_state_dict(state)
        assert stream.state_dict() == good
