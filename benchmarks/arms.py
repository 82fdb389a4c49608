"""The arms of a recipe over tasks and seeds, from the same start and with the same budget: what each has to show at T.

    python benchmarks/arms.py laptop --tasks diamonds elec-demand leaf-flavia --seeds 5 \
        --set budget.script_seconds=250 --runs runs/arms --out results/DATE-NAME

Runs that stand in --runs are not repeated, and one that was killed resumes. It trains rpg and vanilla; --arms names
others (horizon) or fewer (another process may train the rest at the same time, with the same folders); without --out it
only trains, with --only-report it trains nothing. --out gets
  arms.csv       per task and arm: reward and score at T with the 95 % paired bootstrap interval of the difference,
                 valid share, reward and seconds of the first and of the last third of the steps, report split
  runs.csv       the same numbers of every run
  steps.csv      every step of every run: valid share, reward, seconds, rate, seconds by phase
  figures/       budget curves of every task; valid share, reward and seconds by step
  scripts/       the first valid and the best script of each arm and task
"""

from __future__ import annotations

import argparse
import csv
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate import config
from rewardrate.reports import files
from rewardrate.reports.evaluation import Interval
from rewardrate.reports.run import Experiment, Run, experiments, find
from rewardrate.runlog import AttemptRow
from rewardrate.training.recipe import ArmName, Recipe
from rewardrate.training.session import train

PRICED: tuple[ArmName, ...] = ("rpg", "horizon")
ARMS: tuple[ArmName, ...] = (*PRICED, "vanilla")


def runs_of(args: argparse.Namespace) -> None:
    """Train what is missing. Which arm goes first changes from seed to seed, so that a slow hour hits both."""
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        for task in args.tasks:
            given = [*args.set, f'task="{task}"', f"seed={seed}"]
            recipe = config.load(Recipe, config.find_recipe(args.recipe), given)
            for arm in args.arms if seed % 2 == 0 else args.arms[::-1]:
                folder = args.runs / f"{Path(task).name}-s{seed}" / arm
                train(recipe.with_arm(arm), folder, on_step=lambda step: print(".", end="", flush=True))
                print(f" {folder}", flush=True)


def share_of(attempts: Sequence[AttemptRow]) -> dict[str, float]:
    """Valid share, mean reward of the valid, mean seconds of all."""
    valid = [attempt for attempt in attempts if attempt.valid]
    return {
        "valid": len(valid) / max(1, len(attempts)),
        "reward": float(np.mean([attempt.reward for attempt in valid])) if valid else float("nan"),
        "seconds": float(np.mean([attempt.seconds for attempt in attempts])) if attempts else float("nan"),
    }


