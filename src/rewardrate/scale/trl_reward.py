"""A reward function for TRL that charges for time: it sees the whole batch, fits the rate, and takes it off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewardrate.errors import InputError
from rewardrate.rates import NIW, RateEstimate, relative_reward
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.settings import real


class PricedReward:
    """reward - price * seconds for every row, with a rate that is fitted on the rows of each call.

    `rollout_func` of the trainer returns two lists beside its tokens, `reward` and `seconds`, and `valid` if some
    attempts fail; TRL hands them to this. A failure earns `penalty` and pays for `limit_seconds`. With several
    processes each fits its own slice of the batch: use one, or gather before.
    """

    def __init__(
        self,
        estimator: Estimator | None = None,
        *,
        price_scale: float = 1.0,
        limit_seconds: float | None = None,
        penalty: float = -10.0,
    ) -> None:
        self.estimator = NIW() if estimator is None else estimator
        if not isinstance(self.estimator, Estimator):
            raise InputError("estimator", estimator, "it must be an estimator of `rates`", "for example rates.Totals()")
        positive = "be finite and positive, or None"
        self.price_scale = real("price_scale", price_scale, lambda number: number >= 0, "be finite, not negative")
        self.limit_seconds = (
            None if limit_seconds is None else real("limit_seconds", limit_seconds, lambda number: number > 0, positive)
        )
        self.penalty = real("penalty", penalty, lambda _: True, "be a finite number")
        self.__name__ = "priced_reward"  # what TRL calls its curve

    def __call__(
        self,
        reward: Sequence[float] | None = None,
        seconds: Sequence[float] | None = None,
        valid: Sequence[bool] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float]:
        """One number a row. InputError when rollouts do not tell their reward and seconds, and nothing is changed."""
        if reward is None or seconds is None:
            rule = "rollout_func must return the lists `reward` and `seconds`"
            raise InputError("reward, seconds", None, rule, "docs/trl.md shows how")
        if valid is not None and not all(valid) and self.limit_seconds is None:
            raise InputError("limit_seconds", None, "a failure pays for the whole limit", "give PricedReward the limit")
        found: RateEstimate = self.estimator.update(reward, seconds, valid)
        price = self.price_scale * found.rate
        if log_metric is not None:
            log_metric("rewardrate/rate", found.rate)
            log_metric("rewardrate/seconds", sum(seconds) / len(seconds))
        options: dict[str, Any] = {} if valid is None else {"valid": valid, "penalty": self.penalty}
        if self.limit_seconds is not None:
            options["limit_seconds"] = self.limit_seconds
        return [float(left) for left in relative_reward(reward, seconds, price, **options)]

    def state_dict(self) -> dict[str, Any]:
        """What to keep beside the trainer's checkpoint."""
        return self.estimator.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.estimator.load_state_dict(state)
