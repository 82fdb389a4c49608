"""A stop is seen by everybody who looks, for as long as it is there."""

import select

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
