"""Tables and a figure about estimators: recovery after a speed-up, and over-pricing of small batches."""

from __future__ import annotations

from pathlib import Path

from rewardrate.rates.changepoint import BEFORE, CONTENDERS, SPEED_UP, rate_path, recovery
from rewardrate.rates.over_pricing import over_pricing, same_over_pricing
from rewardrate.reports.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, pyplot, save

UPDATES = 60
DRAWN = {
    "NIW, running totals (paper)": (BLUE, "-"),
    "NIW, window of 5 steps": (BLUE, ":"),
    "Robbins-Monro": (ORANGE, "-"),
    "Totals": (GREEN, "--"),
    "Totals, forgetting 0.7": (SKY, "-"),
    "Neural, memory of 1024": (PURPLE, "-"),
}


def draw_changepoint(stem: Path) -> list[Path]:
    """Write the figure: charged rate over true rate, update by update."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(7.6, 4.0), constrained_layout=True)
    for name, (color, line) in DRAWN.items():
        make, window = CONTENDERS[name]
        axis.plot(range(1, UPDATES + 1), rate_path(make(), UPDATES, window=window), line, color=color, label=name)
    axis.axhspan(0.9, 1.1, color=GREY, alpha=0.15, lw=0, label="within 10 %")
    axis.axvline(BEFORE + 0.5, color="black", lw=1, ls="--")
    axis.annotate(
        f"{SPEED_UP:.0f}x faster from here", (BEFORE + 0.5, 0.05), (4, 0), textcoords="offset points", fontsize=9
    )
    axis.set(title="The price of a second after a speed-up", xlabel="update (128 attempts each)")
    axis.set(ylabel="charged rate / true rate", ylim=(0, 1.3))
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    paths = save(figure, stem)
    plt.close(figure)
    return paths


def changepoint_table(limit: int = 1000) -> str:
    """The table in Markdown: updates to recover, and charged over true rate at a few updates after the change."""
    marks = (1, 2, 5, 10, 20, 50)
    lines = [
        "| estimator | updates to recover | " + " | ".join(f"after {mark}" for mark in marks) + " |",
        "|---|" + "---:|" * (len(marks) + 1),
    ]
    for name, (make, window) in CONTENDERS.items():
        needed = recovery(make(), window=window, limit=limit)
        path = rate_path(make(), BEFORE + marks[-1], window=window)[BEFORE:]
        shares = " | ".join(f"{path[mark - 1]:.2f}" for mark in marks)
        lines.append(f"| {name} | {'never' if needed is None else needed} | {shares} |")
    return "\n".join(lines)


def over_pricing_table(runs: int = 200, batches: tuple[int, ...] = (8, 16, 32, 64, 128)) -> str:
    """The table in Markdown: mean of charged over true rate by batch and percentile after steps 1, 2, 5 and 12."""
    steps = (1, 2, 5, 12)
    lines = [
        "| batch | percentile | "
        + " | ".join(f"step {step}" for step in steps)
        + " | below the true rate at step 12 |",
        "|---:|---:|" + "---:|" * (len(steps) + 1),
    ]
    for batch in batches:
        corrected = same_over_pricing(0.95, batch, 128)
        for quantile in sorted({0.5, 0.75, 0.95, corrected}, reverse=True):
            found = over_pricing(batch, quantile, steps, runs=runs)
            name = f"**{quantile:.2f}**" if quantile == corrected else f"{quantile:.2f}"
            shares = " | ".join(f"{ratio:.2f}" for ratio in found.ratio)
            lines.append(f"| {batch} | {name} | {shares} | {100 * found.below[-1]:.0f} % |")
    return "\n".join(lines)
