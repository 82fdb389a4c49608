"""The theory in one figure and one page: Dinkelbach and NPG converging inside the bounds of theorems 1 and 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rewardrate.errors import InputError
from rewardrate.reports.document import document, escape, figure, table, tile
from rewardrate.reports.style import BLUE, GREEN, GREY, INK, ORANGE, pyplot, save
from rewardrate.reports.svg import inline
from rewardrate.theory import Bounds, bounds, dinkelbach, greedy_policy, npg

# Three contexts, four actions: a slow good one, a quick fair one, and worse. Times within a factor 1.7 of each other,
# so that theorem 2's k0 is a number one can draw.
REWARD = np.array([[1.00, 0.75, 0.30, 0.10], [0.90, 0.80, 0.30, 0.20], [0.55, 1.00, 0.35, 0.05]])
SECONDS = np.array([[1.70, 1.00, 1.20, 1.00], [1.60, 1.05, 1.00, 1.30], [1.00, 1.30, 1.10, 1.20]])
P = np.array([0.5, 0.3, 0.2])
FILE = "theory.json"
"What `rewardrate theory check` writes."
GAMMA = 0.15
LEARNING_RATE = 1.0
STEPS = 300


def draw(stem: Path) -> list[Path]:
    """Write the figure as SVG and PNG."""
    drawn = _draw()
    paths = save(drawn, stem)
    pyplot().close(drawn)
    return paths


def _draw() -> Any:
    drawn, axes = pyplot().subplots(1, 3, figsize=(12.6, 3.7), constrained_layout=True)
    b = bounds(REWARD, SECONDS, P)
    _dinkelbach(axes[0], b)
    _error(axes[1], b)
    _tail(axes[2], b)
    return drawn


def page(folder: Path) -> str:
    """The page of a theory check: every statement with its violations, and the figure; InputError if it is damaged."""
    path = Path(folder) / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [_row(statement) for statement in found["statements"]]
        tiles = [
            tile(f"{int(found['violations'])}", "violations"),
            tile(f"{len(rows)}", "statements of the paper"),
            tile(f"{int(found['instances']):,}", "random problems"),
            tile(f"{float(found['wall_seconds']):.0f} s", f"on this machine, seed {int(found['seed'])}"),
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError("theory check", str(path), f"it cannot be read ({error})", "run the check again") from None
    drawn = _draw()
    shown = inline(drawn, "theory")
    pyplot().close(drawn)
    caption = (
        "Three contexts, four actions: Dinkelbach's iteration inside theorem 1's interval, the average "
        "price of natural policy gradient below theorem 2's error bound, and the policy's missing probability."
    )
    head = ["statement", "claim", "tried", "violations", "smallest slack", "tight example"]
    title = Path(folder).resolve().name or "theory"
    body = (
        f'<h1>{escape(title)}</h1><p class="lead">every lemma and theorem, tried on random problems</p>'
        f'<section id="result"><div class="tiles">{"".join(tiles)}</div>'
        f"{table(head, rows, right=range(2, 6))}</section>"
        f'<section id="figure"><h2>Inside the bounds</h2><div class="charts">'
        f"{figure(shown, 'theory', 'convergence inside the bounds', caption, broad=True)}</div></section>"
    )
    return document(title, body, sections={"result": "Result", "figure": "Figure"})


def _row(statement: Any) -> list[str]:
    tight = statement.get("tight_slack")
    slack = statement["smallest_slack"]
    return [
        str(statement["statement"]),
        str(statement["claim"]),
        f"{int(statement['tried']):,}",
        f"{int(statement['violations'])}",
        "-" if slack is None else f"{slack:.0e}",
        "-" if tight is None else f"{tight:.0e}",
    ]


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
    axis.axhline(b.rho_star, color=INK, lw=1, ls="--", label="optimal rate")
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
