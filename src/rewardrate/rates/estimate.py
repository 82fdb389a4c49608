"""What every estimator of the reward rate is: rows in, a `RateEstimate` out, state as plain JSON."""

from __future__ import annotations

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

    A subclass stores its constructor arguments under their own names and implements `_absorb` (rows -> new state and
    estimate; a pure function of state and rows), `_state` and `_restore`. An update either happens as a whole or
    raises InputError and changes nothing.
    """

    feeds: ClassVar[Literal["attempts", "totals"]] = "attempts"
    "Which rows it expects: single attempts, or running totals per chain (see Accumulators)."
    adapts: ClassVar[bool] = True
    "False for an estimator that ignores what it is shown (Fixed)."

    def __init__(self, *, invalid: Invalid = "zero") -> None:
        self.invalid = check_invalid(invalid)
        self._estimate = RateEstimate(0.0, 0.0, 0.0, 0.0, 0)

    @property
    def estimate(self) -> RateEstimate:
        """The latest estimate; all zeros before the first update."""
        return self._estimate

    def update(self, reward: ArrayLike, seconds: ArrayLike, valid: ArrayLike | None = None) -> RateEstimate:
        """Absorb rows (scalars or vectors of one length) and return the new estimate.

        A row that is not `valid` counts as reward 0 with its real seconds (invalid="zero"), or is left out
        (invalid="exclude"). A non-finite value or seconds <= 0 raises InputError naming the row.
        """
        rows = check_rows(reward, seconds, valid, self.invalid)
        if rows.reward.size:
            with np.errstate(all="ignore"):  # what overflows is refused by name, not warned about
                self._commit(*self._absorb(rows.reward, rows.seconds))
        return self._estimate

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to resume, as plain JSON (numbers, strings, lists, dicts)."""
        return {
            "estimator": type(self).__name__,
            "settings": self.settings(),
            "estimate": dataclasses.asdict(self._estimate),
            "state": self._state(),
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
            self._restore(inner)
        except Exception as error:  # whatever a damaged state does to the parser, it is the state that is wrong
            reason = " ".join(str(error).split())
            raise InputError(
                "state.state", inner, f"it cannot be restored ({type(error).__name__}: {reason})"
            ) from None
        self._estimate = estimate

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments, as plain JSON."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def _commit(self, state: Any, estimate: RateEstimate) -> None:
        trouble = _trouble(estimate)
        if trouble:
            raise InputError("estimate", estimate, f"{trouble}: the rows do not fit 64-bit arithmetic", "rescale them")
        self._install(state)
        self._estimate = estimate

    @abstractmethod
    def _absorb(self, reward: NDArray[np.float64], seconds: NDArray[np.float64]) -> tuple[Any, RateEstimate]:
        """New state and estimate after these rows. `self` is not changed, but for a generator, put back on failure."""

    @abstractmethod
    def _install(self, state: Any) -> None:
        """Make the state returned by `_absorb` the current one."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """The state as plain JSON."""

    @abstractmethod
    def _restore(self, state: Mapping[str, Any]) -> None:
        """Inverse of `_state`: parse everything first, then install it."""

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({arguments})"


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
