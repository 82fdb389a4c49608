"""The charts of one experiment, as data for `reports.chart`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from rewardrate.reports.chart import POINTS, Area, Chart, Line, Points
from rewardrate.reports.evaluation import Metric, Value, band, budget_grid, curve
from rewardrate.reports.run import Experiment, Run
from rewardrate.reports.style import BLUE, BROWN, GREEN, GREY, ORANGE, PURPLE, RED, SILVER, SKY, YELLOW
from rewardrate.runlog import AttemptRow

Array = NDArray[np.float64]
OTHERS = (GREEN, PURPLE, SKY, YELLOW, BROWN)
KINDS = {
    "no-gain": SKY,
    "bad-submission": YELLOW,
    "no-submission": PURPLE,
    "error": RED,
    "timeout": BROWN,
    "memory": GREEN,
    "killed": GREY,
    "format": SILVER,
}
"Kinds of failures and their colours (none is an arm's), from the latest stage of an attempt to the earliest."
HEALTH = {
    "kl": ("KL to the reference", "How far the policy has moved from where it started, per token."),
    "entropy": ("entropy", "How undecided the policy is, per token. A fall to 0 means it repeats itself."),
    "clip_share": ("clip share", "Share of tokens whose update was clipped. Near 0 with one epoch a batch."),
    "value_loss": ("value loss", "Error of the critic's guess. It should fall."),
}


def colors(labels: Sequence[str]) -> dict[str, str]:
    """Arm -> colour: rpg blue, vanilla orange, other price scales in between."""
    others = iter(OTHERS * len(labels))
    return {label: BLUE if label == "rpg" else ORANGE if label == "vanilla" else next(others) for label in labels}


def charts(experiment: Experiment) -> list[Chart]:
    """Every chart of one task, in the order of the page."""
    made = [budget(experiment, metric, value) for metric in experiment.metrics for value in get_args(Value)]
    made += [cumulative(experiment), rate(experiment), *over_steps(experiment)]
    made += [attempts(experiment, label) for label in experiment.arms]
    made += [one for label in experiment.arms if (one := failures(experiment, label)).areas]  # none failed: no chart
    made += health(experiment)
    scales = frontier(experiment)
    return made + ([scales] if scales else [])


def budget(
    experiment: Experiment, metric: Metric = "reward", value: Value = "current", *, small: bool = False
) -> Chart:
    """Mean across chains at every time budget, with the bootstrap band; faint lines are repetitions."""
    chains = {label: [run.chains_of(metric) for run in runs] for label, runs in experiment.arms.items()}
    grid = budget_grid(max(experiment.final, 0.1), points=100 if small else 200)
    lines = []
    for label, color in colors(list(chains)).items():
        curves = curve(chains[label], grid, value)
        low, high = band(chains[label], grid, value, draws=200 if small else 500)
        if len(curves) > 1:
            lines += [Line(label, color, grid, one, faint=True) for one in curves]
        lines.append(Line(label, color, x=grid, y=row_mean(curves), low=low, high=high))
    what = {
        "current": "latest attempt",
        "latest-valid": "latest valid attempt",
        "best-so-far": "best attempt so far",
    }[value]
    stated = "the stated budget" if experiment.stated else "what every run has used on average over its chains"
    better = (
        "" if metric == "reward" else " (higher is better)" if experiment.higher_is_better else " (lower is better)"
    )
    return Chart(
        name=f"budget-{metric}-{value}",
        title=experiment.task if small else f"Mean {metric} at a time budget, {what}",
        caption=f"Each chain shows its {what} once its scripts have used so many seconds; the line is the mean over "
        f"chains, the band its 95 % bootstrap interval. The right edge is T, {stated}."
        + _without(experiment, metric, value),
        x="script seconds per chain",
        y=f"mean {metric}{better}",
        lines=tuple(lines),
        y_range=(0, None) if metric == "reward" else (None, None),
        legend="best"
        if small
        else "lower right"
        if metric == "reward" or experiment.higher_is_better
        else "upper right",
        small=small,
    )


def _without(experiment: Experiment, metric: Metric, value: Value) -> str:
    if value == "current" and (metric == "reward" or experiment.higher_is_better):
        return " An invalid attempt counts 0, and so does a chain before its first."
    if metric == "reward":
        return " A chain without a valid attempt counts 0."
    return " A chain without a valid attempt to show is left out of the mean."


def cumulative(experiment: Experiment, *, small: bool = False) -> Chart:
    """Mean cumulative reward against mean cumulative time, step by step. Paper, figure (fig:mlebench:cumreward)."""
    lines = []
    for label, color in colors(list(experiment.arms)).items():
        paths = [cumulative_path(run) for run in experiment.arms[label]]
        if len(paths) > 1:
            lines += [Line(label, color, *path, faint=True) for path in paths]
        shortest = min(path[0].size for path in paths)
        x, y = np.mean([[path[0][:shortest], path[1][:shortest]] for path in paths], axis=0)
        lines.append(Line(label, color, x, y))
    return Chart(
        name="cumulative",
        title=experiment.task if small else "Mean cumulative reward against time",
        caption="One point a step: the mean over chains of the rewards and of the script seconds so far. The slope is "
        "reward per second: the steeper arm uses its time better. An attempt that is not valid adds time alone.",
        x="mean cumulative seconds per chain",
        y="mean cumulative reward",
        lines=tuple(lines),
        y_range=(0, None),
        legend="upper left",
        small=small,
    )


def cumulative_path(run: Run) -> tuple[Array, Array]:
    """S + 1 and S + 1: mean over chains of seconds and of rewards summed up, from 0."""
    steps = [run.by_step.get(row.step, ()) for row in run.steps]  # chains that do not wait have none of their own
    reward, spent = (
        np.cumsum([0.0, *(sum(getattr(row, name) for row in step if counts(row)) for step in steps)])
        for name, counts in (("reward", lambda row: row.valid), ("seconds", lambda row: True))
    )
    return spent / run.chains.total.size, reward / run.chains.total.size


def rate(experiment: Experiment) -> Chart:
    """What a second was charged, with the estimate's 95 % interval, over steps."""
    lines = []
    for label, color in colors(list(experiment.arms)).items():
        runs = experiment.arms[label]
        for place, run in enumerate(runs):
            steps = steps_of(run)
            scale = run.price_scale or 1.0  # vanilla's estimate is drawn as it is
            charged = np.array([row.metrics.get("price", scale * row.rate.rate) for row in run.steps])
            low, high = (np.array([scale * getattr(row.rate, name) for row in run.steps]) for name in ("low", "high"))
            if run.arm not in ("rpg", "vanilla"):  # its price is another quantity than the rate, and has no interval
                low = high = charged
            name = label if len(runs) == 1 else f"{label}, seed {run.seed}"
            dash = ("-", "--", ":")[place % 3]
            lines.append(Line(name, color, x=steps, y=charged, low=np.maximum(low, 0), high=high, dash=dash))
    note = " The vanilla arm's rate is estimated too, but not charged." if "vanilla" in experiment.arms else ""
    return Chart(
        name="rate",
        title="Estimated reward rate",
        caption="What one second is worth: the line is what is charged, the band the estimate's 95 % interval. The "
        "paper's estimator charges the 95th percentile, so the line lies high in its band." + note,
        x="step",
        y="reward per second",
        lines=tuple(lines),
        y_range=(0, None),
    )


