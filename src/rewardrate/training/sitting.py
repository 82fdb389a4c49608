"""The blocks of a comparison that one machine works through until its time is over, each run in a process of its own.

The processes end with this one, however it ends, and the same command resumes: a run folder survives a kill at any
moment, complete runs are not repeated, and a block is resumed only from the start that it began with.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewardrate.errors import InfrastructureError, InputError
from rewardrate.runlog import RunLog
from rewardrate.runlog.comparison import ComparisonFolder, TaskBlock
from rewardrate.runlog.folder import WriterLock, write_file
from rewardrate.sandbox import cores
from rewardrate.sandbox.box import kernel
from rewardrate.training.comparison import RunTimes, fitting, makespan, settings_of, side_by_side, start_digest
from rewardrate.training.recipe import Recipe

GRACE_SECONDS = 10.0  # between the interrupt and the end
POLL_SECONDS, LOOK_SECONDS = 0.1, 2.0  # whether a process has ended; how far its run is
STARTED = "start.json"


@dataclass(frozen=True)
class SittingProgress:
    """How far the comparison is."""

    complete: int
    total: int
    running: tuple[tuple[str, float], ...]
    "Runs under way, with the share of the budget that each has used."
    seconds_left: float
    "Until the last run that this sitting will begin has ended."


@dataclass
class _Running:
    block: TaskBlock
    arm: str
    process: subprocess.Popen[bytes]
    place: int
    "Which of the shares of this machine's cores it has."

    @property
    def name(self) -> str:
        return f"{self.block} {self.arm}"


class Sitting:
    """Works through blocks, `jobs` runs side by side; with `seconds`, no block begins that would not end in time.

    That is judged anew while runs are under way: before the first step the pace is a guess.
    """

    def __init__(
        self,
        folder: ComparisonFolder,
        recipe: Recipe,
        *,
        blocks: Sequence[TaskBlock] = (),
        jobs: int | None = None,
        seconds: float | None = None,
        on_progress: Callable[[SittingProgress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda words: None,
    ) -> None:
        self.ends = float("inf") if seconds is None else time.monotonic() + seconds - GRACE_SECONDS
        self.seconds, self.say, self.on_progress = seconds, say, on_progress
        self.folder, self.recipe, self.plan = folder, recipe, folder.plan()
        self.sha256 = folder.state()["sha256"]
        self.blocks = tuple(blocks) or self.plan.blocks
        self.width, self.slots = side_by_side(recipe, jobs, recipe.setup().cores)
        self.given = settings_of(self.plan, recipe, folder.path)
        self.times = RunTimes(folder, self.plan, self.slots)
        local = recipe.sandbox.executor == "pool"
        self.shares = shares(cores.usable(), self.width) if local else [()] * self.width
        self.running: list[_Running] = []
        self.failures: list[str] = []
        self.digest = ""
        self._queue: deque[tuple[TaskBlock, str]] = deque()
        self._looked = 0.0

    def work(self) -> list[str]:
        """All that there is time for; a line for each run that failed."""
        lock = WriterLock(self.folder.path)
        try:
            waiting = deque(block for block in self.blocks if self._todo(block))
            if waiting:
                self._start()
            for block in waiting:
                self._check_start(block)
            while True:
                self._begin(waiting)
                self._show(waiting)
                if (self.running or waiting) and time.monotonic() > self.ends:
                    self.say("the time of this sitting is over")
                    break
                if not self.running:
                    for block in waiting:
                        self.say(f"{block} would not end in this sitting: not begun")
                    break
                time.sleep(POLL_SECONDS)
                self._collect()
        finally:
            self._end()
            lock.release()
        return self.failures

    # ---- what is to be done

    def _todo(self, block: TaskBlock) -> list[str]:
        """The arms of a block that have not reached T, or whose process did not end by itself."""
        notes = self.folder.notes(block)
        arms = self.plan.order(block)
        ended = {arm: notes[arm].get("ended") if arm in notes else True for arm in arms}
        return [arm for arm in arms if self.times.run(block, arm) > 0 or not ended[arm]]

    def _begin(self, waiting: deque[TaskBlock]) -> None:
        """Take up runs while there are free places; a whole block is queued, or none of it."""
        while len(self.running) < self.width and time.monotonic() < self.ends:
            if not self._queue and waiting:
                todo = [(waiting[0], arm) for arm in self._todo(waiting[0])]
                runs = [self.times.run(*one) for one in todo]
                if len(self.failures) >= len(self.plan.arms):
                    self.say(f"{len(self.failures)} runs failed: no further block is begun")
                    waiting.clear()
                elif fitting([runs], self.width, self.ends - time.monotonic(), self._busy()):
                    waiting.popleft()
                    self._queue.extend(todo)
                else:
                    return  # as far as the pace so far says: the runs under way may show a better one
            if not self._queue:
                return
            self._run(*self._queue.popleft())

    def _busy(self) -> list[float]:
        """Seconds that each run under way will still take."""
        return [self.times.run(one.block, one.arm) for one in self.running]

    # ---- processes

    def _run(self, block: TaskBlock, arm: str) -> None:
        """Begin one run; its block says from which start and in which sitting."""
        place, run = self.folder.block(block), self.folder.run(block, arm)
        fresh = {"plan": self.sha256, "start": self.digest, "sittings": []}
        notes = self.folder.notes(block).get(arm, fresh) if RunLog.exists(run) else fresh  # it may never have begun
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        taken = {one.place for one in self.running}
        number = next(number for number in range(self.width) if number not in taken)
        sitting: dict[str, Any] = {"began": now, "seconds": self.seconds, "side_by_side": self.width}
        sitting |= {"slots": self.slots, "cores": self.shares[number]}
        self.folder.note(block, arm, notes | {"sittings": [*notes["sittings"], sitting], "ended": False})
        words = ["train", str(self.folder.path / self.folder.recipe_name(arm)), "--arm", run.name]
        words += ["--seed", str(block.seed), "--out", str(run.parent)]
        words += _sets([f"task={json.dumps(block.task, ensure_ascii=False)}", *self.given])
        process = _spawn(words, place / f"{arm}.log", self.shares[number])
        self.running.append(_Running(block, arm, process, number))

    def _collect(self) -> None:
        """Runs whose process has ended."""
        for one in [one for one in self.running if one.process.poll() is not None]:
            self.running.remove(one)
            share = self.times.look(one.block, one.arm)
            if one.process.returncode == 0 and share >= 1:
                note = self.folder.notes(one.block)[one.arm]
                self.folder.note(one.block, one.arm, note | {"ended": True})
                done = ", the block is complete" if self.times.complete(one.block) else ""
                self.say(f"{one.name}: complete{done}")
                continue
            log = self.folder.block(one.block) / f"{one.arm}.log"
            why = _last_line(log) if one.process.returncode else f"it ended at {share:.0%} of its script seconds"
            self.failures.append(f"{one.name}: {why} ({log})")
            self.say(f"failed: {self.failures[-1]}")

    def _end(self) -> None:
        """Interrupt what still runs, and kill what does not end; the record is complete either way."""
        for signum, patience in ((signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, None)):
            for one in self.running:
                one.process.send_signal(signum)
            until = time.monotonic() + (patience or 0)
            for one in list(self.running):
                try:
                    one.process.wait(None if patience is None else max(0.0, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    continue
                self.running.remove(one)

    def _show(self, waiting: Sequence[TaskBlock]) -> None:
        """Tell how far it is, every few seconds."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        shares = tuple((one.name, self.times.look(one.block, one.arm)) for one in self.running)
        runs = [self.times.run(*one) for one in self._queue]
        runs += [self.times.run(block, arm) for block in waiting for arm in self.plan.order(block)]
        left = min(makespan(runs, self.width, self._busy()), self.ends - time.monotonic())
        complete = sum(map(self.times.complete, self.plan.blocks))
        self.on_progress(SittingProgress(complete, len(self.plan.blocks), shares, left))
        self._looked = time.monotonic()

    # ---- the start

    def _start(self) -> None:
        """Train the start where the plan says so, once; `digest` is that of its weights."""
        start = self.plan.start
        if start.recipe and not (self.folder.path / STARTED).exists():
            self.say(f"training the start by {start.recipe}, in {self.folder.path / 'start'}")
            log = self.folder.path / "start.log"
            words = ["pretrain", start.recipe, "--out", start.model(self.folder.path), *_sets(start.settings)]
            with _ended_with(_spawn(words, log)) as process:
                while process.poll() is None:
                    if time.monotonic() > self.ends:
                        raise InfrastructureError("the time of this sitting ended before its start was trained")
                    time.sleep(POLL_SECONDS)
            if process.returncode:
                raise InputError("start", start.recipe, f"{_last_line(log)} ({log})")
            write_file(self.folder.path / STARTED, json.dumps({"sha256": start_digest(str(log.with_suffix("")))}))
        names = [json.loads(setting.partition("=")[2]) for setting in self.given]
        self.digest = start_digest(names[0]) if names else f"name:{self.recipe.policy.label}"

    def _check_start(self, block: TaskBlock) -> None:
        """Refuse to resume a block from another start than it began with: its arms could not be compared."""
        notes = self.folder.notes(block)
        for arm in self.plan.arms:
            known = str(notes.get(arm, {}).get("start", "a start that nobody noted"))
            if known != self.digest and RunLog.exists(self.folder.run(block, arm)):
                rule = f"{arm} of block {block} was begun from {known[:25]}"
                remedy = f"bring that start back, or move {self.folder.block(block)} away: the block is then made anew"
                raise InputError("start", self.digest[:12], rule, remedy)


def _sets(settings: Sequence[str]) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


def shares(usable: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """Cores of each of `width` runs, as many for each: what one computes slows no script of another."""
    each = len(usable) // width
    return [tuple(usable[each * number : each * (number + 1)]) for number in range(width)]


def _spawn(words: Sequence[str], log: Path, share: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """A command of ours in a process that ends with this one, on these cores; what it says goes to `log`."""
    parent = os.getpid()

    def end_with_parent() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell begins what runs behind it with interrupts off
        if sys.platform == "linux":
            kernel.prctl(kernel.PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            if share:
                os.sched_setaffinity(0, share)

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "rewardrate", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then ends them in order
            preexec_fn=end_with_parent,  # noqa: PLW1509  one thread: nothing is locked at the fork
        )


@contextmanager
def _ended_with(process: subprocess.Popen[bytes]) -> Iterator[Any]:
    """The process, killed if what waits for it ends first."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _last_line(log: Path) -> str:
    """The last thing that a process said."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
