"""A stop is seen by everybody who looks, for as long as it is there."""

import os
import select
import threading

from rewardrate.sandbox.stop import Stop


def test_a_stop_once_set_stays_set_and_wakes_whoever_waits():
    stop = Stop()
    try:
        assert not stop.is_set()
        stop.set()
        stop.set()
        assert stop.is_set()
        assert select.select([stop.descriptor], [], [], 0)[0] == [stop.descriptor]
        assert stop.is_set()
    finally:
        stop.close()
    stop.set()  # closed: nobody is there to be told


def test_what_is_set_while_it_is_closed_writes_to_no_descriptor_of_anybody(monkeypatch):
    """A number that was given back may be a file of the run by then."""
    stop, close, failures = Stop(), os.close, []

    def tell():
        try:
            stop.set()
        except OSError as error:
            failures.append(error)

    def closing(number):
        close(number)
        other = threading.Thread(target=tell)
        other.start()
        other.join(0.1)

    monkeypatch.setattr("rewardrate.sandbox.stop.os.close", closing)
    stop.close()
    assert failures == []
