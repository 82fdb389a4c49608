"""An environment that earns, takes and ends exactly what its script says; and torch on one thread."""

import sys

import numpy as np
import pytest

try:
    import gymnasium
except ImportError:
    gymnasium = None  # every test module here is skipped then, and says why


class Scripted(gymnasium.Env if gymnasium else object):
    """Step k of an episode earns rewards[k] and takes seconds[k]; the episode ends after the last one."""

    def __init__(self, rewards, seconds, *, truncates=False, extra=None):
        self.rewards, self.seconds, self.truncates, self.extra = rewards, seconds, truncates, extra or {}
        self.observation_space, self.action_space = (gymnasium.spaces.Discrete(size) for size in (10, 2))
        self.at = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.int64(0), {}

    def step(self, action):
        k, self.at = self.at, self.at + 1
        done = self.at == len(self.rewards)
        info = dict(self.extra)
        if self.seconds[k] is not None:
            info["seconds"] = self.seconds[k]
        return np.int64(self.at), self.rewards[k], done and not self.truncates, done and self.truncates, info


@pytest.fixture
def scripted():
    """The class, to make one of."""
    return Scripted


@pytest.fixture(autouse=True)
def _no_leftovers(monkeypatch, tmp_path):
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path / "sb3"))  # else every training leaves a folder in /tmp


@pytest.fixture(autouse=True)
def _one_thread():
    torch = sys.modules.get("torch")  # small networks are slower on more
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
