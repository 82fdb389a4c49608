"""The tables of the bandit study as Markdown, and the paper's statements beside the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rewardrate.reports.bandits import Study, select, style_of

COMPARISONS = (("npg", "cucb"), ("npg", "spg"), ("spg", "cucb"), ("cucb-exact", "cucb"))
"Pairs of agents to compare, where a study has both."


def tables(path: Path) -> str:
    """All tables of a study as one Markdown document."""
    study = Study(path)
    parts = ["# Tables of the study", verdict_table(path)]
    for first, second in pairs(study):
        one, two = (style_of(agent, study.agents)[2] for agent in (first, second))
        parts += [f"## {one} against {two}", tally_table(path, first, second), versus_table(path, first, second)]
    parts += ["## Regret at the horizon", horizon_table(path), "## Selected settings", selected_table(path)]
    return "\n\n".join(parts) + "\n"


def pairs(study: Study) -> list[tuple[str, str]]:
    """Those of COMPARISONS that a study has."""
    return [pair for pair in COMPARISONS if set(pair) <= set(study.agents)]


def horizon_table(path: Path) -> str:
    """Mean regret at the horizon with its band, every cell and agent, as Markdown."""
    study = Study(path)
    names = [style_of(agent, study.agents)[2] for agent in study.agents]
    lines = [f"| contexts | K | family | {' | '.join(names)} |", f"|---:|---:|---|{'---:|' * len(names)}"]
    for contexts in study.contexts:
        for arms in study.arms:
            for family in study.families:
                cells = []
                for agent in study.agents:
                    end = study.curve(family=family, contexts=contexts, arms=arms, agent=agent)[-1:]
                    cells += [
                        f"{row['regret']:,.0f} ({row['regret_low']:,.0f} to {row['regret_high']:,.0f})" for row in end
                    ]
                    cells += [] if end else ["-"]
                lines.append(f"| {contexts} | {arms} | {family} | {' | '.join(cells)} |")
    return "\n".join(lines)


def selected_table(path: Path) -> str:
    """The settings that tuning selected, every cell and agent, as Markdown."""
    study = Study(path)
    agents = [agent for agent in study.agents if any(row["n"] for row in select(study.tuning, agent=agent))]
    names = [style_of(agent, study.agents)[2] for agent in agents]
    lines = [f"| contexts | K | family | {' | '.join(names)} |", f"|---:|---:|---|{'---|' * len(names)}"]
    for contexts in study.contexts:
        for arms in study.arms:
            for family in study.families:
                cells = []
                for agent in agents:
                    cell = {"family": family, "contexts": contexts, "arms": arms, "agent": agent, "selected": 1}
                    chosen = select(study.tuning, **cell)
                    values = json.loads(chosen[0]["settings"]).items() if chosen else []
                    cells.append(", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values) or "-")
                lines.append(f"| {contexts} | {arms} | {family} | {' | '.join(cells)} |")
    return "\n".join(lines)


class PairedDifference(NamedTuple):
    """First minus second in one cell, paired by seed."""

    contexts: int
    arms: int
    family: str
    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> int:
        """-1: the first has less regret; 1: the second; 0: the interval holds zero."""
        return -1 if self.high < 0 else 1 if self.low > 0 else 0


def paired_differences(study: Study, first: str, second: str, resamples: int = 4000) -> list[PairedDifference]:
    """Mean difference of final regret in every cell that has both, with its 95 % bootstrap interval over seeds."""
    rng = np.random.default_rng(0)
    found = []
    for contexts in study.contexts:
        for arms in study.arms:
            for family in study.families:
                cell = {"family": family, "contexts": contexts, "arms": arms}
                ours, theirs = (study.final(**cell, agent=agent) for agent in (first, second))
                seeds = sorted(set(ours) & set(theirs))
                if seeds:
                    gap = np.array([ours[seed] - theirs[seed] for seed in seeds])
                    means = gap[rng.integers(gap.size, size=(resamples, gap.size))].mean(axis=1)
                    low, high = np.quantile(means, [0.025, 0.975])
                    found.append(
                        PairedDifference(
                            contexts=contexts,
                            arms=arms,
                            family=family,
                            mean=float(gap.mean()),
                            low=float(low),
                            high=float(high),
                        )
                    )
    return found


def versus_table(path: Path, first: str, second: str) -> str:
    """First against second in every cell, and how often each is ahead, as Markdown."""
    study = Study(path)
    one, two = (style_of(agent, study.agents)[2] for agent in (first, second))
    lines = [f"| contexts | K | family | {one} - {two} | 95 % interval | less regret |", "|---:|---:|---|---:|---|---|"]
    found = paired_differences(study, first, second)
    for difference in found:
        name = {-1: one, 1: two, 0: "undecided"}[difference.verdict]
        interval = f"{difference.low:,.0f} to {difference.high:,.0f}"
        cell = f"| {difference.contexts} | {difference.arms} | {difference.family} |"
        lines.append(f"{cell} {difference.mean:,.0f} | {interval} | {name} |")
    words = " ".join(part for part in (_count(found, one, two), study.missing) if part)
    return f"{words}\n\n" + "\n".join(lines)


def tally_table(path: Path, first: str, second: str) -> str:
    """How often each agent is ahead, by number of contexts, and the ratios of mean regrets."""
    study = Study(path)
    one, two = (style_of(agent, study.agents)[2] for agent in (first, second))
    lines = [f"| contexts | cells | less: {one} | undecided | less: {two} | {one} / {two}: least, middle, most |"]
    lines.append("|---:|---:|---:|---:|---:|---|")
    found = paired_differences(study, first, second)
    for contexts in study.contexts:
        here = [difference for difference in found if difference.contexts == contexts]
        ratios = _ratios(study, first, second, contexts)
        if here and ratios:
            wins = [sum(difference.verdict == verdict for difference in here) for verdict in (-1, 0, 1)]
            span = ", ".join(f"{number:.2f}" for number in (min(ratios), float(np.median(ratios)), max(ratios)))
            lines.append(f"| {contexts} | {len(here)} | {wins[0]} | {wins[1]} | {wins[2]} | {span} |")
    return "\n".join(lines)


def _count(found: list[PairedDifference], one: str, two: str) -> str:
    wins = {verdict: sum(difference.verdict == verdict for difference in found) for verdict in (-1, 1, 0)}
    return f"Of {len(found)} cells: less regret with {one} in {wins[-1]}, with {two} in {wins[1]}, undecided {wins[0]}."


def verdict_table(path: Path) -> str:
    """The paper's statements on the study, each beside this study's numbers, as Markdown."""
    study = Study(path)
    lines = ["| the paper says | this study shows |", "|---|---|"]
    sentences = (
        ("NPG-NIW obtains similar or lower regret than C-UCB", "npg", "cucb"),
        ("standard policy gradient consistently obtains higher regret than NPG", "npg", "spg"),
        ("(exact C-UCB beside sampled policies; not in the paper)", "cucb-exact", "cucb"),
    )
    for sentence, first, second in sentences:
        if first in study.agents and second in study.agents:
            names = [style_of(agent, study.agents)[2] for agent in (first, second)]
            lines.append(f"| {sentence} | {_count(paired_differences(study, first, second), *names)} |")
    if {"cucb", "cucb theory"} <= set(study.agents):
        ratios = _ratios(study, "cucb theory", "cucb")
        words = "no cell has both yet"
        if ratios:
            words = f"regret {min(ratios):,.0f} to {max(ratios):,.0f} times that of the tuned constants"
        lines.append(f"| with the theory's constants C-UCB breaks; tuned, it works | {words} |")
    shares = [row["price"] / row["optimal_rate"] for row in study.evaluation if row["agent"] == "npg"]
    if shares:
        low, middle, high = np.quantile(shares, [0.05, 0.5, 0.95])
        words = f"NPG's last price / optimal rate: median {middle:.2f}, 90 % of trials {low:.2f} to {high:.2f}"
        lines.append(f"| the greedy rate approximates the optimal one | {words} |")
    return "\n".join([*([study.missing, ""] if study.missing else []), *lines])


def _ratios(study: Study, first: str, second: str, only: int | None = None) -> list[float]:
    """Mean final regret of first over second, cell by cell; of all numbers of contexts, or one."""
    ratios = []
    for contexts in study.contexts if only is None else [only]:
        for arms in study.arms:
            for family in study.families:
                cell = {"family": family, "contexts": contexts, "arms": arms}
                ends = [study.curve(**cell, agent=agent)[-1:] for agent in (first, second)]
                if all(ends) and ends[1][0]["regret"] > 0:
                    ratios.append(ends[0][0]["regret"] / ends[1][0]["regret"])
    return ratios
