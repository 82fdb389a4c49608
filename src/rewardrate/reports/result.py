"""The result at the top of the page: both arms at T, or the table over tasks, and a line for every run."""

from __future__ import annotations

from collections.abc import Sequence

from rewardrate.errors import InputError
from rewardrate.reports import headline, tables
from rewardrate.reports.document import duel, escape, fold, table, tile
from rewardrate.reports.evaluation import Comparison, Interval, Paired, Value
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

MEANINGS = {
    "rpg": "the arm that pays for its time: it is trained on reward - rate * seconds",
    "vanilla": "the arm for which time is free: the same run, trained on reward alone",
    "rate": "reward per second, estimated during the run: what a second is charged in the arm rpg",
    "chain": "a row of the batch: a sequence of attempts, each asked to improve on an earlier one",
    "T": "the script time per chain at which both arms are compared, the same for both",
    "valid": "an attempt that ran to the end and left something that earns a reward; any other counts 0",
    "held-out": "the final script, run once more on data by which no script was chosen",
}
WORDS = fold(
    "What do rpg, vanilla, chain and T mean?",
    f"<dl>{''.join(f'<dt>{escape(word)}</dt><dd>{escape(text)}</dd>' for word, text in MEANINGS.items())}</dl>",
)


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
    head = [f"at T = {experiment.final:.1f} s", arm, "vanilla", f"{arm} is better by", "% improvement"]
    first, second, meaning = map(escape, headline.one_task(experiment, arm))
    meaning, _, caution = meaning.partition(". ")
    caution = f"<br>{caution}" if caution else ""
    title = "Was pricing time worth it?" if len(experiment.contrasts) == 1 else f"{arm} and vanilla at equal time"
    said = f"<strong>{meaning.rstrip('.')}.</strong>{first}<br>{second}{caution}"
    return (
        f'<h2>{escape(title)}</h2><p class="verdict">{said}</p>'
        f'<div class="tiles">{"".join(_tiles(experiment, arm))}</div>{WORDS}{table(head, rows, right=range(1, 5))}'
        f"{table(['what the time brought', arm, 'vanilla', 'difference'], time, right=range(1, 4))}"
        f'<p class="soft">{escape(note)} A value at T is the mean over budgets 0.8 T to T.</p>'
    )


def _tiles(experiment: Experiment, arm: str) -> list[str]:
    """Reward per second, seconds, held-out reward and wall time of both arms, with what is sure of the difference."""
    found, pairs = experiment.efficiency(arm), experiment.contrasts[arm]
    rate, seconds, held = (found[name] for name in ("reward_per_second", "seconds_per_attempt", "held_out_reward"))
    saved = seconds.difference
    known = saved.value is not None and saved.sign
    less = f": {arm} {'saves' if saved.sign < 0 else 'costs'} {abs(saved.value or 0):.2f}" if known else ""

    def pair(words: str, ours: str, theirs: str, note: str) -> str:
        return duel(words, (arm, ours), ("vanilla", theirs), note)

    return [
        pair("reward per second", _number(rate.rpg), _number(rate.vanilla), _sure(rate.difference)),
        pair(f"seconds per attempt{less}", _number(seconds.rpg, 2), _number(seconds.vanilla, 2), _sure(saved)),
        pair("held-out reward of the final script", _number(held.rpg), _number(held.vanilla), _sure(held.difference)),
        pair(*_wall_time(pairs), "all steps: proposing, scripts, learning"),
    ]


def _sure(difference: Interval) -> str:
    """The difference with its interval, or that there is none to speak of."""
    if difference.value is None:
        return "not measured"
    if difference.low is None:
        return f"difference {difference.value:+.3f}, no interval"
    text = f"difference {tables.interval(difference, sign=True)}"
    return text if difference.sign else f"no difference shown: {tables.interval(difference, sign=True)}"


def duration(seconds: float) -> str:
    """12 s, 3 min 05 s, 2 h 10 min; a dash where no time is on record."""
    if seconds <= 0:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )


def _wall_time(pairs: Sequence[tuple[Run, Run]]) -> tuple[str, str, str]:
    """The words of a tile and the time of both arms, in a unit in which both are short."""
    ours, theirs = (
        sum(sum(row.phases.values()) for run in side for row in run.steps) for side in zip(*pairs, strict=True)
    )
    longest = max(ours, theirs)
    unit, name = (1, "seconds") if longest < 100 else (60, "minutes") if longest < 6000 else (3600, "hours")
    found = [f"{one / unit:.{0 if unit == 1 else 1}f}" if one > 0 else "-" for one in (ours, theirs)]
    return f"{name} of wall time for training", found[0], found[1]


