"""The start of a warm server as an ordinary user: its interpreter is seen through a read-only mount first.

A script that is forked and never executes anew still has the server's /proc/self/exe. Where it runs as the user who
owns the interpreter, that link would let it change the file's mode through a mount that can be written. So the server
is executed from a read-only one, in a namespace of its own. Where there are none, it is executed as it is.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from rewardrate.sandbox.box import kernel


def main() -> NoReturn:
    """Entry: the command in argv."""
    command = sys.argv[1:]
    with contextlib.suppress(OSError):
        make_read_only(os.path.realpath(command[0]))
    os.execv(command[0], command)


def make_read_only(file: str) -> None:
    """In new user and mount namespaces, with the same uid, a file that cannot be changed."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEW_USER | kernel.NEW_NS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as map_file:
            map_file.write(text)
    kernel.mount("none", "/", "", kernel.SLAVE | kernel.RECURSIVE)  # what the host mounts later is still seen
    kernel.mount(file, file, "", kernel.BIND)
    kernel.read_only(file)
