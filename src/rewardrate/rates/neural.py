"""A small network that predicts reward and log seconds of an attempt, and the greedy rate that follows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError, MissingExtra
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.rows import Invalid, check_rows, check_valid, vector

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Memory:
    """The last attempts, oldest first. Shapes: N attempts, F features."""

    features: Array
    state: NDArray[np.int64]
    reward: Array
    seconds: Array


class Learned(NamedTuple):
    """What a Neural has learned: network, optimiser, memory, and the next private state number."""

    network: torch.nn.Module
    optimizer: torch.optim.Optimizer
    memory: Memory
    alone: int
    "For attempts that come without a state: each gets a negative number of its own."


class Neural(Estimator):
    """Predicts (reward, log seconds) from features of state and action; charges the greedy policy's predicted rate.

    Attempts that share a `state` are alternatives. In each state the greedy one maximises reward_hat - rate *
    seconds_hat at the current rate, and the new rate is sum(reward_hat) / sum(seconds_hat) over the chosen ones, a
    state weighing as much as it has attempts: one Dinkelbach step (paper, theorem 1). Without states every attempt
    stands alone and the rate is the policy's own; without features the network predicts two constants.

    Predictions are calibrated on the memory of the last `memory` attempts (rewards by a shift, seconds by a factor, so
    that exp of a mean log is not mistaken for a mean), and targets are standardised, so units do not matter. torch in
    float64 on the CPU, imported when the first one is made.
    """

    def __init__(
        self,
        features: int = 1,
        *,
        hidden: int = 32,
        steps: int = 20,
        learning_rate: float = 0.01,
        memory: int = 1024,
        seed: int = 0,
        invalid: Invalid = "zero",
    ) -> None:
        super().__init__(invalid=invalid)
        self.features, self.hidden = at_least("features", features, 1), at_least("hidden", hidden, 1)
        self.steps, self.memory = at_least("steps", steps, 1), at_least("memory", memory, 1)
        positive = "be finite and positive"
        self.learning_rate = finite("learning_rate", learning_rate, lambda number: number > 0, positive)
        self.seed = at_least("seed", seed, 0)
        if self.seed >= 2**63:
            raise InputError("seed", seed, "it must be below 2^63")
        empty = Memory(np.zeros((0, self.features)), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        self.state = Learned(*self._build(), empty, -1)

    def update(
        self,
        reward: ArrayLike,
        seconds: ArrayLike,
        valid: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        state: ArrayLike | None = None,
    ) -> RateEstimate:
        """Absorb attempts; `features` is rows x features, `state` a whole number >= 0 per row (equal: alternatives)."""
        rows = check_rows(reward, seconds, None, self.invalid)
        size = rows.reward.size
        mask = np.ones(size, bool) if valid is None else check_valid(valid, size)
        features_nf = self._check_features(features, size)
        state_n = self._check_state(state, size)
        kept = mask if self.invalid == "exclude" else np.ones(size, bool)
        if not kept.any():
            return self._estimate
        added = Memory(features_nf[kept], state_n[kept], np.where(mask, rows.reward, 0.0)[kept], rows.seconds[kept])
        before = self.dump_state()
        try:
            with one_thread(), np.errstate(all="ignore"):
                self._learn(added)
                estimate = self._greedy(self._estimate.count + int(kept.sum()))
            self._commit(self.state, estimate)
        except BaseException:  # also an interrupt: half an update is none
            self.state = self.parse_state(before)
            raise
        return self._estimate

    def predict(self, features: ArrayLike) -> tuple[Array, Array]:
        """Predicted reward and seconds for rows of features."""
        table = self._check_features(features, len(np.atleast_2d(np.asarray(features))))
        if not self.state.memory.reward.size:
            raise InputError("features", f"{len(table)} rows", "nothing has been learned yet", "call update() first")
        return self._predict(table)

    def _check_features(self, features: ArrayLike | None, size: int) -> Array:
        if features is None:
            return np.ones((size, self.features))
        flat = vector("features", np.ravel(features))
        table = np.atleast_2d(flat.reshape(np.shape(features)))
        if table.shape != (size, self.features):
            raise InputError("features", f"shape {table.shape}", f"it must be {size} rows of {self.features}")
        if not np.isfinite(table).all():
            row = int(np.argwhere(~np.isfinite(table))[0, 0])
            raise InputError(f"features[{row}]", table[row].tolist(), "every feature must be finite")
        return table

    def _check_state(self, state: ArrayLike | None, size: int) -> NDArray[np.int64]:
        if state is None:
            return np.arange(self.state.alone, self.state.alone - size, -1, dtype=np.int64)
        numbers = np.atleast_1d(np.asarray(state))
        if numbers.shape != (size,) or numbers.dtype.kind not in "iu" or (numbers < 0).any():
            raise InputError("state", numbers.tolist(), f"it must be {size} whole numbers, at least 0")
        return numbers.astype(np.int64)

    def _learn(self, added: Memory) -> None:
        """Put attempts into memory, drop the oldest, and take `steps` full-batch steps on what is left."""
        old = self.state.memory
        columns = ((getattr(old, name), getattr(added, name)) for name in ("features", "state", "reward", "seconds"))
        memory = Memory(*(np.concatenate(pair)[-self.memory :] for pair in columns))
        self.state = self.state._replace(memory=memory, alone=self.state.alone - added.reward.size)
        torch = import_torch()
        inputs = torch.from_numpy(self._standardise(memory.features))
        targets = torch.from_numpy(np.column_stack([memory.reward / self._reward_scale(), self._log_seconds()]))
        for _ in range(self.steps):
            self.state.optimizer.zero_grad()
            loss = ((self.state.network(inputs) - targets) ** 2).mean()
            loss.backward()
            self.state.optimizer.step()

    def _greedy(self, count: int) -> RateEstimate:
        """One Dinkelbach step on the predictions; the interval is the ratio's, from the chosen attempts' residuals."""
        memory = self.state.memory
        reward_hat, seconds_hat = self._predict(memory.features)
        value = reward_hat - self._estimate.rate * seconds_hat
        order = np.lexsort((value, memory.state))  # by state, best value last
        last = np.flatnonzero(np.append(np.diff(memory.state[order]) != 0, True))
        chosen, visits = order[last], np.diff(last, prepend=-1)
        spent = float(visits @ seconds_hat[chosen])
        mean = float(visits @ reward_hat[chosen]) / spent
        left = visits * (memory.reward[chosen] - mean * memory.seconds[chosen]) / spent
        return RateEstimate.around(mean, math.hypot(*left), count)  # hypot: squares of huge rewards do not overflow

    def _predict(self, features: Array) -> tuple[Array, Array]:
        memory = self.state.memory
        torch = import_torch()
        with torch.no_grad():
            known = self.state.network(torch.from_numpy(self._standardise(memory.features))).numpy()
            asked = self.state.network(torch.from_numpy(self._standardise(features))).numpy()
        shift = (memory.reward / self._reward_scale() - known[:, 0]).mean()
        center = float(np.log(memory.seconds).mean())
        factor = float((memory.seconds / math.exp(center)).sum() / np.exp(known[:, 1]).sum())
        return (asked[:, 0] + shift) * self._reward_scale(), np.exp(asked[:, 1]) * factor * math.exp(center)

    def _standardise(self, features: Array) -> Array:
        center, spread = self.state.memory.features.mean(axis=0), self.state.memory.features.std(axis=0)
        return np.asarray((features - center) / np.where(spread > 0, spread, 1.0))

    def _reward_scale(self) -> float:
        largest = float(np.abs(self.state.memory.reward).max())
        return largest if largest > 0 else 1.0

    def _log_seconds(self) -> Array:
        logs = np.log(self.state.memory.seconds)
        return np.asarray(logs - logs.mean())

    def _build(self) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch = import_torch()
        generator = torch.Generator().manual_seed(self.seed)
        layers = [torch.nn.Linear(self.features, self.hidden), torch.nn.Tanh(), torch.nn.Linear(self.hidden, 2)]
        network = torch.nn.Sequential(*layers).double()
        with torch.no_grad():
            for weight in network.parameters():
                bound = 1 / math.sqrt(weight.shape[-1] if weight.ndim > 1 else self.hidden)
                weight.copy_(bound * (2 * torch.rand(weight.shape, generator=generator, dtype=torch.float64) - 1))
        return network, torch.optim.Adam(network.parameters(), lr=self.learning_rate)

    def absorb(self, reward: Array, seconds: Array) -> tuple[Learned, RateEstimate]:
        """Not used: update() is overridden, because features and states come with the rows."""
        raise AssertionError("call update()")

    def dump_state(self) -> dict[str, Any]:
        """Weights, the optimiser's moments and the memory."""
        adam = self.state.optimizer.state_dict()["state"]
        return {
            "weights": {name: value.tolist() for name, value in self.state.network.state_dict().items()},
            "adam": {str(i): {key: value.tolist() for key, value in entry.items()} for i, entry in adam.items()},
            "memory": {
                name: getattr(self.state.memory, name).tolist() for name in ("features", "state", "reward", "seconds")
            },
            "alone": self.state.alone,
        }

    def parse_state(self, saved: Mapping[str, Any]) -> Learned:
        """A network and an optimiser of their own, and a memory whose rows belong together."""
        torch = import_torch()
        network, optimizer = self._build()
        network.load_state_dict(
            {name: torch.tensor(value, dtype=torch.float64) for name, value in saved["weights"].items()}
        )
        adam = optimizer.state_dict()
        for index, entry in saved["adam"].items():
            kinds = {"step": torch.float32}
            adam["state"][int(index)] = {
                k: torch.tensor(v, dtype=kinds.get(k, torch.float64)) for k, v in entry.items()
            }
        optimizer.load_state_dict(adam)
        for weight, entry in zip(network.parameters(), adam["state"].values(), strict=bool(adam["state"])):
            if not all(entry[name].shape == weight.shape for name in ("exp_avg", "exp_avg_sq")):
                raise ValueError("the optimiser's moments do not fit the network")
        rows = saved["memory"]
        features = np.array(rows["features"], dtype=float).reshape(-1, self.features)
        reward, seconds = vector("reward", rows["reward"]), vector("seconds", rows["seconds"])
        numbers = np.array(rows["state"], np.int64)
        finite = all(np.isfinite(column).all() for column in (features, reward, seconds))
        if not (finite and (seconds > 0).all() and len(features) == len(numbers) == reward.size == seconds.size):
            raise ValueError("the memory holds rows of different lengths, or numbers that cannot be")
        memory = Memory(features, numbers, reward, seconds)
        if not all(bool(torch.isfinite(weight).all()) for weight in network.parameters()):
            raise ValueError("the weights must be finite")
        return Learned(network, optimizer, memory, int(saved["alone"]))


@contextmanager
def one_thread() -> Iterator[None]:
    """A network this small is ten times slower on several threads, and sums in another order on each machine."""
    torch = import_torch()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def import_torch() -> Any:
    """torch, or MissingExtra with the command that adds it."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("rates.Neural", "torch", "agent") from None
    return torch