def over_steps(experiment: Experiment, *, small: bool = False) -> list[Chart]:
    """Valid share, reward and seconds of a valid attempt, step by step."""
    return [part(experiment, small=small) for part in (valid_share, reward, seconds)]


def seconds(experiment: Experiment, *, small: bool = False) -> Chart:
    """Mean seconds of a step's valid attempts."""
    lines = _over_steps(experiment, lambda rows: _mean_of([row.seconds for row in rows if row.valid]))
    caption = "Mean over the valid attempts of each step, in the seconds that were priced. A gap: no valid attempt."
    title = _titled(experiment, "Seconds of a valid attempt", small)
    return Chart("seconds", title, caption, x="step", y="seconds", lines=lines, y_range=(0, None), small=small)


def reward(experiment: Experiment, *, small: bool = False) -> Chart:
    """Mean reward of a step's valid attempts, before time is charged."""
    lines = _over_steps(experiment, lambda rows: _mean_of([row.reward for row in rows if row.valid]))
    caption = "Mean over the valid attempts of each step, before their time is charged. A gap: no valid attempt."
    title = _titled(experiment, "Reward of a valid attempt", small)
    values = np.concatenate([line.y[np.isfinite(line.y)] for line in lines])
    high = values.size and values.min() > 0.9 * values.max()  # a race's: from 0 up they would be one flat line
    y_range = (None, None) if high else (0, None)
    return Chart("reward", title, caption, x="step", y="reward", lines=lines, y_range=y_range, small=small)


