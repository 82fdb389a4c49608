"""TRL trains on relative reward: the rate of the whole batch is fitted and charged, in a real GRPO run too."""

import json

import numpy as np
import pytest

from rewardrate import relative_reward
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, Fixed, Totals
from rewardrate.scale import PricedReward


def test_every_row_pays_for_its_seconds_at_the_rate_of_the_whole_batch():
    priced = PricedReward(Totals())
    logged = {}
    found = priced(reward=[1.0, 2.0], seconds=[1.0, 2.0], prompts=["a", "b"], log_metric=logged.__setitem__)
    assert found == pytest.approx([0.0, 0.0])
    assert logged == {"rewardrate/rate": 1.0, "rewardrate/seconds": 1.5}


def test_a_failure_earns_the_penalty_and_pays_for_the_limit():
    priced = PricedReward(Fixed(0.5), limit_seconds=10, penalty=-1)
    assert priced(reward=[1.0, 0.0], seconds=[2.0, 1.0], valid=[True, False]) == pytest.approx([0.0, -6.0])


def test_part_of_the_rate_can_be_charged():
    assert PricedReward(Fixed(1.0), price_scale=0.25)(reward=[1.0], seconds=[2.0]) == pytest.approx([0.5])


@pytest.mark.parametrize("window", [None, 2])
def test_row_i_is_chain_i_and_the_papers_estimator_sees_chains_totals_as_in_the_loop(window):
    rng = np.random.default_rng(5)
    priced, estimator, chains = PricedReward(window=window, limit_seconds=9.0), NIW(), Accumulators(6, window=window)
    for _ in range(4):
        reward, seconds = rng.random(6), 0.1 + rng.random(6)
        valid = rng.random(6) < 0.8
        rate = chains.update(reward, seconds, valid).fit(estimator)
        expected = relative_reward(reward, seconds, rate, valid=valid, limit_seconds=9.0)
        found = priced(reward=reward.tolist(), seconds=seconds.tolist(), valid=valid.tolist())
        assert found == pytest.approx(list(expected), rel=1e-12)


def test_failures_enter_the_rate_as_the_estimator_says():
    row = {"reward": [1.0, 0.0], "seconds": [1.0, 3.0], "valid": [True, False]}
    for rule, rate in (("zero", 0.25), ("exclude", 1.0)):
        priced = PricedReward(Totals(invalid=rule), limit_seconds=4.0)
        priced(**row)
        assert priced.estimator.estimate.rate == rate


def test_a_batch_of_another_size_is_refused_and_nothing_is_changed():
    priced = PricedReward()
    priced(reward=[1.0, 2.0], seconds=[1.0, 2.0])
    before = priced.state_dict()
    with pytest.raises(InputError, match="every batch has 2 rows, as the first had"):
        priced(reward=[1.0], seconds=[1.0])
    with pytest.raises(InputError, match="seconds"):
        priced(reward=[1.0, 1.0], seconds=[1.0, -1.0])
    assert priced.state_dict() == before


def test_a_state_of_something_else_is_refused_and_nothing_is_changed():
    priced, other = PricedReward(), PricedReward(Totals())
    for one in (priced, other):
        one(reward=[1.0, 2.0], seconds=[1.0, 2.0])
    before = priced.state_dict()
    for state in ({}, [1], other.state_dict(), {**before, "chains": {}}, {**before, "chains": 1}):
        with pytest.raises(InputError, match="state"):
            priced.load_state_dict(state)
    assert priced.state_dict() == before


def test_a_saved_state_goes_on_with_the_same_numbers():
    rng = np.random.default_rng(0)
    rows = [{"reward": rng.random(8).tolist(), "seconds": (0.1 + rng.random(8)).tolist()} for _ in range(3)]
    whole, half = PricedReward(), PricedReward()
    half.load_state_dict(json.loads(json.dumps(whole.state_dict())))  # before the first batch, too
    whole(**rows[0])
    half.load_state_dict(json.loads(json.dumps(whole.state_dict())))
    assert whole(**rows[1]) == half(**rows[1])


def test_rollouts_that_do_not_tell_their_time_are_refused():
    with pytest.raises(InputError, match="rollout_func must return"):
        PricedReward()(prompts=["a"], reward=[1.0])
    with pytest.raises(InputError, match="limit_seconds"):
        PricedReward()(reward=[1.0], seconds=[1.0], valid=[False])
    with pytest.raises(InputError, match="seconds"):
        PricedReward()(reward=[1.0], seconds=[float("nan")])


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"estimator": "niw"}, "estimator"),
        ({"price_scale": -1.0}, "price_scale"),
        ({"limit_seconds": 0.0}, "limit_seconds"),
        ({"penalty": float("nan")}, "penalty"),
        ({"window": 0}, "window"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_trained(settings, field):
    with pytest.raises(InputError, match=field):
        PricedReward(**settings)


def test_a_real_grpo_run_trains_on_what_we_computed(tmp_path, monkeypatch):
    pytest.importorskip("trl", reason="TRL is not installed: GRPO with priced rewards is NOT tried")
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from rewardrate.policies import load_model

    language = load_model("tiny", device="cpu")
    rng, seen = np.random.default_rng(1), []
    priced = PricedReward(Totals())

    def watched(**columns):
        prompts = columns["prompts"]
        assert [prompts[at] for at in (0, 2)] == [prompts[at] for at in (1, 3)], "groups stand together, in order"
        assert prompts[0] != prompts[2]
        found = priced(**columns)
        seen.append((columns["reward"], columns["seconds"], found))
        return found

    def rollout(prompts, trainer):
        ids = [language.tokenizer(prompt).input_ids for prompt in prompts]
        count = len(prompts)
        columns = {"reward": rng.random(count).tolist(), "seconds": (0.1 + rng.random(count)).tolist()}
        return {"prompt_ids": ids, "completion_ids": [[5, 6, 1]] * count, "logprobs": [[0.0] * 3] * count, **columns}

    sizes = {"per_device_train_batch_size": 4, "num_generations": 2, "max_completion_length": 8, "max_steps": 3}
    quiet = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True, "bf16": False}
    quiet |= {"activation_checkpointing": False}
    trainer = GRPOTrainer(
        model=language.model,
        processing_class=language.tokenizer,
        reward_funcs=watched,
        rollout_func=rollout,
        args=GRPOConfig(output_dir=str(tmp_path), logging_steps=1, **sizes, **quiet),
        train_dataset=Dataset.from_dict({"prompt": [f"# task {n}" for n in range(5)]}),
    )
    trainer.train()
    told = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    assert told == pytest.approx([np.mean(found) for _, _, found in seen], rel=1e-6, abs=1e-6)
    rewards, seconds = (np.concatenate([row[at] for row in seen]) for at in (0, 1))
    last = relative_reward(*seen[-1][:2], rewards.sum() / seconds.sum())
    assert seen[-1][2] == pytest.approx(list(last), rel=1e-9)
