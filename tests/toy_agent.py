"""A toy world and a toy policy: two arms, one quick and one that earns more; softmax policy gradient in numpy.

Also a program that trains in processes of their own, which may be killed (`Lives`).
"""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np

from rewardrate.attempt import Outcome, Proposal
from rewardrate.environments import Environment
from rewardrate.rates import NIW, Accumulators, Stream
from rewardrate.runlog import RunLog
from rewardrate.training.buffer import SolutionBuffer
from rewardrate.training.loop import Budget, Loop
from rewardrate.training.objective import Objective
from rewardrate.training.pricer import Pricer
from rewardrate.training.stream import StreamLoop
from rewardrate.training.under_way import UnderWay

ARMS = {"quick": (1.0, 1.0), "slow": (1.5, 5.0)}  # reward, seconds


class TwoArms(Environment):
    """The environment: a reply names an arm. Deterministic; counts how often each attempt was executed."""

    limit_seconds = 10.0

    def __init__(self, tally=None, pause=0.0):
        self.tally, self.pause = tally, pause

    def prompt(self, parent=None):
        return [{"role": "user", "content": parent.code if parent else "go"}]

    def stream(self, replies, parents=None):
        for place, reply in enumerate(replies):
            if self.tally is not None:
                with open(self.tally, "a") as file:
                    file.write(f"{reply}\n")
            time.sleep(self.pause)
            reward, seconds = ARMS.get(reply.split()[0], (0.0, 1.0))
            valid = reward > 0
            yield (
                place,
                Outcome(valid, reward, reward, seconds, f"earned {reward}", "ok" if valid else "error", reply),
            )


class Softmax:
    """The policy: one logit an arm, REINFORCE with a batch baseline."""

    name, trainable = "softmax", True

    def __init__(self, learning_rate=0.3):
        self.logits = np.zeros(len(ARMS))
        self.learning_rate = learning_rate

    def probabilities(self):
        weights = np.exp(self.logits - self.logits.max())
        return weights / weights.sum()

    def propose(self, prompts, seed):
        rng = np.random.default_rng(seed)
        drawn = rng.choice(len(ARMS), size=len(prompts), p=self.probabilities())
        return [
            Proposal(
                f"{list(ARMS)[arm]} {seed} {row}", (row,), (int(arm),), (float(np.log(self.probabilities()[arm])),)
            )
            for row, arm in enumerate(drawn)
        ]

    def learn(self, proposals, rewards):
        kept = [(p.reply_tokens[0], r) for p, r in zip(proposals, rewards, strict=True) if r is not None]
        values = np.array([reward for _, reward in kept])
        advantage = (values - values.mean()) / (values.std() + 1e-6)
        gradient = np.zeros_like(self.logits)
        for (arm, _), a in zip(kept, advantage, strict=True):
            gradient += a * (np.eye(len(ARMS))[arm] - self.probabilities())
        self.logits = self.logits + self.learning_rate * gradient / len(kept)
        return {"mean_reward": float(values.mean())}

    def count(self, text):
        return len(text)

    def save(self, folder):
        (folder / "logits.json").write_text(json.dumps(self.logits.tolist()))

    def load(self, folder):
        self.logits = np.array(json.loads((folder / "logits.json").read_text()))


class RowByRow(Softmax):
    """A reply depends on seed and row alone, not on what is asked beside it."""

    def propose(self, prompts, seed, first=0):
        found = []
        for row in range(first, first + len(prompts)):
            arm = int(np.random.default_rng([seed, row]).choice(len(ARMS), p=self.probabilities()))
            logprob = float(np.log(self.probabilities()[arm]))
            found.append(Proposal(f"{list(ARMS)[arm]} {seed} {row}", (row,), (arm,), (logprob,)))
        return found


