"""The result at the top of the page: both arms at T, or the table over tasks, and a line for every run."""

from __future__ import annotations

from collections.abc import Sequence

from rewardrate.errors import InputError
from rewardrate.reports import tables
from rewardrate.reports.document import escape, table, tile
from rewardrate.reports.evaluation import Comparison, Interval, Value
from rewardrate.reports.run import Experiment, Run, numbers

CHOICES: dict[Value, str] = {"latest": "latest attempt", "best": "best so far"}


def one_task(experiment: Experiment) -> str:
    """Both arms at the same budget, in every way that is drawn; or what the runs came to if they cannot be paired."""
    both = experiment.compare()
    if both is None:
        return _alone(experiment)
    rows = []
    for metric in experiment.metrics:
        for value, words in CHOICES.items():
            found = experiment.compare(metric, value)
            if found is not None:
                cells = [tables.interval(part) for part in (found.rpg, found.vanilla, found.difference)]
                rows.append([f"mean {metric}, {words}", *cells, tables.interval(found.improvement, 1, sign=True)])
    count = len(experiment.pairs)
    note = f"In brackets: 95 % bootstrap intervals over {count} paired repetitions and the chains inside each."
    if count == 1:
        note = "In brackets: 95 % bootstrap intervals over chains. One repetition says nothing of training again."
    tiles = [
        tile(_number(both.rpg), f"rpg: mean reward at T ({_range(both.rpg)})", "rpg"),
        tile(_number(both.vanilla), f"vanilla: mean reward at T ({_range(both.vanilla)})", "vanilla"),
        tile(_percent(both.improvement), f"relative improvement of rpg ({_range(both.improvement, 1)} %)"),
        tile(f"{both.final:.0f} s", "T: script seconds per chain at which both are compared"),
    ]
    head = [f"at T = {both.final:.1f} s", "rpg", "vanilla", "difference", "% improvement"]
    return (
        f'<h2>Both arms at the same budget</h2><p class="verdict">{escape(verdict(both))}</p>'
        f'<div class="tiles">{"".join(tiles)}</div>{table(head, rows, right=range(1, 5))}'
        f'<p class="soft">{escape(note)}</p>'
    )


def verdict(both: Comparison) -> str:
    """What a careful reader may take away from one comparison, in a sentence."""
    low, high, value = both.difference.low, both.difference.high, both.difference.value
    at = f"At T = {both.final:.0f} s of script time per chain"
    if value is None or low is None or high is None:
        return f"{at} there is nothing to compare yet."
    if low <= 0 <= high:
        return f"{at} the arms cannot be told apart: the interval of the difference contains 0."
    ahead, behind = ("rpg", "vanilla") if value > 0 else ("vanilla", "rpg")
    said = f"{at} {ahead} is ahead of {behind} by {abs(value):.3f} in mean reward; the interval leaves out 0."
    return said if len(both.rpg_curves) > 1 else f"{said} It is one pair of runs: train more seeds to know more."


def _alone(experiment: Experiment) -> str:
    tiles = []
    for run in experiment.runs[:8]:
        found = numbers(run)
        name = run.label + (f", seed {run.seed}" if len(experiment.arms[run.label]) > 1 else "")
        kind = run.arm if run.arm in ("rpg", "vanilla") else ""
        tiles.append(tile(f"{found['best reward']:.3f}", f"{name}: best reward", kind))
        tiles.append(tile(f"{found['valid share']:.0%}", f"{name}: valid share"))
        tiles.append(tile(f"{found['rate']:.4g}", f"{name}: reward per second at the last step"))
    note = "Train the other arm with the same seed to compare the two at the same budget."
    return f'<h2>What came out</h2><div class="tiles">{"".join(tiles)}</div><p class="soft">{escape(note)}</p>'


def many_tasks(experiments: Sequence[Experiment]) -> str:
    """The paper's table; a notice if no task has both arms."""
    try:
        found = tables.table(experiments)
    except InputError as error:
        return f'<h2>Tasks</h2><p class="notice">{escape(error)}</p>'
    rows = []
    for row in found.rows:
        arrow = "↑" if row.higher_is_better else "↓"
        cells = [f"{row.task} ({arrow})", row.metric, str(row.repetitions), f"{row.both.final:.0f}"]
        for value, spread in ((row.both.rpg, row.rpg_error), (row.both.vanilla, row.vanilla_error)):
            cells.append(_number(value) + ("" if spread is None else f" ± {spread:.3f}"))
        cells += [tables.interval(row.both.difference), tables.interval(row.both.improvement, 1, sign=True)]
        rows.append([*cells, row.verdict])
    head = ["task", "metric", "n", "T (s)", "rpg", "vanilla", "difference (95 %)", "% improvement (95 %)", "for rpg"]
    trimmed = f"mean improvement without the best and the worst task ({_range(found.trimmed, 1)} %)"
    tiles = [
        tile(_percent(found.trimmed), trimmed),
        tile(_percent(found.mean), f"mean improvement of all tasks ({_range(found.mean, 1)} %)"),
        tile(f"{found.count('win')} : {found.count('loss')}", "tasks on which rpg is ahead and behind"),
    ]
    said = " ".join(tables.summary(found))
    return (
        f'<h2>Both arms on every task</h2><div class="tiles">{"".join(tiles)}</div>'
        f'{table(head, rows, right=range(2, 8))}<p class="soft">{escape(said)} ± is the standard error over '
        "repetitions; (↑) higher is better, (↓) lower.</p>"
    )


def runs_table(runs: Sequence[Run]) -> str:
    """One line a run; a plus after its steps says that one more is under way."""
    tasks = len({run.task for run in runs}) > 1
    head = ["run", *(["task"] if tasks else []), "arm", "seed", "steps", "attempts", "valid share", "mean reward"]
    head += ["best reward", "mean seconds", "script seconds", "rate"]
    rows = []
    for run in runs:
        found = numbers(run)
        steps = f"{found['steps']:.0f}" + (" +" if run.under_way[1] else "")
        cells = [run.folder.name, *([run.task] if tasks else []), run.label, run.seed, steps, f"{found['attempts']:,}"]
        cells += [f"{found['valid share']:.0%}", f"{found['mean reward']:.3f}", f"{found['best reward']:.3f}"]
        rows.append([*cells, *(f"{found[name]:.4g}" for name in ("mean seconds", "script seconds", "rate"))])
    return table(head, rows, right=range(4 if tasks else 3, len(head)))


def _number(value: Interval) -> str:
    return "-" if value.value is None else f"{value.value:.3f}"


def _percent(value: Interval) -> str:
    return "-" if value.value is None else f"{value.value:+.1f} %"


def _range(value: Interval, digits: int = 3) -> str:
    if value.low is None or value.high is None:
        return "no interval"
    return f"{value.low:.{digits}f} to {value.high:.{digits}f}"
