"""rewardrate plan: which price is expected to be best at a budget, before the runs are made."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewardrate.cli.parser import Command, Parser, overrides_of
from rewardrate.cli.terminal import Progress, table
from rewardrate.errors import InputError

if TYPE_CHECKING:
    from rewardrate.training.forecast import Forecast
    from rewardrate.training.measured import Pilot
    from rewardrate.training.recipe import Recipe
    from rewardrate.training.simulation import SimulatedRun

RECIPE = "deadline"

DETAILS = """\
Simulates runs with measured scripts and says which price of a second is expected to be best at T: none, the reward rate
(scale 0.25, 0.5 or 1), or horizon. Give a task, and its reference scripts are used with wide ranges for what is not
known of the model; or give a run folder (a pilot: ten steps tell more than none), and scripts, share of valid attempts,
failures and speed of learning are taken from it. Settings are those of the recipe, or of the run.

T is in seconds of scripts per chain (the budget of script seconds over the batch). Reward at T is that of a chain's
latest attempt, an invalid one 0, mean over 0.8 T to T. Intervals are 80 %: what is not known of the model, without the
noise of single runs, which the number of seeds is for. docs/plan.md says what the simulation leaves out.

examples:
  rewardrate plan diamonds --budget 90
  rewardrate plan diamonds --budget 90 --valid-share 0.1 --learning-steps 20
  rewardrate plan runs/pilot/vanilla --budget 90
  rewardrate plan mnist-5k --budget 60 --set batch=32 --set environment.time_limit=30 --json
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("which price of a second to choose for a budget", DETAILS, _arguments, _plan)
    return _plan(Parser("rewardrate plan", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("source", metavar="RUN_OR_TASK", help="run folder, or name or folder of a task")
    parser.add_argument(
        "--budget", type=float, metavar="T", help="seconds of scripts per chain (default: the recipe's budget)"
    )
    parser.add_argument("--recipe", metavar="NAME", help=f"settings for a task: a recipe, or a file (default {RECIPE})")
    parser.add_argument("--valid-share", type=float, metavar="P", help="share of the first scripts that are valid")
    parser.add_argument("--learning-steps", type=float, metavar="N", help="time constant of learning, in steps")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the simulation (default 0)")
    parser.flag_set("batch=32")
    parser.flag_dry_run()
    parser.flag_json()


def _plan(args: argparse.Namespace) -> int:
    from rewardrate import config
    from rewardrate.checks import at_least
    from rewardrate.training.forecast import Known, plan
    from rewardrate.training.measured import budget_of, limit_of, reference_scripts
    from rewardrate.training.simulation import SimulatedRun

    known = Known(args.valid_share, args.learning_steps)
    seed = at_least("seed", args.seed, 0)
    recipe, pilot = _source(args)
    if args.dry_run:
        print(config.dumps(recipe, explain=True), end="")
        return 0
    budget = budget_of(recipe) if args.budget is None else args.budget
    if budget is None:
        raise InputError("--budget", None, "neither it nor the recipe states seconds of scripts", "give --budget T")
    setting = SimulatedRun(recipe, budget, limit_of(recipe))
    scripts = reference_scripts(recipe) if pilot is None or pilot.attempts is None else pilot.attempts.scripts()
    with Progress("percent", total=100) as bar:
        found = plan(setting, scripts, pilot=pilot, known=known, seed=seed, on_progress=lambda x: bar(int(100 * x)))
    origin = f"{scripts.reward.size} {'reference scripts' if pilot is None else 'scripts of the pilot'}"
    _print(found, setting, origin, args)
    return 0


def _source(args: argparse.Namespace) -> tuple[Recipe, Pilot | None]:
    """The settings to plan for, and the pilot if a run is given."""
    from rewardrate import config
    from rewardrate.runlog import RunLog
    from rewardrate.training.measured import read_pilot
    from rewardrate.training.recipe import Recipe

    folder = Path(args.source)
    if RunLog.exists(folder):
        if args.recipe is not None:
            raise InputError("--recipe", args.recipe, "a run has its own", "leave it out, and change it with --set")
        return config.load(Recipe, folder / "config.toml", args.overrides), read_pilot(folder)
    if folder.is_dir() and not (folder / "config.yaml").is_file() and "/" in args.source:
        rule = "it is neither a run folder (run.sqlite) nor a task (config.yaml)"
        raise InputError("run or task", args.source, rule, "give one arm's folder, or see rewardrate tasks list")
    source = config.find_recipe(args.recipe or RECIPE)
    return config.load(Recipe, source, overrides_of(args, task=json.dumps(args.source))), None


def _print(found: Forecast, setting: SimulatedRun, origin: str, args: argparse.Namespace) -> None:
    """The table and what it says, or JSON."""
    from rewardrate.training.forecast import cautions, power, verdict

    none, task, batch = found.first, setting.recipe.task, setting.recipe.batch
    sentences = [verdict(found), *(power(row, none) for row in found.rows if row.price in ("rate", "horizon"))]
    warnings = cautions(found, setting)
    if args.json:
        rows = [dataclasses.asdict(row) for row in found.rows]
        settings = {"task": task, "budget": setting.budget, "limit_seconds": setting.limit_seconds, "batch": batch}
        model = {"scripts": origin, "agents": found.agents, "repetitions": found.repetitions, "seed": args.seed}
        texts = {"sentences": sentences, "warnings": warnings}
        print(json.dumps(settings | model | {"prices": rows, "parameters": found.parameters} | texts))
        return
    print(f"{task}: {origin}, T = {setting.budget:g} s a chain, batch {batch}, limit {setting.limit_seconds:g} s")
    header = [
        "price",
        "reward at T",
        "difference to none (80 %)",
        "best",
        "at T/4",
        "at T/2",
        "s/attempt",
        "steps",
        "valid",
    ]
    cells = []
    for row in found.rows:
        difference = "" if row is none else f"{row.difference:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
        earlier = ["", ""] if row is none else [f"{value:+.3f}" for value in row.earlier]
        numbers = [f"{row.seconds_per_attempt:.2f}", f"{row.steps:.0f}", f"{row.valid_share:.2f}"]
        cells.append([row.price, f"{row.reward:.3f}", difference, f"{row.best:.0%}", *earlier, *numbers])
    print(table(header, cells, right=range(1, len(header))))
    print(f"\n{found.agents} agents, {found.repetitions} seeds each; best: share of the agents whose best price it is")
    for sentence in sentences:
        print(sentence)
    for warning in warnings:
        print(f"warning: {warning}")
    print(f"again: {_command(args)}")


def _command(args: argparse.Namespace) -> str:
    words = ["rewardrate", "plan", args.source]
    flags = ("budget", "recipe", "valid_share", "learning_steps")
    for name in flags:
        if getattr(args, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += [word for override in args.overrides for word in ("--set", override)]
    return shlex.join([*words, "--seed", str(args.seed)])
