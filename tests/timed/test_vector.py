"""Many environments, one price, in each of Gymnasium's three ways to reset those that have ended."""

import json
import math

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the gym extra: pip install 'rewardrate[gym]'")

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import NormalizeReward
from gymnasium.wrappers.vector import NormalizeReward as NormalizeVectorReward

from rewardrate import rates
from rewardrate.errors import InputError
from rewardrate.timed import Price, RewardRateVectorWrapper, RewardRateWrapper, WallClock

MODES = list(AutoresetMode)
LENGTHS = (2, 3)


def makers(scripted, **settings):
    return [
        lambda n=n: scripted([float(n * 10 + k) for k in range(n)], [n + k / 10 for k in range(n)], **settings)
        for n in LENGTHS
    ]


@pytest.mark.parametrize("truncates", [False, True], ids=["terminates", "truncates"])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_each_environment_is_charged_as_if_it_were_alone(scripted, mode, kind, truncates):
    """The reference steps each environment by itself and resets it when it has ended."""
    price = 0.5
    singles = [RewardRateWrapper(make(), rates.Fixed(price)) for make in makers(scripted, truncates=truncates)]
    env = RewardRateVectorWrapper(kind(makers(scripted, truncates=truncates), autoreset_mode=mode), rates.Fixed(price))
    env.reset(seed=0)
    for single in singles:
        single.reset()
    ended = [False, False]
    for _ in range(12):
        _, reward, terminated, truncated, info = env.step(np.zeros(2, dtype=np.int64))
        for i, single in enumerate(singles):
            if mode is AutoresetMode.NEXT_STEP and ended[i]:
                assert reward[i] == 0.0
                assert not info["_reward"][i]
                single.reset()
                ended[i] = False
                continue
            _, left, *over, alone = single.step(0)
            assert reward[i] == pytest.approx(left, rel=1e-15)
            assert [terminated[i], truncated[i]] == over
            for key, value in alone.items():
                assert info[key][i] == pytest.approx(value, rel=1e-15)
                assert info[f"_{key}"][i]
            ended[i] = any(over)
            if ended[i] and mode is not AutoresetMode.NEXT_STEP:
                single.reset()
        over = terminated | truncated
        if mode is AutoresetMode.DISABLED and over.any():
            env.reset(options={"reset_mask": over})
    assert env.price.estimate.count == 0  # a fixed price, and less than a round
    env.close()


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_the_rate_of_whole_episodes_is_the_same_in_every_mode(scripted, mode):
    env = RewardRateVectorWrapper(
        SyncVectorEnv(makers(scripted), autoreset_mode=mode), Price("totals", chains=2, every=2)
    )
    env.reset()
    counted = 0
    while counted < 600:
        _, _, terminated, truncated, info = env.step(np.zeros(2, dtype=np.int64))
        counted += int(info["_seconds"].sum())
        if mode is AutoresetMode.DISABLED and (terminated | truncated).any():
            env.reset(options={"reset_mask": terminated | truncated})
    per_step = [(sum(n * 10 + k for k in range(n)) / n, sum(n + k / 10 for k in range(n)) / n) for n in LENGTHS]
    resets = mode is AutoresetMode.NEXT_STEP  # a reset takes a step: an environment takes part in n of n + 1
    weights = [n / (n + resets) for n in LENGTHS]
    true = sum(w * r for w, (r, _) in zip(weights, per_step, strict=True)) / sum(
        w * s for w, (_, s) in zip(weights, per_step, strict=True)
    )
    assert env.price.rate == pytest.approx(true, rel=0.01)


def test_where_resets_are_the_callers_a_step_after_the_end_is_refused(scripted):
    env = RewardRateVectorWrapper(SyncVectorEnv(makers(scripted), autoreset_mode=AutoresetMode.DISABLED))
    env.reset()
    env.step([0, 0])
    env.step([0, 0])
    with pytest.raises(InputError, match=r"environments = \[0\]: their episodes have ended; reset them first"):
        env.step([0, 0])
    env.reset(options={"reset_mask": np.array([True, False])})
    assert env.step([0, 0])[4]["differential_return"].tolist() == [20.0, 30.0 + 31.0 + 32.0]


@pytest.mark.parametrize("seconds", [None, -1.0, math.nan, math.inf], ids=repr)
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
def test_bad_seconds_are_refused_naming_the_environment(scripted, mode, seconds):
    last = [1.0, seconds]  # at the end of the episode, where SameStep hides it in final_info
    made = [lambda: scripted([1.0, 1.0, 1.0], [1.0] * 3), lambda: scripted([1.0, 1.0], last)]
    env = RewardRateVectorWrapper(SyncVectorEnv(made, autoreset_mode=mode))
    env.reset()
    env.step([0, 0])
    before = env.state_dict()
    with pytest.raises(InputError, match=r"\['seconds'\]\[1\] = ") as caught:
        env.step([0, 0])
    assert "\n" not in str(caught.value)
    assert env.state_dict() == before


def test_seconds_that_gymnasium_has_cut_to_whole_numbers_are_refused(scripted):
    made = [lambda: scripted([1.0] * 2, [1, 1]), lambda: scripted([1.0] * 2, [2.7, 2.7])]
    plain = SyncVectorEnv(made)
    plain.reset()
    assert plain.step([0, 0])[4]["seconds"].tolist() == [1, 2]  # 2.7 seconds have become 2
    env = RewardRateVectorWrapper(plain)
    with pytest.raises(InputError, match=r"give float\(seconds\) in the environment"):
        env.step([0, 0])


