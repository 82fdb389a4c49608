"""The theory in one figure: Dinkelbach and NPG converging inside the bounds of theorems 1 and 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rewardrate.reports.style import BLUE, GREEN, GREY, ORANGE, pyplot, save
from rewardrate.theory import Bounds, bounds, dinkelbach, greedy_policy, npg

# Three contexts, four actions: a slow good one, a quick fair one, and worse. Times within a factor 1.7 of each other,
# so that theorem 2's k0 is a number one can draw.
REWARD = np.array([[1.00, 0.75, 0.30, 0.10], [0.90, 0.80, 0.30, 0.20], [0.55, 1.00, 0.35, 0.05]])
SECONDS = np.array([[1.70, 1.00, 1.20, 1.00], [1.60, 1.05, 1.00, 1.30], [1.00, 1.30, 1.10, 1.20]])
P = np.array([0.5, 0.3, 0.2])
GAMMA = 0.15
LEARNING_RATE = 1.0
STEPS = 300


def draw(stem: Path) -> list[Path]:
    """Write the figure as SVG and PNG."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(12.6, 3.7), constrained_layout=True)
    b = bounds(REWARD, SECONDS, P)
    _dinkelbach(axes[0], b)
    _error(axes[1], b)
    _tail(axes[2], b)
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def _dinkelbach(axis: Any, b: Bounds) -> None:
    ks = np.arange(2, 13)
    low, high = np.array([b.interval(int(k), GAMMA) for k in ks]).T
    exact = list(dinkelbach(REWARD, SECONDS, P, start=0.0, steps=12))
    exact += exact[-1:] * (12 - len(exact))
    axis.fill_between(
        ks, np.maximum(low, 0), high, color=GREY, alpha=0.18, lw=0, label=f"theorem 1, band of {GAMMA:.0%}"
    )
    choices = {"top of the band": lambda k, g, lo, hi: hi, "alternating": lambda k, g, lo, hi: lo if k % 2 else hi}
    for (name, choose), color in zip(choices.items(), (ORANGE, GREEN), strict=True):
        path = list(dinkelbach(REWARD, SECONDS, P, gamma=GAMMA, choose=choose, steps=12))
        axis.plot(range(1, 13), path, "o-", color=color, ms=4, lw=1.2, label=name)
    axis.plot(range(1, 13), exact, "o-", color=BLUE, ms=5, label="exact greedy rate")
    axis.axhline(b.rho_star, color="black", lw=1, ls="--", label="optimal rate")
    axis.set(
        title="Dinkelbach: price, act greedily, price again",
        xlabel="iterate k",
        ylabel="rate (reward per second)",
        ylim=(0, None),
    )
    axis.legend(loc="lower right")


def _error(axis: Any, b: Bounds) -> None:
    run = list(npg(REWARD, SECONDS, P, learning_rate=LEARNING_RATE, steps=STEPS))
    ks = np.array([step.k for step in run])
    axis.loglog(
        ks, [b.error(int(k)) for k in ks], color=GREY, lw=1.5, ls="--", label=f"theorem 2: O(k^-{1 - b.chi:.2f})"
    )
    axis.loglog(ks, [b.rho_star - step.mean_rate for step in run], color=BLUE, label="NPG")
    axis.axhline(b.epsilon_bar, color=GREEN, lw=1, label="close enough: greedy is optimal")
    axis.set(title="NPG: the average price closes in", xlabel="update k", ylabel="optimal rate - average rate")
    axis.legend(loc="lower left")


def _tail(axis: Any, b: Bounds) -> None:
    best = greedy_policy(REWARD, SECONDS, b.rho_star)
    run = list(npg(REWARD, SECONDS, P, learning_rate=LEARNING_RATE, steps=STEPS))
    ks = np.array([step.k for step in run])
    missing = [max(np.delete(step.policy[x], a).sum() for x, a in enumerate(best)) for step in run]
    k0 = b.k0()
    after = ks[ks >= k0]
    axis.semilogy(ks, missing, color=BLUE, label="NPG, worst context")
    axis.semilogy(
        after,
        [b.tail(int(k), LEARNING_RATE) for k in after],
        color=GREY,
        lw=1.5,
        ls="--",
        label="theorem 2, from k0 on",
    )
    axis.axvline(k0, color=GREEN, lw=1)
    axis.annotate(f"k0 = {k0:.0f}", (k0, 1e-13), (4, 0), textcoords="offset points", color=GREEN, fontsize=9, va="top")
    axis.set(
        title="... and the policy becomes certain",
        xlabel="update k",
        ylabel="1 - pi(optimal action)",
        xlim=(0, 200),
        ylim=(1e-15, 30),
    )
    axis.legend(loc="upper right")
