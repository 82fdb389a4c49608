"""Attempts side by side: each end is recorded once, in the order in which it is given out; nothing after the block."""

import threading

import pytest

import toy_agent
from rewardrate.training.under_way import UnderWay


class Gated(toy_agent.TwoArms):
    """An attempt ends when it is let go."""

    def __init__(self):
        super().__init__()
        self.gates = {"quick": threading.Event(), "slow": threading.Event()}

    def stream(self, replies, parents=None):
        self.gates[replies[0]].wait(60)
        yield from super().stream(replies, parents)


def test_ends_come_in_the_order_in_which_they_are_recorded():
    world, records = Gated(), []
    with UnderWay(world, lambda *end: records.append(end), before=5) as under_way:
        under_way.start(1, "slow", None, lambda outcome: outcome)
        under_way.start(2, "quick", None, lambda outcome: outcome)
        world.gates["quick"].set()
        first = under_way.arrived()
        world.gates["slow"].set()
        second = under_way.arrived()
    assert [number for number, _ in first + second] == [2, 1]
    assert [(number, arrival) for number, arrival, _ in records] == [(2, 6), (1, 7)]


def test_what_ends_after_the_block_is_not_recorded():
    world, records = Gated(), []
    with UnderWay(world, lambda *end: records.append(end)) as under_way:
        under_way.start(1, "slow", None, lambda outcome: outcome)
    world.gates["slow"].set()
    for thread in threading.enumerate():
        if thread.name == "attempt-1":
            thread.join(60)
    assert records == []


def test_an_error_of_an_attempt_is_raised_where_the_run_waits():
    class Broken(toy_agent.TwoArms):
        def stream(self, replies, parents=None):
            raise OSError("no room")
            yield

    with UnderWay(Broken(), lambda *end: None) as under_way:
        under_way.start(1, "quick", None, lambda outcome: outcome)
        with pytest.raises(OSError, match="no room"):
            under_way.arrived()
