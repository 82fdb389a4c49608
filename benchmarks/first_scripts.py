"""What a model writes before it has learnt anything: replies to the first prompt of a task, run and graded.

    python benchmarks/first_scripts.py gpu --tasks diamonds leaf-flavia --replies 64 \
        --set policy.name=runs/warm --out results/DATE-NAME/before.csv

The recipe says which model, how replies are drawn and how scripts are run; nothing is trained. One line a task:
  valid, low, high   share of valid scripts and its 95 % interval (Wilson)
  graded             share that wrote a submission with a score, good or not
  seconds_10 ... 90  of the valid ones
  best, middle       reward of the valid ones; best_score, middle_score: the task's own metric
  distinct           different programs among the replies
  cut                replies that ended at the token limit
  why                how the others failed, most frequent first
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate import config
from rewardrate.attempt import Outcome, Proposal
from rewardrate.policies import LanguageModelPolicy, load_model
from rewardrate.training.recipe import Recipe


def wilson(hits: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a share."""
    middle, spread = hits + z * z / 2, z * math.sqrt(hits * (n - hits) / n + z * z / 4)
    return (middle - spread) / (n + z * z), (middle + spread) / (n + z * z)


def line(task: str, proposals: Sequence[Proposal], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One line of the table."""
    kept = [outcome for outcome in outcomes if outcome.charged]
    valid = [outcome for outcome in kept if outcome.valid]
    n = len(kept)
    if not n:
        raise SystemExit(f"{task}: every attempt failed on our side ({outcomes[0].message})")
    low, high = wilson(len(valid), n)
    row: dict[str, Any] = {"task": task, "n": n, "valid": len(valid) / n, "low": low, "high": high}
    row["graded"] = sum(outcome.score is not None for outcome in kept) / n
    for level in (10, 50, 90):
        row[f"seconds_{level}"] = float(np.percentile([one.seconds for one in valid], level)) if valid else None
    rewards = [outcome.reward for outcome in valid]
    row |= {"best": max(rewards, default=None), "middle": float(np.median(rewards)) if rewards else None}
    scores = sorted((one.reward, one.score) for one in valid if one.score is not None)
    row["best_score"] = scores[-1][1] if scores else None
    row["middle_score"] = float(np.median([score for _, score in scores])) if scores else None
    row["distinct"] = len({outcome.code for outcome in kept if outcome.code})
    row["tokens"] = float(np.mean([len(proposal.reply_tokens) for proposal in proposals]))
    row["cut"] = sum(not proposal.finished for proposal in proposals)
    why = Counter(reason(outcome) for outcome in kept if not outcome.valid)
    row["why"] = "; ".join(f"{count} {name}" for name, count in why.most_common(6))
    return row


def reason(outcome: Outcome) -> str:
    """How an attempt failed, in a few words."""
    if outcome.status != "error":
        return outcome.status
    last = [text for text in outcome.output.strip().splitlines() if text.strip()]
    return last[-1].split(":")[0].strip()[:40] if last else "error"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--replies", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="as of rewardrate train")
    parser.add_argument("--out", type=Path, required=True, help="a CSV file")
    args = parser.parse_args()
    recipes = {
        task: config.load(Recipe, config.find_recipe(args.recipe), [*args.set, f'task="{task}"']) for task in args.tasks
    }
    first = next(iter(recipes.values()))
    choice: Any = first.policy
    policy = LanguageModelPolicy(load_model(choice.name, device=choice.device), choice.sampling, None)
    rows = []
    with first.sandbox.make() as pool:
        for task, recipe in recipes.items():
            environment = recipe.setup().environment(pool, policy.count)
            start = time.monotonic()
            proposals = policy.propose([environment.prompt()] * args.replies, args.seed)
            drawn = time.monotonic()
            outcomes = environment.execute([proposal.text for proposal in proposals])
            rows.append(line(task, proposals, outcomes))
            rows[-1] |= {"propose_seconds": drawn - start, "execute_seconds": time.monotonic() - drawn}
            print(rows[-1], flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: f"{one:.4g}" if isinstance(one, float) else one for name, one in row.items()})


if __name__ == "__main__":
    main()
