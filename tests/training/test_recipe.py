from pathlib import Path

import pytest

from rewardrate import config
from rewardrate.attempt import Outcome
from rewardrate.environments.environment import RewardRules
from rewardrate.errors import InputError
from rewardrate.rates import Horizon, RatePrice
from rewardrate.rates.settings import NIWSettings
from rewardrate.training.recipe import ModelChoice, Recipe

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["laptop", "gpu", "mle-bench-paper", "nanogpt-paper", "nanogpt-mini", "nanogpt-gpu"])
def test_shipped_recipes_load_and_read_back_as_themselves(name, tmp_path):
    recipe = config.load(Recipe, config.find_recipe(name))
    (tmp_path / "again.toml").write_text(config.dumps(recipe))
    assert config.load(Recipe, tmp_path / "again.toml") == recipe


def test_the_paper_recipe_has_the_numbers_of_the_paper():
    recipe = config.load(Recipe, config.find_recipe("mle-bench-paper"))
    assert (recipe.batch, recipe.budget.steps, recipe.buffer_batches) == (128, 300, 10)
    assert (recipe.objective.penalty, recipe.objective.bonus) == (-10.0, 0.5)
    sampling, learner = recipe.policy.sampling, recipe.policy.learner
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.presence_penalty) == (0.7, 0.8, 20, 1.5)
    assert (sampling.new_tokens, recipe.environment.prompt_tokens) == (2500, 2560)
    assert (learner.learning_rate, learner.critic_learning_rate) == (1e-6, 1e-5)
    assert (learner.algorithm.clip, learner.algorithm.value_clip) == (0.2, 0.5)
    assert (learner.gradient_clip, learner.kl_coefficient) == (1.0, 0.001)
    assert (recipe.estimator.forgetting, recipe.estimator.batches, recipe.estimator.quantile) == (0.3, 1000, 0.95)
    assert (recipe.environment.cores, recipe.environment.memory_bytes) == (2, 16 * 2**30)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({}, "task"),
        ({"task": "diamonds", "budget": {}}, "a run needs an end"),
        ({"task": "diamonds", "estimator": {"kind": "niw", "rate": 1.0}}, "no such key"),
        ({"task": "diamonds", "estimator": {"kind": "guess"}}, "estimator.kind"),
        ({"task": "diamonds", "policy": {"kind": "endpoint"}}, "policy.url"),
        ({"task": "diamonds", "batch": 1}, "batch"),
        (
            {"task": "diamonds", "window": 5, "estimator": {"kind": "totals"}},
            "window = 5: totals takes single attempts",
        ),
        ({"task": "diamonds", "objective": {"arm": "rgp"}}, "did you mean 'rpg'"),
        ({"task": "diamonds", "loggers": ["tensorbord"]}, r"loggers\[0\] = 'tensorbord'.*did you mean 'tensorboard'"),
        ({"task": "diamonds", "loggers": "wandb"}, "it must be a list"),
        ({"task": "diamonds", "schedule": "steam"}, "schedule = 'steam'.*'stream'"),
        ({"task": "diamonds", "max_age": 2}, 'max_age = 2: .*schedule = "stream"'),
        ({"task": "diamonds", "schedule": "stream", "max_age": -1}, "max_age = -1"),
    ],
)
def test_mistakes_in_a_recipe_are_named(table, words):
    with pytest.raises(InputError, match=words):
        config.build(Recipe, table)


def test_chains_that_do_not_wait_learn_with_weights_for_the_policy_that_wrote_unless_told_otherwise(monkeypatch):
    recipe = config.build(Recipe, {"task": "diamonds", "schedule": "stream", "batch": 8, "max_age": 2})
    made = []
    monkeypatch.setattr(ModelChoice, "make", lambda choice, seed: made.append(choice.learner.old_logprobs))
    recipe.make_policy()
    config.build(Recipe, {"task": "diamonds"}).make_policy()
    off = {"policy": {"kind": "model", "learner": {"old_logprobs": "sampled"}}}
    config.build(Recipe, {"task": "diamonds", "schedule": "stream", **off}).make_policy()
    assert made == ["decoupled", "recomputed", "sampled"]
    stream = recipe.make_stream()
    assert (stream.chains, stream.batch_size, stream.age, stream.order) == (8, 8, 2, "start")
    assert config.build(Recipe, {"task": "diamonds", "schedule": "stream"}).make_stream().age == 8