def valid_share(experiment: Experiment, *, small: bool = False) -> Chart:
    """Share of a step's attempts that count."""
    lines = _over_steps(experiment, lambda rows: _mean_of([float(row.valid) for row in rows]))
    caption = (
        "Share of attempts that ran to the end and left a submission that earns something. Failures of the sandbox "
        "are left out."
    )
    title = _titled(experiment, "Valid share", small)
    return Chart("valid", title, caption, x="step", y="share of attempts", lines=lines, y_range=(0, 1.03), small=small)


def _titled(experiment: Experiment, title: str, small: bool) -> str:
    """A small chart is one of several tasks, and has room for few words."""
    return f"{experiment.task}: {title.removesuffix(' of a valid attempt').lower()}" if small else title


def failures(experiment: Experiment, label: str) -> Chart:
    """Shares of a step's attempts that failed, by kind; stacked, they are 1 minus the valid share."""
    runs = experiment.arms[label]
    count = max(len(run.steps) for run in runs)
    rows = [[row for run in runs for row in run.by_step.get(step, ())] for step in range(1, count + 1)]
    totals = [Counter(row.status for row in step if not row.valid) for step in rows]
    unknown = sorted({status for total in totals for status in total} - set(KINDS))
    areas = []
    for status in [*KINDS, *unknown]:
        share = np.array([total[status] / max(1, len(step)) for total, step in zip(totals, rows, strict=True)])
        if share.any():
            areas.append(Area(status, KINDS.get(status, GREY), share))
    return Chart(
        name=slug("failures", label),
        title=f"Failures by kind: {label}",
        caption="Shares of each step's attempts that do not count, stacked by how they ended (docs/run-folder.md lists "
        "the kinds). The top edge is 1 minus the valid share.",
        x="step",
        y="share of attempts",
        areas=tuple(areas),
        area_x=np.arange(1, count + 1, dtype=np.float64),
        y_range=(0, None),
        legend="outside",
    )


def attempts(experiment: Experiment, label: str) -> Chart:
    """Seconds against score (or reward) of every valid attempt, coloured by step, with the front."""
    metric: Metric = experiment.metrics[-1]
    up = metric == "reward" or bool(experiment.higher_is_better)
    rows = [
        (row.seconds, float(getattr(row, metric)), row.step)
        for run in experiment.arms[label]
        for row in run.valid
        if getattr(row, metric) is not None and np.isfinite(getattr(row, metric))
    ]
    x, y, step = (
        (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)) if rows else [np.empty(0)] * 3
    )
    best = tuple(front(x, y, up))
    note = ""
    if x.size > POINTS:
        kept = np.sort(np.random.default_rng(0).choice(x.size, POINTS, replace=False))
        note = f" {POINTS:,} of {x.size:,} are drawn; the front is that of all."
        x, y, step = x[kept], y[kept], step[kept]
    better = "" if metric == "reward" else " (higher is better)" if up else " (lower is better)"
    places = tuple(experiment.runs.index(run) for run in experiment.arms[label])
    return Chart(
        name=slug("attempts", label),
        title=f"Every valid attempt: {label}",
        caption="One dot a script, later steps stronger in colour. The green line is the front: for these seconds, "
        "nothing better was found. Point at a dot to see which it is, click to read its script." + note,
        x="seconds (logarithmic)",
        y=f"{metric}{better}",
        points=Points(x=x, y=y, step=step, front=best, runs=places, metric=metric),
        log_x=True,
        legend="below",
    )


