"""The run folder of a recipe: a new one, or the one that is there, which nothing but the same run may continue."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from rewardrate import __version__, config
from rewardrate.environments.environment import RunSetup
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog
from rewardrate.training.recipe import Recipe

ENGINE = "engine"  # the fact that says which engine of others trains; runs of our own lack it


def open_run(
    recipe: Recipe,
    setup: RunSetup,
    folder: Path,
    *,
    facts: Mapping[str, str] | None = None,
    another: str = "another --out",
) -> RunLog:
    """The log of this run, to write; `facts` replace those of `about`, `another` is said where a folder is refused.

    A run is continued only under its own recipe (but for its budget, loggers and cluster), facts and engine.
    """
    more = dict(facts or {})
    if not RunLog.exists(folder):
        return RunLog.create(folder, config.dumps(recipe), about(recipe, setup) | more)
    log = RunLog.open(folder)
    try:
        _same(recipe, log, another)
        _same_facts(setup, log, another)
        _same_engine(more.get(ENGINE, ""), log, another)
        _note_budget(recipe, log)
    except BaseException:
        log.close()
        raise
    return log


def _same_engine(engine: str, log: RunLog, another: str) -> None:
    """Refuse to resume with the weights of another engine."""
    kept = log.about().get(ENGINE, "")
    if kept != engine:
        rule = f"the run in {log.folder} was begun by {kept or 'rewardrate train'}"
        raise InputError(ENGINE, engine or "rewardrate train", rule, f"use {another}")


def _same(recipe: Recipe, log: RunLog, another: str) -> None:
    """Refuse to resume with another recipe than the run began with; the first setting that differs is named."""
    kept = config.leaves(asdict(config.build(Recipe, config.read_toml(log.folder / "config.toml"))))
    mine = config.leaves(asdict(recipe))
    for name in sorted(set(kept) | set(mine)):
        if not name.startswith(("budget.", "loggers", "sandbox.address")) and kept.get(name) != mine.get(name):
            rule = f"the run in {log.folder} was begun with {kept.get(name)!r}"
            raise InputError(name, mine.get(name), rule, f"give the same command as before, or {another}")


def _same_facts(setup: RunSetup, log: RunLog, another: str) -> None:
    """Refuse to resume with other facts than the run began with (a race: its hidden tokens and target)."""
    kept, here = log.about(), setup.facts()
    for name in setup.must_match:
        if name in here and kept.get(name, "") != here[name]:
            rule = f"the run in {log.folder} was begun with {kept.get(name, 'another one')}"
            raise InputError(name, here[name], rule, f"use {another}, or bring back the split.key of that run")


def _note_budget(recipe: Recipe, log: RunLog) -> None:
    """A resumed run may have a larger budget than config.toml says: reports read the last one from the events."""
    kept = asdict(config.build(Recipe, config.read_toml(log.folder / "config.toml")).budget)
    for event in log.events():
        name, _, value = event.message.partition(" = ")
        if event.kind == "budget":
            kept[name] = None if value == "None" else float(value)
    for name, limit in asdict(recipe.budget).items():
        if limit != kept[name]:
            log.note("budget", f"{name} = {limit!r}")


def about(recipe: Recipe, setup: RunSetup) -> dict[str, str]:
    """What must be known of a run before its first step: versions, machine, commit, which way its score points."""
    return {
        "rewardrate": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "commit": _commit(),
        "task": recipe.task,
        **setup.facts(),
        "arm": recipe.arm,
        "seed": str(recipe.seed),
        "clock": recipe.overhead.clock(recipe.sandbox.clock),
        "policy": recipe.policy.label,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _commit() -> str:
    """The commit of the source checkout this runs from; empty for an installed package."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
