"""Time priced in your own Gymnasium environment, with Stable-Baselines3's PPO as it is.

Lines marked with "<- add" are all that rewardrate needs. Needs the extra: pip install 'rewardrate[gym]'.
"""

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from rewardrate import theory
from rewardrate.timed import Price  # <- add
from rewardrate.timed.sb3 import RewardRateVecEnv  # <- add


class Courier(gymnasium.Env):
    """Orders come in three sizes. Accept one (it pays its size, and takes 1, 3 or 12 minutes) or wave it on."""

    pays, minutes = (1.0, 2.0, 3.0), (1.0, 3.0, 12.0)
    observation_space, action_space = gymnasium.spaces.Discrete(3), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """A first order."""
        super().reset(seed=seed)
        self.order = int(self.np_random.integers(3))
        return self.order, {}

    def step(self, accept):
        """What the order pays if it is accepted, and the next one."""
        pay = self.pays[self.order] if accept else 0.0
        seconds = 60 * (self.minutes[self.order] * self.np_random.gamma(9, 1 / 9) if accept else 0.2)
        self.order = int(self.np_random.integers(3))
        return self.order, pay, False, False, {"seconds": seconds}  # <- add: how long the action took


def learn(priced):
    env = make_vec_env(Courier, n_envs=16, seed=0)
    if priced:
        env = RewardRateVecEnv(env, Price(chains=16, every=512))  # <- add: reward - rate * seconds from here on
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=256, learning_rate=3e-3, seed=0, device="cpu").learn(12_000)
    return model.predict(np.arange(3), deterministic=True)[0].astype(int)


torch.set_num_threads(1)  # small networks are faster on one
reward = np.array([[0.0, pay] for pay in Courier.pays])
seconds = np.array([[12.0, 60 * minutes] for minutes in Courier.minutes])
best = theory.optimal_rate(reward, seconds, None)
shares = {}
for name, priced in (("reward alone", False), ("reward per second", True)):
    accepts = learn(priced)
    shares[name] = theory.policy_rate(reward, seconds, None, accepts) / best
    print(
        f"{name:18} accepts {accepts.tolist()}: {shares[name]:4.0%} of the best rate, which is {60 * best:.2f} a minute"
    )
assert shares["reward alone"] < 0.8
assert shares["reward per second"] > 0.98