def front(x: Array, y: Array, higher_is_better: bool = True) -> list[tuple[float, float]]:
    """The Pareto front of time and value, in order of time."""
    sign = 1.0 if higher_is_better else -1.0
    found: list[tuple[float, float]] = []
    for place in np.lexsort((-sign * y, x)):
        if not found or sign * y[place] > sign * found[-1][1]:
            found.append((float(x[place]), float(y[place])))
    return found


def health(experiment: Experiment) -> list[Chart]:
    """Health of the learner: a small chart for each of its metrics."""
    made = []
    for key, (title, caption) in HEALTH.items():
        lines = []
        for label, color in colors(list(experiment.arms)).items():
            for place, run in enumerate(experiment.arms[label]):
                values = np.array([number(row.metrics.get(key)) for row in run.steps])
                name = label if len(experiment.arms[label]) == 1 else f"{label}, seed {run.seed}"
                if np.isfinite(values).any():
                    lines.append(Line(name, color, steps_of(run), values, dash=("-", "--", ":")[place % 3]))
        if lines:
            made.append(
                Chart(
                    name=f"health-{key}",
                    title=title[0].upper() + title[1:],
                    caption=caption,
                    x="step",
                    y=title,
                    lines=tuple(lines),
                    y_range=(None, None) if key == "kl" else (0, None),  # the estimate of a KL may be below 0
                    small=True,
                )
            )
    return made


def frontier(experiment: Experiment) -> Chart | None:
    """Mean reward against mean seconds of the last quarter of the steps, over price scales; None below three."""
    points = {}
    for label, runs in experiment.arms.items():
        late = [row for run in runs for row in run.valid if row.step > 0.75 * len(run.steps)]
        if late:
            mean = np.mean([row.seconds for row in late]), np.mean([row.reward for row in late])
            points[runs[0].price_scale] = (label, float(mean[0]), float(mean[1]))
    if len(points) < 3:
        return None
    chosen = colors([label for label, *_ in points.values()])
    path = np.array([points[scale][1:] for scale in sorted(points)])
    lines = [Line("", GREY, path[:, 0], path[:, 1], faint=True)]
    for scale in sorted(points):
        label, x, y = points[scale]
        lines.append(Line(f"price scale {scale:g}", chosen[label], np.array([x]), np.array([y]), marker="o"))
    caption = (
        "Mean over the valid attempts of the last quarter of the steps. The price of a second moves the policy along "
    )
    return Chart(
        "frontier", "Reward against seconds over price scales", caption + "this line: choose the point you want.",
        x="mean seconds", y="mean reward", lines=tuple(lines), log_x=True, y_range=(0, None), legend="lower right",
    )  # fmt: skip


def _over_steps(experiment: Experiment, quantity: Callable[[Sequence[AttemptRow]], float]) -> tuple[Line, ...]:
    """Mean over repetitions of a quantity of each step's attempts; faint lines are repetitions."""
    lines = []
    for label, color in colors(list(experiment.arms)).items():
        values = []
        for run in experiment.arms[label]:
            values.append(np.array([quantity(run.by_step.get(row.step, ())) for row in run.steps]))
            if len(experiment.arms[label]) > 1:
                lines.append(Line(label, color, steps_of(run), values[-1], faint=True))
        longest = max(column.size for column in values)
        table = np.full((len(values), longest), np.nan)
        for place, column in enumerate(values):
            table[place, : column.size] = column
        lines.append(Line(label, color, np.arange(1.0, longest + 1), row_mean(table)))
    return tuple(lines)


def steps_of(run: Run) -> Array:
    """The numbers of a run's steps, to draw over."""
    return np.array([row.step for row in run.steps], dtype=np.float64)


def row_mean(table: Array) -> Array:
    """Mean over rows of what is known."""
    known = np.isfinite(table)
    count = known.sum(axis=0)
    mean: Array = np.where(count > 0, np.where(known, table, 0).sum(axis=0) / np.maximum(count, 1), np.nan)
    return mean


def _mean_of(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def number(value: float | None) -> float:
    """What is not known is not drawn."""
    return float("nan") if value is None else float(value)


def slug(kind: str, label: str) -> str:
    """The name of an arm's chart."""
    return f"{kind}-" + "".join(character if character.isalnum() else "-" for character in label)