def thirds(run: Run) -> dict[str, float]:
    """The first and the last third of a run's steps, by `share_of`."""
    steps = len(run.steps)
    part = max(1, steps // 3)
    first = [attempt for attempt in run.charged if attempt.step <= part]
    last = [attempt for attempt in run.charged if steps - part < attempt.step <= steps]
    found = {f"{name}_all": value for name, value in share_of(run.charged).items()}
    found |= {f"{name}_first": value for name, value in share_of(first).items()}
    return found | {f"{name}_last": value for name, value in share_of(last).items()}


def held_out(run: Run) -> float:
    """Reward of the final script on the report split; NaN without one."""
    return float("nan") if run.held_out_reward is None else run.held_out_reward


def run_rows(experiment: Experiment) -> list[dict[str, Any]]:
    """One row a run."""
    rows = []
    for arm in ARMS:
        for run in experiment.arms.get(arm, ()):
            best = run.best
            row = {"task": experiment.task, "arm": arm, "seed": run.seed, "steps": len(run.steps)}
            row |= {"attempts": len(run.attempts), "script_seconds": run.steps[-1].script_seconds, **thirds(run)}
            row |= {
                "best_reward": best.reward if best else float("nan"),
                "report_reward": float("nan") if (held := run.held_out_reward) is None else held,
            }
            row |= {"contaminated": float(np.mean([attempt.contaminated for attempt in run.attempts]))}
            rows.append(row | {"rate": run.steps[-1].rate.rate, "wall_seconds": wall(run)})
    return rows


def wall(run: Run) -> float:
    """Seconds of all phases."""
    return sum(sum(step.phases.values()) for step in run.steps)


def arm_rows(experiment: Experiment, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row an arm, all compared with vanilla at the same T; the difference stands in the row of the priced arm."""
    made = []
    for arm in [arm for arm in ARMS if arm in experiment.arms]:
        mine = [row for row in rows if row["task"] == experiment.task and row["arm"] == arm]
        line: dict[str, Any] = {"task": experiment.task, "arm": arm, "n": len(mine)}
        for metric in ("reward", "score"):
            priced = arm if arm in PRICED else experiment.first
            both = experiment.compare(metric, arm=priced) if metric in experiment.metrics else None
            if both is None:
                continue
            line |= {"T": both.final, **named(metric, both.rpg if arm in PRICED else both.vanilla)}
            if arm in PRICED:
                line |= named(f"{metric}_difference", both.difference)
        numbers = [name for name in mine[0] if name not in ("task", "arm", "seed")]
        made.append(line | {name: float(np.nanmean([row[name] for row in mine])) for name in numbers})
    return made


def named(name: str, interval: Interval) -> dict[str, float | None]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def step_rows(run: Run, task: str) -> list[dict[str, Any]]:
    """One row a step."""
    made = []
    for step in run.steps:
        line = {"task": task, "arm": run.arm, "seed": run.seed, "step": step.step, "rate": step.rate.rate}
        line |= share_of(run.by_step.get(step.step, ()))
        made.append(line | {name: step.phases.get(name, 0.0) for name in ("propose", "execute", "learn")})
    return made


def scripts(experiment: Experiment, folder: Path) -> None:
    """The first valid script of the first seed, and the best of all seeds, of each arm."""
    folder.mkdir(parents=True, exist_ok=True)
    for arm in ARMS:
        runs = experiment.arms.get(arm, ())
        valid = [attempt for run in runs for attempt in run.valid]
        if valid:
            best = max(valid, key=lambda attempt: (attempt.reward, -attempt.seconds))
            for name, attempt in (("first", valid[0]), ("best", best)):
                head = f"# {experiment.task}, {arm}: reward {attempt.reward:.4f}, {attempt.seconds:.2f} s, "
                head += f"attempt {attempt.id} (step {attempt.step})\n"
                (folder / f"{experiment.task}-{arm}-{name}.txt").write_text(head + attempt.code.rstrip() + "\n")


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    fields = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {name: f"{value:.5g}" if isinstance(value, float) else value for name, value in row.items()}
            )


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell begins what runs behind it with interrupts off
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="as of rewardrate train")
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["rpg", "vanilla"])
    parser.add_argument("--only-report", action="store_true")
    parser.add_argument("--out", type=Path, help="folder of the result")
    args = parser.parse_args()
    if args.only_report and args.out is None:
        parser.error("--only-report needs --out")
    if not args.only_report:
        runs_of(args)
    if args.out is not None:
        report(args)


def report(args: argparse.Namespace) -> None:
    """Everything that --out gets."""
    runs = [
        run for task in args.tasks for path in sorted(args.runs.glob(f"{Path(task).name}-s*")) for run in find(path)
    ]
    found = experiments(runs)
    args.out.mkdir(parents=True, exist_ok=True)
    rows = [row for experiment in found for row in run_rows(experiment)]
    write(args.out / "runs.csv", rows)
    write(args.out / "arms.csv", [row for experiment in found for row in arm_rows(experiment, rows)])
    write(args.out / "steps.csv", [row for run in runs for row in step_rows(run, run.task)])
    for experiment in found:
        scripts(experiment, args.out / "scripts")
    written = files.write([args.runs], args.runs, "reward")
    for path in written.figures:
        (args.out / "figures").mkdir(exist_ok=True)
        (args.out / "figures" / path.name).write_bytes(path.read_bytes())
    print((written.tables[0]).read_text() if written.tables else "one arm is missing", file=sys.stdout)


if __name__ == "__main__":
    main()