class InTurn(UnderWay):
    """One attempt ends at a time: of those that run the one with the smallest number plus a delay of its own."""

    def __init__(self, environment, record, *, before=0):
        super().__init__(environment, record, before=before)
        self.running, self.arrivals, self.environment, self.record = {}, before, environment, record

    def start(self, attempt, reply, parent, charged):
        self.running[attempt] = (reply, parent, charged)

    def arrived(self):
        attempt = min(self.running, key=lambda number: (number + (number * 7919) % 23, number))
        reply, parent, charged = self.running.pop(attempt)
        ((_, outcome),) = self.environment.stream([reply], [parent])
        self.arrivals += 1
        self.record(attempt, self.arrivals, charged(outcome))
        return [(attempt, charged(outcome))]


def stream_loop(folder, *, age=4, batch=16, steps=60, under_way=InTurn, **changes):
    """A loop whose chains do not wait, new or resumed."""
    plain = loop(folder, batch=batch, steps=steps, **changes)
    parts = {name: getattr(plain, name) for name in ("environment", "pricer", "log", "budget", "seed", "on_attempt")}
    parts |= {"checkpoint_every": plain.checkpoint_every, "on_step": plain.on_step, "make_under_way": under_way}
    return StreamLoop(policy=RowByRow(), stream=Stream(batch, batch, age=age), **parts)


def loop(folder, *, arm="rpg", seed=0, steps=60, batch=16, environment=None, every=1, **changes):
    """A loop in `folder`, new or resumed."""
    log = RunLog.open(folder) if RunLog.exists(folder) else RunLog.create(folder, "", {"arm": arm})
    environment, budget = environment or TwoArms(), changes.pop("budget", Budget(steps=steps))
    deadline = None if budget.script_seconds is None else budget.script_seconds / batch
    pricing = {name: changes.pop(name) for name in ("overhead", "price") if name in changes}
    return Loop(
        environment=environment,
        policy=Softmax(),
        pricer=Pricer(
            environment,
            Objective(arm=arm, bonus=0.0),
            NIW(seed=seed),
            Accumulators(batch),
            buffer=SolutionBuffer(10 * batch),
            deadline=deadline,
            **pricing,
        ),
        log=log,
        budget=budget,
        seed=seed,
        checkpoint_every=every,
        **changes,
    )


def train(folder, steps, pause, every, kind):
    """A run in `folder`, new or resumed; with kind "stream" attempts end in an order of their own."""
    make = {"step": loop, "stream": stream_loop}[kind]
    make(Path(folder), steps=steps, batch=4, every=every, environment=TwoArms(f"{folder}.tally", pause)).run()


def serve():
    """Train in forks of this process, which has imported everything: one at a time, as the lines of stdin say."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                train(*json.loads(line))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)


class Lives:
    """Runs in processes of their own, one at a time; what a new interpreter imports, none of them waits for."""

    def __enter__(self):
        words = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0, "cwd": Path(__file__).parent}
        self.server = subprocess.Popen([sys.executable, __file__], **words)
        return self

    def __exit__(self, *_):
        self.server.communicate(timeout=60)

    def begin(self, *words):
        """The process of a run that begins."""
        self.server.stdin.write(json.dumps(words, default=str).encode() + b"\n")
        return int(self.server.stdout.readline())

    def over(self):
        """Whether the run has ended."""
        return bool(select.select([self.server.stdout], [], [], 0)[0])

    def status(self):
        """How it ended, as `os.waitpid` says it; waits for that."""
        return int(self.server.stdout.readline())


def killed_again_and_again(folder, times, steps, every, kind):
    """A run that is killed so often at random moments, and then left to its end."""
    rng, tally = random.Random(7), Path(f"{folder}.tally")
    with Lives() as lives:
        for number in range(times):
            before = tally.stat().st_size if tally.exists() else 0
            process = lives.begin(folder, steps, 0.05, every, kind)
            while not lives.over() and not (tally.exists() and tally.stat().st_size > before):
                time.sleep(0.005)  # until it has begun an attempt of its own
            time.sleep(rng.random() * 0.3)
            assert not lives.over(), f"the run was over too soon to be killed so often: {number} times"
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            assert lives.status() == signal.SIGKILL
        lives.begin(folder, steps, 0.0, every, kind)
        assert lives.status() == 0


if __name__ == "__main__":
    serve()