class OneClock(gymnasium.vector.VectorWrapper):
    """All environments in lock-step: seconds in the form that its maker chose."""

    def __init__(self, env, seconds):
        super().__init__(env)
        self.seconds = seconds

    def step(self, actions):
        *found, info = self.env.step(actions)
        return *found, {**info, "seconds": self.seconds, "_seconds": np.ones(2, dtype=bool)}


@pytest.mark.parametrize("seconds", [0.5, np.float64(0.5), np.ones(1), np.ones(3), [0.5]], ids=repr)
def test_seconds_of_another_number_of_environments_are_refused(scripted, seconds):
    env = RewardRateVectorWrapper(OneClock(SyncVectorEnv(makers(scripted)), seconds))
    env.reset()
    with pytest.raises(InputError, match=r"info\['seconds'\] = .*for one clock: np.full\(2, seconds\)"):
        env.step([0, 0])
    good = RewardRateVectorWrapper(OneClock(SyncVectorEnv(makers(scripted)), np.full(2, 0.5)), rates.Fixed(1.0))
    good.reset()
    assert good.step([0, 0])[1].tolist() == [19.5, 29.5]


def test_time_is_not_priced_twice_where_every_step_ends_an_episode(scripted):
    priced = [lambda: RewardRateWrapper(scripted([1.0], [2.0]), rates.Fixed(0.25)) for _ in range(2)]
    with pytest.raises(InputError, match="it charges for time already"):
        RewardRateVectorWrapper(SyncVectorEnv(priced))
    env = RewardRateVectorWrapper(AsyncVectorEnv(priced, autoreset_mode=AutoresetMode.SAME_STEP), rates.Fixed(0.25))
    env.reset()
    with pytest.raises(InputError, match=r"info\['final_info'\]\['reward'\].*price time once"):
        env.step([0, 0])


def test_a_bad_reward_is_refused_naming_the_environment(scripted):
    made = [lambda: scripted([1.0] * 2, [1.0] * 2), lambda: scripted([math.nan] * 2, [1.0] * 2)]
    env = RewardRateVectorWrapper(SyncVectorEnv(made))
    env.reset()
    with pytest.raises(InputError, match=r"reward\[1\] = nan"):
        env.step([0, 0])


class Silent(SyncVectorEnv):
    """Does not say how it resets."""

    metadata = {}  # noqa: RUF012

    def __init__(self, made, said=None):
        super().__init__(made)
        self.metadata = {} if said is None else {"autoreset_mode": said}


def test_an_environment_that_does_not_say_how_it_resets_must_be_reported(scripted):
    with pytest.raises(InputError, match="give one of NextStep, SameStep, Disabled"):
        RewardRateVectorWrapper(Silent(makers(scripted)))
    told = RewardRateVectorWrapper(Silent(makers(scripted)), autoreset="NextStep")
    assert told.autoreset is AutoresetMode.NEXT_STEP
    with pytest.raises(InputError, match="did you mean 'SameStep'"):
        RewardRateVectorWrapper(Silent(makers(scripted)), autoreset="samestep")
    with pytest.raises(InputError, match="there is no such mode"):
        RewardRateVectorWrapper(Silent(makers(scripted), said=7))
    with pytest.raises(InputError, match="the environment uses 'NextStep'"):
        RewardRateVectorWrapper(SyncVectorEnv(makers(scripted)), autoreset="SameStep")


def test_what_is_no_vector_environment_is_refused(scripted):
    with pytest.raises(InputError, match="use RewardRateWrapper for a single environment"):
        RewardRateVectorWrapper(scripted([1.0], [1.0]))
    with pytest.raises(InputError, match="wrap it once"):
        RewardRateVectorWrapper(RewardRateVectorWrapper(SyncVectorEnv(makers(scripted))))
    with pytest.raises(InputError, match="8 chains for 2 environments"):
        RewardRateVectorWrapper(SyncVectorEnv(makers(scripted)), Price("totals"))


@pytest.mark.parametrize("estimator", sorted(rates.ESTIMATORS))
def test_a_made_vector_environment_is_priced_by_any_estimator_and_saved(estimator):
    env, again = (
        RewardRateVectorWrapper(
            gymnasium.make_vec("rewardrate/QueueControl-v0", num_envs=4, vectorization_mode="sync"),
            Price(estimator, chains=4, every=64),
        )
        for _ in range(2)
    )
    env.reset(seed=0)
    for _ in range(100):
        env.step(np.ones(4, dtype=np.int64))
    best = gymnasium.make("rewardrate/QueueControl-v0").unwrapped.exact().rate
    assert estimator == "fixed" or 0.3 * best < env.price.rate < 2 * best
    again.load_state_dict(json.loads(json.dumps(env.state_dict())))
    assert again.price.rate == env.price.rate


def test_measured_time_goes_inside_the_vector():
    env = RewardRateVectorWrapper(
        gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync", wrappers=[WallClock])
    )
    env.reset(seed=0)
    assert (env.step(np.zeros(2, dtype=np.int64))[4]["seconds"] > 0).all()
    bare = RewardRateVectorWrapper(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
    bare.reset(seed=0)
    with pytest.raises(InputError, match=r"wrappers=\[timed.WallClock\]"):
        bare.step(np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_rewards_whose_scale_moves_are_refused_inside(scripted, kind):
    single = kind([lambda: NormalizeReward(scripted([1.0], [1.0])) for _ in range(2)])
    vector = kind(makers(scripted))
    for env in (single, NormalizeVectorReward(vector)):
        with pytest.raises(InputError, match=r"rescaled while it runs.*put NormalizeReward outside of the price"):
            RewardRateVectorWrapper(env)
    RewardRateVectorWrapper(vector, rates.Fixed(0.5))
    single.close()
    vector.close()
