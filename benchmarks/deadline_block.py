"""Blocks of a study within a number of seconds: all arms of a task and seed on one machine, from one start.

    python benchmarks/deadline_block.py deadline --blocks diamonds:0 mnist-5k:1 --runs runs/study --seconds 1400

Training a start twice does not give the same bits, so arms are compared inside a block and a block belongs to one
start. Without --start, RUNS/start is trained by recipe pretrain-start, once. Runs go side by side, each an `arms.py`
with --slots cores. A block is begun only if all its runs are expected to end in time; a run that is then not over is
interrupted, and the same command on the same machine resumes it. RUNS/TASK-sSEED gets the arms and block.json (SHA-256
of the start, cores, seconds). Blocks of several machines are merged by copying these folders into one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from arms import ARMS

from rewardrate import config
from rewardrate.policies.models import SHIPPED
from rewardrate.runlog import RunLog
from rewardrate.sandbox import cores
from rewardrate.training.recipe import Recipe

BESIDE = 1.45  # wall seconds of a run over script seconds of a slot: 1.48 to 1.74 with 5 slots (results of the pilot)
GRACE_SECONDS = 10.0  # between the interrupt and the end


def turns(arms: Sequence[str], place: int) -> list[str]:
    """The arms of a block in the order in which they begin: each is first equally often."""
    first = place % len(arms)
    return [*arms[first:], *arms[:first]]


def fitting(todo: Sequence[Sequence[float]], width: int, left: float) -> int:
    """How many blocks, from the first on, end in time. `todo`: seconds that each run of a block will take.

    Runs begin in order, each as soon as one of `width` places is free. A block that is too long is not passed over:
    that would choose tasks by their speed.
    """
    free = [0.0] * width
    for number, runs in enumerate(todo):
        for seconds in runs:
            place = free.index(min(free))
            free[place] += seconds
        if runs and max(free) > left:
            return number
    return len(todo)


def used(folder: Path) -> float:
    """Script seconds of a run so far; 0 if there is none."""
    if not RunLog.exists(folder):
        return 0.0
    with RunLog.open(folder, read_only=True) as log:
        steps = log.steps()
    return steps[-1].script_seconds if steps else 0.0


class Sitting:
    """The blocks that one machine works through until its time is over."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.ends = args, time.monotonic() + args.seconds - GRACE_SECONDS
        self.width = max(1, (args.cores or len(cores.usable())) // args.slots)
        self.start = args.start or str(args.runs / "start")
        self.given = [f"policy.name={json.dumps(self.start)}", f"sandbox.slots={args.slots}", *args.set]
        self.budget = config.load(Recipe, config.find_recipe(args.recipe), self.given).budget.script_seconds
        if self.budget is None:
            raise SystemExit("the recipe states no budget.script_seconds")

    def work(self) -> None:
        """The start, then as many whole blocks as there is time for."""
        if not self.args.start and not (Path(self.start) / "model.safetensors").is_file():
            settings = [f"out={json.dumps(self.start)}", f"stop_after={self.args.start_steps}"]
            self._run(["-m", "rewardrate", "pretrain", "pretrain-start", *_sets(settings)])
        jobs = [self.jobs(place, *block) for place, block in enumerate(self.args.blocks)]
        begun = fitting([[seconds for _, seconds in runs] for runs in jobs], self.width, self.ends - time.monotonic())
        for (task, seed), runs in zip(self.args.blocks[:begun], jobs, strict=False):
            if runs:
                self._note(self.folder(task, seed))
        with ThreadPoolExecutor(self.width) as threads:
            list(threads.map(self._run, [words for runs in jobs[:begun] for words, _ in runs]))
        for task, seed in self.args.blocks:
            print(f"{task}:{seed}", "not complete" if self.jobs(0, task, seed) else "complete", flush=True)

    def jobs(self, place: int, task: str, seed: int) -> list[tuple[list[str], float]]:
        """Command and expected seconds of each run of a block that is not complete."""
        found = []
        for arm in turns(self.args.arms, place):
            rest = self.budget - used(self.folder(task, seed) / arm)
            if rest > 0:
                words = [str(Path(__file__).with_name("arms.py")), self.args.recipe, "--tasks", task, "--seeds", "1"]
                words += ["--first-seed", str(seed), "--arms", arm, "--runs", str(self.args.runs), *_sets(self.given)]
                found.append((words, rest / self.args.slots * BESIDE))
        return found

    def folder(self, task: str, seed: int) -> Path:
        """Of a block; the name is that of arms.py."""
        place: Path = self.args.runs / f"{Path(task).name}-s{seed}"
        return place

    def _run(self, words: Sequence[str]) -> None:
        """One program, interrupted when the time is over."""
        if self.ends <= time.monotonic():
            return
        process = subprocess.Popen([sys.executable, *words])
        try:
            process.wait(self.ends - time.monotonic())
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()

    def _note(self, folder: Path) -> None:
        """What a reader must know of a block; one that was begun from another start is refused."""
        weights = sorted(Path(SHIPPED.get(self.start, self.start)).glob("*.safetensors"))
        start = hashlib.sha256(b"".join(path.read_bytes() for path in weights)).hexdigest()
        path = folder / "block.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"start": start, "sittings": []}
        if not weights or known["start"] != start:
            raise SystemExit(f"{path}: begun from {known['start'][:12]}, the start is {weights and start[:12]}")
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        sitting = {"began": now, "seconds": self.args.seconds, "side_by_side": self.width, "slots": self.args.slots}
        known["sittings"].append(sitting)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _sets(settings: Sequence[str]) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


def block_of(text: str) -> tuple[str, int]:
    """Task and seed, as they are written on the command line: TASK:SEED."""
    task, _, seed = text.rpartition(":")
    if not task or not seed.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not TASK:SEED")
    return task, int(seed)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and so would its runs
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--blocks", nargs="+", type=block_of, required=True, metavar="TASK:SEED")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["vanilla", "rpg", "horizon"])
    parser.add_argument("--seconds", type=float, required=True, help="of the sitting, training of the start included")
    parser.add_argument("--cores", type=int, help="default: all that this process may use")
    parser.add_argument("--slots", type=int, default=3, help="cores of one run")
    parser.add_argument("--start", help="a model: a folder, or tiny (default: RUNS/start, trained if missing)")
    parser.add_argument("--start-steps", type=int, default=350, help="when the training of the start ends")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="as of rewardrate train")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the blocks")
    Sitting(parser.parse_args()).work()


if __name__ == "__main__":
    main()
