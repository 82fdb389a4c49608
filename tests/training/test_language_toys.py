"""A real transformer, trained in the real loop by PPO (or as said), on worlds so small that the right answer is known.

Also the hazards of pricing time: not that the arithmetic has them (test_objective.py), but that a learner finds them.
"""

import contextlib
import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs the agent extra")
pytest.importorskip("transformers", reason="needs the agent extra")

import fuzz  # noqa: E402
import installed_package  # noqa: E402
import toy_language  # noqa: E402
from rewardrate import config  # noqa: E402
from rewardrate.policies import LearnerSettings  # noqa: E402
from rewardrate.rates import Fixed  # noqa: E402
from rewardrate.runlog import RunLog  # noqa: E402
from rewardrate.training.objective import Objective  # noqa: E402
from rewardrate.training.recipe import Recipe  # noqa: E402
from toy_language import World, trained  # noqa: E402

TWO_ARMS = {"quick": (1.0, 1.0), "slow": (1.5, 5.0)}  # reward, seconds


def learner_of(kind, **settings):
    """The toys' learner with another algorithm, by name as in a recipe."""
    table = dataclasses.asdict(toy_language.LEARNER) | {"algorithm": {"kind": kind, **settings}}
    return config.build(LearnerSettings, table)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("seed", fuzz.sizes(range(10), every=3))
def test_rpg_takes_the_quick_arm_and_vanilla_the_one_that_earns_more(seed, tmp_path):
    """1 in 1 s is a rate of 1; 1.5 in 5 s is 0.3, but the larger reward."""
    for arm, best in (("rpg", "quick"), ("vanilla", "slow")):
        objective = Objective(arm, bonus=0.0, penalty=-1.0)
        ends = trained(tmp_path / arm, World(TWO_ARMS), seed=seed, objective=objective)
        assert ends[best] > 0.95, (arm, ends)


@pytest.mark.parametrize("kind", ["grpo", "rloo"])
@pytest.mark.parametrize("seed", fuzz.sizes(range(10), every=3))
def test_the_same_without_a_critic_from_groups_of_attempts(kind, seed, tmp_path):
    learner = learner_of(kind, attempts=4)
    for arm, best in (("rpg", "quick"), ("vanilla", "slow")):
        objective = Objective(arm, bonus=0.0, penalty=-1.0)
        ends = trained(tmp_path / arm, World(TWO_ARMS), seed=seed, objective=objective, learner=learner)
        assert ends[best] > 0.95, (arm, ends)


def test_attempts_at_one_prompt_stand_side_by_side_with_one_parent(tmp_path):
    run = toy_language.loop(tmp_path / "run", World(TWO_ARMS), steps=3, learner=learner_of("grpo", attempts=8))
    assert run.pricer.parents() == [None] * 16
    run.run()
    first, second = run.pricer.buffer.select(2)
    assert run.pricer.parents() == [first] * 8 + [second] * 8
    with run.log as log:
        third = [attempt.parent for attempt in log.attempts(3)]
    assert len(third) == 16
    assert third == [third[0]] * 8 + [third[8]] * 8


def test_the_documented_algorithm_of_an_installed_package_is_chosen_by_name_and_trains(tmp_path, monkeypatch):
    """The entry point and the module of docs/policies.md, as an installer would leave them."""
    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text().partition("## An algorithm of your own")[2]
    entry, code = (re.search(rf"```{kind}\n(.*?)```", text, re.DOTALL)[1] for kind in ("toml", "python"))
    entries = tomllib.loads(entry)["project"]["entry-points"]
    installed_package.add(tmp_path / "packages", monkeypatch, "my_algorithm", code, entries)
    words = ["policy.learner.algorithm.kind=reinforce", "policy.learner.algorithm.scale=2"]
    recipe = config.load(Recipe, config.find_recipe("laptop"), words)
    shown = config.dumps(recipe, explain=True).partition("[policy.learner.algorithm]\n")[2]
    assert shown.startswith('kind = "reinforce"\n# Of the advantage.\nscale = 2.0\n')
    assert trained(tmp_path / "run", World(TWO_ARMS), learner=learner_of("reinforce"))["quick"] > 0.95


def test_a_critic_of_its_own_a_reference_and_two_passes_end_on_the_same_arm(tmp_path):
    learner = dataclasses.replace(
        toy_language.LEARNER, critic="own", kl_coefficient=1e-3, epochs=2, mini_batch=8, micro_batch=4
    )
    assert trained(tmp_path / "run", World(TWO_ARMS), learner=learner, steps=40)["quick"] > 0.95


