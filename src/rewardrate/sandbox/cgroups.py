"""A memory, process and CPU group for one run, where the machine lets us make one (version 1, or our own version 2)."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BASE = Path("/sys/fs/cgroup")
NUMBERS = itertools.count()
OWN = "rewardrate-own"  # where our own processes live in a delegated group
TRIES = 20
EVICTION_SECONDS = 0.5  # at most: a page that is just being read can be dropped only when it has come
SPARE_PROCESSES = 8  # init and its helpers live in the group too


@dataclass(frozen=True)
class Group:
    """Folders of one run's group (memory, processes and perhaps CPU for version 1) and how to read them."""

    folders: tuple[Path, ...]
    version: int

    @property
    def cpu_account(self) -> str | None:
        """The file that counts the CPU time of everything that ever ran in the group, if there is one."""
        path = self.folders[-1] / ("cpu.stat" if self.version == 2 else "cpuacct.usage")
        return str(path) if path.exists() else None

    @property
    def joins(self) -> list[str]:
        """Files that a process writes 0 to, to join."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def peak_bytes(self) -> int:
        """Most memory used at once."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        try:
            return int((self.folders[0] / name).read_text())
        except (OSError, ValueError):
            return 0

    def ran_out(self) -> bool:
        """Whether a process was killed for memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        try:
            words = dict(line.split() for line in (self.folders[0] / name).read_text().splitlines())
        except (OSError, ValueError):
            return False
        return int(words.get("oom_kill", 0)) > 0

    def evict(self) -> None:
        """Drop the pages of files that its processes were the first to read, once they are gone.

        Which pages of a library are in memory would otherwise be a message from one script to the next.
        """
        deadline = time.monotonic() + EVICTION_SECONDS
        while True:
            with contextlib.suppress(OSError, ValueError):
                if self.version == 1:
                    (self.folders[0] / "memory.force_empty").write_text("0")
                else:
                    used = int((self.folders[0] / "memory.current").read_text())
                    (self.folders[0] / "memory.reclaim").write_text(str(used))  # EAGAIN: less could be had
            if self._file_bytes() == 0 or time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _file_bytes(self) -> int:
        """Memory that holds pages of files; 0 where the kernel does not say."""
        try:
            words = dict(line.split() for line in (self.folders[0] / "memory.stat").read_text().splitlines())
            return int(words["inactive_file"]) + int(words["active_file"])
        except (OSError, ValueError, KeyError):
            return 0


@contextlib.contextmanager
def group(memory_bytes: int, processes: int) -> Iterator[Group | None]:
    """A group with these limits, removed at the end; None where none can be made."""
    made = _make(memory_bytes, processes + SPARE_PROCESSES)
    try:
        yield made
    finally:
        if made:
            made.evict()
            for folder in made.folders:
                _remove(folder)


def _make(memory_bytes: int, processes: int) -> Group | None:
    number = next(NUMBERS)
    name = f"rewardrate-{os.getpid()}-{number}"
    one, two = _places()
    if number == 0:
        for place in (*(one or ()), *((two,) if two else ())):
            sweep(place)
    # Version 1 first: where both are mounted, its controllers are not to be had in version 2.
    with contextlib.suppress(OSError):
        if one:
            folders = tuple(place / name for place in one)
            made = Group(folders, 1)
            limits = {"memory.limit_in_bytes": (0, memory_bytes), "pids.max": (1, processes)}
            return _fill(made, limits | {"memory.memsw.limit_in_bytes": (0, memory_bytes)})  # swap is memory too
    with contextlib.suppress(OSError):
        if two:
            _share(two)
            made = Group((two / name,), 2)
            # Not memory.oom.group: it would kill the init, which lives in the group too and has to report.
            limits = {"memory.max": (0, memory_bytes), "pids.max": (0, processes), "memory.swap.max": (0, 0)}
            return _fill(made, limits)
    return None


def sweep(place: Path) -> None:
    """Remove empty groups that supervisors who were killed have left."""
    with contextlib.suppress(OSError):
        for folder in list(place.glob("rewardrate-*-*")):
            _, owner, _ = folder.name.split("-", 2)
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                with contextlib.suppress(OSError):  # not empty: somebody lives there after all
                    folder.rmdir()


def _share(place: Path) -> None:
    """Let the children of a version 2 group have limits. A group that has both children and processes may not, so
    in one that was delegated to us its processes move to a child first.
    """
    control = place / "cgroup.subtree_control"
    if {"memory", "pids"} <= set(control.read_text().split()):
        return
    # The kernel refuses as long as one process is left in the group, and other threads may be starting some there at
    # this moment: so the move is repeated until the kernel agrees.
    for attempt in range(TRIES):
        try:
            control.write_text("+memory +pids")
            return
        except OSError:
            if attempt == TRIES - 1 or not delegated(place):
                raise
        (place / OWN).mkdir(exist_ok=True)
        for process in (place / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (place / OWN / "cgroup.procs").write_text(process)
        time.sleep(0.005 * (attempt > 0))  # processes that are being started there meanwhile need another round


def delegated(place: Path) -> bool:
    """Whether a service manager gave us this group (systemd marks it), or it is all that we can see."""
    if place == BASE:
        return True
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(place, name) == b"1":
                return True
    return False


def _fill(made: Group, limits: dict[str, tuple[int, int]]) -> Group:
    try:
        for folder in made.folders:
            folder.mkdir()
        for file, (index, value) in limits.items():
            path = made.folders[index] / file
            if path.exists() or file in ("memory.limit_in_bytes", "memory.max", "pids.max"):
                path.write_text(str(value))
    except OSError:
        for folder in made.folders:
            _remove(folder)
        raise
    return made


def _places() -> tuple[tuple[Path, ...] | None, Path | None]:
    """Our own groups: memory, pids and, if we may, CPU accounts of version 1, and that of version 2."""
    own: dict[str, str] = {}
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            own |= dict.fromkeys(names.split(","), path)
    except OSError:
        return None, None
    one = None
    if "memory" in own and "pids" in own:
        memory, processes, cpu = (BASE / name / own.get(name, "").lstrip("/") for name in ("memory", "pids", "cpuacct"))
        one = (memory, processes, *([cpu] if "cpuacct" in own and os.access(cpu, os.W_OK) else []))
    two = BASE / own[""].lstrip("/") if "" in own else None
    return one, two.parent if two is not None and two.name == OWN else two


def _remove(folder: Path) -> None:
    """Remove a group; what still lives in it is killed first."""
    # A group is busy for a moment after its last process was reaped, so EBUSY is no failure but a reason to wait.
    pause = 0.0005
    for _ in range(300):
        try:
            for process in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):
                    os.kill(int(process), 9)
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(pause)
            pause = min(0.01, 2 * pause)
        else:
            return
