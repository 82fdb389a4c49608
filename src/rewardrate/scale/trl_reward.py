"""A reward function for TRL that charges for time: it sees the whole batch, fits the rate, and takes it off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators, RateEstimate, relative_reward
from rewardrate.rates.estimate import Estimator


class PricedReward:
    """reward - price * seconds for every row, with a rate that is fitted on the whole batch of each call.

    `rollout_func` of the trainer returns two lists beside its tokens, `reward` and `seconds`, and `valid` if some
    attempts fail; TRL hands them to this. A failure earns `penalty` and pays for `limit_seconds`. With several
    processes each fits its own slice of the batch: use one, or gather before.

    Row i of a batch is chain i, as in `training.Loop`: TRL's batches all have the same size and are in order when it
    asks for rewards (attempt i % num_generations at prompt i // num_generations), so totals run on by row, over all
    calls or the last `window` of them.
    """

    def __init__(
        self,
        estimator: Estimator | None = None,
        *,
        price_scale: float = 1.0,
        limit_seconds: float | None = None,
        penalty: float = -10.0,
        window: int | None = None,
    ) -> None:
        self.estimator = NIW() if estimator is None else estimator
        if not isinstance(self.estimator, Estimator):
            raise InputError("estimator", estimator, "it must be an estimator of `rates`", "for example rates.Totals()")
        positive = "be finite and positive, or None"
        self.price_scale = finite("price_scale", price_scale, lambda number: number >= 0, "be finite, not negative")
        self.limit_seconds = limit_seconds
        if limit_seconds is not None:
            self.limit_seconds = finite("limit_seconds", limit_seconds, lambda number: number > 0, positive)
        self.penalty = finite("penalty", penalty)
        self.window = None if window is None else at_least("window", window, 1)
        self.chains: Accumulators | None = None
        "Totals of each row; made by the first batch, whose size all others must have."
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
        found = self._fit(reward, seconds, valid)
        price = self.price_scale * found.rate
        if log_metric is not None:
            log_metric("rewardrate/rate", found.rate)
            log_metric("rewardrate/seconds", sum(seconds) / len(seconds))
        options: dict[str, Any] = {} if valid is None else {"valid": valid, "penalty": self.penalty}
        if self.limit_seconds is not None:
            options["limit_seconds"] = self.limit_seconds
        return [float(left) for left in relative_reward(reward, seconds, price, **options)]

    def _fit(self, reward: Sequence[float], seconds: Sequence[float], valid: Sequence[bool] | None) -> RateEstimate:
        """The rate after this batch. Rows that are refused leave everything as it was."""
        chains = self.chains or self._made(len(reward))
        if len(reward) != chains.chains:
            rule = f"every batch has {chains.chains} rows, as the first had: row i is chain i"
            raise InputError("reward", f"{len(reward)} rows", rule, "evaluate with a trainer of its own")
        before = chains.state_dict()
        try:
            found = chains.update(reward, seconds, valid).fit(self.estimator)
        except InputError:
            chains.load_state_dict(before)
            raise
        self.chains = chains
        return found

    def _made(self, rows: int) -> Accumulators:
        return Accumulators(rows, window=self.window, invalid=self.estimator.invalid)

    def state_dict(self) -> dict[str, Any]:
        """What to keep beside the trainer's checkpoint."""
        chains = None if self.chains is None else self.chains.state_dict()
        return {"estimator": self.estimator.state_dict(), "chains": chains}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; one of other settings is refused and nothing is changed."""
        if not isinstance(state, Mapping) or set(state) != {"estimator", "chains"}:
            raise InputError("state", state, "it is not the state of a priced reward")
        chains = None
        if state["chains"] is not None:
            try:
                rows = state["chains"]["settings"]["chains"]
            except (KeyError, TypeError):
                raise InputError("state.chains", state["chains"], "it has no number of chains") from None
            chains = self._made(rows)
            chains.load_state_dict(state["chains"])
        self.estimator.load_state_dict(state["estimator"])
        self.chains = chains
