"""What learning from older attempts costs on toys whose best arm is known: `step` and `stream` with bounds on age.

    python benchmarks/stream_learning.py [--seeds 20] [--ages 0 2 4 8 16] [--noise 0.7] [--out FOLDER]

A quick arm (reward 1 in 1 s) and a slow one (1.5 in 5 s): the arm of the experiment rpg should take the quick one,
vanilla the slow one; with `--noise`, their seconds vary. Real loops, rate (NIW) and record; a simulated clock with a
slot for each of 16 chains. Two policies: `softmax`, two logits and REINFORCE without importance ratios, and `ppo`, a
transformer of one layer that learns by PPO with the ratio to the policy that wrote an attempt. Equal attempts in every
row; differences are paired by seed.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench_stream import half

import toy_agent
from rewardrate.runlog import RunLog
from rewardrate.training.objective import Objective
from simulated_cluster import MEMORY, on_cluster

BEST = {"rpg": "quick", "vanilla": "slow"}
UPDATES, CHAINS = 40, 16
MEASURES = ("updates_to_90", "seconds_to_90", "best_31_40", "reward_per_second", "rate_over_true", "mean_age")
HEAD = ("policy", "arm", "schedule", "seeds", *(f"{name}{end}" for name in MEASURES for end in ("", "_half")),
        "updates_more_than_step", "updates_more_than_step_half")  # fmt: skip


def run_one(kind: str, arm: str, age: int | None, seed: int, noise: float = 0.0) -> dict[str, float]:
    """One run: when nine attempts of ten took the best arm, what its seconds earned, how right its rate was at the end.

    True is what all attempts of the run earned a second: the rate is estimated from just these.
    """
    times: list[float] = []
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        plain = softmax(folder, arm, seed) if kind == "softmax" else ppo(folder, arm, age, seed, noise)
        loop, cluster = on_cluster(plain, age)
        loop.on_step = lambda step: times.append(cluster.now)
        with loop.log:
            loop.run()
        with RunLog.open(Path(folder) / "run", read_only=True) as log:
            rows, steps = log.attempts(), log.steps()
    taken = [row.reply.split()[:1] == [BEST[arm]] for row in rows]
    share = np.reshape(taken, (UPDATES, CHAINS)).mean(axis=1)
    first = int(np.argmax(share >= 0.9)) if share.max() >= 0.9 else UPDATES - 1
    earned, seconds = (np.array([getattr(row, name) for row in rows]) for name in ("reward", "seconds"))
    return {
        "updates_to_90": first + 1,
        "seconds_to_90": times[first],
        "best_31_40": float(share[30:].mean()),
        "reward_per_second": float(earned.sum() / seconds.sum()),
        "rate_over_true": steps[-1].rate.mean * seconds.sum() / earned.sum(),
        "mean_age": float(np.mean([row.step - 1 - row.updates for row in rows])),
    }


def softmax(folder: str, arm: str, seed: int) -> Any:
    """The toy agent, its replies row by row."""
    loop = toy_agent.loop(Path(folder) / "run", arm=arm, seed=seed, steps=UPDATES, batch=CHAINS, every=1000)
    loop.policy = toy_agent.RowByRow()
    return loop


def ppo(folder: str, arm: str, age: int | None, seed: int, noise: float) -> Any:
    """The toy language, learned by PPO; ratios as each schedule has them."""
    import torch

    import toy_language

    torch.set_num_threads(1)
    learner = dataclasses.replace(toy_language.LEARNER, old_logprobs="recomputed" if age is None else "sampled")
    return toy_language.loop(
        Path(folder) / "run",
        toy_language.World(dict(toy_agent.ARMS), limit_seconds=100.0, noise=noise),
        seed=seed,
        steps=UPDATES,
        batch=CHAINS,
        learner=learner,
        objective=Objective(arm, bonus=0.0, penalty=-1.0),
    )


def main() -> None:
    """One line a row; the table goes into --out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--ages", type=int, nargs="+", default=[0, 2, 4, 8, 16])
    parser.add_argument("--policies", nargs="+", default=["softmax", "ppo"])
    parser.add_argument("--noise", type=float, default=0.0, help="spread of the logarithm of a factor on seconds (ppo)")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    print("  ".join(HEAD))
    for kind in options.policies:
        for arm in BEST:
            waited: list[dict[str, float]] = []
            for age in (None, *options.ages):
                runs = [run_one(kind, arm, age, seed, options.noise) for seed in range(options.seeds)]
                waited = waited or runs
                columns = {name: np.array([run[name] for run in runs]) for name in MEASURES}
                pairs = zip(runs, waited, strict=True)
                more = np.array([run["updates_to_90"] - other["updates_to_90"] for run, other in pairs])
                values = [kind, arm, "step" if age is None else f"stream, max_age {age}", options.seeds]
                values += [value for one in columns.values() for value in (one.mean(), half(one))]
                rows.append(dict(zip(HEAD, [*values, more.mean(), half(more)], strict=True)))
                shown = [f"{one:.3f}" if isinstance(one, float) else f"{one}" for one in rows[-1].values()]
                print("  ".join(shown), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        with (options.out / "learning.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, HEAD, lineterminator="\n")
            writer.writeheader()
            writer.writerows([{k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])


if __name__ == "__main__":
    main()
