"""A word that ends everything at once: seen by whoever looks, and by whoever waits on its descriptor."""

from __future__ import annotations

import os
import select
import threading


class Stopped(Exception):
    """The run was ended from outside; it has no result."""


class Stop:
    """Set once, from any thread; `descriptor` becomes readable then and stays so."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # `set` must not write to a number that `close` has given back
        self.descriptor, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def set(self) -> None:
        """End everything that looks at this."""
        with self._turn:
            if self._write >= 0:
                os.write(self._write, b"x")

    def is_set(self) -> bool:
        """Whether it was set."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Give the descriptors back, when they are not needed any more."""
        with self._turn:
            for number in (self.descriptor, self._write):
                if number >= 0:
                    os.close(number)
            self.descriptor = self._write = -1
