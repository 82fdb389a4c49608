"""Estimators as a recipe chooses them: the table [estimator], and how other packages add theirs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from rewardrate.config import AtLeast, Between
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.fixed import Fixed
from rewardrate.rates.known import FEATURES
from rewardrate.rates.neural import Neural
from rewardrate.rates.niw import NIW
from rewardrate.rates.over_pricing import same_over_pricing
from rewardrate.rates.robbins_monro import RobbinsMonro
from rewardrate.rates.totals import Totals

GROUP = "rewardrate.estimators"  # of entry points: name of a kind -> its EstimatorSettings


class EstimatorSettings(ABC):
    """The table [estimator] of a recipe: a frozen dataclass with a field `kind`.

    An installed package offers one as an entry point of the group `rewardrate.estimators`, under the kind's name.
    """

    kind: str
    "The name of the kind."
    feeds: ClassVar[Literal["attempts", "totals"]] = "attempts"
    "Which rows its estimator takes (Estimator.feeds): only one that takes totals sees a window."
    described: ClassVar[bool] = False
    "Whether its estimator's `update` also takes `features` and `state`: what is known of an attempt before it runs."
    whole_steps: ClassVar[bool] = False
    'Whether its estimator needs one attempt of every chain at each update, which schedule = "stream" does not give.'

    @abstractmethod
    def make(self, seed: int) -> Estimator:
        """The estimator; `seed` is the run's, for one that draws."""

    def for_batch(self, batch: int) -> Self:
        """The settings for a run of that batch: the same, unless one of them depends on it."""
        return self

    def with_draws(self, draws: int) -> Self:
        """The settings with so many draws an update, for simulations that need less accuracy: those that draw."""
        return self


@dataclass(frozen=True)
class NIWSettings(EstimatorSettings):
    """The paper's estimator."""

    kind: Literal["niw"] = "niw"
    quantile: Annotated[float, Between(0.001, 0.999)] = 0.95
    "Which percentile of the predicted rates is charged."
    quantile_batch: Annotated[int, AtLeast(1)] | None = None
    "The batch that `quantile` is meant for: a smaller one is charged a lower percentile, which over-prices it as much."
    forgetting: Annotated[float, Between(0.001, 1)] = 0.3
    "Share of the old posterior that an update keeps."
    batches: Annotated[int, AtLeast(1)] = 1000
    "Batch rates that are drawn for the percentile."
    feeds = "totals"

    def for_batch(self, batch: int) -> NIWSettings:
        """With the percentile for that batch (docs/rates.md, Small batches)."""
        if self.quantile_batch is None:
            return self
        quantile = same_over_pricing(self.quantile, batch, self.quantile_batch)
        return replace(self, quantile=quantile, quantile_batch=None)

    def with_draws(self, draws: int) -> NIWSettings:
        """Batch rates are what it draws."""
        return replace(self, batches=draws)

    def make(self, seed: int) -> Estimator:
        """With the run's seed."""
        return NIW(quantile=self.quantile, forgetting=self.forgetting, batches=self.batches, seed=seed)


@dataclass(frozen=True)
class TotalsSettings(EstimatorSettings):
    """Reward of all attempts over seconds of all attempts."""

    kind: Literal["totals"] = "totals"
    forgetting: Annotated[float, Between(0.001, 1)] = 1.0
    "Share of the old totals that an update keeps."

    def make(self, seed: int) -> Estimator:
        """Draws nothing."""
        return Totals(forgetting=self.forgetting)


@dataclass(frozen=True)
class RobbinsMonroSettings(EstimatorSettings):
    """Stochastic approximation of the root of E[r - rho * delta]."""

    kind: Literal["robbins-monro"] = "robbins-monro"
    power: Annotated[float, Between(0.5, 1)] = 0.6
    "Update n has a step of n to the power of minus this."
    floor: Annotated[float, Between(0, 1)] = 0.0
    "Smallest step."

    def make(self, seed: int) -> Estimator:
        """Draws nothing."""
        return RobbinsMonro(power=self.power, floor=self.floor)


@dataclass(frozen=True)
class NeuralSettings(EstimatorSettings):
    """A network that predicts reward and seconds from the texts of an attempt and of its parent (rates/known.py)."""

    kind: Literal["neural"] = "neural"
    hidden: Annotated[int, AtLeast(1)] = 32
    "Units of its hidden layer."
    steps: Annotated[int, AtLeast(1)] = 20
    "Gradient steps of an update."
    learning_rate: float = 0.01
    "Of those steps."
    memory: Annotated[int, AtLeast(1)] = 1024
    "Attempts that it looks back on."
    described = True

    def make(self, seed: int) -> Estimator:
        """With the run's seed; needs torch."""
        return Neural(
            FEATURES,
            hidden=self.hidden,
            steps=self.steps,
            learning_rate=self.learning_rate,
            memory=self.memory,
            seed=seed,
        )


@dataclass(frozen=True)
class FixedSettings(EstimatorSettings):
    """A price that is set by hand."""

    kind: Literal["fixed"] = "fixed"
    rate: Annotated[float, AtLeast(0)] = 0.0
    "Charged for every second."

    def make(self, seed: int) -> Estimator:
        """Draws nothing."""
        return Fixed(self.rate)
