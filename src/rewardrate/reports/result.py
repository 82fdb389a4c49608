"""The result at the top of the page: both arms at T, or the table over tasks, and a line for every run."""

from __future__ import annotations

from collections.abc import Sequence

from rewardrate.errors import InputError
from rewardrate.reports import headline, tables
from rewardrate.reports.document import escape, table, tile
from rewardrate.reports.evaluation import Interval, Paired, Value
from rewardrate.reports.run import Experiment, Run, numbers

CHOICES: dict[Value, str] = {
    "current": "latest attempt, invalid = 0",
    "latest-valid": "latest valid attempt",
    "best-so-far": "best so far",
}
QUANTITIES = {
    "reward_per_second": "reward per second (rewards of valid attempts over the seconds of all attempts)",
    "cumulative_reward": "cumulative reward at T (of the attempts finished by then, per chain)",
    "reward_per_attempt": "reward per attempt (all attempts, an invalid one counts 0)",
    "seconds_per_attempt": "seconds per attempt (all attempts)",
    "valid_share": "valid share of all attempts",
    "held_out_reward": "held-out reward of the final script",
}


def one_task(experiment: Experiment) -> str:
    """Every arm against vanilla at the same budget; or what the runs came to if they cannot be paired."""
    if experiment.compare() is None:
        return _alone(experiment)
    return "".join(_contrast(experiment, arm) for arm in experiment.contrasts)


def _contrast(experiment: Experiment, arm: str) -> str:
    """One arm and vanilla, in every way that is drawn."""
    rows = []
    for metric in experiment.metrics:
        for value, words in CHOICES.items():
            shown = experiment.compare(metric, value, arm)
            if shown is not None:
                percent = tables.interval(shown.improvement, 1, sign=True)
                rows.append([f"mean {metric}, {words}", *_cells(shown), percent])
    found, count = experiment.efficiency(arm), len(experiment.contrasts[arm])
    time = [[words, *_cells(found[name])] for name, words in QUANTITIES.items()]
    note = f"In brackets: 95 % bootstrap intervals over {count} paired repetitions and their chains."
    if count == 1:
        note = "In brackets: 95 % bootstrap intervals over chains. One seed: variation between training runs is not in."
    tiles = []
    for pair, words in (
        (found["reward_per_second"], "reward per second"),
        (experiment.compare(arm=arm), "reward at T"),
    ):
        assert pair is not None
        tiles.append(tile(_number(pair.rpg), f"{arm}: {words} ({_range(pair.rpg)})", "rpg"))
        tiles.append(tile(_number(pair.vanilla), f"vanilla: {words} ({_range(pair.vanilla)})", "vanilla"))
    head = [f"at T = {experiment.final:.1f} s", arm, "vanilla", "difference", "% improvement"]
    headline_html = "<br>".join(map(escape, headline.one_task(experiment, arm)))
    title = "Both arms at equal time" if len(experiment.contrasts) == 1 else f"{arm} and vanilla at equal time"
    return (
        f'<h2>{escape(title)}</h2><p class="verdict">{headline_html}</p>'
        f'<div class="tiles">{"".join(tiles)}</div>{table(head, rows, right=range(1, 5))}'
        f"{table(['what the time brought', *head[1:4]], time, right=range(1, 4))}"
        f'<p class="soft">{escape(note)} A value at T is the mean over budgets 0.8 T to T.</p>'
    )


def _cells(pair: Paired) -> list[str]:
    return [tables.interval(part) for part in (pair.rpg, pair.vanilla)] + [tables.interval(pair.difference, sign=True)]


def _alone(experiment: Experiment) -> str:
    tiles = []
    for run in experiment.runs[:8]:
        found = numbers(run)
        name = run.label + (f", seed {run.seed}" if len(experiment.arms[run.label]) > 1 else "")
        kind = run.arm if run.arm in ("rpg", "vanilla") else ""
        tiles.append(tile(f"{found['reward_per_second']:.3g}", f"{name}: reward per second", kind))
        tiles.append(tile(f"{found['best_reward']:.3f}", f"{name}: best reward", kind))
        tiles.append(tile(f"{found['valid_share']:.0%}", f"{name}: valid share"))
    note = "Train the other arm with the same seed to compare the two at the same budget."
    return f'<h2>What came out</h2><div class="tiles">{"".join(tiles)}</div><p class="soft">{escape(note)}</p>'


