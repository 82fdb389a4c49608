"""The price of a second in a stream of steps: an estimator, the totals it is fitted on, and when it is fitted."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate import rates
from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError, nearest
from rewardrate.rates import Accumulators, Estimator, RateEstimate, Totals
from rewardrate.rates.rows import check_rows, vector

Array = NDArray[np.float64]
Charge = Literal["rate", "mean"]


class Price:
    """What a second costs now: `price_scale` times the estimate, refitted after every `every` steps (a round).

    A round gives one row per chain, its reward and seconds in the round. In a vector environment a chain is one of
    its environments; a single stream of steps is cut into `chains` pieces per round. Within a round the price is
    constant. Estimators of totals (NIW) see the chains' totals since the first round, or over the last `window` rounds.

    charge="rate" charges what the estimator charges, never less than 0; "mean" its point estimate, which may be
    negative: the right price where all rewards are costs. One price may serve several wrappers in one process.
    """

    def __init__(
        self,
        estimator: str | Estimator | None = None,
        *,
        chains: int = 8,
        every: int = 1024,
        window: int | None = None,
        charge: Charge = "rate",
        price_scale: float = 1.0,
    ) -> None:
        if estimator is None:
            estimator = Totals(forgetting=0.9)  # follows a policy that learns; 1.0 would average over all its past
        self.estimator = rates.make(estimator) if isinstance(estimator, str) else estimator
        if not isinstance(self.estimator, Estimator):
            raise InputError(
                "estimator",
                estimator,
                "it must be an estimator of `rates`, or the name of one",
                "for a constant price: rates.Fixed(price)",
            )
        self.every = at_least("every", every, 1)
        self.chains = at_least("chains", chains, 1)
        if self.estimator.feeds == "totals" and self.chains < 2:
            name = type(self.estimator).__name__
            raise InputError("chains", chains, f"{name} compares chains, so it needs at least two", "use 'totals'")
        if self.chains > self.every:
            raise InputError("every", every, f"a round must hold a step for each of the {self.chains} chains")
        if charge not in get_args(Charge):
            raise InputError("charge", charge, "it must be 'rate' or 'mean'", nearest(str(charge), get_args(Charge)))
        self.charge: Charge = charge
        self.price_scale = finite("price_scale", price_scale, lambda number: number >= 0, "be finite, not negative")
        self._totals = Accumulators(self.chains, window=window)
        if window is not None and self.estimator.feeds != "totals":
            rule = f"{type(self.estimator).__name__} takes single rows, not totals, and would not see the window"
            raise InputError("window", window, rule, "use 'niw', or forget: rates.Totals(forgetting=0.9)")
        self._round = _Round(np.zeros(self.chains), np.zeros(self.chains), 0)

    @property
    def window(self) -> int | None:
        """Rounds that totals reach back; None: all."""
        return self._totals.window

    @property
    def estimate(self) -> RateEstimate:
        """The latest estimate of the rate."""
        return self.estimator.estimate

    @property
    def rate(self) -> float:
        """What is charged for a second now."""
        found = self.estimate
        return self.price_scale * (found.rate if self.charge == "rate" else found.mean)

    def relative(self, reward: Array, seconds: Array) -> Array:
        """Reward - rate * seconds, at the present price."""
        with np.errstate(over="ignore", invalid="ignore"):
            relative = reward - self.rate * seconds
        if not np.isfinite(relative).all():
            row = int(np.flatnonzero(~np.isfinite(relative))[0])
            rule = f"at the price {self.rate:g} the charge does not fit 64-bit arithmetic"
            raise InputError("seconds", float(seconds[row]), rule, "rescale rewards or seconds")
        return np.asarray(relative)

    def add(self, reward: ArrayLike, seconds: ArrayLike, chain: ArrayLike | None = None) -> float:
        """Add steps; returns the price after them. `chain` has the chain of each; None: one stream of steps.

        A bad row raises InputError and changes nothing. The estimator is fitted as soon as a round is full.
        """
        rows = check_rows(reward, seconds, None, "zero")
        if not rows.reward.size:
            return self.rate
        place = self._places(rows.reward.size, chain)
        part = self._round
        with np.errstate(over="ignore"):
            reward_c, seconds_c = part.reward.copy(), part.seconds.copy()
            np.add.at(reward_c, place, rows.reward)
            np.add.at(seconds_c, place, rows.seconds)
        if not (np.isfinite(reward_c).all() and np.isfinite(seconds_c).all()):
            raise InputError("reward, seconds", "their totals", "they do not fit 64-bit arithmetic", "rescale them")
        grown = _Round(reward_c, seconds_c, part.steps + rows.reward.size)
        self._round = self._fit(grown) if grown.steps >= self.every else grown
        return self.rate

    def _places(self, size: int, chain: ArrayLike | None) -> NDArray[np.int64]:
        if chain is None:
            order = self._round.steps + np.arange(size)
            return np.minimum(order * self.chains // self.every, self.chains - 1)
        place = np.atleast_1d(np.asarray(chain))
        fits = place.shape == (size,) and place.dtype.kind in "iu"
        if not (fits and (place >= 0).all() and (place < self.chains).all()):
            raise InputError("chain", chain, f"it must be {size} numbers from 0 to {self.chains - 1}")
        return place.astype(np.int64)

    def _fit(self, full: _Round) -> _Round:
        totals = copy.deepcopy(self._totals)  # if the fit raises, nothing has changed
        here = full.seconds > 0
        totals.update(full.reward, np.where(here, full.seconds, 1.0), present=here).fit(self.estimator)
        self._totals = totals
        return _Round(np.zeros(self.chains), np.zeros(self.chains), 0)

    def settings(self) -> dict[str, Any]:
        """Settings that a saved state must match."""
        size = {"chains": self.chains, "every": self.every, "window": self.window}
        return {**size, "charge": self.charge, "price_scale": self.price_scale}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON."""
        part = self._round
        return {
            "settings": self.settings(),
            "estimator": self.estimator.state_dict(),
            "totals": self._totals.state_dict(),
            "round": {"reward": part.reward.tolist(), "seconds": part.seconds.tolist(), "steps": part.steps},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a saved state. One of another price, or damaged, is refused and nothing is changed."""
        if not isinstance(state, Mapping) or set(state) != {"settings", "estimator", "totals", "round"}:
            raise InputError("state", state, "it is not the state of a price")
        if state["settings"] != self.settings():
            remedy = "make the price as the saved one was made; estimator.load_state_dict takes the estimate alone"
            raise InputError("state.settings", state["settings"], f"this price has {self.settings()}", remedy)
        totals = Accumulators(self.chains, window=self.window)
        totals.load_state_dict(state["totals"])
        part = _parse_round(state["round"], self.chains)
        self.estimator.load_state_dict(state["estimator"])
        self._totals, self._round = totals, part

    def __repr__(self) -> str:
        return f"Price({self.estimator!r}, {', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"


class _Round:
    """Reward and seconds of every chain since the last fit, and the number of steps."""

    def __init__(self, reward: Array, seconds: Array, steps: int) -> None:
        self.reward, self.seconds, self.steps = reward, seconds, steps


def _parse_round(saved: Any, chains: int) -> _Round:
    try:
        part = _Round(vector("reward", saved["reward"]), vector("seconds", saved["seconds"]), int(saved["steps"]))
        columns = (part.reward, part.seconds)
        good = all(column.shape == (chains,) and np.isfinite(column).all() for column in columns)
        if not (good and (part.seconds >= 0).all() and part.steps >= 0):
            raise ValueError(f"it needs {chains} finite totals")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError("state.round", saved, f"it cannot be restored ({error})") from None
    return part


def as_price(price: Price | Estimator | str | None, **settings: Any) -> Price:
    """A `Price` as it is, or a new one around an estimator or the name of one."""
    return price if isinstance(price, Price) else Price(price, **settings)


def price_for(price: Price | Estimator | str | None, environments: int) -> Price:
    """The price of a vector of environments: each is a chain of it."""
    found = as_price(price, chains=environments, every=max(1024, environments))
    if found.chains != environments:
        rule = f"it has {found.chains} chains for {environments} environments"
        raise InputError("price", found, rule, f"make it with Price(..., chains={environments})")
    return found
