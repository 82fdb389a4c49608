"""rewardrate train: Algorithm 1 on a task, either arm or both, resumable."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardrate.cli.parser import Command, Parser, load_recipe, overrides_of
from rewardrate.cli.run_view import RunView
from rewardrate.cli.terminal import Live, table
from rewardrate.errors import InputError

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
    if args.dry_run:
        return _dry_run(args)
    with Live() as live, RunView(live) as view:  # before what takes seconds to import
        recipe = _recipe(args)
        out = args.out or Path("runs") / f"{Path(args.recipe).stem}-{Path(recipe.task).name}-s{recipe.seed}"
        priced = "rpg" if recipe.arm == "vanilla" else recipe.arm
        arms = (priced, "vanilla") if args.arm == "both" else (recipe.arm,)
        folders = {arm: out / arm for arm in arms}  # so that the other arm can join later
        try:
            for arm, folder in folders.items():
                _one(recipe.with_arm(arm), arm, folder, view)
        except KeyboardInterrupt:
            live.say(f"Interrupted. {_saved(folders.values()):,} attempts saved; the same command resumes.")
            return 130
    return _finish(folders, args)


def _recipe(args: argparse.Namespace) -> Any:
    from rewardrate.training.recipe import Recipe

    flags = {"seed": args.seed, "environment.leaderboards": args.leaderboards}
    recipe = load_recipe(Recipe, args.recipe, overrides_of(args, **flags))
    return recipe if args.arm in (None, "both") else recipe.with_arm(args.arm)


def _dry_run(args: argparse.Namespace) -> int:
    """The settings, once it is known that the task is there; a note for a logger or a GPU that is not."""
    from rewardrate import config
    from rewardrate.training.loggers import absent

    recipe = _recipe(args)
    recipe.environment.check(recipe.task)
    for line in absent(recipe.loggers):
        print(f"note: {line}", file=sys.stderr)
    try:
        recipe.policy.check_device()
    except InputError as error:  # the recipe may be meant for another machine
        print(f"note: policy.{error}", file=sys.stderr)
    print(config.dumps(recipe, explain=True), end="")
    return 0


def _one(recipe: Any, arm: str, folder: Path, view: RunView) -> None:
    """One arm."""
    from rewardrate.training.session import NO_DEADLINE, train

    view.begin(recipe, arm, folder)
    if arm == "horizon" and recipe.budget.script_seconds is None:
        view.live.say(f"note: {NO_DEADLINE}")
    train(recipe, folder, on_phase=view.phase, on_attempt=view.attempt, on_step=view.step)


def _saved(folders: Iterable[Path]) -> int:
    """Attempts that are on record with what they came to."""
    from rewardrate.runlog import RunLog

    found = 0
    for folder in folders:
        if RunLog.exists(folder):
            with RunLog.open(folder, read_only=True) as log:
                found += len(log.attempts()) + sum(row.outcome is not None for row in log.pending())
    return found


SHOWN = {
    "attempts": "attempts",
    "valid_share": "valid",
    "reward_per_attempt": "reward/attempt",
    "seconds_per_attempt": "s/attempt",
    "reward_per_second": "reward/s",
    "best_reward": "best reward",
}
"Number -> its head in the table at the end, which fits 80 columns."


def _finish(folders: Mapping[Any, Path], args: argparse.Namespace) -> int:
    """What came out, and the command that resumes."""
    from rewardrate.reports import headline
    from rewardrate.reports.run import experiments, numbers, read

    runs = {arm: read(folder) for arm, folder in folders.items()}
    found = {arm: numbers(run) for arm, run in runs.items()}
    if args.json:
        print(json.dumps(found))
        return 0
    rows = [[arm, *(f"{row[name]:.4g}" for name in SHOWN)] for arm, row in found.items()]
    for sentence in headline.one_task(experiments(list(runs.values()))[0]):
        print(sentence)
    print(table(["arm", *SHOWN.values()], rows, right=range(1, len(SHOWN) + 1)))
    print(f"next: rewardrate report {next(iter(folders.values())).parent}")
    return 0
