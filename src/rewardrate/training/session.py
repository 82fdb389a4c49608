"""Open a run folder and train in it: a new run, or the one that is there, from where it stopped."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from rewardrate import __version__, config
from rewardrate.attempt import Outcome
from rewardrate.environments.environment import Environment, RunSetup
from rewardrate.errors import InputError
from rewardrate.policies import EndpointPolicy
from rewardrate.runlog import RunLog, best
from rewardrate.runlog.rows import FINAL_EVALUATION
from rewardrate.training.loggers import Loggers
from rewardrate.training.loop import Loop, Step
from rewardrate.training.recipe import Recipe

NO_DEADLINE = "the budget states no script_seconds, so there is no deadline: the reward rate is charged"
REPLIES = "replies.jsonl"  # of an endpoint, for the step under way


def train(
    recipe: Recipe,
    folder: Path,
    *,
    on_attempt: Callable[[int, Outcome], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Path:
    """Train as the recipe says, in `folder`; a run that is there already is continued. Returns the folder.

    A run is continued only under its own recipe, but for its budget, which may grow, its loggers, and the address of
    its cluster.
    """
    setup = recipe.setup()
    with recipe.sandbox.make() as executor:
        policy = recipe.policy.make(recipe.seed)  # what the recipe cannot have is said before a folder is made
        environment = setup.environment(executor, policy.count)
        with (
            _log(recipe, setup, folder) as log,
            Loggers(recipe.loggers, log, config.leaves(asdict(recipe))) as loggers,
        ):
            executor.on_event = log.note
            if isinstance(policy, EndpointPolicy):
                policy.keep_replies(folder / REPLIES)
            if recipe.price == "horizon" and recipe.budget.script_seconds is None and not log.steps():
                log.note("price", NO_DEADLINE)
            pricer = recipe.make_pricer(environment)
            pricer.start_with(environment.known_solutions(folder))
            Loop(
                environment=environment,
                policy=policy,
                pricer=pricer,
                log=log,
                budget=recipe.budget,
                seed=recipe.seed,
                checkpoint_every=recipe.checkpoint_every,
                on_attempt=on_attempt,
                on_step=_both(on_step, loggers),
            ).run()
            (folder / REPLIES).unlink(missing_ok=True)  # all of them are on record
            _evaluate_best(environment, log)
    return folder


def _both(on_step: Callable[[Step], None] | None, loggers: Loggers) -> Callable[[Step], None]:
    def told(step: Step) -> None:
        if on_step is not None:
            on_step(step)
        loggers.follow()

    return told


def _evaluate_best(environment: Environment, log: RunLog) -> None:
    """The best script, run and judged once more (a task: on the report split): on record, once for each best script.

    A failure of the sandbox is no evaluation: the same command tries again.
    """
    chosen = best(log.attempts())
    if chosen is None:
        return
    head = f"attempt {chosen.id}: "
    if any(event.kind == FINAL_EVALUATION and event.message.startswith(head) for event in log.events()):
        return
    outcome = environment.final_evaluation(chosen.code)
    if outcome is not None and outcome.charged:
        log.note(FINAL_EVALUATION, f"{head}reward {outcome.reward:.4f}, {outcome.message}")


@contextlib.contextmanager
def _log(recipe: Recipe, setup: RunSetup, folder: Path) -> Iterator[RunLog]:
    if not RunLog.exists(folder):
        log = RunLog.create(folder, config.dumps(recipe), about(recipe, setup))
    else:
        log = RunLog.open(folder)
        _same(recipe, log)
        _same_facts(setup, log)
    with log:
        _note_budget(recipe, log)
        yield log


def _same(recipe: Recipe, log: RunLog) -> None:
    """Refuse to go on with another recipe than the run began with; the first setting that differs is named."""
    kept = config.leaves(asdict(config.build(Recipe, config.read_toml(log.folder / "config.toml"))))
    mine = config.leaves(asdict(recipe))
    for name in sorted(set(kept) | set(mine)):
        if not name.startswith(("budget.", "loggers", "sandbox.address")) and kept.get(name) != mine.get(name):
            log.close()
            rule = f"the run in {log.folder} was begun with {kept.get(name)!r}"
            raise InputError(name, mine.get(name), rule, "give the same command as before, or another --out")


def _same_facts(setup: RunSetup, log: RunLog) -> None:
    """Refuse to resume with other facts than the run began with (a race: its hidden tokens and target)."""
    kept, here = log.about(), setup.facts()
    for name in setup.must_match:
        if name in here and kept.get(name, "") != here[name]:
            log.close()
            rule = f"the run in {log.folder} was begun with {kept.get(name, 'another one')}"
            raise InputError(name, here[name], rule, "use another --out, or bring back the split.key of that run")


def _note_budget(recipe: Recipe, log: RunLog) -> None:
    """A resumed run may have a larger budget than config.toml says: reports read the last one from the events."""
    kept = config.build(Recipe, config.read_toml(log.folder / "config.toml")).budget.script_seconds
    for event in log.events():
        if event.kind == "budget":
            kept = float(event.message.rpartition(" ")[2])
    if recipe.budget.script_seconds is not None and recipe.budget.script_seconds != kept:
        log.note("budget", f"script_seconds = {recipe.budget.script_seconds!r}")


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
        "policy": recipe.policy.name if recipe.policy.kind == "model" else recipe.policy.model,
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
