"""Charts of how a run uses the wall clock: its phases, and of chains that do not wait the ages and the idle slots."""

from __future__ import annotations

import numpy as np

from rewardrate.reports.chart import Area, Chart, Line
from rewardrate.reports.charts import colors, number, row_mean, slug, steps_of
from rewardrate.reports.run import Experiment, Run
from rewardrate.reports.style import BROWN, GREEN, GREY, PURPLE, RED, SILVER, SKY, YELLOW

PHASES = {
    "execute": ("running scripts, nothing else", SKY),
    "propose": ("writing", GREEN),
    "learn": ("learning", PURPLE),
    "fit": ("pricing", YELLOW),
    "save": ("saving", BROWN),
}
"Phases of a step in words and their colours (none is an arm's), from the bottom of the chart to its top."
OTHERS = (RED, SILVER, GREY)


def pace(experiment: Experiment) -> list[Chart]:
    """Every chart of this kind that the runs' records have numbers for."""
    made = [phases(experiment, label) for label in experiment.arms]
    return [one for one in [*made, age(experiment), idle(experiment)] if one.areas or one.lines]


def phases(experiment: Experiment, label: str) -> Chart:
    """Seconds of every step by phase, stacked: the mean over an arm's repetitions."""
    runs = experiment.arms[label]
    count = max(len(run.steps) for run in runs)
    names = [*PHASES, *sorted({name for run in runs for row in run.steps for name in row.phases} - set(PHASES))]
    areas = []
    for place, name in enumerate(names):
        table = np.full((len(runs), count), np.nan)
        for row, run in enumerate(runs):
            table[row, : len(run.steps)] = [step.phases.get(name, 0.0) for step in run.steps]
        found = np.nan_to_num(row_mean(table))
        words, color = PHASES.get(name, (name, OTHERS[place % len(OTHERS)]))
        if found.any():
            areas.append(Area(words, color, found))
    streams = any(is_stream(run) for run in runs)
    return Chart(
        name=slug("phases", label),
        title=f"Where a step's time goes: {label}",
        caption="Seconds on the wall clock, stacked. Writing and learning are the policy's (GPU, or its own cores). "
        + (
            "Scripts run all the time, also below the other colours; the first is time in which the run only waits "
            "for them. Where it is thin, the policy is the bottleneck."
            if streams
            else "Scripts run in the first phase alone, and the policy waits meanwhile."
        ),
        x="step",
        y="seconds",
        areas=tuple(areas),
        area_x=np.arange(1, count + 1, dtype=np.float64),
        y_range=(0, None),
        legend="outside",
    )


def age(experiment: Experiment) -> Chart:
    """Updates between writing an attempt and learning from it: mean and largest of every step."""
    lines = []
    for label, color in colors(list(experiment.arms)).items():
        for place, run in enumerate(run for run in experiment.arms[label] if is_stream(run)):
            name = label if place == 0 else ""
            for key, dash in (("age", "-"), ("age_max", ":")):
                values = np.array([number(row.metrics.get(key)) for row in run.steps])
                words = f"{name}, {'mean' if key == 'age' else 'largest'}" if name else ""
                lines.append(Line(words, color, steps_of(run), values, faint=not name, dash=dash))
    caption = (
        "How many updates were made between writing an attempt and learning from it: the mean of a step and its "
        "largest, which max_age bounds. 0 would be as if every step waited."
    )
    return Chart("age", "Age of attempts", caption, x="step", y="updates", lines=tuple(lines), y_range=(0, None))


def idle(experiment: Experiment) -> Chart:
    """Share of the slots' time in which no script ran, of every step."""
    lines = []
    for label, color in colors(list(experiment.arms)).items():
        runs = [run for run in experiment.arms[label] if is_stream(run)]
        for place, run in enumerate(runs):
            values = np.array([number(row.metrics.get("idle_share")) for row in run.steps])
            if np.isfinite(values).any():
                lines.append(Line(label if place == 0 else "", color, steps_of(run), values, faint=place > 0))
    caption = (
        "Share of the slots' time since the step before in which no script ran in them (a script that waits for its "
        "cores counts as running): chains wait for the policy, or for max_age."
    )
    return Chart(
        "idle", "Idle share of slots", caption, x="step", y="share of time", lines=tuple(lines), y_range=(0, 1.03)
    )


def is_stream(run: Run) -> bool:
    """Whether its chains do not wait for each other."""
    return any("age" in row.metrics for row in run.steps)
