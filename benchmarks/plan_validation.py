"""What `rewardrate plan` says beside what real runs came to, and its prediction for the deadline study.

    python benchmarks/plan_validation.py --out results/2026-11-19-plan-validation
    python benchmarks/plan_validation.py --only study --budget 72 --learning-steps 80 --out results/DATE-NAME

Measured: reward at T (mean over 0.8 T to T, an invalid attempt counts 0) of the arm less that of vanilla, T: what every
run of the task has used. Folders with attempts: the chains' values; with steps only: the mean reward of the last step
that a chain with mean seconds has finished.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rewardrate import config
from rewardrate.environments.mle.folder import shipped
from rewardrate.reports.evaluation import chains
from rewardrate.training.forecast import Forecast, Known, interval, plan
from rewardrate.training.measured import Attempts, Pilot, limit_of, reference_scripts
from rewardrate.training.recipe import Recipe
from rewardrate.training.simulation import HORIZON, NEAR_END, NONE, RATE, SimulatedPrice, SimulatedRun

RESULTS = Path(__file__).parent.parent / "results"
FOLDERS = ("2026-11-17-tiny-arms", "2026-11-18-qwen-arms", "2026-11-18-deadline-pilot")
ARMS = {"rpg": RATE, "horizon": HORIZON}
Z_80 = 1.2816
RECIPE, SHARES = "deadline", (0.1, 0.7)  # of the study, valid shares of its starts
HEADER = ["folder", "task", "price", "T", "n", "measured", "measured_se", "scripts", "predicted", "low", "high",
          "single_low", "single_high", "inside", "best"]  # fmt: skip
STUDY_HEADER = ["valid_share", "learning_steps", "task", "price", "reward", "difference", "low", "high", "best",
                "seconds_per_attempt", "steps", "valid_at_end", "top_share", "run_sd", "seeds"]  # fmt: skip


@dataclass(frozen=True)
class RealRun:
    """One run of a folder."""

    task: str
    arm: str
    seed: int
    by_step: np.ndarray
    attempts: Attempts | None = None
    columns: dict[str, list[object]] | None = None

    @property
    def used(self) -> np.ndarray:
        """Mean seconds of a chain after each step."""
        return np.cumsum(self.by_step[:, 2])

    def value(self, final: float) -> float:
        """Reward at T."""
        if self.columns is not None:
            return float(chains(self.columns).at_end(final).mean())
        places = np.searchsorted(self.used, NEAR_END * final, side="right")
        return float(np.concatenate([[0.0], self.by_step[:, 1]])[places].mean())


def real_runs(folder: str) -> list[RealRun]:
    """The runs of a results folder, from attempts.csv or steps.csv."""
    tables = RESULTS / folder / "tables"
    if (tables / "attempts.csv").exists():
        by_arm: dict[str, list[dict[str, str]]] = defaultdict(list)
        for row in _read(tables / "attempts.csv"):
            by_arm[row["arm"]].append(row)
        return [_from_attempts("diamonds", arm, rows) for arm, rows in by_arm.items()]
    grouped: dict[tuple[str, str, int], list[tuple[float, ...]]] = defaultdict(list)
    for row in _read(RESULTS / folder / "steps.csv"):
        valid, reward = float(row["valid"]), float(row["reward"]) if row["reward"] not in ("", "nan") else 0.0
        grouped[row["task"], row["arm"], int(row["seed"])].append((valid, valid * reward, float(row["seconds"])))
    return [RealRun(*key, np.array(rows)) for key, rows in grouped.items()]


def _from_attempts(task: str, arm: str, rows: Sequence[dict[str, str]]) -> RealRun:
    columns: dict[str, list[object]] = {name: [int(row[name]) for row in rows] for name in ("step", "row")}
    columns["valid"] = [row["valid"] == "1" for row in rows]
    columns["reward"] = [float(row["reward"] or 0) for row in rows]
    columns["seconds"] = [float(row["seconds"]) for row in rows]
    columns["status"] = [row["status"] for row in rows]
    attempts = Attempts.of(columns)
    return RealRun(task, arm, 0, attempts.by_step, attempts, columns)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open() as lines:
        return list(csv.DictReader(lines))


def validate(folder: str) -> Iterable[list[object]]:
    """Rows of the table for one folder: with the reference scripts alone, then with vanilla's runs as the pilot."""
    runs = real_runs(folder)
    recipe = config.build(Recipe, config.read_toml(RESULTS / folder / "config.toml"))
    recipe = replace(recipe, overhead=replace(recipe.overhead, seconds=0.0))  # reference seconds include the start
    for task in dict.fromkeys(run.task for run in runs):
        mine = [run for run in runs if run.task == task]
        final = min(float(run.used[-1]) for run in mine)
        vanilla = {run.seed: run for run in mine if run.arm == "vanilla"}
        setting = SimulatedRun(replace(recipe, task=task), final, limit_of(recipe))
        arms = [arm for arm in ARMS if any(run.arm == arm for run in mine)]
        predicted = predictions(setting, list(vanilla.values()), [ARMS[arm] for arm in arms])
        for arm in arms:
            pairs = [run.value(final) - vanilla[run.seed].value(final) for run in mine if run.arm == arm]
            mean, n = float(np.mean(pairs)), len(pairs)
            error = float(np.std(pairs, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
            for scripts, found in predicted.items():
                row, none = found.row(ARMS[arm].name), found.row("none")
                noise = (row.run_sd**2 + none.run_sd**2) / n
                half = Z_80 * math.sqrt(((row.high - row.low) / 2 / Z_80) ** 2 + noise)
                low, high = row.difference - half, row.difference + half
                yield [folder, task, row.price, final, n, mean, error, scripts, row.difference, row.low, row.high,
                       low, high, int(low <= mean <= high), row.best]  # fmt: skip


def predictions(
    setting: SimulatedRun, vanilla: Sequence[RealRun], prices: Sequence[SimulatedPrice]
) -> dict[str, Forecast]:
    """What the tool says without a pilot and with one."""
    steps = min(len(run.by_step) for run in vanilla)
    by_step = np.mean([run.by_step[:steps] for run in vanilla], axis=0)
    pilot = Pilot(setting.recipe.with_arm("vanilla"), by_step, vanilla[0].attempts)
    scripts = reference_scripts(setting.recipe)
    own = scripts if pilot.attempts is None else pilot.attempts.scripts()
    prices = (NONE, *prices)
    return {
        "references": plan(setting, scripts, known=Known(float(by_step[0, 0])), prices=prices),
        "pilot": plan(setting, own, pilot=pilot, prices=prices),
    }


def predict_study(final: float, learning_steps: float) -> Iterable[list[object]]:
    """The prediction for all twelve tasks at the settings of the deadline study, and for their mean.

    With learning steps drawn from all that are thought possible, then with those that are stated.

    Agents are drawn with one seed, so agent i learns alike on all tasks and the mean is taken agent by agent.
    """
    recipe = config.load(Recipe, config.find_recipe(RECIPE))
    for steps, share in itertools.product((None, learning_steps), SHARES):
        differences = []
        for task in sorted(shipped()):
            mine = replace(recipe, task=task)
            setting = SimulatedRun(mine, final, limit_of(mine))
            found = plan(setting, reference_scripts(mine), known=Known(share, steps))
            differences.append(found.differences)
            for row in found.rows:
                yield [share, steps or "", task, row.price, row.reward, row.difference, row.low, row.high, row.best,
                       row.seconds_per_attempt, row.steps, row.valid_share, row.top_share, row.run_sd,
                       row.seeds]  # fmt: skip
            print(share, steps, task, [f"{row.price} {row.difference:+.3f}" for row in found.rows[1:]], flush=True)
        means = np.mean(differences, axis=0)
        for row, difference in zip(found.rows, means, strict=True):
            low, high = interval(difference)
            ahead = sum(float(one[found.rows.index(row)].mean()) > 0 for one in differences)
            print(f"mean of {len(differences)} tasks, {share}, {steps}: {row.price} {difference.mean():+.3f}"
                  f" ({low:+.3f} to {high:+.3f}), ahead on {ahead}", flush=True)  # fmt: skip
            yield [share, steps or "", "mean", row.price, "", float(difference.mean()), low, high, *[""] * 7]


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            writer.writerow([f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row])
            file.flush()


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=("validation", "study"))
    parser.add_argument("--budget", type=float, default=90.0, help="of the study: T in seconds a chain")
    parser.add_argument("--learning-steps", type=float, default=20.0, help="of the study's second part")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.only != "study":
        _write(args.out / "validation.csv", HEADER, (row for folder in FOLDERS for row in validate(folder)))
    if args.only != "validation":
        _write(args.out / "study.csv", STUDY_HEADER, predict_study(args.budget, args.learning_steps))


if __name__ == "__main__":
    main()