def many_tasks(experiments: Sequence[Experiment]) -> str:
    """The paper's table for every arm; a notice if no task has a pair of runs."""
    arms = list(dict.fromkeys(arm for one in experiments for arm in one.contrasts))
    try:
        return "".join(task_table(experiments, tables.table(experiments, arm=arm)) for arm in arms or ["rpg"])
    except InputError as error:
        return f'<h2>Tasks</h2><p class="notice">{escape(error)}</p>'


def task_table(experiments: Sequence[Experiment], found: tables.TaskTable) -> str:
    """One arm and vanilla on every task."""
    rows = []
    for row in found.rows:
        arrow = "↑" if row.higher_is_better else "↓"
        cells = [f"{row.task} ({arrow})", row.metric, str(row.repetitions), f"{row.both.final:.0f}"]
        for value, spread in ((row.both.rpg, row.rpg_error), (row.both.vanilla, row.vanilla_error)):
            cells.append(_number(value) + ("" if spread is None else f" ± {spread:.3f}"))
        cells += [tables.interval(row.both.difference), tables.interval(row.both.improvement, 1, sign=True)]
        rows.append([*cells, row.verdict, tables.per_second(row)])
    head = ["task", "metric", "n", "T (s)", found.arm, found.baseline, "difference (95 %)", "% improvement (95 %)"]
    head += [f"for {found.arm}", "per second (95 %)"]
    trimmed = f"mean improvement without the best and the worst task ({_range(found.trimmed, 1)} %)"
    tiles = [
        tile(_percent(found.trimmed), trimmed),
        tile(_percent(found.mean), f"mean improvement of all tasks ({_range(found.mean, 1)} %)"),
        tile(f"{found.count('win')} : {found.count('loss')}", f"tasks on which {found.arm} is ahead and behind"),
    ]
    below = " ".join(tables.summary(found))
    first = "<br>".join(map(escape, headline.many_tasks(experiments, found)))
    return (
        f'<h2>{escape(found.arm)} and {escape(found.baseline)} on every task</h2><p class="verdict">{first}</p>'
        f'<div class="tiles">{"".join(tiles)}</div>'
        f'{table(head, rows, right=(2, 3, 4, 5, 6, 7, 9))}<p class="soft">{escape(below)} ± is the standard error over '
        "repetitions; (↑) higher is better, (↓) lower; per second is the difference in reward per second.</p>"
    )


def runs_table(runs: Sequence[Run]) -> str:
    """One line a run; a plus after its steps says that one more is under way."""
    tasks = len({run.task for run in runs}) > 1
    head = ["run", *(["task"] if tasks else []), "arm", "seed", "steps", "attempts", "valid share"]
    head += ["reward per attempt", "seconds per attempt", "reward per second", "best reward", "script seconds", "rate"]
    rows = []
    for run in runs:
        found = numbers(run)
        steps = f"{found['steps']:.0f}" + (" +" if run.under_way[1] else "")
        cells = [run.folder.name, *([run.task] if tasks else []), run.label, run.seed, steps, f"{found['attempts']:,}"]
        names = [name.replace(" ", "_") for name in head[-6:]]
        rows.append([*cells, f"{found['valid_share']:.0%}", *(f"{found[name]:.4g}" for name in names)])
    return table(head, rows, right=range(4 if tasks else 3, len(head)))


def _number(value: Interval) -> str:
    return "-" if value.value is None else f"{value.value:.3f}"


def _percent(value: Interval) -> str:
    return "-" if value.value is None else f"{value.value:+.1f} %"


def _range(value: Interval, digits: int = 3) -> str:
    if value.low is None or value.high is None:
        return "no interval"
    return f"{value.low:.{digits}f} to {value.high:.{digits}f}"
