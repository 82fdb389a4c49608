"""What the deadline study's plan decides from its runs (results/2026-11-18-deadline-study/plan.md).

    python benchmarks/deadline_study.py choose runs/pilot [--out results/DATE-NAME]
    python benchmarks/deadline_study.py judge runs/study --contrast runs/contrast --out results/DATE-NAME

`choose` applies the second pilot's rule to its runs and prints learning rate and entropy coefficient. `judge` reads
tables/runs.csv, as `rewardrate compare` writes it once a part is complete, and gives the prediction of `rewardrate
plan` beside every task's outcome (sign right in how many of twelve), the mechanism (main less contrast), and the
analyses that the plan names beforehand.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance

import numpy as np

from rewardrate.reports.comparison import interval_of, most_frequent
from rewardrate.reports.comparison_tables import markdown
from rewardrate.reports.evaluation import Interval, places
from rewardrate.reports.run import Run, read
from rewardrate.reports.tables import interval
from rewardrate.runlog.comparison import ComparisonFolder

PREDICTED = Path(__file__).parent.parent / "results" / "2026-11-20-deadline-prediction" / "study.csv"
PRICES = {"rpg": "rate", "horizon": "horizon"}  # arm -> price of the prediction
SHARES = {"main": "0.1", "contrast": "0.7"}  # part -> valid share of the prediction
LEARNING_STEPS = "80"  # of the prediction, at the learning rate of the study
KNEE = ("digits8x8", "mnist-5k", "flights-delay", "seattle-pets")
METRIC, MANIPULATION = "reward_at_T_current", "most_frequent_script"
SETTINGS = ("policy.learner.learning_rate", "policy.learner.entropy_coefficient")
NONE_QUALIFIES = (2.5e-5, 0.01)

Differences = Mapping[str, Mapping[int, float]]
"Task -> seed -> difference of the block."


# ---- the second pilot


@dataclass(frozen=True)
class PilotRun:
    """One run of the second pilot against the plan's rule."""

    task: str
    settings: tuple[float, float]
    "Learning rate and entropy coefficient."
    used: float
    "Share of its budget."
    frequent: float
    "(a) Share of the most frequent valid script among the valid attempts from 0.8 T to T."
    gain: float
    error: float
    "(b) Reward per attempt there less that of the first 0.2 T, and its standard error."

    @property
    def qualifies(self) -> bool:
        """Whether both conditions hold; one that cannot be computed does not."""
        return self.used >= 1 and self.frequent < 0.5 and self.gain > 2 * self.error


def pilot_run(run: Run, final: float, budget: float) -> PilotRun:
    """The rule's numbers of one run; `final` is T."""
    columns = (np.array([getattr(one, name) for one in run.attempts]) for name in ("step", "row", "chain"))
    ended = run.chains.finished[places(*columns)]
    rows = [(at, one.reward if one.valid else 0.0) for one, at in zip(run.attempts, ended, strict=True) if one.charged]
    first = [reward for at, reward in rows if at <= 0.2 * final]
    last = [reward for at, reward in rows if 0.8 * final <= at <= final]
    enough = min(len(first), len(last)) > 1
    gain = fmean(last) - fmean(first) if enough else math.nan
    error = math.sqrt(sum(variance(part) / len(part) for part in (first, last))) if enough else math.nan
    rate, entropy = (float(run.settings[name]) for name in SETTINGS)
    used = run.steps[-1].script_seconds / budget
    return PilotRun(run.task, (rate, entropy), used, most_frequent(run, final), gain, error)


def choose(runs: Sequence[PilotRun]) -> tuple[float, float] | None:
    """The largest learning rate, then the smaller coefficient, that qualifies on every task; None if none does."""
    found: dict[tuple[float, float], list[PilotRun]] = defaultdict(list)
    for run in runs:
        found[run.settings].append(run)
    good = [settings for settings, members in found.items() if all(run.qualifies for run in members)]
    return min(good, key=lambda pair: (-pair[0], pair[1]), default=None)


def fifths(run: Run, final: float) -> list[list[float | str]]:
    """A row for each fifth of T: what was attempted in it."""
    columns = (np.array([getattr(one, name) for one in run.attempts]) for name in ("step", "row", "chain"))
    ended = run.chains.finished[places(*columns)]
    table: list[list[float | str]] = []
    for fifth in range(5):
        low, high = final * fifth / 5, final * (fifth + 1) / 5
        part = [one for one, at in zip(run.attempts, ended, strict=True) if low < at <= high and one.charged]
        codes = Counter(one.code for one in part if one.valid)
        reward = [one.reward if one.valid else 0.0 for one in part]
        found = [codes.total() / len(part), fmean(reward), fmean(one.seconds for one in part)]
        most = max(codes.values(), default=0) / max(1, codes.total())
        table.append([fifth + 1, len(part), *(f"{value:.3f}" for value in found), len(codes), f"{most:.2f}"])
    return table


