"""What every estimator of the reward rate is: rows in, a `RateEstimate` out, state as plain JSON."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.errors import InputError
from rewardrate.rates.rows import Invalid, check_invalid, check_rows


class Estimator(ABC):
    """Base of the estimators: checks the rows, keeps state and estimate together, saves and restores both.

    A subclass implements one method, `absorb`: rows in, (new state, estimate) out. What it returned is `self.state` at
    the next call. Its constructor hands the first state to `super().__init__` and keeps every argument under the
    argument's own name. Only a state that is not plain JSON also needs `dump_state` and `parse_state`. An update
    either happens as a whole or raises InputError and changes nothing.

        class Plain(Estimator):
            def __init__(self, *, invalid="zero"):
                super().__init__(state=[0.0, 0.0], invalid=invalid)

            def absorb(self, reward, seconds):
                state = [self.state[0] + float(reward.sum()), self.state[1] + float(seconds.sum())]
                return state, RateEstimate.around(state[0] / state[1], 0.0, self.estimate.count + reward.size)
    """

    feeds: ClassVar[Literal["attempts", "totals"]] = "attempts"
    "Which rows it expects: single attempts, or running totals per chain (see Accumulators)."
    adapts: ClassVar[bool] = True
    "False for an estimator that ignores what it is shown (Fixed)."
    least_rows: ClassVar[int] = 1
    "The smallest batch it can learn from: 2 for one that needs the spread between chains (NIW)."

    def __init__(self, *, state: Any = None, invalid: Invalid = "zero") -> None:
        self.invalid = check_invalid(invalid)
        self.state = state
        self._estimate = RateEstimate(0.0, 0.0, 0.0, 0.0, 0)

    @property
    def estimate(self) -> RateEstimate:
        """The latest estimate; all zeros before the first update."""
        return self._estimate

    def update(self, reward: ArrayLike, seconds: ArrayLike, valid: ArrayLike | None = None) -> RateEstimate:
        """Absorb rows (scalars or vectors of one length) and return the new estimate.

        A row that is not `valid` counts as reward 0 with its real seconds (invalid="zero"), or is left out
        (invalid="exclude"). A non-finite value or seconds <= 0 raises InputError naming the row; so do fewer rows
        than `least_rows`.
        """
        rows = check_rows(reward, seconds, valid, self.invalid)
        given = np.size(reward)
        if 0 < given < self.least_rows:
            raise too_few("reward", f"{given} row", self, "pass the attempts of a step together")
        if rows.reward.size:
            with np.errstate(all="ignore"):  # what overflows is refused by name, not warned about
                self._commit(*self.absorb(rows.reward, rows.seconds))
        return self._estimate

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON (numbers, strings, lists, dicts)."""
        return {
            "estimator": type(self).__name__,
            "settings": self.settings(),
            "estimate": dataclasses.asdict(self._estimate),
            "state": self.dump_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state. One of another estimator, of other settings, or damaged is refused as a whole."""
        try:
            name, settings, inner = state["estimator"], dict(state["settings"]), state["state"]
            estimate = RateEstimate(**state["estimate"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("state", state, f"it is not the state of an estimator ({error!r})") from None
        if name != type(self).__name__:
            raise InputError("state.estimator", name, f"this is a {type(self).__name__}")
        for key, mine in self.settings().items():
            if key not in settings or settings[key] != mine:
                rule, remedy = f"this estimator has {mine!r}", "make it with the saved settings"
                raise InputError(f"state.settings.{key}", settings.get(key), rule, remedy)
        trouble = _trouble(estimate)
        if trouble:
            raise InputError("state.estimate", state["estimate"], trouble)
        try:
            restored = self.parse_state(inner)
        except Exception as error:  # whatever a damaged state does to the parser, it is the state that is wrong
            reason = " ".join(str(error).split())
            raise InputError(
                "state.state", inner, f"it cannot be restored ({type(error).__name__}: {reason})"
            ) from None
        self.state, self._estimate = restored, estimate

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as plain JSON."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        lost = [name for name in names if not hasattr(self, name)]
        if lost:
            rule = f"{type(self).__name__} does not keep this argument of its constructor"
            raise InputError(lost[0], "missing", rule, f"add self.{lost[0]} = {lost[0]}")
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def _commit(self, state: Any, estimate: RateEstimate) -> None:
        trouble = _trouble(estimate)
        if trouble:
            raise InputError("estimate", estimate, f"{trouble}: the rows do not fit 64-bit arithmetic", "rescale them")
        self.state, self._estimate = state, estimate

    @abstractmethod
    def absorb(self, reward: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[Any, RateEstimate]:
        """New state and estimate after these rows, which are checked and at least one.

        A pure function of `self.state`, `self.estimate` and the rows: it changes nothing (but for a random generator,
        put back on failure). `RateEstimate.around(mean, standard_error, count)` makes the estimate.
        """

    def dump_state(self) -> Any:
        """`self.state` as plain JSON (numbers, strings, lists, dicts): as it is, unless a subclass says otherwise."""
        return copy.deepcopy(self.state)

    def parse_state(self, saved: Any) -> Any:
        """Inverse of `dump_state`: the state that was saved; any exception refuses it and changes nothing."""
        return copy.deepcopy(saved)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({arguments})"


def too_few(field: str, value: object, estimator: Estimator, remedy: str) -> InputError:
    """The error for fewer rows than an estimator can learn from: a single stream of attempts."""
    name, least = type(estimator).__name__, estimator.least_rows
    rule = f"{name} is fitted on the spread between chains, so it needs at least {least} rows at once"
    return InputError(field, value, rule, f"{remedy}, or use rates.Totals(), which takes one attempt after the other")


def _trouble(estimate: RateEstimate) -> str:
    """What is wrong with an estimate; empty if nothing is."""
    values = (estimate.rate, estimate.mean, estimate.low, estimate.high)
    if not all(isinstance(value, float) and math.isfinite(value) for value in values):
        return "every number must be finite"
    if estimate.rate < 0:
        return "a rate must not be negative"
    if estimate.low > estimate.high:
        return "the interval is upside down"
    count = estimate.count
    return "" if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else "a count is a whole number"
