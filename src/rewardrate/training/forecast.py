"""Which price is expected to be best at a budget, and how sure that is: simulations over what is not known.

What is not known of an agent is drawn from stated ranges (`RANGES`). A pilot narrows them: its scripts, first valid
share, failures and the effect of length are read off directly, and of `CANDIDATES` agents those are kept whose
simulated run, at the pilot's own price and for as many steps, comes nearest to it in valid share, reward and seconds of
an attempt by quarters of its steps (approximate Bayesian computation by rejection). Each agent that is kept is then
simulated at every price with several seeds: the spread over agents is what we do not know, the spread over seeds is the
noise of single runs.
Shapes: D agents, R seeds of each, P prices, S steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rewardrate.checks import at_least, finite
from rewardrate.training.measured import Pilot, Scripts
from rewardrate.training.simulation import PRICES, Agents, Simulated, SimulatedPrice, SimulatedRun, simulate

Array = NDArray[np.float64]

RANGES: dict[str, tuple[float, float]] = {
    "valid_share": (0.1, 0.7),
    "room": (0.5, 1.0),
    "learning_steps": (1.0, 60.0),
    "script_speed": (0.3, 3.0),
    "copying": (0.0, 2.5),
    "parent_help": (0.0, 2.0),
    "difficulty": (0.0, 1.6),
    "no_program": (0.1, 0.7),
    "pace": (0.7, 1.4),
}
"""Low and high of what is drawn evenly (learning_steps, script_speed and pace on a log scale).

    room            share of the first step's mistakes that learning can remove
    learning_steps  measured so far: about 3 (Qwen2.5-Coder-1.5B, warm start), 17 and 20 (tiny, pilot)
    pace            the agent's seconds over those of the reference scripts, on its machine
    copying         measured so far: 0.9 (tiny, two arms of the pilot, first quarter)
    difficulty      measured so far: 0.8 (standard error 0.15; tiny, three arms of the pilot, first third)
