"""What a way of isolating a script can do. The init acts on these, never on the name of a level."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capabilities:
    """One record per level (`levels.LEVELS`); plain values, so that it travels to the init as JSON."""

    memory_group: str = "never"
    "Control group for memory and processes: always (a failure where it cannot be made), as-root (if it can), never."
    pid_namespace: bool = False
    "The kernel ends every process of the box together with the init."
    own_mounts: bool = False
    "A file tree of its own: sized memory file systems to write to, everything else read-only."
    own_network: bool = False
    "Loopback that no other process is on, so that sockets may be allowed."
    own_ipc: bool = False
    "System V and POSIX queues, semaphores and shared memory end with the box."
    slot_user: bool = False
    "Where the supervisor is root, the script runs as a user that only its slot has."
    landlock: bool = False
    "Files outside a short list cannot be opened."
    seccomp: bool = False
    "A filter refuses system calls."
    host_shared_memory: bool = False
    "The script may use the host's /dev/shm, which has to be counted and emptied."

    @property
    def kills_slot_user(self) -> bool:
        """Every process of the slot's user is killed at the end: no namespace does it."""
        return self.slot_user and not self.pid_namespace

    @property
    def protects_files(self) -> bool:
        """Files of the host cannot be written."""
        return self.own_mounts or self.landlock

    @property
    def runs_as_supervisor(self) -> bool:
        """The script is the same user as the supervisor: owner of its files, counted with its processes."""
        return not self.slot_user and not self.pid_namespace
