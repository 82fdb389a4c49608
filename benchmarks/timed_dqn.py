"""Stable-Baselines3's DQN on the reference tasks: rewards in the replay buffer at old prices, or repriced when sampled.

    python benchmarks/timed_dqn.py --out results/2026-11-18-timed-dqn [--seeds 6] [--workers 1]

Arms: `stored` keeps each reward as it was when it was stored (ReplayBuffer), `repriced` charges the price of now
(timed.sb3.RewardRateReplayBuffer), `optimum` has a fixed price, the exact optimal rate: what DQN can do when the
price is known. The buffer holds every step of the run. All else is the same. Rows and tables as in timed_sb3.py;
`off` is the share of stored rewards whose price is more than 10 % off the latest at the end of the run.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import timed_sb3

from rewardrate import rates, timed

SETTINGS = {
    "steps": 50_000,
    "buffer_size": 50_000,
    "gamma": 0.99,
    "learning_rate": 2e-3,  # falls to 0 along a line
    "n_envs": 8,
    "train_freq": 1,
    "gradient_steps": 4,
    "batch_size": 256,
    "target_update_interval": 250,
    "exploration_fraction": 0.3,
    "exploration_final_eps": 0.05,
    "hidden": 32,
    "forgetting": 0.9,
    "every": 1024,
}
ARMS = ("stored", "repriced", "optimum")
FIELDS = ("task", "arm", "seed", "setting", "optimum", "rate", "simulated", "price", "off", "policy", "cpu")
LEARNER = ("buffer_size", "gamma", "train_freq", "gradient_steps", "batch_size")
EXPLORER = ("target_update_interval", "exploration_fraction", "exploration_final_eps")


def train(task: str, arm: str, seed: int) -> dict[str, Any]:
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_vec_env

    from rewardrate.timed.sb3 import RewardRateReplayBuffer, RewardRateVecEnv

    torch.set_num_threads(1)
    start = time.process_time()
    reference = gymnasium.make(task).unwrapped
    best = reference.exact().rate
    estimator = rates.Fixed(best) if arm == "optimum" else rates.Totals(forgetting=SETTINGS["forgetting"])
    price = timed.Price(estimator, chains=SETTINGS["n_envs"], every=SETTINGS["every"])
    env = RewardRateVecEnv(make_vec_env(task, n_envs=SETTINGS["n_envs"], seed=seed), price)
    charged: list[float] = []

    def note(local: dict[str, Any], _: dict[str, Any]) -> bool:
        charged.append(float(local["infos"][0]["rate"]))
        return True

    model = DQN(
        "MlpPolicy",
        env,
        **{name: SETTINGS[name] for name in LEARNER + EXPLORER},
        learning_rate=lambda left: SETTINGS["learning_rate"] * left,
        learning_starts=1_000,
        replay_buffer_class=RewardRateReplayBuffer if arm == "repriced" else None,
        policy_kwargs={"net_arch": [SETTINGS["hidden"]]},
        seed=seed,
        device="cpu",
    ).learn(SETTINGS["steps"], callback=note)
    policy = model.predict(np.arange(reference.smdp.states), deterministic=True)[0].astype(np.int64)
    off = 0.0 if arm == "repriced" else float(np.mean(np.abs(np.array(charged) / price.rate - 1.0) > 0.1))
    return {
        "task": task.split("/")[1],
        "arm": arm,
        "seed": seed,
        "setting": "",
        "optimum": best,
        "rate": reference.smdp.rate(policy),
        "simulated": reference.simulated_rate(policy, 20_000, seed),
        "price": price.rate,
        "off": round(off, 3),
        "policy": "".join(str(action) for action in policy),
        "cpu": round(time.process_time() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for rows.csv (runs) and arms.csv (means)")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=10, help="seeds 0 and 1 were used to choose the settings")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--tasks", default=",".join(timed.REFERENCE))
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "settings.json").write_text(json.dumps(SETTINGS, indent=2) + "\n", encoding="utf-8")
    path = args.out / "rows.csv"
    rows: list[dict[str, Any]] = list(timed_sb3.read(path))
    done = {(row["task"], row["arm"], int(row["seed"])) for row in rows}
    jobs = [
        (task, arm, seed)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for task in args.tasks.split(",")
        for arm in args.arms.split(",")
        if (task.split("/")[1], arm, seed) not in done
    ]
    with ProcessPoolExecutor(args.workers) as pool:
        for future in as_completed([pool.submit(train, *job) for job in jobs]):
            row = future.result()
            rows.append(row)
            timed_sb3.write(path, sorted(rows, key=lambda r: (r["task"], r["arm"], int(r["seed"]))), FIELDS)
            share = row["rate"] / row["optimum"]
            print(f"{row['task']:20} {row['arm']:10} {row['seed']:4} {share:.4f} {row['cpu']} s", flush=True)
    arms = timed_sb3.by_arm(timed_sb3.read(path))
    timed_sb3.write(args.out / "arms.csv", arms, tuple(arms[0]))
    for row in arms:
        print(" | ".join(str(value) for value in row.values()))


if __name__ == "__main__":
    main()
