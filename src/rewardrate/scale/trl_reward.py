"""A reward function for TRL that charges for time: it sees the whole batch, fits the rate, and takes it off."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewardrate.attempt import Outcome
from rewardrate.checks import at_least, finite
from rewardrate.environments.environment import RewardRules
from rewardrate.errors import InputError
from rewardrate.rates import NIW, Accumulators
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.rows import check_rows
from rewardrate.training.objective import Objective
from rewardrate.training.pricer import Pricer


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
        penalty = finite("penalty", penalty)
        self.window = None if window is None else at_least("window", window, 1)
        self.objective = Objective(penalty=penalty, bonus=0.0, price_scale=price_scale)
        self.pricer: Pricer | None = None
        "Totals of each row and the rate; made by the first batch, whose size all others must have."
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
        rows = check_rows(reward, seconds, valid, "zero")
        flags = [True] * len(rows.reward) if valid is None else valid
        outcomes = [
            Outcome(
                valid=bool(ok),
                reward=float(earned),
                score=None,
                seconds=float(took),
                message="",
                status="ok" if ok else "error",
                code="",
            )
            for earned, took, ok in zip(rows.reward, rows.seconds, flags, strict=True)
        ]
        pricer = self.pricer or self._made(len(outcomes))
        if len(outcomes) != pricer.chains.chains:
            rule = f"every batch has {pricer.chains.chains} rows, as the first had: row i is chain i"
            raise InputError("reward", f"{len(outcomes)} rows", rule, "evaluate with a trainer of its own")
        priced = pricer.price(outcomes)
        self.pricer = pricer
        if log_metric is not None:
            log_metric("rewardrate/rate", priced.rate.rate)
            log_metric("rewardrate/seconds", sum(seconds) / len(seconds))
        return [float(left) for left in priced.rewards if left is not None]

    def _made(self, rows: int) -> Pricer:
        rules = RewardRules()
        rules.limit_seconds = self.limit_seconds or 0.0
        chains = Accumulators(rows, window=self.window, invalid=self.estimator.invalid)
        return Pricer(rules, self.objective, self.estimator, chains)

    def state_dict(self) -> dict[str, Any]:
        """What to keep beside the trainer's checkpoint."""
        if self.pricer is None:
            return {"estimator": self.estimator.state_dict(), "chains": None}
        return self.pricer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state; one of other settings is refused and nothing is changed."""
        if not isinstance(state, Mapping) or set(state) != {"estimator", "chains"}:
            raise InputError("state", state, "it is not the state of a priced reward")
        if state["chains"] is None:
            self.estimator.load_state_dict(state["estimator"])
            self.pricer = None
            return
        try:
            rows = state["chains"]["settings"]["chains"]
        except (KeyError, TypeError):
            raise InputError("state.chains", state["chains"], "it has no number of chains") from None
        pricer = self._made(rows)
        pricer.load_state_dict(state)
        self.pricer = pricer
