"""The user that a script of root runs as: one that no other run of this machine has meanwhile.

Where there are no namespaces, the end of a run ends every process of its user. Cores are owned through locks in the
temporary folder, which programs with another TMPDIR do not see; a name among abstract sockets is seen by all.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

FIRST, WIDTH, GROUPS = 61000, 512, 8  # up to 65095: below what a user namespace of 65536 has


def of(core: int) -> list[int]:
    """Users for a run whose first core this is, the one it should have first."""
    return [FIRST + WIDTH * group + core % WIDTH for group in range(GROUPS)]


@contextlib.contextmanager
def claimed(core: int) -> Iterator[int]:
    """A user until the block ends, or until this process does; the first of them if others have all."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim:
        for user in of(core):
            with contextlib.suppress(OSError):
                claim.bind(f"\0rewardrate-user-{user}")
                break
        else:
            user = of(core)[0]
        yield user
