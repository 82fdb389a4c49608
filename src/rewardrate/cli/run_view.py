"""What the terminal shows while a run is trained: a bar with what happens now, and one line for every step."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from rewardrate.cli.terminal import Live, duration

PHASES = {
    "start": "loading Python packages",
    "data": "preparing the data",
    "model": "loading the model",
    "propose": "proposing",
    "execute": "running scripts",
    "fit": "pricing",
    "learn": "learning",
    "save": "saving a checkpoint",
    "evaluate": "running the best script once more",
}
ANNOUNCED = ("data", "model", "evaluate")  # lines of their own where no line can move
IN_STEP = ("propose", "execute", "fit", "learn", "save")
WIDTH = 79
TICK = 0.5  # seconds between two looks of a reader at the same line
HEARTBEAT = 30.0  # the same where no line can move


class RunView:
    """Shows one run after the other; `phase`, `attempt` and `step` are what training calls.

    A thread redraws twice a second, so that a reader sees time pass whatever the run waits for.
    """

    def __init__(self, live: Live) -> None:
        self.live = live
        self.recipe: Any = None
        self.now, self.since = "start", time.monotonic()
        self.ended = self.number = 0
        self.reward = self.seconds = 0.0
        self.wall = 0.0  # of the steps that are done
        self.began = self.said = self.since
        self._stop = threading.Event()
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._tick, name="run view", daemon=True)
        self._warnings = _ToLive(live)

    def __enter__(self) -> RunView:
        logging.getLogger("rewardrate").addHandler(self._warnings)
        self._thread.start()
        self.draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        logging.getLogger("rewardrate").removeHandler(self._warnings)

    def begin(self, recipe: Any, arm: str, folder: Path) -> None:
        """A run begins, or resumes from what its folder holds."""
        from rewardrate.runlog import RunLog

        self.live.say(f"{arm} on {recipe.task}, in {folder}")
        with self._lock:
            self.recipe, self.ended, self.number = recipe, 0, 0
            self.reward = self.seconds = self.wall = 0.0
            self.began = time.monotonic()
            if RunLog.exists(folder):  # it has used some of its budget
                with RunLog.open(folder, read_only=True) as log:
                    steps = log.steps()
                    rows = [row for row in log.attempts() if row.charged]
                self.number = steps[-1].step if steps else 0
                self.reward, self.seconds = sum(row.reward for row in rows), sum(row.seconds for row in rows)
                self.wall = sum(sum(step.phases.values()) for step in steps)

    def phase(self, name: str) -> None:
        """What the run does from now on."""
        with self._lock:
            begins = name in IN_STEP and self.now not in IN_STEP  # loading is not part of the budget
            self.now, self.since = name, time.monotonic()
            self.began = self.since if begins else self.began
        if name in ANNOUNCED and not self.live.moves:
            self.live.say(PHASES[name])
        self.draw()

    def attempt(self, place: int, outcome: Any) -> None:
        """One more script has ended."""
        with self._lock:
            self.ended += 1
            if outcome.charged:
                self.reward, self.seconds = self.reward + outcome.reward, self.seconds + outcome.seconds
        self.draw()

    def step(self, step: Any) -> None:
        """A step is done: say what it came to. One that is worked through again from the record was told before."""
        with self._lock:
            self.ended, self.began = 0, time.monotonic()
            if step.step <= self.number:
                return
            self.number, self.wall = step.step, self.wall + sum(step.phases.values())
        charged = [outcome for outcome in step.outcomes if outcome.charged]
        valid = [outcome for outcome in charged if outcome.valid]
        parts = [
            f"step {step.step:>3}",
            f"valid {len(valid):>3}/{len(step.outcomes)}",
            f"score {_mean(outcome.score for outcome in valid)}",
            f"reward {_mean(outcome.reward if outcome.valid else 0.0 for outcome in charged)}",
            f"{_mean(outcome.seconds for outcome in charged)} s",
            f"rate {step.rate.rate:.4f}",
            f"{min(1.0, self.share()):4.0%}",
        ]
        while len("  ".join(parts)) > WIDTH and len(parts) > 4:
            parts.pop(2)
        self.live.say("  ".join(parts))

    # ---- how far it is

    def share(self) -> float:
        """Share of the budget that is used: of the limit that ends the run first."""
        return max((used / limit for used, limit, _ in self._limits()), default=0.0)

    def left(self) -> float:
        """Seconds until the run ends at its pace so far; infinite while there is none."""
        wall = max(1e-9, self._elapsed())
        return min((max(0.0, limit - used) * (wall / used if used else float("inf"))
                    for used, limit, _ in self._limits()), default=float("inf"))  # fmt: skip

    def _elapsed(self) -> float:
        return self.wall + (time.monotonic() - self.began if self.now in IN_STEP else 0)

    def _limits(self) -> list[tuple[float, float, str]]:
        budget = self.recipe.budget
        share_of_step = min(0.8, 0.8 * self.ended / self.recipe.batch)  # what comes after the last script is a fifth
        found = (
            (self.number + share_of_step, budget.steps, "steps"),
            (self.seconds, budget.script_seconds, "script seconds"),
            (self._elapsed(), budget.wall_seconds, "seconds"),
        )
        return [(used, limit, name) for used, limit, name in found if limit is not None]

    # ---- drawing

    def _tick(self) -> None:
        while not self._stop.wait(TICK):
            self.draw()
            if not self.live.moves and time.monotonic() - self.said > HEARTBEAT and self.recipe is not None:
                self.said = time.monotonic()
                self.live.say(", ".join(part for part in (self._doing(), self._pace()) if part))

    def draw(self) -> None:
        """Show where the run is now."""
        with self._lock:
            if self.recipe is None or self.now == "start":
                self.live.show(self._doing())
                return
            share = min(1.0, self.share())
            bar = "#" * round(24 * share)
            self.live.show(
                ", ".join(filter(None, (f"[{bar:.<24}] {share:4.0%} of the budget", self._pace()))), self._doing()
            )

    def _pace(self) -> str:
        rate = f"{self.reward / self.seconds:.4f} reward/s" if self.seconds else ""
        left = self.left()
        ends = f"{duration(left)} left" if left else "the last step"
        if self.now == "evaluate" or left == float("inf"):
            ends = ""
        return ", ".join(part for part in (ends, rate) if part)

    def _doing(self) -> str:
        """The phase in words, with how long it takes already."""
        words = PHASES.get(self.now, self.now)
        if self.now == "execute" and self.recipe is not None:
            from rewardrate.sandbox import cores

            running, waiting = cores.here()
            words = f"running {self.ended} of {self.recipe.batch} scripts"
            done = f"{self.ended} of {self.recipe.batch} scripts done"
            if self.recipe.schedule == "stream":  # more may end than the step takes
                words, done = f"running scripts, {self.ended} ended in this step", f"{self.ended} scripts done"
            if waiting and not running:
                words = f"waiting for cores that other programs use, {done}"
        if self.now in IN_STEP:
            words = f"step {self.number + 1}: {words}"
        return f"{words} ({duration(time.monotonic() - self.since)})"


class _ToLive(logging.Handler):
    """Warnings as lines that stay, above what moves."""

    def __init__(self, live: Live) -> None:
        super().__init__(logging.WARNING)
        self.live = live

    def emit(self, record: logging.LogRecord) -> None:
        self.live.say(record.getMessage())


def _mean(numbers: Iterable[float | None]) -> str:
    known = [number for number in numbers if number is not None]
    return f"{sum(known) / len(known):.4g}" if known else "-"
