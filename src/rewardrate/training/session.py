"""Open a run folder and train in it: a new run, or the one that is there, from where it stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rewardrate import config
from rewardrate.attempt import Outcome
from rewardrate.environments.environment import Environment
from rewardrate.errors import InputError
from rewardrate.runlog import RunLog, best
from rewardrate.runlog.rows import FINAL_EVALUATION
from rewardrate.sandbox import Executor, cores
from rewardrate.sandbox.shared_executor import SharedExecutor
from rewardrate.training.loggers import Loggers
from rewardrate.training.loop import Loop, Step
from rewardrate.training.recipe import ArmName, Recipe
from rewardrate.training.run_folder import open_run
from rewardrate.training.stream import StreamLoop

NO_DEADLINE = "the budget states no script_seconds, so there is no deadline: the reward rate is charged"
REPLIES = "replies.jsonl"  # of a policy that keeps them, for the step under way


def train(
    recipe: Recipe | str | Path,
    folder: str | Path,
    *,
    arm: ArmName | None = None,
    settings: Sequence[str] = (),
    on_phase: Callable[[str], None] | None = None,
    on_attempt: Callable[[int, Outcome], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Path:
    """Train as the recipe says, in `folder`; a run that is there already is continued. Returns the folder.

    `recipe`: one made in Python, or the name or file of one with `settings` as of --set ("budget.steps=40"). `arm`
    chooses another arm than the recipe's. `on_phase` is told what happens next: data, model, propose, execute, fit,
    learn, save, evaluate.

    A run is continued only under its own recipe, but for its budget, which may grow, its loggers, and the address of
    its cluster.
    """
    folder = Path(folder)
    if not isinstance(recipe, Recipe):
        recipe = config.load(Recipe, config.find_recipe(str(recipe)), settings)
    elif settings:
        raise InputError("settings", list(settings), "they are for a recipe by name", "use dataclasses.replace")
    if arm is not None:
        recipe = recipe.with_arm(arm)
    tell = on_phase or (lambda phase: None)
    tell("data")
    setup = recipe.setup()
    tell("model")
    with recipe.sandbox.make() as executor, _shared(recipe, executor) as shared:
        policy = recipe.make_policy()  # what the recipe cannot have is said before a folder is made
        environment = setup.environment(shared, policy.count)
        with (
            open_run(recipe, setup, folder) as log,
            Loggers(recipe.loggers, log, config.leaves(asdict(recipe))) as loggers,
        ):
            executor.on_event = log.note
            policy.keep_replies(folder / REPLIES)
            if policy.engine:
                log.note("sampling", policy.engine)
            if recipe.price == "horizon" and recipe.budget.script_seconds is None and not log.steps():
                log.note("price", NO_DEADLINE)
            pricer = recipe.make_pricer(environment)
            pricer.start_with(environment.known_solutions(folder))
            parts: dict[str, Any] = {
                "environment": environment,
                "policy": policy,
                "pricer": pricer,
                "log": log,
                "budget": recipe.budget,
                "seed": recipe.seed,
                "checkpoint_every": recipe.checkpoint_every,
                "on_phase": tell,
                "on_attempt": on_attempt,
                "on_step": _both(on_step, loggers),
            }
            if isinstance(shared, SharedExecutor):
                parts |= {"stream": recipe.make_stream(), "together": recipe.together(setup.cores)}
                own_cores = policy.take_cores(len(cores.usable())) if executor.local else 0
                StreamLoop(own_cores=own_cores, usage=shared.usage, **parts).run()
            else:
                Loop(**parts).run()
            (folder / REPLIES).unlink(missing_ok=True)  # all of them are on record
            tell("evaluate")
            _evaluate_best(environment, log)
    return folder


@contextlib.contextmanager
def _shared(recipe: Recipe, executor: Executor) -> Iterator[Executor]:
    """The executor as the schedule needs it."""
    if recipe.schedule == "step":
        yield executor
        return
    with SharedExecutor(executor) as shared:
        yield shared


def _both(on_step: Callable[[Step], None] | None, loggers: Loggers) -> Callable[[Step], None]:
    def both(step: Step) -> None:
        if on_step is not None:
            on_step(step)
        loggers.follow()

    return both


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