def test_an_estimator_that_needs_an_attempt_of_every_chain_is_refused_where_chains_do_not_wait():
    class RowByRow(NIWSettings):
        whole_steps = True

    assert Recipe("diamonds", estimator=RowByRow()).schedule == "step"
    with pytest.raises(InputError, match=r"estimator.kind = 'niw': it needs an attempt of every.*schedule = \"step\""):
        Recipe("diamonds", schedule="stream", estimator=RowByRow())


def test_an_engine_that_cannot_say_how_likely_a_reply_was_is_refused_where_attempts_grow_old():
    sampling = {"engine": "vllm"}
    table = {"task": "diamonds", "schedule": "stream", "policy": {"kind": "model", "sampling": sampling}}
    with pytest.raises(InputError, match=r"policy.sampling.engine = 'vllm'.*set top_p = 1, top_k = 0"):
        config.build(Recipe, table)
    sampling |= {"top_p": 1.0, "top_k": 0, "presence_penalty": 0.0}
    assert config.build(Recipe, table).schedule == "stream"


def test_an_arm_changes_nothing_else():
    recipe = config.build(Recipe, {"task": "diamonds"})
    assert recipe.with_arm("vanilla").objective.arm == "vanilla"
    assert recipe.with_arm("vanilla").with_arm("rpg") == recipe
    horizon = recipe.with_arm("horizon")
    assert (horizon.arm, horizon.price, horizon.objective) == ("horizon", "horizon", recipe.objective)
    assert horizon.with_arm("rpg") == recipe
    assert [recipe.with_arm(arm).arm for arm in ("rpg", "vanilla", "horizon")] == ["rpg", "vanilla", "horizon"]


def test_the_price_that_knows_the_deadline_needs_one():
    recipe = config.load(Recipe, config.find_recipe("laptop"), ["budget.script_seconds=160"]).with_arm("horizon")
    assert isinstance(recipe.make_price(), Horizon)
    assert recipe.make_pricer(RewardRules()).deadline == 10.0, "of each of the 16 chains"
    without = config.load(Recipe, config.find_recipe("laptop")).with_arm("horizon")
    for other in (recipe.with_arm("rpg"), recipe.with_arm("horizon").with_arm("vanilla"), without):
        assert isinstance(other.make_price(), RatePrice)


def test_a_fixed_price_charges_its_number_and_is_an_arm_of_its_own():
    recipe = config.build(Recipe, {"task": "diamonds", "price": "fixed", "reward_per_second": 0.25})
    assert recipe.arm == "fixed"
    assert recipe.with_arm("fixed") is recipe
    assert recipe.make_price().update([1.0], [1.0], rate=9.0, chains=1, deadline=None) == 0.25
    for arm in ("rpg", "vanilla", "horizon"):
        other = recipe.with_arm(arm)
        assert (other.arm, other.reward_per_second) == (arm, None)
    with pytest.raises(InputError, match='reward_per_second = None: price = "fixed" needs it'):
        recipe.with_arm("rpg").with_arm("fixed")
    with pytest.raises(InputError, match=r'reward_per_second = 0\.25: price = "rate" does not charge it.*leave it out'):
        config.build(Recipe, {"task": "diamonds", "reward_per_second": 0.25})
    with pytest.raises(InputError, match=r"reward_per_second = -1\.0: it must be at least 0"):
        config.build(Recipe, {"task": "diamonds", "price": "fixed", "reward_per_second": -1.0})


def test_no_price_is_the_arm_vanilla():
    free = config.build(Recipe, {"task": "diamonds", "price": "none"})
    vanilla = config.build(Recipe, {"task": "diamonds"}).with_arm("vanilla")
    assert (free.arm, free.with_arm("vanilla")) == ("vanilla", free)
    assert free.with_arm("rpg") == vanilla.with_arm("rpg")
    rows = [Outcome(True, 0.5, 0.5, 2.0, "", "ok", "a"), *[Outcome(False, 0.0, None, 1.0, "", "error", "b")] * 127]
    rules = RewardRules()
    rules.limit_seconds = 10.0
    one, other = (recipe.make_pricer(rules).price(rows, attempts=range(128)) for recipe in (free, vanilla))
    assert one == other
    assert one.price == 0.0


