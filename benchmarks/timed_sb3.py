"""Stable-Baselines3's PPO on the three reference tasks: with time priced and without, against the exact optimum.

    python benchmarks/timed_sb3.py --out results/2026-11-16-timed-sb3 [--seeds 5] [--workers 2]
    python benchmarks/timed_sb3.py --out DIR --first-seed 100 --seeds 2 --set gamma=0.9,0.99,0.999,1.0   # tuning

One row per training run, appended to rows.csv as soon as it is there; runs that stand there are not repeated, and
rows that were made with other settings (settings.json) are refused. The
learned deterministic policy is a table of one action per state, so its rate is computed exactly (theory.SMDP.rate) and
simulated besides. Both arms have the same settings, steps and seeds; they differ in the reward alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import gymnasium
import numpy as np
from scipy import stats

from rewardrate import rates, timed

SETTINGS = {
    "steps": 200_000,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "learning_rate": 3e-3,  # falls to 0 along a line
    "ent_coef": 0.01,
    "n_steps": 64,
    "n_envs": 32,
    "batch_size": 512,
    "n_epochs": 5,
    "hidden": 32,
    "forgetting": 0.9,
}
ARMS = ("rewardrate", "niw", "plain")
FIELDS = ("task", "arm", "seed", "setting", "optimum", "rate", "simulated", "simulated_error", "price", "policy", "cpu")
SIMULATED = (20, 2_500)  # runs, steps of each


def price(arm: str, settings: dict[str, Any]) -> timed.Price | None:
    """What the arm charges; None: nothing."""
    chains = int(settings["n_envs"])
    size = {"chains": chains, "every": chains * int(settings["n_steps"])}
    if arm == "rewardrate":
        return timed.Price(rates.Totals(forgetting=settings["forgetting"]), **size)
    return timed.Price("niw", window=5, **size) if arm == "niw" else None


def train(task: str, arm: str, seed: int, setting: str) -> dict[str, Any]:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from rewardrate.timed.sb3 import RewardRateVecEnv

    torch.set_num_threads(1)
    settings = dict(SETTINGS)
    if setting:
        name, value = setting.split("=")
        settings[name] = type(SETTINGS[name])(float(value))
    start = time.process_time()
    env = make_vec_env(task, n_envs=settings["n_envs"], seed=seed)
    charged = price(arm, settings)
    if charged is not None:
        env = RewardRateVecEnv(env, charged)
    model = PPO(
        "MlpPolicy",
        env,
        learning_rate=lambda left: settings["learning_rate"] * left,
        **{name: settings[name] for name in ("gamma", "gae_lambda", "ent_coef", "n_steps", "batch_size", "n_epochs")},
        policy_kwargs={"net_arch": [settings["hidden"]]},
        seed=seed,
        device="cpu",
    ).learn(settings["steps"])
    reference = gymnasium.make(task).unwrapped
    policy = model.predict(np.arange(reference.smdp.states), deterministic=True)[0].astype(np.int64)
    played = [reference.simulated_rate(policy, SIMULATED[1], 1000 * seed + run) for run in range(SIMULATED[0])]
    return {
        "task": task.split("/")[1],
        "arm": arm,
        "seed": seed,
        "setting": setting,
        "optimum": reference.exact().rate,
        "rate": reference.smdp.rate(policy),
        "simulated": float(np.mean(played)),
        "simulated_error": float(np.std(played, ddof=1)) / math.sqrt(SIMULATED[0]),
        "price": charged.rate if charged is not None else 0.0,
        "policy": "".join(str(action) for action in policy),
        "cpu": round(time.process_time() - start, 1),
    }


def read(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, Any]], fields: tuple[str, ...]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def same_settings(path: Path) -> None:
    """Write the settings down, or refuse to add to rows that were made with others."""
    tasks = {name: gymnasium.make(name).unwrapped.exact().rate for name in timed.REFERENCE}
    mine = {"settings": SETTINGS, "optima": {name: f"{rate:.12g}" for name, rate in tasks.items()}}
    if path.exists() and json.loads(path.read_text(encoding="utf-8")) != mine:
        raise SystemExit(f"{path} says that its rows were made with other settings or tasks; give another --out")
    path.write_text(json.dumps(mine, indent=2) + "\n", encoding="utf-8")


def by_arm(rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Per task, arm and setting: mean share of the optimum over seeds, its 95 % t-interval, the worst seed."""
    cells: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        cells.setdefault((row["task"], row["arm"], row["setting"]), []).append(row)
    found = []
    for (task, arm, setting), group in sorted(cells.items()):
        share = np.array([float(row["rate"]) / float(row["optimum"]) for row in group])
        spread = share.std(ddof=1) / math.sqrt(share.size) if share.size > 1 else math.nan
        half = stats.t.ppf(0.975, share.size - 1) * spread if share.size > 1 else math.nan
        played = np.mean([float(row["simulated"]) for row in group])
        charged = np.mean([float(row["price"]) for row in group])
        optimum = float(group[0]["optimum"])
        columns = {"task": task, "arm": arm, "setting": setting, "n": share.size, "exact_optimum": f"{optimum:.6f}"}
        numbers = {
            "rate": share.mean() * optimum,
            "rate_low": (share.mean() - half) * optimum,
            "rate_high": (share.mean() + half) * optimum,
            "share": share.mean(),
            "low": share.mean() - half,
            "high": share.mean() + half,
            "worst": share.min(),
            "simulated_share": played / optimum,
            "price_over_optimum": charged / optimum,
        }
        found.append({**columns, **{name: f"{value:.4f}" for name, value in numbers.items()}})
    return found


