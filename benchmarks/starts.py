"""Which of several models, trained longer and longer, writes a given share of valid first scripts.

    python benchmarks/starts.py deadline --models runs/tiny-start/steps --share 0.1 --replies 12 \
        --out results/DATE-NAME/starts.csv

--models holds a folder NUMBER for each model, as `keep` of rewardrate pretrain writes them; with --numbers those that
are still being trained are waited for. The share grows with training, so it is searched by halves: a few models are
measured, not all. It is the mean over tasks of valid shares; its interval is Wilson's over all attempts. --out gets one
line for each model and task, as of first_scripts.py, after every model; beside it stands chosen.json: the model
nearest to --share, and the shares of all that were measured.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from first_scripts import line, wilson

from rewardrate import config
from rewardrate.environments.mle.environment import MachineLearning
from rewardrate.environments.mle.folder import shipped
from rewardrate.policies import LanguageModelPolicy, load_model
from rewardrate.sandbox import cores
from rewardrate.training.recipe import Recipe

AT_ONCE = 4  # tasks whose scripts run at the same time: the slots of one are not idle while its slowest script ends


def by_halves(numbers: Sequence[int], share_of: Callable[[int], float | None], target: float, most: int) -> list[int]:
    """Measure at most so many of the numbers, in which the share grows, around where it passes the target.

    Gives those that were measured, in the order of measurement. `share_of` None: it could not be measured, stop.
    """
    low, high, seen = 0, len(numbers) - 1, []
    while low <= high and len(seen) < most:
        middle = (low + high) // 2
        share = share_of(numbers[middle])
        if share is None:
            break
        seen.append(numbers[middle])
        low, high = (middle + 1, high) if share < target else (low, middle - 1)
    return seen


def distance(share: float, target: float, n: int) -> float:
    """Between shares as odds, in logarithms: 5 % is as far from 10 % as 19 % is. Half an attempt is added to each."""
    logit = [math.log(p / (1 - p)) for p in ((share * n + 0.5) / (n + 1), target)]
    return abs(logit[0] - logit[1])


class Measurement:
    """First scripts of one model after the other, on the same tasks and slots."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.ends = args, time.monotonic() + args.seconds
        given = {
            task: config.load(Recipe, config.find_recipe(args.recipe), [*args.set, f'task="{task}"'])
            for task in args.tasks
        }
        self.recipe = next(iter(given.values()))
        slots = max(1, (self.recipe.sandbox.slots or len(cores.usable())) // AT_ONCE)
        self.pool = replace(self.recipe.sandbox, slots=slots, repeats=0).make()
        self.setups = {task: recipe.setup() for task, recipe in given.items()}
        self.rows: list[dict[str, Any]] = []
        self.shares: dict[int, tuple[float, int, int]] = {}
        self.longest = 0.0

    def share(self, number: int) -> float | None:
        """Mean over tasks of the valid share of a model's first scripts; None when there is no time left."""
        folder = self.args.models / f"{number:06d}"
        while not folder.is_dir():
            if time.monotonic() > self.ends:
                return None
            time.sleep(0.2)
        start = time.monotonic()
        if start + self.longest > self.ends:
            return None
        rows = self._rows(folder)
        self.longest = max(self.longest, time.monotonic() - start)
        self.rows += [{"model": number, **row} for row in rows]
        hits, n = sum(round(row["valid"] * row["n"]) for row in rows), sum(row["n"] for row in rows)
        self.shares[number] = float(np.mean([row["valid"] for row in rows])), hits, n
        self._write()
        return self.shares[number][0]

    def nearest(self) -> int:
        """The measured model whose share is nearest to the one asked for."""
        return min(self.shares, key=lambda one: distance(self.shares[one][0], self.args.share, self.shares[one][2]))

    def _rows(self, folder: Path) -> list[dict[str, Any]]:
        choice: Any = self.recipe.policy
        policy = LanguageModelPolicy(load_model(str(folder), device=choice.device), choice.sampling, None)
        with self.pool as pool, ThreadPoolExecutor(AT_ONCE) as threads:
            environments = {task: one.environment(pool, policy.count) for task, one in self.setups.items()}
            count = self.args.replies
            prompts = [prompt for one in environments.values() for prompt in [one.prompt()] * count]
            proposals = policy.propose(prompts, self.args.seed)
            drawn = [proposals[at : at + count] for at in range(0, len(proposals), count)]

            def outcomes(environment: MachineLearning, place: int) -> Any:
                return environment.execute([proposal.text for proposal in drawn[place]])

            found = threads.map(outcomes, environments.values(), range(len(drawn)))
            return [line(task, drawn[at], one) for at, (task, one) in enumerate(zip(environments, found, strict=True))]

    def _write(self) -> None:
        """All that is known so far; the next model may take longer than there is time."""
        out = self.args.out
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(self.rows[0]), lineterminator="\n")
            writer.writeheader()
            for row in self.rows:
                writer.writerow({name: f"{one:.4g}" if isinstance(one, float) else one for name, one in row.items()})
        shares = {number: {"share": share, "valid": hits, "n": n} for number, (share, hits, n) in self.shares.items()}
        found = {"number": self.nearest(), "target": self.args.share, "shares": shares}
        (out.parent / "chosen.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--models", type=Path, required=True, help="folder of the models")
    parser.add_argument("--numbers", type=int, nargs="+", help="which (default: those that are there)")
    parser.add_argument("--tasks", nargs="+", default=list(shipped()), help="default: all that come with the package")
    parser.add_argument("--share", type=float, default=0.1, help="of valid first scripts that is searched for")
    parser.add_argument("--replies", type=int, default=12, help="of each model for each task")
    parser.add_argument("--most", type=int, default=4, help="models to measure")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no model that would end after them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="as of rewardrate train")
    parser.add_argument("--out", type=Path, required=True, help="a CSV file")
    args = parser.parse_args()
    numbers = args.numbers or [int(path.name) for path in args.models.iterdir() if path.name.isdecimal()]
    measurement = Measurement(args)

    def told(number: int) -> float | None:
        share = measurement.share(number)
        if share is not None:
            _, hits, n = measurement.shares[number]
            low, high = wilson(hits, n)
            print(f"model {number}: {share:.1%} valid ({low:.1%} to {high:.1%} of {n})", flush=True)
        return share

    by_halves(sorted(numbers), told, args.share, args.most)
    if not measurement.shares:
        raise SystemExit("no model could be measured in time")
    print(f"nearest to {args.share:.0%}: {measurement.nearest()}")


if __name__ == "__main__":
    main()