def read_pilot(place: Path) -> tuple[float, list[Run], list[PilotRun]]:
    """T, every run of the pilot's folder, and the rule's numbers of each."""
    folder = ComparisonFolder(place)
    plan = folder.plan()
    final = plan.script_seconds / folder.settings()["batch"]
    runs = [read(folder.run(block, arm)) for block in plan.blocks for arm in plan.arms]
    return final, runs, [pilot_run(run, final, plan.script_seconds) for run in runs]


def write_fifths(path: Path, final: float, runs: Sequence[Run]) -> None:
    """How every run went, as CSV."""
    head = ["task", "learning_rate", "entropy", "fifth", "attempts", "valid_share", "reward_per_attempt"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*head, "seconds_per_attempt", "distinct_valid_scripts", "most_frequent"])
        for run in runs:
            writer.writerows([run.task, *(run.settings[name] for name in SETTINGS), *row] for row in fifths(run, final))


def say_choice(place: Path, out: Path | None) -> None:
    """The rule's numbers run by run, and what is chosen."""
    final, logs, runs = read_pilot(place)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_fifths(out / "fifths.csv", final, logs)
    head = ["task", "learning rate", "entropy", "of T", "(a) most frequent", "(b) gain (s.e.)", "qualifies"]
    rows = [
        [run.task, f"{run.settings[0]:g}", f"{run.settings[1]:g}", f"{run.used:.0%}", f"{run.frequent:.2f}",
         f"{run.gain:+.3f} ({run.error:.3f})", "yes" if run.qualifies else "no"]
        for run in runs
    ]  # fmt: skip
    print(markdown(head, rows))
    short = [run for run in runs if run.used < 1]
    if short:
        print(f"{len(short)} runs have not reached T and do not qualify; the same sitting resumes them.")
    chosen = choose(runs)
    rate, entropy = chosen or NONE_QUALIFIES
    why = "qualifies on every task" if chosen else "none qualifies: the plan's fallback"
    print(f"chosen: {SETTINGS[0]}={rate:g} {SETTINGS[1]}={entropy:g} ({why})")


# ---- the outcome


def read_runs(place: Path) -> dict[tuple[str, int, str], dict[str, float]]:
    """(task, seed, arm) -> quantities of its run, from tables/runs.csv."""
    path = place / "tables" / "runs.csv"
    if not path.exists():
        raise SystemExit(f"{path} is not there: rewardrate compare writes it once the plan is complete")
    found = {}
    for row in _rows(path):
        key = row.pop("task"), int(row.pop("seed")), row.pop("arm")
        found[key] = {name: float(value) if value else math.nan for name, value in row.items()}
    return found


def differences(runs: Mapping[tuple[str, int, str], Mapping[str, float]], arm: str) -> dict[str, dict[int, float]]:
    """The arm less vanilla in the plan's metric."""
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for task, seed, name in runs:
        if name == arm and (task, seed, "vanilla") in runs:
            found[task][seed] = runs[task, seed, arm][METRIC] - runs[task, seed, "vanilla"][METRIC]
    return dict(found)


def pooled(found: Differences) -> Interval:
    """The plan's estimate and interval; nothing for no block."""
    groups = {task: list(seeds.values()) for task, seeds in found.items() if seeds}
    return interval_of(groups) if groups else Interval(None, None, None)


def predictions(part: str, arm: str) -> dict[str, tuple[float, float, float]]:
    """Task -> predicted difference and its 80 % interval, made before any run of the study."""
    return {
        row["task"]: (float(row["difference"]), float(row["low"]), float(row["high"]))
        for row in _rows(PREDICTED)
        if (row["valid_share"], row["learning_steps"], row["price"]) == (SHARES[part], LEARNING_STEPS, PRICES[arm])
        and row["task"] != "mean"
    }


def beside_predictions(part: str, arm: str, found: Differences) -> list[list[str]]:
    """Rows of the table: task, blocks, predicted, measured, whether the sign is right, whether it lies inside."""
    rows = []
    for task, (value, low, high) in predictions(part, arm).items():
        seeds = found.get(task, {})
        if seeds:
            mean = fmean(seeds.values())
            right, inside = mean * value > 0, low <= mean <= high
            words = ["yes" if right else "no", "yes" if inside else "no"]
            predicted = f"{value:+.3f} ({low:+.3f} to {high:+.3f})"
            rows.append([part, arm, task, str(len(seeds)), predicted, f"{mean:+.3f}", *words])
    return rows


