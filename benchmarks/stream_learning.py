"""What learning from older attempts costs on toys whose best arm is known: `step` and `stream` with bounds on age.

    python benchmarks/stream_learning.py [--seeds 20] [--ages 0 2 4 8 16] [--noise 0.7] [--out FOLDER]
    python benchmarks/stream_learning.py --causes 8 [--seeds 20] [--noise 0.9] [--out FOLDER]

A quick arm (reward 1 in 1 s) and a slow one (1.5 in 5 s): the arm of the experiment rpg should take the quick one,
vanilla the slow one; with `--noise`, their seconds vary; with `--words`, a reply is so many of them and earns and takes
their means. Real loops, rate (NIW) and record; a simulated clock with a slot for each of 16 chains. Policies:
`softmax`, two logits and REINFORCE without importance ratios, and a transformer of one layer that learns by `ppo`,
`grpo` or `rloo`, in a stream with each of `--old-logprobs`. Equal attempts in every row; differences are by seed.

`--causes AGE` asks instead why PPO learns less at that bound on age: one thing changed at a time, and for attempts of
each age which share of their advantages is clipped.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bench_stream import half

import toy_agent
import toy_language
from rewardrate.policies.algorithms import PPO, Batch, Loss
from rewardrate.policies.algorithms.grpo import GRPO
from rewardrate.policies.algorithms.rloo import RLOO
from rewardrate.runlog import RunLog
from rewardrate.training.objective import Objective
from simulated_cluster import MEMORY, on_cluster

BEST = {"rpg": "quick", "vanilla": "slow"}
UPDATES, CHAINS = 40, 16
MEASURES = ("updates_to_90", "seconds_to_90", "best_31_40", "reward_per_second", "rate_over_true", "mean_age",
            "clip_share", "grad_norm")  # fmt: skip
PAIRED = ("updates_to_90", "best_31_40")
COLUMNS = (*MEASURES, *(f"{name}_more_than_{other}" for other in ("step", "first") for name in PAIRED))
HEAD = ("policy", "arm", "schedule", "old_logprobs", "seeds",
        *(f"{name}{end}" for name in COLUMNS for end in ("", "_half")))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One row of a table: how a toy is played and learned from."""

    policy: str
    arm: str
    age: int | None = None
    "None: the schedule step."
    noise: float = 0.0
    words: int = 1
    learner: dict[str, Any] = dataclasses.field(default_factory=dict)
    "Settings that differ from the toy's."

    def run(self, seed: int) -> tuple[list[Any], list[Any], list[float], list[dict[str, float]]]:
        """Attempts and steps of one run, and of each step when it was done and what its update said."""
        times: list[float] = []
        told: list[dict[str, float]] = []
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            plain = softmax(folder, self.arm, seed) if self.policy == "softmax" else language(folder, self, seed)
            loop, cluster = on_cluster(plain, self.age)
            loop.on_step = lambda step: (times.append(cluster.now), told.append(step.metrics))
            with loop.log:
                loop.run()
            with RunLog.open(Path(folder) / "run", read_only=True) as log:
                return log.attempts(), log.steps(), times, told

    def ages(self, seed: int) -> Any:
        """Of the attempts of one run: updates x places."""
        return np.reshape([row.step - 1 - row.updates for row in self.run(seed)[0]], (UPDATES, CHAINS))

    def play(self, seed: int) -> dict[str, float]:
        """One run: when nine words of ten were the best arm, what its seconds earned, how right its rate was.

        True is what all attempts of the run earned a second: the rate is estimated from just these.
        """
        rows, steps, times, told = self.run(seed)
        said = [row.reply.split()[: self.words] for row in rows]
        taken = [words.count(BEST[self.arm]) / self.words for words in said]
        share = np.reshape(taken, (UPDATES, CHAINS)).mean(axis=1)
        first = int(np.argmax(share >= 0.9)) if share.max() >= 0.9 else UPDATES - 1
        earned, seconds = (np.array([getattr(row, name) for row in rows]) for name in ("reward", "seconds"))
        early = told[: UPDATES // 2]
        return {
            "updates_to_90": first + 1,
            "seconds_to_90": times[first],
            "best_31_40": float(share[30:].mean()),
            "reward_per_second": float(earned.sum() / seconds.sum()),
            "rate_over_true": steps[-1].rate.mean * seconds.sum() / earned.sum(),
            "mean_age": float(np.mean([row.step - 1 - row.updates for row in rows])),
            "clip_share": float(np.mean([one.get("clip_share", np.nan) for one in early])),
            "grad_norm": float(np.mean([one.get("grad_norm", np.nan) for one in early])),
        }


class Sentences(toy_language.World):
    """A reply is so many words, an arm each, and earns and takes their means; with any other word it is a failure."""

    def __init__(self, case: Case, **options: Any) -> None:
        super().__init__(dict(toy_agent.ARMS), limit_seconds=100.0, noise=case.noise)
        self.case = case

    def stream(self, replies: Any, parents: Any = None) -> Iterator[tuple[int, Any]]:
        """Each outcome; a single word is its arm."""
        for place, outcome in super().stream(replies, parents):
            said = [self.arms.get(word) for word in outcome.code.split()]
            changes: dict[str, Any] = {}
            if len(said) == self.case.words > 1 and None not in said:
                reward, seconds = np.mean(said, axis=0).tolist()
                seconds *= outcome.seconds  # of a failure, one second times the noise
                changes = {"valid": True, "reward": reward, "score": reward, "seconds": seconds}
                changes |= {"status": "ok", "message": "ok"}
            yield place, dataclasses.replace(outcome, **changes)


def softmax(folder: str, arm: str, seed: int) -> Any:
    """The toy agent, its replies row by row."""
    loop = toy_agent.loop(Path(folder) / "run", arm=arm, seed=seed, steps=UPDATES, batch=CHAINS, every=1000)
    loop.policy = toy_agent.RowByRow()
    return loop


def language(folder: str, case: Case, seed: int) -> Any:
    """The toy language, learned by an algorithm of the package."""
    algorithm = {"algorithm": {"ppo": PPO(), "grpo": GRPO(attempts=4), "rloo": RLOO(attempts=4)}[case.policy]}
    return toy_language.loop(
        Path(folder) / "run",
        Sentences(case),
        seed=seed,
        steps=UPDATES,
        batch=CHAINS,
        learner=dataclasses.replace(toy_language.LEARNER, **(algorithm | case.learner)),
        sampling=dataclasses.replace(toy_language.SAMPLING, new_tokens=case.words),
        objective=Objective(case.arm, bonus=0.0, penalty=-1.0),
    )


Runs = list[dict[str, float]]


def row_of(case: Case, runs: Runs, waited: Runs, first: Runs) -> dict[str, Any]:
    """Means and halves of 95 % intervals, with the differences to `step` and to the first stream of that age."""
    name = "step" if case.age is None else f"stream, max_age {case.age}"
    values = [case.policy, case.arm, name, case.learner.get("old_logprobs", ""), len(runs)]
    columns = [np.array([run[name] for run in runs]) for name in MEASURES]
    for others in (waited, first):
        pairs = list(zip(runs, others, strict=True))
        columns += [np.array([one[name] - other[name] for one, other in pairs]) for name in PAIRED]
    return dict(zip(HEAD, [*values, *(part for one in columns for part in (one.mean(), half(one)))], strict=True))


def compare(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Step, and streams with each bound on age and each way to take old attempts."""
    for kind in options.policies:
        for arm in options.arms:
            step = Case(kind, arm, None, options.noise, options.words)
            waited = [step.play(seed) for seed in options.seeds]
            yield row_of(step, waited, waited, waited)
            ways = [{}] if kind == "softmax" else [{"old_logprobs": one} for one in options.old_logprobs]
            for age in options.ages:
                first: Runs = []
                for way in ways:
                    case = dataclasses.replace(step, age=age, learner=way)
                    runs = [case.play(seed) for seed in options.seeds]
                    first = first or runs
                    yield row_of(case, runs, waited, first)


@dataclass(frozen=True)
class Watched(PPO):
    """PPO that keeps, of every update, the place of each row, its advantage and whether it is clipped."""

    kind: Literal["watched"] = "watched"
    seen: ClassVar[list[tuple[Any, ...]]] = []

    def loss(self, batch: Batch, logprobs: Any, values: Any) -> Loss:
        """That of PPO."""
        found = super().loss(batch, logprobs, values)
        clipped = found.shares["clip_share"]
        self.seen.append(tuple(part.tolist() for part in (batch.groups, batch.advantages[:, 0], clipped[:, 0])))
        return found


def causes(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """PPO with one thing changed at a time, each beside `step`."""
    old, off = "old_logprobs", 1e9
    ways: dict[str, dict[str, Any]] = {
        "ratio to the writer, clip 0.2": {old: "sampled"},
        "the same, no clip": {old: "sampled", "algorithm": PPO(clip=off)},
        "the same, clip 1": {old: "sampled", "algorithm": PPO(clip=1.0)},
        "the same, no critic": {old: "sampled", "critic_learning_rate": 0.0},
        "the same, advantages not whitened": {old: "sampled", "algorithm": PPO(whiten=False)},
        "the same, learning rate x 3": {old: "sampled", "learning_rate": 3e-2},
        "no ratio": {old: "recomputed"},
        "decoupled, weights up to 1": {old: "decoupled", "weight_limit": 1.0},
        "decoupled, weights up to 2": {old: "decoupled", "weight_limit": 2.0},
        "decoupled, weights up to 5": {old: "decoupled", "weight_limit": 5.0},
        "decoupled, any weight": {old: "decoupled", "weight_limit": off},
        "decoupled, no critic": {old: "decoupled", "critic_learning_rate": 0.0},
        "decoupled, advantages not whitened": {old: "decoupled", "algorithm": PPO(whiten=False)},
    }
    for arm in options.arms:
        step = Case("ppo", arm, None, options.noise, options.words)
        waited = [step.play(seed) for seed in options.seeds]
        yield row_of(step, waited, waited, waited) | {"old_logprobs": "step"}
        first: Runs = []
        for name, changes in ways.items():
            case = dataclasses.replace(step, age=options.causes, learner=changes)
            runs = [case.play(seed) for seed in options.seeds]
            first = first or runs
            yield row_of(case, runs, waited, first) | {"old_logprobs": name}


def by_age(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What the clip takes from attempts of each age, in the first half of the updates of plain PPO."""
    for arm in options.arms:
        taken: dict[int, list[tuple[float, bool]]] = {}
        for seed in options.seeds:
            Watched.seen.clear()
            learner = {"old_logprobs": "sampled", "algorithm": Watched()}
            ages = Case("ppo", arm, options.causes, options.noise, options.words, learner).ages(seed)
            for update, parts in enumerate(Watched.seen[: UPDATES // 2]):
                for place, gain, clipped in zip(*parts, strict=True):
                    taken.setdefault(ages[update, place], []).append((gain, clipped))
        for age, found in sorted(taken.items()):
            gain, clipped = np.transpose(found)
            size = np.abs(gain)
            yield {
                "arm": arm,
                "age": age,
                "attempts": len(found),
                "clipped": clipped.mean(),
                "clipped_of_good": clipped[gain > 0].mean(),
                "clipped_of_bad": clipped[gain < 0].mean(),
                "clipped_by_size": (size * clipped).sum() / size.sum(),
            }


def written(rows: Iterator[dict[str, Any]], file: Path | None) -> None:
    """One line a row, and the table as CSV."""
    kept = []
    for row in rows:
        if not kept:
            print("  ".join(row))
        kept.append({k: f"{v:.4f}" if isinstance(v, float) else v for k, v in row.items()})
        print("  ".join(f"{v:.3f}" if isinstance(v, float) else f"{v}" for v in row.values()), flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as target:
            writer = csv.DictWriter(target, list(kept[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept)


def main() -> None:
    """One line a row; the tables go into --out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--ages", type=int, nargs="+", default=[0, 2, 4, 8, 16])
    parser.add_argument("--policies", nargs="+", default=["softmax", "ppo"])
    parser.add_argument("--arms", nargs="+", default=list(BEST))
    parser.add_argument("--old-logprobs", nargs="+", default=["sampled", "decoupled"])
    parser.add_argument("--noise", type=float, default=0.0, help="spread of the logarithm of a factor on seconds (ppo)")
    parser.add_argument("--words", type=int, default=1, help="length of a reply")
    parser.add_argument("--causes", type=int, metavar="AGE")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.seeds = range(options.first_seed, options.first_seed + options.seeds)
    torch.set_num_threads(1)
    tables = {"learning": compare} if options.causes is None else {"causes": causes, "by-age": by_age}
    for name, table in tables.items():
        written(table(options), None if options.out is None else options.out / f"{name}.csv")


if __name__ == "__main__":
    main()
