"""The comparison with and without a time cost, in sentences for the page, the report and the training command."""

from __future__ import annotations

from collections.abc import Sequence

from rewardrate.reports.evaluation import Paired
from rewardrate.reports.run import Experiment
from rewardrate.reports.tables import TaskTable, interval, sign_test

VERDICTS = {  # (sign of the difference per second, at equal time) -> what it means
    (1, 1): "Pricing time paid: more reward per second, and more reward at equal time",
    (1, 0): "Pricing time paid in reward per second; at equal time no difference is shown",
    (1, -1): "Pricing time paid in reward per second and cost reward at equal time",
    (0, 1): "Pricing time paid at equal time; in reward per second no difference is shown",
    (0, 0): "It cannot be said yet whether pricing time paid: both intervals contain 0",
    (0, -1): "Pricing time did not pay: less reward at equal time, and no difference per second is shown",
    (-1, 1): "Pricing time paid at equal time, though it earned less reward per second",
    (-1, 0): "Pricing time did not pay: less reward per second, and no difference at equal time is shown",
    (-1, -1): "Pricing time did not pay: less reward per second, and less reward at equal time",
}
SEEN = {1: "more reward", 0: "no clear difference in reward", -1: "less reward"}  # of one pair of runs

ENOUGH = 5  # seeds from which an interval over them is not much too narrow (docs/reading-a-report.md)


def one_task(experiment: Experiment, arm: str | None = None) -> list[str]:
    """Reward per second, reward at equal time, and what that means; empty without a pair of runs."""
    arm = arm or experiment.first
    both, found = experiment.compare(arm=arm), experiment.efficiency(arm)
    if both is None:
        return []
    per_second, count = found["reward_per_second"], _count(experiment, arm)
    return [
        f"Reward per second: {_arms(per_second, arm)}; {count}.",
        f"Reward at equal time ({_when(experiment)}): {_arms(both, arm)}; {count}.",
        meaning(per_second, both, len(experiment.contrasts[arm])),
    ]


def meaning(per_second: Paired, at_end: Paired, seeds: int) -> str:
    """What a careful reader may conclude from both differences."""
    if per_second.difference.value is None or at_end.difference.value is None:
        return "There is nothing to compare yet."
    signs = per_second.difference.sign, at_end.difference.sign
    if seeds == 1:  # what its intervals exclude is chance between chains, not between training runs
        seen = f"{SEEN[signs[0]]} per second, and {SEEN[signs[1]]} at equal time"
        return (
            f"It cannot be said yet whether pricing time paid: this one pair of runs has {seen}. The intervals cover "
            "the chains of these two runs, which share one policy in each, and no repetition of training, so train "
            "more seeds."
        )
    found = VERDICTS[signs]
    if seeds >= ENOUGH:
        return f"{found} ({seeds} seeds)."
    return f"{found} ({seeds} seeds). With fewer than {ENOUGH} these intervals are too narrow, so train more seeds."


def many_tasks(experiments: Sequence[Experiment], found: TaskTable) -> list[str]:
    """The same over the tasks of a table: on how many each arm is ahead, with sign tests, and what that means."""
    names = {row.task for row in found.rows}
    known = [one for one in experiments if one.task in names]
    per_second = [one.efficiency(found.arm)["reward_per_second"] for one in known]
    at_end = [one.compare(arm=found.arm) for one in known]
    seeds = sorted({row.repetitions for row in found.rows})
    count = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seed{'s' * (seeds[0] > 1)}"
    ends = [both for both in at_end if both is not None]
    said = VERDICTS[_sign(per_second), _sign(ends)].removesuffix(": both intervals contain 0")
    return [
        f"Reward per second: {_wins(per_second, found.arm)}.",
        f"Reward at equal time: {_wins(ends, found.arm)}.",
        f"{said} ({len(found.rows)} tasks, {count} of each arm, sign tests at 5 %).",
    ]


def _sign(pairs: Sequence[Paired]) -> int:
    """1 or -1 where an arm is ahead on more tasks than chance explains, else 0."""
    wins, losses = _ahead(pairs)
    return (wins > losses) - (wins < losses) if sign_test(wins, losses) < 0.05 else 0


def _ahead(pairs: Sequence[Paired]) -> tuple[int, int]:
    values = [pair.difference.value or 0.0 for pair in pairs]
    return sum(value > 0 for value in values), sum(value < 0 for value in values)


def _wins(pairs: Sequence[Paired], arm: str) -> str:
    wins, losses = _ahead(pairs)
    clear = [sum(pair.difference.sign == sign for pair in pairs) for sign in (1, -1)]
    return (
        f"{arm} is ahead on {wins} of {len(pairs)} tasks ({clear[0]} with an interval that excludes 0) and behind on "
        f"{losses} ({clear[1]}); sign test p = {sign_test(wins, losses):.2g}"
    )


def _arms(pair: Paired, arm: str) -> str:
    return (
        f"{arm} {interval(pair.rpg)}, vanilla {interval(pair.vanilla)}; "
        f"difference {interval(pair.difference, sign=True)}"
    )


def _count(experiment: Experiment, arm: str) -> str:
    """What the intervals rest on."""
    pairs = experiment.contrasts[arm]
    chains = sorted({run.chains.total.size for pair in pairs for run in pair})
    each = f"{chains[0]}" if len(chains) == 1 else f"{chains[0]} to {chains[-1]}"
    return f"n = {len(pairs)} seed{'s' * (len(pairs) > 1)} of {each} chains"


def _when(experiment: Experiment) -> str:
    """T, and whether it was stated before the runs."""
    how = "" if experiment.stated else ", which every run has used on average"
    return f"T = {experiment.final:.0f} s of script time per chain{how}"
