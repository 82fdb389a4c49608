"""The stage that attacks are tried on: a secret, a victim, sockets, another run; and the judgement from outside."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from rewardrate.sandbox.attacks import LIMIT, Attack
from rewardrate.sandbox.launch import SHARED
from rewardrate.sandbox.limits import MIB, Limits
from rewardrate.sandbox.result import Clock, Result
from rewardrate.sandbox.runner import run

LATE_SECONDS = 0.5  # from a script's exit or deadline until its whole tree must be gone
LONG_LATE_SECONDS = 4.0  # where each process of a warm bomb takes all the imports with it, or others use the cores
DISTURBED_SHARE = 0.05  # of the cores' time, that others used
BUSY_SHARE = (
    0.5  # of the cores' time, that others used: the deadline may then come before the limit that an attack meets
)
ROUNDING_SECONDS = 0.03  # the kernel counts the idle time of cores in hundredths
LIMITS = Limits(
    seconds=LIMIT,
    memory_bytes=512 * MIB,
    cores=1,
    processes=64,
    disk_bytes=64 * MIB,
    output_bytes=8 * MIB,
    file_bytes=16 * MIB,
)
MARK = secrets.token_hex(16)  # of scripts; one for all stages, because a warm server serves one environment
LOCKED = 4242  # the byte of /dev/null that the victim has locked
VICTIM = f"""
import fcntl, os, time
fcntl.lockf(os.open("/dev/null", os.O_RDWR), fcntl.LOCK_EX, 1, {LOCKED})
print("ready", flush=True)
time.sleep(3600)
"""
PATIENT = replace(LIMITS, seconds=10 * LIMIT)


@dataclass(frozen=True)
class AttackJudgement:
    """Whether the box held, and if not, why."""

    attack: Attack
    held: bool
    why: str
    result: Result

    @property
    def only_late(self) -> bool:
        """Whether nothing is wrong but the time it took to end, which a busy machine can explain."""
        return self.why.startswith("it was over") and ";" not in self.why


def _worked(result: Result) -> float:
    """Seconds that a script says it worked."""
    try:
        return float(result.files.get("submission.csv", b"0"))
    except ValueError:
        return 0.0


class Stage:
    """Something to steal, to kill, to reach and to change, for as long as the block lasts."""

    def __init__(self, python: str | None = None, clock: Clock = "wall") -> None:
        self.python, self.clock = python, clock

    def __enter__(self) -> Stage:
        self.secret, self.name = secrets.token_hex(16), secrets.token_hex(16)
        self.folder = Path(tempfile.mkdtemp(prefix="rewardrate-stage-"))
        self.answers, self.data, self.other = (
            self.folder / "private" / "answers.csv",
            self.folder / "data",
            self.folder / "other",
        )
        for path in (self.answers.parent, self.data, self.other):
            path.mkdir()
        self.folder.chmod(0o755)
        self.data.chmod(0o755)
        self.answers.write_text(f"id,y\n1,{self.secret}\n")
        (self.data / "train.csv").write_text("id,x\n1,2\n")
        (self.data / "long.txt").write_bytes(bytes(1 << 20))
        (self.other / "secret.txt").write_text(self.secret)
        self._package()
        os.environ["REWARDRATE_STAGE_KEY"] = self.secret
        self.victim = subprocess.Popen([sys.executable, "-c", VICTIM, self.secret], stdout=subprocess.PIPE)
        assert self.victim.stdout is not None
        self.victim.stdout.readline()  # it has its lock
        self.visits = 0
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.victim.kill()
        self.victim.communicate()
        os.environ.pop("REWARDRATE_STAGE_KEY", None)
        for listener in self._listeners:
            listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def judge(self, attack: Attack, level: str | None = None) -> AttackJudgement:
        """Run the attack and look at what it did.

        One that was late and nothing else is tried once more, and one that ran out of time with ten times as much: a
        busy machine explains both.
        """
        self.visits = 0
        for _ in range(attack.runs):
            judgement = self._try(attack, level)
            if judgement.only_late:
                judgement = self._try(attack, level)
            if judgement.result.status == "timeout" and "timeout" not in attack.statuses:
                judgement = self._try(attack, level, PATIENT)
            if not judgement.held:
                break
        return judgement

    def _try(self, attack: Attack, level: str | None, limits: Limits = LIMITS) -> AttackJudgement:
        names = {
            "ANSWERS": str(self.answers),
            "OTHER": str(self.other),
            "VICTIM": self.victim.pid,
            "SUPERVISOR": os.getpid(),
            "LOCKED": LOCKED,
            "PORT": self.port,
            "SOCKET": str(self.folder / "socket"),
            "ABSTRACT": self.name,
        }
        prelude = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        prelude += "import os as _os\nDATA = _os.path.realpath('data/task')\n"
        prelude += "HIDDEN, LABELS = DATA + '/package/values/answers.csv', DATA + '/package/labels.csv'\n"
        result = run(
            prelude + attack.script,
            limits,
            data={"task": self.data},
            collect=["submission.csv"],
            environment={"RUN_MARK": MARK},
            python=self.python,
            level=level,
            minimum="limits",
            hide=self.hide,
            clock=attack.clock or self.clock,
        )
        why = self._damage(attack, result)
        return AttackJudgement(attack, not why, why, result)

    def _damage(self, attack: Attack, result: Result) -> str:
        """What went wrong, or nothing."""
        self._count_visits()
        returned = (
            result.stdout + result.stderr + "".join(content.decode("latin-1") for content in result.files.values())
        )
        slow = result.clock == "warm" or result.foreign_share > DISTURBED_SHARE
        late = LONG_LATE_SECONDS if slow else LATE_SECONDS
        busy = ("timeout",) if result.foreign_share > BUSY_SHARE and not attack.honest else ()
        findings = {
            f"ended as {result.status} ({result.message})": result.status not in (*attack.statuses, *busy),
            "the secret came out": self.secret in returned,
            "it got what it must not": "LEAK" in returned,
            "the victim died": self.victim.poll() is not None,
            "somebody connected": self.visits > 0,
            "the data changed": self._read(self.data / "train.csv") != "id,x\n1,2\n",
            "another run changed": self._read(self.other / "secret.txt") != self.secret,
            "a process was left": self._left() > 0,
            f"it was over {result.settle_seconds:.2f} s late": result.settle_seconds > late,
            "it used far more memory than it may": result.peak_memory_bytes > 4 * LIMITS.memory_bytes,
            "control characters came through": any(ord(c) < 32 and c not in "\n\t" for c in returned),
            "the collected file is not its own": attack.name.startswith(("have a", "a ")) and bool(result.files),
            f"it worked for {_worked(result):.2f} s and was charged {result.priced_seconds:.2f}": attack.measured
            and _worked(result) > result.priced_seconds + ROUNDING_SECONDS,
            f"it waited {result.wait_seconds:.2f} s for others that were not there": attack.measured
            and attack.honest
            and result.wait_seconds > result.seconds * (result.foreign_share + DISTURBED_SHARE) + 0.1,
            "its submission was lost": attack.name == "honest: write a submission" and not result.files,
        }
        return "; ".join(finding for finding, true in findings.items() if true)

    def _package(self) -> None:
        """A package that carries answers: a folder and a file of it are hidden, the rest is imported."""
        package = self.data / "package"
        for folder in (package, package / "below", package / "values"):
            folder.mkdir()
            (folder / "__init__.py").write_text("")
        (package / "sibling.py").write_text("VALUE = 40\n")
        (package / "below" / "deep.py").write_text("VALUE = 2\n")
        for path in (package / "values" / "answers.csv", package / "values" / self.secret, package / "labels.csv"):
            path.write_text(f"id,y\n1,{self.secret}\n")
        self.hide = [package / "values", package / "labels.csv"]

    def _left(self) -> int:
        """Processes that carry the mark in their environment, but for the warm server, which stays."""
        count = 0
        for path in Path("/proc").glob("[0-9]*/environ"):
            if int(path.parent.name) in SHARED.processes():
                continue
            with contextlib.suppress(OSError):
                count += f"RUN_MARK={MARK}".encode() in path.read_bytes()
        return count

    def _read(self, path: Path) -> str:
        try:
            return path.read_text()
        except OSError as error:
            return str(error)

    def _listen(self) -> None:
        tcp, unix, abstract = socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        tcp.bind(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        unix.bind(str(self.folder / "socket"))
        (self.folder / "socket").chmod(0o777)
        abstract.bind("\0" + self.name)
        self._listeners = [tcp, unix, abstract]
        for listener in self._listeners:
            listener.listen()
            listener.setblocking(False)

    def _count_visits(self) -> None:
        for listener in self._listeners:
            with contextlib.suppress(OSError):  # nobody waits
                while True:
                    listener.accept()[0].close()
                    self.visits += 1