def _cells(pair: Paired) -> list[str]:
    change = pair.advantage if isinstance(pair, Comparison) else pair.difference
    return [*(tables.interval(part) for part in (pair.rpg, pair.vanilla)), tables.interval(change, sign=True)]


def _alone(experiment: Experiment) -> str:
    """Runs that cannot be paired: what each came to, and how to get the other arm."""
    tiles = []
    for run in experiment.runs[:8]:
        found = numbers(run)
        name = run.label + (f", seed {run.seed}" if len(experiment.arms[run.label]) > 1 else "")
        name = f"{name}: " if len(experiment.runs) > 1 else ""
        kind = run.arm if run.arm in ("rpg", "vanilla") else ""
        wall = sum(sum(row.phases.values()) for row in run.steps)
        held = run.held_out_reward
        tiles.append(tile(f"{found['reward_per_second']:.3g}", f"{name}reward per second", kind))
        tiles.append(tile(f"{found['best_reward']:.3f}", f"{name}best reward", kind))
        tiles.append(tile("-" if held is None else f"{held:.3f}", f"{name}held-out reward of the final script", kind))
        tiles.append(tile(f"{found['valid_share']:.0%}", f"{name}valid share of {found['attempts']:.0f} attempts"))
        tiles.append(tile(duration(wall), f"{name}wall time of {found['steps']:.0f} step{'s' * (found['steps'] != 1)}"))
    other = "vanilla" if experiment.runs[0].arm != "vanilla" else "rpg"
    note = f"One arm alone cannot say whether pricing time was worth it: train --arm {other} with the same seed."
    return (
        f'<h2>What came out</h2><p class="verdict">{escape(note)}</p><div class="tiles">{"".join(tiles)}</div>{WORDS}'
    )


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
        cells += [tables.interval(row.both.advantage, sign=True), tables.interval(row.both.improvement, 1, sign=True)]
        rows.append([*cells, row.verdict, tables.per_second(row)])
    head = ["task", "metric", "n", "T\u00a0(s)", found.arm, found.baseline]
    head += ["better by (95\u00a0%)", "% improvement (95\u00a0%)"]
    head += [f"for {found.arm}", "per second (95\u00a0%)"]
    trimmed = f"mean improvement without the best and the worst task ({_range(found.trimmed, 1)} %)"
    tiles = [
        tile(_percent(found.trimmed), trimmed),
        tile(_percent(found.mean), f"mean improvement of all tasks ({_range(found.mean, 1)} %)"),
        tile(f"{found.count('win')} : {found.count('loss')}", f"tasks on which {found.arm} is ahead and behind"),
    ]
    below = " ".join(tables.summary(found))
    *counts, meaning = map(escape, headline.many_tasks(experiments, found))
    first = f"<strong>{meaning}</strong>{'<br>'.join(counts)}"
    return (
        f'<h2>{escape(found.arm)} and {escape(found.baseline)} on every task</h2><p class="verdict">{first}</p>'
        f'<div class="tiles">{"".join(tiles)}</div>{WORDS}'
        f'{table(head, rows, right=(2, 3, 4, 5, 6, 7, 9))}<p class="soft">{escape(below)} ± is the standard error over '
        "repetitions; (↑) higher is better, (↓) lower; per second is the difference in reward per second.</p>"
    )


def runs_table(runs: Sequence[Run]) -> str:
    """One line a run; a plus after its steps says that it has not ended: one more is under way."""
    tasks = len({run.task for run in runs}) > 1
    head = ["run", *(["task"] if tasks else []), "arm", "seed", "steps", "attempts", "valid share"]
    head += ["reward per attempt", "seconds per attempt", "reward per second", "best reward", "script seconds", "rate"]
    rows = []
    for run in runs:
        found = numbers(run)
        steps = f"{found['steps']:.0f}" + (" +" if run.under_way[1] and not run.ended else "")
        cells = [run.folder.name, *([run.task] if tasks else []), run.label, run.seed, steps, f"{found['attempts']:,}"]
        names = [name.replace(" ", "_") for name in head[-6:]]
        rows.append([*cells, f"{found['valid_share']:.0%}", *(f"{found[name]:.4g}" for name in names)])
    return table(head, rows, right=range(4 if tasks else 3, len(head)))


def _number(value: Interval, digits: int = 3) -> str:
    return "-" if value.value is None else f"{value.value:.{digits}f}"


def _percent(value: Interval) -> str:
    """A percentage in large type only where its interval excludes 0."""
    return f"{value.value:+.1f} %" if value.value is not None and value.sign else "none shown"


def _range(value: Interval, digits: int = 3) -> str:
    if value.low is None or value.high is None:
        return "no interval"
    return f"{value.low:+.{digits}f} to {value.high:+.{digits}f}"