"""
LOG_SCALE = ("learning_steps", "script_speed", "pace")
QUALITY = (0.5, 1.0)
"Reward of the agent's version of a reference script over the script's own, drawn evenly for each."
SECONDS_CHANGE = 0.3
"Standard deviation of log seconds of the agent's version of a reference script."
AGENTS, REPETITIONS = 40, 3
CANDIDATES = 1500
"Agents that are compared with a pilot; a fifth of them with one that was run at a price."
MOST_ROWS = 48_000
"Fewer candidates where a batch is larger than 32: rows of a step of all of them together."
PILOT_STEPS = 60
"Steps of a pilot that are looked at, from the first."
POWER_Z = 1.959964 + 0.841621
"Two-sided 5 %, 80 % power."


@dataclass(frozen=True)
class Known:
    """What the user states, in place of a range."""

    valid_share: float | None = None
    learning_steps: float | None = None

    def __post_init__(self) -> None:
        if self.valid_share is not None:
            finite("valid_share", self.valid_share, lambda number: 0 < number < 1, "lie strictly between 0 and 1")
        if self.learning_steps is not None:
            finite("learning_steps", self.learning_steps, lambda number: number >= 1, "be at least 1")


@dataclass(frozen=True)
class PriceForecast:
    """What is expected at one price. Intervals are 80 %, over the agents drawn, without the noise of single runs."""

    price: str
    reward: float
    "Expected at T: latest attempt of a chain, an invalid one 0, mean over 0.8 T to T."
    difference: float
    "To the price none."
    low: float
    high: float
    best: float
    "Share of the agents for which this price is the best."
    earlier: tuple[float, ...]
    "Difference at T / 4 and T / 2 of the same runs."
    seconds_per_attempt: float
    steps: float
    valid_share: float
    top_share: float
    "Of the most frequent script among valid attempts between 0.8 T and T."
    run_sd: float
    "Standard deviation of the reward at T between runs of one agent with other seeds."
    seeds: int | None
    "Seeds an arm for 80 % power to tell it from none; None where no difference is expected."


@dataclass(frozen=True)
class Forecast:
    """The forecast of every price at one budget."""

    budget: float
    agents: int
    repetitions: int
    rows: tuple[PriceForecast, ...]
    parameters: dict[str, tuple[float, float, float]]
    "10 %, 50 % and 90 % of the agents' parameters."
    differences: Array
    "P x D x R: difference to the first price of each agent and seed."

    @property
    def first(self) -> PriceForecast:
        """The price that the others are compared with."""
        return self.rows[0]

    @property
    def best(self) -> PriceForecast:
        """The price with the highest expected reward."""
        return max(self.rows, key=lambda row: row.reward)

    def row(self, price: str) -> PriceForecast:
        """The forecast of one price."""
        return next(row for row in self.rows if row.price == price)


def draw_agents(
    scripts: Scripts, count: int, *, seed: int, known: Known | None = None, pilot: Pilot | None = None
) -> Agents:
    """Agents from the ranges, with what a pilot shows directly, and what is stated, put in their place.

    The probabilities of the scripts at the start are a Bayesian bootstrap: Dirichlet with the counts of each script.
    """
    rng = np.random.default_rng([seed, 1])
    drawn = {name: _draw(rng, name, count) for name in RANGES}
    start = rng.dirichlet(scripts.seen, count)
    quality = rng.uniform(*QUALITY, (count, scripts.reward.size))
    change = np.exp(SECONDS_CHANGE * rng.standard_normal(quality.shape))
    if pilot is not None:
        drawn |= _shown(pilot, rng, count)
        if pilot.attempts is not None:  # its scripts are the agent's own, timed on its machine
            drawn["pace"], quality, change = np.ones(count), np.ones_like(quality), np.ones_like(change)
    stated = {} if known is None else asdict(known)
    drawn |= {name: np.full(count, float(value)) for name, value in stated.items() if value is not None}
    share, pace = np.clip(drawn.pop("valid_share"), 0.005, 0.995), drawn.pop("pace")
    wide = np.ones((count, 1))
    return Agents(
        reward=scripts.reward * quality,
        seconds=scripts.seconds * pace[:, None] * change,
        start=start,
        reward_spread=scripts.reward_spread * wide,
        seconds_spread=scripts.seconds_spread * wide,
        valid_share=share,
        ceiling=share + (1.0 - share) * drawn.pop("room"),
        **drawn,
    )


def _draw(rng: np.random.Generator, name: str, count: int) -> Array:
    low, high = RANGES[name]
    if name in LOG_SCALE:
        return np.exp(rng.uniform(math.log(low), math.log(high), count))
    return rng.uniform(low, high, count)


def _shown(pilot: Pilot, rng: np.random.Generator, count: int) -> dict[str, Array]:
    """What a pilot shows directly, each with its own uncertainty (Jeffreys prior for shares)."""
    valid, total = pilot.first
    shown = {"valid_share": rng.beta(valid + 0.5, total - valid + 0.5, count)}
    if pilot.attempts is not None:
        at_once, failed = pilot.attempts.no_program()
        shown["no_program"] = rng.beta(at_once + 0.5, failed - at_once + 0.5, count)
        fall, error = pilot.attempts.difficulty()
        shown["difficulty"] = np.clip(fall + error * rng.standard_normal(count), 0.0, 4.0)
    return shown


def plan(
    setting: SimulatedRun,
    scripts: Scripts,
    *,
    pilot: Pilot | None = None,
    known: Known | None = None,
    agents: int = AGENTS,
    repetitions: int = REPETITIONS,
    prices: Sequence[SimulatedPrice] = PRICES,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Forecast:
    """The forecast from scripts alone, or from those of a pilot with agents that are fitted to it."""
    if pilot is None:
        drawn = draw_agents(scripts, agents, seed=seed, known=known)
    else:
        count = min(CANDIDATES, MOST_ROWS // pilot.recipe.batch)
        count = count if pilot.price.arm == "vanilla" else count // 5  # refits take most of the time
        drawn = draw_agents(scripts, max(count, 2 * agents), seed=seed, known=known, pilot=pilot)
        drawn = fit(drawn, pilot, agents, seed=seed)
    return forecast(drawn, setting, repetitions=repetitions, prices=prices, seed=seed, on_progress=on_progress)


def fit(candidates: Agents, pilot: Pilot, count: int, *, seed: int) -> Agents:
    """The `count` candidates whose simulated pilot is nearest to the real one.

    Distance: squared differences of the means of each quarter of the steps (valid share, reward, log seconds), each
    over its variance among the candidates.
    """
    steps = min(len(pilot.by_step), PILOT_STEPS)
    simulated = simulate(candidates, pilot.setting, pilot.price, seed=seed, steps=steps).by_step
    seen, real = _quarters(simulated), _quarters(pilot.by_step[:steps, None, :])
    spread = np.maximum(seen.std(axis=0), 1e-9)
    distance = (((seen - real) / spread) ** 2).sum(axis=1)
    return candidates.take(np.argsort(distance, kind="stable")[:count])


def _quarters(by_step: Array) -> Array:
    """G x 12 from S x G x 3."""
    columns = np.concatenate([by_step[..., :2], np.log(by_step[..., 2:])], axis=-1)
    parts = [part.mean(axis=0) for part in np.array_split(columns, min(4, len(columns)))]
    return np.concatenate(parts, axis=-1)


def forecast(
    agents: Agents,
    setting: SimulatedRun,
    *,
    repetitions: int = REPETITIONS,
    prices: Sequence[SimulatedPrice] = PRICES,
    seed: int = 0,
    on_progress: Callable[[float], None] | None = None,
) -> Forecast:
    """Simulate every agent with so many seeds at every price; the first price is what the others are compared with."""
    at_least("repetitions", repetitions, 2)
    many = agents.take(np.repeat(np.arange(agents.runs), repetitions))
    found = []
    for place, price in enumerate(prices):

        def step(share: float, before: int = place) -> None:
            if on_progress is not None:
                on_progress((before + share) / len(prices))

        found.append(simulate(many, setting, price, seed=seed, on_step=step))
    values = np.stack([one.value.reshape(agents.runs, repetitions, -1) for one in found])  # P x D x R x SHARES
    rows = [_row(place, price.name, found[place], values) for place, price in enumerate(prices)]
    at_end = values[..., -1]
    return Forecast(
        budget=setting.budget,
        agents=agents.runs,
        repetitions=repetitions,
        rows=tuple(rows),
        parameters=_parameters(agents),
        differences=at_end - at_end[:1],
    )


def _row(place: int, name: str, simulated: Simulated, values: Array) -> PriceForecast:
    at_end, none = values[place, :, :, -1], values[0, :, :, -1]
    difference = at_end - none
    expected = values[..., -1].mean(axis=2)
    noise = [float(one.var(axis=1, ddof=1).mean()) for one in (at_end, none)]
    low, high = interval(difference)
    mean = float(difference.mean())
    late = simulated.late.mean(axis=0)
    return PriceForecast(
        price=name,
        reward=float(at_end.mean()),
        difference=mean,
        low=low,
        high=high,
        best=float(np.isclose(expected[place], expected.max(axis=0), rtol=0, atol=1e-12).mean()),
        earlier=tuple(float((values[place] - values[0])[..., share].mean()) for share in range(values.shape[-1] - 1)),
        seconds_per_attempt=float(late[0]),
        steps=float(simulated.steps.mean()),
        valid_share=float(late[1]),
        top_share=float(late[2]),
        run_sd=math.sqrt(noise[0]),
        seeds=None if place == 0 else seeds_needed(mean, sum(noise)),
    )


def interval(difference: Array) -> tuple[float, float]:
    """80 % of the agents' expected differences (D x R), with the simulation's own standard error.

    The mean of R seeds spreads more than the expectation it estimates: deviations are scaled to the variance that the
    agents explain, var - noise / R, plus var / D for the mean itself.
    """
    means = difference.mean(axis=1)
    if means.size < 2:
        return float(means.min()), float(means.max())
    total = float(means.var(ddof=1))
    noise = float(difference.var(axis=1, ddof=1).mean()) / difference.shape[1]
    scale = math.sqrt((max(0.0, total - noise) + total / means.size) / total) if total > 0 else 0.0
    low, high = np.quantile(means.mean() + scale * (means - means.mean()), (0.1, 0.9))
    return float(low), float(high)


def seeds_needed(difference: float, variance: float) -> int | None:
    """Seeds an arm to tell the arms apart: two-sided 5 %, 80 % power; `variance` is the sum of both arms'. At least 2.

    n = (1.96 + 0.84)^2 * variance / difference^2
    """
    if abs(difference) < 1e-6:
        return None
    return max(2, math.ceil(POWER_Z**2 * variance / difference**2))


def _parameters(agents: Agents) -> dict[str, tuple[float, float, float]]:
    found = {}
    for field in fields(Agents):
        values = getattr(agents, field.name)
        if values.ndim == 1:
            low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
            found[field.name] = (float(low), float(middle), float(high))
    return found


def verdict(found: Forecast) -> str:
    """The forecast in a sentence: which price, by how much, and what a run can show."""
    best, none = found.best, found.first
    others = [row for row in found.rows[1:] if row.low > 0]
    if others:
        row = max(others, key=lambda one: one.difference)
        words = f"{row.price} is expected ahead of {none.price} by {_signed(row)}"
    elif best is none:
        words = f"no price is expected ahead of {none.price}"
    else:
        words = f"no price is clearly ahead of {none.price}: the highest mean is that of {best.price}, {_signed(best)}"
    return f"{words}."


def power(row: PriceForecast, none: PriceForecast) -> str:
    """How many seeds tell a price from none."""
    if row.seeds is None:
        return f"{row.price} and {none.price}: no difference is expected that any number of seeds could show."
    seeds = f"about {row.seeds:,}" if row.seeds <= 1000 else "more than 1,000"
    return (
        f"to tell {row.price} from {none.price} with 80 % power you need {seeds} seeds an arm at this T "
        f"(s.d. between runs {row.run_sd:.3f} and {none.run_sd:.3f})."
    )


def cautions(found: Forecast, setting: SimulatedRun) -> list[str]:
    """What this forecast cannot know, the general first."""
    words = [
        "the model knows no code: it writes the measured scripts and no others, and leaves out generation time,"
        " clipping and momentum of the optimiser, and how a reply depends on the parent's text"
    ]
    none = found.first
    if none.top_share > 0.5:
        words.append(
            f"near T {none.top_share:.0%} of the valid attempts at the price none are one script:"
            " a price can hardly change what such a policy writes"
        )
    if none.steps < 5:
        words.append(f"{none.steps:.1f} steps within T: too few to learn from")
    if setting.recipe.copies == "one":
        words.append('copies = "one": the model keeps every copy in the buffer, so good scripts fill it sooner')
    if setting.recipe.overhead.generation:
        words.append("overhead.generation: the time that generation takes is not known before a run and left out")
    if setting.recipe.sandbox.clock == "warm":
        words.append('clock = "warm": seconds of reference scripts include their imports')
    return words


def _signed(row: PriceForecast) -> str:
    return f"{row.difference:+.3f} (80 % {row.low:+.3f} to {row.high:+.3f})"