def by_task(arms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per task: rates of each arm with the 95 % interval of their mean, in reward per second."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(arms, key=lambda row: ARMS.index(row["arm"])):
        if row["setting"]:
            continue
        line = found.setdefault(row["task"], {"task": row["task"], "exact_optimum": row["exact_optimum"]})
        line["n"] = row["n"]
        for name, column in (("", "rate"), ("_low", "rate_low"), ("_high", "rate_high")):
            line[row["arm"] + name] = row[column]
    return list(found.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for rows.csv (runs), arms.csv and table.csv (means)"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--arms", default="rewardrate,plain", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--tasks", default=",".join(timed.REFERENCE))
    parser.add_argument("--set", default="", help="NAME=VALUE,VALUE: one setting, several values")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    name, _, values = args.set.partition("=")
    settings = [f"{name}={value}" for value in values.split(",")] if name else [""]
    args.out.mkdir(parents=True, exist_ok=True)
    same_settings(args.out / "settings.json")
    path = args.out / "rows.csv"
    rows: list[dict[str, Any]] = list(read(path))
    done = {(row["task"], row["arm"], int(row["seed"]), row["setting"]) for row in rows}
    jobs = [
        (task, arm, seed, setting)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for setting in settings
        for task in args.tasks.split(",")
        for arm in args.arms.split(",")
        if (task.split("/")[1], arm, seed, setting) not in done
    ]
    with ProcessPoolExecutor(args.workers) as pool:
        for future in as_completed([pool.submit(train, *job) for job in jobs]):
            row = future.result()
            rows.append(row)
            write(path, sorted(rows, key=lambda r: (r["task"], r["arm"], r["setting"], int(r["seed"]))), FIELDS)
            share = row["rate"] / row["optimum"]
            print(f"{row['task']:20} {row['arm']:10} {row['seed']:4} {row['setting']:14} {share:.4f}", flush=True)
    arms = by_arm(read(path))
    write(args.out / "arms.csv", arms, tuple(arms[0]))
    tasks = by_task(arms)
    if tasks:
        write(args.out / "table.csv", tasks, tuple(dict.fromkeys(name for row in tasks for name in row)))
    for row in arms:
        print(" | ".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
