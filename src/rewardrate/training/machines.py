"""How long a study takes on given machines, and how many it takes to be done by a given time: arithmetic alone.

A step draws its replies, runs their scripts, and learns, one after the other (docs/training.md). Scripts of one step
run side by side on S slots and are handed out as slots become free, so that for any order (Graham, 1966)

    max(W / S, longest)  <=  seconds of the scripts  <=  W / S + (1 - 1 / S) * longest,     W = sum of their seconds

and with as many slots as scripts exactly `longest`: the limit, as soon as one script runs into it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rewardrate.checks import at_least
from rewardrate.errors import InputError


@dataclass(frozen=True)
class StudySize:
    """What is to be run: one run for each task, arm and seed, `steps` steps of `attempts` scripts."""

    script_seconds: float
    "Of a script, mean over all attempts; one that fails early is short, one that times out takes the limit."
    runs: int = 22
    steps: int = 300
    attempts: int = 128
    limit_seconds: float = 600.0
    cores_per_script: int = 1
    reply_tokens: float = 800.0
    "Of a reply, mean."
    prompt_tokens: float = 800.0

    def __post_init__(self) -> None:
        for name in ("runs", "steps", "attempts", "cores_per_script"):
            at_least(name, getattr(self, name), 1)
        if not 0 < self.script_seconds <= self.limit_seconds:
            rule = f"a script takes more than 0 and at most the limit of {self.limit_seconds:g} s"
            raise InputError("script_seconds", self.script_seconds, rule)


@dataclass(frozen=True)
class Machines:
    """What one run has: its GPUs together, and cores for its scripts, on this machine or on others (docs/ray.md)."""

    cores: int
    gpus: int = 1
    drawn_per_second: float = math.inf
    "Tokens of replies, of all GPUs of the run together: benchmarks/bench_engines.py. Infinite: left out."
    learnt_per_second: float = math.inf
    "Tokens of prompts and replies in an update: benchmarks/bench_ppo.py. Infinite: left out."
    busy: float = 0.975
    "Share of the time that slots are in use while scripts wait: measured over Ray (docs/ray.md)."


@dataclass(frozen=True)
class Need:
    """Seconds of a step by phase, hours of a run, and machines; of two numbers, no less than and no more than."""

    propose: float
    execute: tuple[float, float]
    learn: float
    run_hours: tuple[float, float]
    core_hours: float
    "Of all scripts of the study, whatever the machines are."
    side_by_side: int
    "Runs that must go on at once to end by the given time."
    gpus: int
    cores: int


def need(study: StudySize, machines: Machines, hours: float) -> Need:
    """What a study needs to be done after `hours`. Raises InputError where no number of machines would do."""
    slots = min(machines.cores // study.cores_per_script, study.attempts)
    if slots < 1:
        rule = f"a script of this study takes {study.cores_per_script}"
        raise InputError("machines.cores", machines.cores, rule)
    work, longest = study.attempts * study.script_seconds, study.limit_seconds
    low = max(work / slots / machines.busy, longest)
    high = longest if slots == study.attempts else work / slots / machines.busy + (1 - 1 / slots) * longest
    execute = (low, max(low, high))
    propose = study.attempts * study.reply_tokens / machines.drawn_per_second
    learn = study.attempts * (study.prompt_tokens + study.reply_tokens) / machines.learnt_per_second
    of_run = [study.steps * (propose + seconds + learn) / 3600 for seconds in execute]
    if of_run[1] > hours:
        rule = f"one run alone takes up to {of_run[1]:.0f} hours"
        raise InputError("hours", hours, rule, "more cores for a run, a shorter limit, or fewer steps")
    side_by_side = math.ceil(study.runs / math.floor(hours / of_run[1]))
    return Need(
        propose=propose,
        execute=execute,
        learn=learn,
        run_hours=(of_run[0], of_run[1]),
        core_hours=study.runs * study.steps * work * study.cores_per_script / 3600,
        side_by_side=side_by_side,
        gpus=side_by_side * machines.gpus,
        cores=side_by_side * machines.cores,
    )