def test_the_race_recipe_has_the_numbers_of_the_paper():
    recipe = config.load(Recipe, config.find_recipe("nanogpt-paper"))
    assert (recipe.batch, recipe.budget.steps, recipe.invalid_in_fit) == (64, 10, "exclude")
    assert (recipe.objective.penalty, recipe.objective.bonus) == (-10.0, 0.0)
    sampling, learner = recipe.policy.sampling, recipe.policy.learner
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.presence_penalty) == (0.7, 0.8, 20, 1.5)
    assert (sampling.new_tokens, recipe.environment.prompt_tokens) == (2560, 40960)
    assert (learner.learning_rate, learner.critic_learning_rate) == (1e-6, 1e-5)
    assert (learner.algorithm.clip, learner.algorithm.value_clip) == (0.2, 0.5)
    assert (learner.gradient_clip, learner.kl_coefficient) == (1.0, 0.001)
    assert (recipe.estimator.forgetting, recipe.estimator.batches, recipe.estimator.quantile) == (0.3, 1000, 0.95)
    race, implementer = recipe.environment, recipe.environment.implementer
    assert (implementer.temperature, implementer.new_tokens, implementer.attempts) == (0.0, 16_384, 3)
    assert (race.votes.votes, race.votes.temperature, race.static_judge) == (3, 0.0, "off")
    rewards = race.rewards
    assert (rewards.reference_loss, rewards.crossing_bonus, rewards.slope) == (10.0, 5.0, 100.0)
    assert rewards.depth_seconds == 20_000
    assert (recipe.large_edits.share, recipe.large_edits.lines) == (0.5, 20)


def test_a_recipe_without_a_kind_of_environment_is_a_machine_learning_one():
    plain = config.build(Recipe, {"task": "diamonds", "environment": {"cores": 1}})
    assert plain == config.build(Recipe, {"task": "diamonds", "environment": {"kind": "mle", "cores": 1}})
    race = config.build(Recipe, {"task": "nanogpt-mini", "environment": {"kind": "speedrun"}})
    assert race.environment.implementer.kind == "direct"
    with pytest.raises(InputError, match="no such key"):
        config.build(Recipe, {"task": "x", "environment": {"kind": "speedrun", "cores": 1}})
    with pytest.raises(InputError, match="did you mean 'speedrun'"):
        config.build(Recipe, {"task": "x", "environment": {"kind": "speedrunn"}})


@pytest.mark.parametrize("batch", [12, 3])
def test_a_batch_holds_whole_groups_of_attempts_at_one_prompt(batch):
    words = [f"batch={batch}", "policy.learner.algorithm.kind=grpo", "policy.learner.algorithm.attempts=8"]
    remedy = "8 or 16" if batch > 8 else "8"
    with pytest.raises(InputError) as error:
        config.load(Recipe, config.find_recipe("laptop"), words)
    assert f"batch = {batch}: it must be a multiple of 8, the policy's attempts at each prompt" in str(error.value)
    assert str(error.value).endswith(f"set it to {remedy}")


def test_algorithms_are_chosen_by_name_and_what_they_need_is_told_to_the_loop():
    made = {
        kind: config.load(Recipe, config.find_recipe("laptop"), [f"policy.learner.algorithm.kind={kind}"])
        for kind in ("ppo", "grpo", "rloo")
    }
    assert {kind: recipe.policy.learner.algorithm.kind for kind, recipe in made.items()} == {
        kind: kind for kind in made
    }
    assert {kind: recipe.attempts_per_prompt for kind, recipe in made.items()} == {"ppo": 1, "grpo": 8, "rloo": 4}
    assert made["ppo"].policy.learner.algorithm.value_clip == 50.0
    with pytest.raises(InputError, match="did you mean 'grpo'"):
        config.load(Recipe, config.find_recipe("laptop"), ["policy.learner.algorithm.kind=grp"])


def test_the_config_of_a_run_from_before_there_was_a_choice_of_algorithm_is_the_same_recipe(tmp_path):
    old = ROOT / "results" / "2026-11-17-tiny-arms" / "config.toml"
    assert "algorithm" not in old.read_text()
    recipe = config.build(Recipe, config.read_toml(old))
    assert recipe.policy.learner.algorithm.value_clip == 50.0
    (tmp_path / "new.toml").write_text(config.dumps(recipe))
    assert config.build(Recipe, config.read_toml(tmp_path / "new.toml")) == recipe
