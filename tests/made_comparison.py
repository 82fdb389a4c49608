"""Folders of comparisons for tests: a plan, frozen, and runs that `made_run` draws, without any training."""

import json

import made_run
from rewardrate import config
from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan
from rewardrate.training import comparison as training

TASKS = ("digits8x8", "diamonds", "grants")
START = "a" * 64


def plan(**changed):
    """A small plan; T = 20 s for each of 6 chains."""
    given = {
        "hypothesis": "rpg has more reward at T than vanilla",
        "recipe": "laptop",
        "tasks": TASKS,
        "seeds": (0, 1),
        "script_seconds": 120.0,
        "settings": ("batch=6", "sandbox.slots=1", "budget.steps=1000"),
    }
    return ComparisonPlan(**given | changed)


def freeze(place, made):
    """The folder with its plan, no run yet."""
    folder = ComparisonFolder(place)
    training.freeze(folder, made)
    return folder


def fail(number, fields):
    """Every seventh attempt fails on the sandbox's side, and some measurements are contaminated."""
    if number % 7 == 0:
        nothing = {"valid": False, "reward": 0.0, "score": None, "status": "sandbox-failure", "seconds": 0.7}
        return fields | nothing | {"message": "out of disk"}
    return fields


def add(folder, block, arm, *, steps=14, spoil=fail, note=True, **changed):
    """A complete run of a block (or one that is not, with fewer steps)."""
    made, sha256 = folder.plan(), folder.state()["sha256"]
    own = made.variant(arm)
    recipe = training.recipes(made)[arm if own.settings else ""].with_arm(own.arm)
    recipe = config.load(type(recipe), None, _overrides(recipe, block))
    number = 100 * made.tasks.index(block.task) + 10 * block.seed + made.arms.index(arm)
    given = {"config": config.dumps(recipe), "about": {"seed": str(block.seed)}, "seed": number, "batch": recipe.batch}
    place = folder.run(block, arm)
    made_run.make(
        place, arm=own.arm, task=block.task, steps=steps, spoil=spoil, learner=False, fast=True, **given | changed
    )
    if note:
        sitting = {"began": "2099-01-01T00:00:00Z", "seconds": None, "side_by_side": 2, "slots": 1}
        folder.note(block, arm, {"plan": sha256, "start": START, "sittings": [sitting], "ended": True})
    return place


def _overrides(recipe, block):
    from dataclasses import asdict

    fields = config.leaves(asdict(recipe)) | {"task": block.task, "seed": block.seed}
    return [f"{name}={json.dumps(value)}" for name, value in fields.items() if value is not None]


def complete(place, **changed):
    """A folder with every block of a plan."""
    made = plan(**changed)
    folder = freeze(place, made)
    for block in made.blocks:
        for arm in made.arms:
            add(folder, block, arm)
    return folder
