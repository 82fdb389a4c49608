"""Seconds of a step by phase, of runs of our own loop and of verl on one machine, side by side.

    python benchmarks/step_phases.py runs/gpu/rpg runs/vllm/rpg runs/verl/ppo [--out results/DATE-NAME/phases.csv]

A folder with summary.json is one of verl_one_gpu.py, any other a run folder. Medians over the steps after the first and
after a resumption, which hold start-up. Phases of verl are put under ours: drawing and scripts overlap there (`gen`).

  draw+scripts   until the last script of the step has ended
  learn          values, reference, update of policy and critic
  weights        to the engine that draws (ours: the same arrays; vLLM in our loop: part of drawing)
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
from pathlib import Path
from typing import Any

from rewardrate.runlog import RunLog

LEARN = ("old_log_prob", "ref", "values", "adv", "update_critic", "update_actor")


def of_verl(folder: Path) -> dict[str, Any]:
    """A row, from what verl said of itself."""
    found = json.loads((folder / "summary.json").read_text())
    seconds = found["seconds_by_phase"]
    learn = sum(seconds.get(name, 0.0) for name in LEARN)
    row = {"engine": f"verl {found['versions']['verl']}, {found['algorithm']}", "steps": found["steps"]}
    row |= {"step": seconds["step"], "draw+scripts": seconds["gen"], "learn": learn}
    return row | {"weights": seconds.get("update_weights", 0.0), "tokens": found["tokens_step_median"]}


def of_ours(folder: Path) -> dict[str, Any]:
    """A row, from a run folder."""
    with RunLog.open(folder, read_only=True) as log:
        steps, rows, events = list(log.steps()), list(log.attempts()), list(log.events())
    resumed = {1} | {event.step + 1 for event in events if event.kind == "resumed"}
    kept = [step for step in steps if step.step not in resumed]
    middle = {name: statistics.median(step.phases.get(name, 0.0) for step in kept) for name in steps[-1].phases}
    drawn = [sum(row.tokens for row in rows if row.step == step.step) for step in kept]
    engine = next((event.message.partition(":")[0] for event in reversed(events) if event.kind == "sampling"), "")
    return {
        "engine": f"rewardrate, {engine}",
        "steps": len(steps),
        "step": statistics.median(sum(step.phases.values()) for step in kept),
        "draw+scripts": middle["propose"] + middle["execute"],
        "learn": middle.get("learn", 0.0),
        "weights": 0.0,
        "tokens": statistics.median(drawn),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="a CSV file")
    args = parser.parse_args()
    there = [run for run in args.runs if run.exists()]
    for run in args.runs:
        if run not in there:
            print(f"{run} is not there: left out", file=sys.stderr)
    if not there:
        parser.error("no run is there")
    table = [(of_verl if (run / "summary.json").exists() else of_ours)(run) for run in there]
    print("| " + " | ".join(table[0]) + " |\n|" + "---|" * len(table[0]))
    for row in table:
        cells = (f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row.values())
        print("| " + " | ".join(cells) + " |")
    if args.out is not None:
        with args.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0].keys())
            writer.writeheader()
            writer.writerows(table)


if __name__ == "__main__":
    main()