def mechanism(main: Differences, contrast: Differences) -> dict[str, dict[int, float]]:
    """Main less contrast, for blocks that both have."""
    return {
        task: {seed: value - contrast[task][seed] for seed, value in seeds.items() if seed in contrast[task]}
        for task, seeds in main.items()
        if task in contrast
    }


def start_share(place: Path, task: str, seed: int) -> tuple[float, float] | None:
    """Valid share of a block's start, on all tasks and on its own, as its sitting measured it; None without."""
    table, chosen = (place / f"{task}-s{seed}" / name for name in ("starts.csv", "chosen.json"))
    if not table.exists() or not chosen.exists():
        return None
    found = json.loads(chosen.read_text(encoding="utf-8"))
    own = [float(row["valid"]) for row in _rows(table) if int(row["model"]) == found["number"] and row["task"] == task]
    return float(found["shares"][str(found["number"])]["share"]), fmean(own) if own else math.nan


def analyses(place: Path, arm: str, found: Differences) -> list[list[str]]:
    """All blocks, then the subsets that the plan names beforehand."""

    def kept(wanted: Iterable[tuple[str, int]]) -> Differences:
        chosen = set(wanted)
        return {task: {seed: value for seed, value in seeds.items() if (task, seed) in chosen}
                for task, seeds in found.items()}  # fmt: skip

    blocks = [(task, seed) for task, seeds in found.items() for seed in seeds]
    shares = {block: start_share(place, *block) for block in blocks}
    known = {block: share for block, share in shares.items() if share is not None}
    middle = sorted(share[0] for share in known.values())[len(known) // 2] if known else math.nan
    subsets = {
        "all": blocks,
        "tasks with a knee": [block for block in blocks if block[0] in KNEE],
        "tasks without": [block for block in blocks if block[0] not in KNEE],
        "start with a valid script of 12": [block for block, share in known.items() if share[1] > 0],
        "start without": [block for block, share in known.items() if share[1] == 0],
        f"start below {middle:.1%} valid": [block for block, share in known.items() if share[0] < middle],
        f"start from {middle:.1%} valid": [block for block, share in known.items() if share[0] >= middle],
    }
    return [[arm, name, str(len(chosen)), interval(pooled(kept(chosen)), sign=True)]
            for name, chosen in subsets.items() if chosen]  # fmt: skip


def judge(main: Path, contrast: Path | None, out: Path | None) -> None:
    """Everything, as Markdown."""
    parts = {"main": main} | ({"contrast": contrast} if contrast else {})
    runs = {part: read_runs(place) for part, place in parts.items()}
    text, beside = "", []
    head = ["part", "arm", "task", "n", "predicted (80 %)", "measured", "sign right", "inside"]
    for part, rows in runs.items():
        for arm in PRICES:
            listed = beside_predictions(part, arm, differences(rows, arm))
            beside += listed
            right, inside = (sum(row[place] == "yes" for row in listed) for place in (-2, -1))
            text += f"- {part}, {arm}: sign right on {right} of {len(listed)} tasks, inside its interval on {inside}\n"
    text = f"## Predicted and measured\n\n{markdown(head, beside)}\n{text}\n## Named beforehand\n\n"
    rows = [row for arm in PRICES for row in analyses(main, arm, differences(runs["main"], arm))]
    text += markdown(["arm less vanilla", "blocks", "n", "difference (95 %)"], rows)
    for part, found in runs.items():
        stuck = [row[MANIPULATION] > 0.5 for (_, _, arm), row in found.items() if arm == "vanilla"]
        text += f"\n- manipulation, {part}: above one half in {sum(stuck)} of {len(stuck)} blocks of vanilla\n"
    if contrast:
        for arm in PRICES:
            both = mechanism(differences(runs["main"], arm), differences(runs["contrast"], arm))
            blocks = sum(map(len, both.values()))
            text += f"\n- mechanism, {arm}: main less contrast {interval(pooled(both), sign=True)} ({blocks} blocks)\n"
    print(text)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "judged.md").write_text(text, encoding="utf-8")


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    pilot = verbs.add_parser("choose", help="learning rate and entropy coefficient, from the second pilot")
    pilot.add_argument("pilot", type=Path, help="folder of its comparison")
    pilot.add_argument("--out", type=Path, help="folder for fifths.csv, how every run went")
    outcome = verbs.add_parser("judge", help="predictions, mechanism and named analyses, from the complete parts")
    outcome.add_argument("main", type=Path, help="folder of the main part")
    outcome.add_argument("--contrast", type=Path, help="folder of the contrast")
    outcome.add_argument("--out", type=Path, help="folder for judged.md")
    args = parser.parse_args()
    if args.verb == "choose":
        say_choice(args.pilot, args.out)
    else:
        judge(args.main, args.contrast, args.out)


if __name__ == "__main__":
    main()
