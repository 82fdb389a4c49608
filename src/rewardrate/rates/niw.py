"""Normal-Inverse-Wishart posterior with forgetting: the paper's estimator of the greedy reward rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from rewardrate.attempt import RateEstimate
from rewardrate.checks import at_least, finite
from rewardrate.errors import InputError, nearest
from rewardrate.rates.estimate import Estimator
from rewardrate.rates.predictive import Predictive, draw_literal, draw_transformed
from rewardrate.rates.rows import Invalid

Array = NDArray[np.float64]
Draws = Literal["auto", "literal"]
MOST_BATCHES = 1_000_000


class Posterior(NamedTuple):
    """NIW(mu, kappa, nu, psi) over the mean and covariance of z = (accumulated reward, log accumulated seconds)."""

    kappa: float
    nu: float
    mu: Array
    psi: Array


class Belief(NamedTuple):
    """What an NIW knows, and the generator that its batches are drawn with."""

    posterior: Posterior
    rng: np.random.Generator


class NIW(Estimator):
    """Rows are running totals per chain: z_i = (reward_i, log seconds_i), jointly Gaussian with unknown moments.

    An update discounts the last posterior by `forgetting` (kappa, nu and psi; the mean keeps its place), adds the n
    rows by conjugacy, draws `batches` batches of n pairs from the Student-t predictive (nu - 1 degrees of freedom),
    and charges a high quantile of their rates sum(x) / sum(exp(y)); `estimate.mean` is their mean. One row has no
    spread: a single stream of attempts is refused (use Totals, or cut it into several chains).
    Paper, section "Reward-rate Predictor", equations (method:niw) and (method:rate).

    `draws="auto"` draws the batch rates by inverse transform where that is exact to Monte-Carlo error, else pair by
    pair; "literal" always draws the pairs. `dof_floor` lifts the discounted nu (None: the paper's text).
    """

    feeds: ClassVar[Literal["attempts", "totals"]] = "totals"
    least_rows: ClassVar[int] = 2

    def __init__(
        self,
        *,
        forgetting: float = 0.3,
        batches: int = 1000,
        quantile: float = 0.95,
        kappa0: float = 1e-3,
        nu0: float = 3.0,
        psi0: float = 1e-3,
        mu0: tuple[float, float] = (0.0, 0.0),
        dof_floor: float | None = 4.0,
        draws: Draws = "auto",
        seed: int = 0,
        invalid: Invalid = "zero",
    ) -> None:
        super().__init__(invalid=invalid)
        positive = "be finite and positive"
        self.forgetting = finite("forgetting", forgetting, lambda number: 0 < number <= 1, "lie in (0, 1]")
        self.batches = at_least("batches", batches, 1)
        if self.batches > MOST_BATCHES:
            raise InputError("batches", batches, f"it must be at most {MOST_BATCHES:,}")
        self.quantile = finite("quantile", quantile, lambda number: 0 < number < 1, "lie strictly between 0 and 1")
        self.kappa0 = finite("kappa0", kappa0, lambda number: number > 0, positive)
        self.nu0 = finite("nu0", nu0, lambda number: number > 1, "be above 1 (two-dimensional scatter)")
        self.psi0 = finite("psi0", psi0, lambda number: number > 0, positive)
        self.mu0 = _pair("mu0", mu0)
        floor = "be above 1, or None for no floor"
        self.dof_floor = None if dof_floor is None else finite("dof_floor", dof_floor, lambda number: number > 1, floor)
        if draws not in get_args(Draws):
            near = nearest(str(draws), get_args(Draws))
            raise InputError("draws", draws, "it must be 'auto' or 'literal'", near)
        self.draws, self.seed = draws, at_least("seed", seed, 0)
        prior = Posterior(self.kappa0, self.nu0, np.array(self.mu0), self.psi0 * np.eye(2))
        self.state = Belief(prior, np.random.default_rng(self.seed))

    @property
    def posterior(self) -> Posterior:
        """The posterior after the latest update (the prior before it)."""
        posterior: Posterior = self.state.posterior
        return posterior

    def absorb(self, reward: Array, seconds: Array) -> tuple[Belief, RateEstimate]:
        """The posterior after these rows and the quantile of its batch rates; paper, section "Reward-rate Predictor".

        Where invalid rows were left out and one is all there is, nothing changes.
        """
        belief: Belief = self.state
        if reward.size < self.least_rows:
            return belief, self._estimate
        posterior = self._add(reward, seconds)
        predictive = student_t(posterior, reward.size)
        before = belief.rng.bit_generator.state
        try:
            rates = self._draw(predictive)
            mean = float(rates.sum()) / rates.size
            rate, low, high = percentiles(rates, (self.quantile, 0.025, 0.975))
            if not (math.isfinite(mean) and math.isfinite(rate) and math.isfinite(low) and math.isfinite(high)):
                raise InputError("reward / seconds", mean, "the rates do not fit 64-bit arithmetic", "rescale them")
        except BaseException:
            belief.rng.bit_generator.state = before  # a refused or interrupted update must not move the stream
            raise
        return Belief(posterior, belief.rng), RateEstimate(
            max(0.0, rate), mean, low, high, self._estimate.count + reward.size
        )

    def _draw(self, predictive: Predictive) -> Array:
        rates = None
        if self.draws == "auto":
            rates = draw_transformed(self.state.rng, predictive, self.batches, self.quantile)
        return draw_literal(self.state.rng, predictive, self.batches) if rates is None else rates

    def _add(self, reward: Array, seconds: Array) -> Posterior:
        """The posterior after n rows: discount, then the conjugate update."""
        old, keep, n = self.posterior, self.forgetting, reward.size
        log_seconds = np.log(seconds)
        mean_x, mean_y = float(reward.sum()) / n, float(log_seconds.sum()) / n
        x, y = reward - mean_x, log_seconds - mean_y
        kappa, nu = keep * old.kappa, keep * old.nu
        if self.dof_floor is not None:
            nu = max(nu, self.dof_floor)
        weight = kappa * n / (kappa + n)
        shift_x, shift_y = mean_x - float(old.mu[0]), mean_y - float(old.mu[1])
        (xx, xy), (_, yy) = (keep * old.psi).tolist()
        xx += float(x @ x) + weight * shift_x * shift_x
        xy += float(x @ y) + weight * shift_x * shift_y
        yy += float(y @ y) + weight * shift_y * shift_y
        if not (math.isfinite(xx) and math.isfinite(xy)):
            raise InputError(
                "reward", float(reward.max()), "its square does not fit 64-bit arithmetic", "rescale the rewards"
            )
        mu = (kappa * old.mu + (n * mean_x, n * mean_y)) / (kappa + n)
        return Posterior(kappa + n, nu + n, mu, np.array([[xx, xy], [xy, yy]]))

    def dump_state(self) -> dict[str, Any]:
        """The posterior's parameters and the generator's state."""
        (kappa, nu, mu, psi), rng = self.state
        return {"kappa": kappa, "nu": nu, "mu": mu.tolist(), "psi": psi.tolist(), "rng": rng.bit_generator.state}

    def parse_state(self, saved: Mapping[str, Any]) -> Belief:
        """A posterior whose scatter is one, and a generator of its own."""
        kappa, nu = (finite(name, saved[name]) for name in ("kappa", "nu"))
        mu, psi = np.array(saved["mu"], dtype=float), np.array(saved["psi"], dtype=float)
        if mu.shape != (2,) or psi.shape != (2, 2) or not (np.isfinite(mu).all() and np.isfinite(psi).all()):
            raise ValueError("mu must be 2 and psi 2 x 2 finite numbers")
        (xx, xy), (yx, yy) = psi.tolist()
        if not (kappa > 0 and nu > 1 and xx >= 0 and yy >= 0 and xy == yx and xy * xy <= xx * yy * (1 + 1e-9)):
            raise ValueError("kappa must be positive, nu above 1, psi a scatter matrix")
        rng = np.random.default_rng()
        rng.bit_generator.state = saved["rng"]
        return Belief(Posterior(kappa, nu, mu, psi), rng)


def student_t(posterior: Posterior, size: int) -> Predictive:
    """Predictive of one new pair: dof nu - 1, location mu, scale psi (kappa + 1) / (kappa (nu - 1))."""
    dof = posterior.nu - 1
    return Predictive(posterior.mu, posterior.psi * ((posterior.kappa + 1) / (posterior.kappa * dof)), dof, size)


def percentiles(sample: Array, quantiles: tuple[float, ...]) -> list[float]:
    """Quantiles with linear interpolation (numpy's default); `sample` is reordered, which is cheaper than a sort."""
    last = sample.size - 1
    places = [quantile * last for quantile in quantiles]
    pairs = [(int(place), min(int(place) + 1, last)) for place in places]
    sample.partition([index for pair in pairs for index in pair])
    values = []
    for place, (below, above) in zip(places, pairs, strict=True):
        low = float(sample[below])
        values.append(low + (place - below) * (float(sample[above]) - low))
    return values


def _pair(name: str, values: Any) -> tuple[float, float]:
    if not (isinstance(values, list | tuple | np.ndarray) and len(values) == 2):
        raise InputError(name, values, "it must be two numbers")
    first, second = (finite(f"{name}[{i}]", value) for i, value in enumerate(values))
    return first, second
