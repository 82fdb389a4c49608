"""Run folders for tests and benchmarks: attempts that a small model of scripts and time draws, written by the real log.

Scripts descend from one another as in training: a child changes a few lines of its parent, sometimes for the better.
"""

import math
from dataclasses import dataclass

import numpy as np

from rewardrate.attempt import Outcome, Proposal, RateEstimate
from rewardrate.runlog import Origin, RunLog

MODELS = {  # name -> (gain it can reach, seconds at size 100)
    "LogisticRegression(max_iter={n})": (0.90, 0.6),
    "GaussianNB(var_smoothing=1e-{n})": (0.62, 0.3),
    "KNeighborsClassifier(n_neighbors={n})": (0.94, 0.8),
    "RandomForestClassifier(n_estimators={n})": (0.96, 2.0),
    "GradientBoostingClassifier(n_estimators={n})": (0.99, 9.0),
}
FEATURES = ["frame.to_numpy() / 16.0", "frame.to_numpy()", "np.sqrt(frame.to_numpy())", "frame.rank().to_numpy()"]
FAILURES = ["error", "format", "timeout", "no-submission", "bad-submission", "no-gain", "memory"]
SCRIPT = """\
import numpy as np
import pandas as pd
from sklearn import ensemble, linear_model, naive_bayes, neighbors

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")


def features(frame):
    # attempt {seed}
    return {features}


columns = [name for name in train.columns if name.startswith("pixel")]
model = {model}
model.fit(features(train[columns]), train["label"])
{note}
answer = test[["id"]].assign(label=model.predict(features(test[columns])))
answer.to_csv("submission/submission.csv", index=False)
"""


@dataclass(frozen=True)
class Idea:
    """What a script decides."""

    model: str
    size: int
    features: str
    note: str

    def code(self, seed):
        return SCRIPT.format(
            seed=seed, features=self.features, model=self.model.format(n=self.size), note=f"print({self.note!r})"
        )

    def worth(self, rng):
        """Gain and seconds, with a little noise of the clock."""
        ceiling, seconds = MODELS[self.model]
        gain = ceiling * (1 - math.exp(-self.size / 40)) - 0.06 * FEATURES.index(self.features)
        return max(0.01, gain), max(0.1, (0.2 + seconds * self.size / 100) * math.exp(rng.normal(0, 0.05)))


def idea(rng, parent=None):
    fresh = Idea(rng.choice(list(MODELS)), int(rng.integers(5, 300)), rng.choice(FEATURES), f"try {rng.integers(1e6)}")
    if parent is None:
        return fresh
    changed = {name: getattr(fresh, name) for name in ("model", "size", "features", "note") if rng.random() < 0.4}
    return Idea(**(parent.__dict__ | changed))


def make(
    folder,
    *,
    arm="rpg",
    steps=6,
    batch=8,
    seed=0,
    task="digits8x8",
    about=None,
    config="",
    valid=0.8,
    spoil=None,
    learner=True,
    fast=False,
):
    """Write a whole run and return its folder. `spoil(id, fields)` may change an outcome; `fast` skips the syncs."""
    rng = np.random.default_rng([seed, arm == "rpg"])
    facts = {"arm": arm, "task": task, "seed": str(seed), "clock": "wall", "policy": "tiny", "rewardrate": "0.1.0"}
    log = RunLog.create(folder, config, facts | (about or {}))
    if fast:
        log._db.execute("PRAGMA synchronous = OFF")
    kept: list[tuple[float, int, Idea]] = []
    reward_all = seconds_all = 0.0
    with log:
        for step in range(1, steps + 1):
            price = reward_all / seconds_all if arm == "rpg" and seconds_all else 0.0
            parents = [kept[row % len(kept)][1:] if kept else (None, None) for row in range(batch)]
            ideas = [idea(rng, parent) for _, parent in parents]
            replies = [f"plan\n```python\n{one.code(seed)}```" for one in ideas]
            proposals = [Proposal(reply, reply_tokens=(0,) * 200) for reply in replies]
            ids = log.begin_step(step, proposals, [Origin(parent=number) for number, _ in parents])
            left = []
            for row, (number, one) in enumerate(zip(ids, ideas, strict=True)):
                fields = _outcome(rng, one, valid + (1 - valid) * min(1, step / 40) * 0.5, seed)
                if spoil:
                    fields = spoil(number, dict(fields))
                log.outcome(step, row, Outcome(**fields))
                left.append(fields["reward"] - price * fields["seconds"] if fields["valid"] else -1 - price * 30)
                reward_all, seconds_all = reward_all + fields["reward"], seconds_all + fields["seconds"]
                if fields["valid"]:
                    kept.append((fields["reward"] - price * fields["seconds"], number, one))
            kept = sorted(kept, key=lambda row: row[0], reverse=True)[: 2 * batch]
            rate = reward_all / seconds_all
            log.commit_step(
                step, RateEstimate(1.1 * rate, rate, 0.8 * rate, 1.2 * rate, step * batch), left, [0.0] * batch,
                metrics=_metrics(rng, step) if learner else {}, phases={"propose": 1.0, "execute": 2.0},
            )  # fmt: skip
        log.note("report", "attempt 1: reward 0.9, fine")
    return folder


def _outcome(rng, one, valid, seed):
    gain, seconds = one.worth(rng)
    if rng.random() > valid:
        status = str(rng.choice(FAILURES))
        seconds = 30.0 if status == "timeout" else 0.1 if status == "format" else seconds
        code = "" if status == "format" else one.code(seed)
        message = f"{status}: line 12, ValueError"
        return {"valid": False, "reward": 0.0, "score": None, "seconds": seconds, "status": status,
                "message": message, "code": code, "output": ""}  # fmt: skip
    score = 0.1 + 0.88 * gain
    message = f"score {score:.4f} in {seconds:.2f} s"
    return {"valid": True, "reward": gain, "score": score, "seconds": seconds, "status": "ok", "message": message,
            "code": one.code(seed), "output": one.note + "\n", "wall_seconds": seconds, "cpu_seconds": seconds * 0.9,
            "trains": True, "level": "namespaces"}  # fmt: skip


def _metrics(rng, step):
    noise = rng.normal(0, 0.1, 4)
    return {
        "kl": 0.02 * step * math.exp(noise[0]),
        "entropy": 1.5 * math.exp(-step / 60) * math.exp(0.3 * noise[1]),
        "clip_share": 0.05 * math.exp(noise[2]),
        "value_loss": 0.4 * math.exp(-step / 20 + noise[3]),
        "policy_loss": float(noise[0]) / 10,
        "explained_variance": 1 - math.exp(-step / 15),
        "grad_norm": math.exp(noise[1]),
    }
