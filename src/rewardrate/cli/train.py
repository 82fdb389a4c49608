"""rewardrate train: Algorithm 1 on a task, either arm or both, resumable."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardrate.cli.parser import Command, Parser, overrides_of
from rewardrate.cli.terminal import Live, duration, table

DETAILS = """\
Trains a language model on a machine-learning task: it proposes scripts, the sandbox runs and times them, the grader
scores them, the best feed the next prompts, and PPO updates the model on reward after paying for the time (arm rpg) or
on reward alone (arm vanilla). The arm horizon pays what a second can still earn before the deadline that
budget.script_seconds states; fixed pays a stated number (reward_per_second). The run folder holds every attempt; stop
it at any moment and give the same command again: it resumes where it stopped, and no recorded attempt is lost or run
again.

recipes: laptop (no GPU, minutes), gpu (a 1.5 B coder model on one GPU), mle-bench-paper and nanogpt-paper (the paper's
tables), nanogpt-mini and nanogpt-gpu (a small race on two cores, or on one GPU), sql-tuning (a database, with a model
behind an endpoint), or your own TOML file; --dry-run prints one with every setting explained.

examples:
  rewardrate train laptop
  rewardrate train laptop --arm both --set task=diamonds --set seed=3
  rewardrate train laptop --set budget.steps=40 --set policy.sampling.temperature=1.0 --out runs/hot
  rewardrate train laptop --dry-run
  rewardrate train mle-bench-paper --set task=mlebench:leaf-classification --leaderboards mledojo/competitions
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("train a policy on a task, by reward per second or by reward alone", DETAILS, _arguments, _train)
    return _train(Parser("rewardrate train", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("recipe", help="name of a recipe, or a TOML file")
    parser.add_argument(
        "--arm", choices=("rpg", "vanilla", "horizon", "fixed", "both"), help="which arm (default: the recipe's)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the run")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder of the runs, one below it for each arm (default runs/RECIPE-TASK-sSEED)",
    )
    parser.flag_leaderboards()
    parser.flag_set("task=diamonds")
    parser.flag_dry_run()
    parser.flag_json()


def _train(args: argparse.Namespace) -> int:
    from rewardrate import config
    from rewardrate.training.recipe import ArmName, Recipe

    flags = {"seed": args.seed, "environment.leaderboards": args.leaderboards}
    recipe = config.load(Recipe, config.find_recipe(args.recipe), overrides_of(args, **flags))
    if args.arm is not None and args.arm != "both":
        recipe = recipe.with_arm(args.arm)
    if args.dry_run:
        print(config.dumps(recipe, explain=True), end="")
        return 0
    out = args.out or Path("runs") / f"{Path(args.recipe).stem}-{Path(recipe.task).name}-s{recipe.seed}"
    priced: ArmName = "rpg" if recipe.arm == "vanilla" else recipe.arm
    arms: tuple[ArmName, ...] = (priced, "vanilla") if args.arm == "both" else (recipe.arm,)
    folders = {arm: out / arm for arm in arms}  # so that the other arm can join later
    for arm, folder in folders.items():
        _one(recipe.with_arm(arm), arm, folder)
    return _finish(folders, args)


def _one(recipe: Any, arm: str, folder: Path) -> None:
    """One arm, with a live line of what it does."""
    from rewardrate.training.session import NO_DEADLINE, train

    print(f"{arm} on {recipe.task}, in {folder}", file=sys.stderr)
    if arm == "horizon" and recipe.budget.script_seconds is None:
        print(f"note: {NO_DEADLINE}", file=sys.stderr)
    with Live() as live:
        view = View(recipe, live, folder)
        train(recipe, folder, on_attempt=view.attempt, on_step=view.step)


class View:
    """What the terminal shows during a run: a line that moves, and one that stays for every step."""

    def __init__(self, recipe: Any, live: Live, folder: Path) -> None:
        from rewardrate.runlog import RunLog

        self.recipe, self.live = recipe, live
        self.attempts = self.number = 0
        self.used = self.wall = 0.0
        if RunLog.exists(folder):  # a resumed run has used some of its budget
            with RunLog.open(folder, read_only=True) as log:
                steps = log.steps()
            if steps:
                self.number, self.used = steps[-1].step, steps[-1].script_seconds
                self.wall = sum(sum(step.phases.values()) for step in steps)

    def attempt(self, place: int, outcome: Any) -> None:
        """One more script has ended."""
        self.attempts += 1
        batch = self.recipe.batch
        self.live.show(f"  step {self.number + 1}: {self.attempts} of {batch} scripts, last: {outcome.message[:60]}")

    def step(self, step: Any) -> None:
        """A step is done: say what it came to. One that is worked through again from the record was told before."""
        self.attempts = 0
        if step.step <= self.number:
            return
        charged = [outcome for outcome in step.outcomes if outcome.charged]
        valid = [outcome for outcome in charged if outcome.valid]
        spent, took = sum(outcome.seconds for outcome in charged), sum(step.phases.values())
        self.number, self.used, self.wall = step.step, self.used + spent, self.wall + took
        self.live.say(
            f"step {step.step:>3}  valid {len(valid):>3}/{len(step.outcomes)}  "
            f"score {_mean(outcome.score for outcome in valid):>7}  reward {_mean(o.reward for o in valid):>6}  "
            f"seconds {_mean(outcome.seconds for outcome in charged):>6}  rate {step.rate.rate:7.4f}  "
            f"{self._left(spent, took)}"
        )

    def _left(self, spent: float, took: float) -> str:
        """How much of the budget is used, and how long the rest takes at this step's pace; what ends first counts."""
        budget = self.recipe.budget
        limits = (
            (self.number, budget.steps, 1),
            (self.used, budget.script_seconds, spent),
            (self.wall, budget.wall_seconds, took),
        )
        ends = [(used / limit, (limit - used) / max(pace, 1e-9)) for used, limit, pace in limits if limit is not None]
        share, steps = max(share for share, _ in ends), min(steps for _, steps in ends)
        return f"{min(1.0, share):4.0%} of the budget, {duration(max(0.0, steps) * took)} left"


def _mean(numbers: Iterable[float | None]) -> str:
    known = [number for number in numbers if number is not None]
    return f"{sum(known) / len(known):.4g}" if known else "-"


def _finish(folders: Mapping[Any, Path], args: argparse.Namespace) -> int:
    """What came out, and the command that resumes."""
    from rewardrate.reports import headline
    from rewardrate.reports.run import experiments, numbers, read

    runs = {arm: read(folder) for arm, folder in folders.items()}
    found = {arm: numbers(run) for arm, run in runs.items()}
    if args.json:
        print(json.dumps(found))
        return 0
    names = ["attempts", "valid_share", "reward_per_attempt", "seconds_per_attempt", "reward_per_second", "best_reward"]
    rows = [[arm, *(f"{row[name]:.4g}" for name in names)] for arm, row in found.items()]
    for sentence in headline.one_task(experiments(list(runs.values()))[0]):
        print(sentence)
    print(table(["arm", *(name.replace("_", " ") for name in names)], rows, right=range(1, len(names) + 1)))
    print(f"next: rewardrate report {next(iter(folders.values())).parent}")
    return 0