def test_a_run_that_is_stopped_and_goes_on_ends_with_the_weights_of_one_that_was_not(tmp_path):
    ends = []
    for name, stops in (("whole", (6,)), ("cut", (2, 3, 6))):
        for steps in stops:
            run = toy_language.loop(tmp_path / name, World(TWO_ARMS), steps=steps, every=2)
            run.run()
            run.log.close()
        ends.append(run.policy.language.model.state_dict())
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_run_that_breaks_down_between_checkpoints_goes_on_from_its_record_bit_for_bit(tmp_path):
    """Steps since the checkpoint are learned again from what is on record: nothing is drawn or run twice."""

    @dataclasses.dataclass
    class Breaks(World):
        at: int = 0

        def stream(self, replies, parents=None):
            if self.steps + 1 == self.at:
                yield from super().stream(replies[:5])  # five attempts are on record when the power fails
                raise RuntimeError("no power")
            yield from super().stream(replies, parents)

    learner = dataclasses.replace(toy_language.LEARNER, critic="own", kl_coefficient=1e-3, epochs=2, mini_batch=8)
    ends = []
    for name, breaks in (("whole", (0,)), ("cut", (2, 2, 3, 0))):
        for at in breaks:  # the at-th step of this part: the second in the first, the fourth in the third, ...
            run = toy_language.loop(tmp_path / name, Breaks(TWO_ARMS, at=at), steps=7, every=3, learner=learner)
            with run.log, pytest.raises(RuntimeError, match="no power") if at else contextlib.nullcontext():
                run.run()
        with RunLog.open(tmp_path / name, read_only=True) as log:
            rows = log.table("id", "step", "row", "parent", "reply", "reward", "relative_reward")
        checkpoint = sorted((tmp_path / name / "checkpoints").glob("step-*"))[-1]
        files = {path.name: path.read_bytes() for path in checkpoint.iterdir() if path.suffix == ".safetensors"}
        ends.append((rows, files, run.policy.language.model.state_dict()))
    assert ends[0][0] == ends[1][0]
    assert len(ends[0][1]) >= 1
    assert ends[0][1] == ends[1][1]  # weights and the optimiser's moments, as bytes
    assert all(torch.equal(ends[0][2][name], ends[1][2][name]) for name in ends[0][2])


def test_hazard_a_raw_metric_teaches_to_copy_the_sample_and_a_gain_does_not(tmp_path):
    raw = {"copy": (0.5, 0.1), "honest": (0.85, 1.2)}
    gain = {"copy": (0.0, 0.1, "no-gain"), "honest": (0.7, 1.2)}
    assert trained(tmp_path / "raw", World(raw))["copy"] > 0.95
    assert trained(tmp_path / "gain", World(gain))["honest"] > 0.95
    vanilla = Objective("vanilla", bonus=0.0, penalty=-1.0)
    assert trained(tmp_path / "vanilla", World(raw), objective=vanilla)["honest"] > 0.95


def test_hazard_over_pricing_teaches_to_do_nothing_unless_nothing_is_a_failure(tmp_path):
    """The best script earns 0.5 a second; a fifth above that, a junk script that ends at once is worth more."""
    junk = {"junk": (0.0, 0.1), "best": (0.9, 1.8), "slow": (1.0, 10.0)}
    fails = junk | {"junk": (0.0, 0.1, "no-gain")}
    assert trained(tmp_path / "over", World(junk), estimator=Fixed(0.6))["junk"] > 0.9
    assert trained(tmp_path / "under", World(junk), estimator=Fixed(0.4))["best"] > 0.9
    assert trained(tmp_path / "fails", World(fails), estimator=Fixed(0.6))["best"] > 0.9


def test_hazard_a_failure_that_pays_its_own_time_teaches_to_fail(tmp_path):
    arms = {"honest": (0.9, 30.0), "crash": (0.0, 0.1, "error")}
    naive = Objective(bonus=0.0, penalty=0.0, invalid_charge="measured")
    ends = {}
    for name, objective in (("naive", naive), ("limit", dataclasses.replace(naive, invalid_charge="limit"))):
        world = World(arms, limit_seconds=60.0)
        ends[name] = trained(tmp_path / name, world, objective=objective, estimator=Fixed(0.04))
    assert ends["naive"]["honest"] < 0.05
    assert ends["limit"]["honest"] > 0.95


def test_hazard_a_lagging_price_teaches_the_slower_script_and_a_window_the_quicker(tmp_path):
    """Seven slow steps, then all is much faster: running totals keep charging far less than a second is now worth."""
    before, after = {"quick": (0.8, 200.0), "thorough": (1.0, 280.0)}, {"quick": (0.8, 1.0), "thorough": (1.0, 2.8)}
    ends = {}
    for window in (None, 5):
        world = World(before, limit_seconds=5.0, change=(8, after))
        ends[window] = trained(tmp_path / str(window), world, window=window)
    assert ends[None]["thorough"] > 0.9
    assert ends[5]["quick"] > 0.9


def test_hazard_a_noisy_clock_slows_learning_but_does_not_change_what_is_learnt(tmp_path):
    """Seconds off by a factor of 1.5 either way in two of three attempts."""
    assert trained(tmp_path / "run", World(TWO_ARMS, noise=0.4))["quick"] > 0.9


def test_hazard_the_best_rate_is_not_the_best_score_and_the_scale_chooses_between_them(tmp_path):
    arms = {"bayes": (0.52, 1.5), "perceptron": (0.93, 4.0), "words": (1.0, 33.0)}
    for scale, best in ((0.0, "words"), (0.25, "perceptron"), (1.0, "bayes")):
        objective = Objective(bonus=0.0, penalty=-1.0, price_scale=scale)
        ends = trained(tmp_path / best, World(arms), objective=objective, estimator=Fixed(0.52 / 1.5))
        assert ends[best] > 0.9, (scale, ends)
