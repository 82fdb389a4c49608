"""rewardrate theory: check the paper's statements on random problems, or solve a problem of your own."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import io
import json
import os
import shlex
import sys
import time
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardrate.cli.parser import Command, Parser, load_recipe, overrides_of, run_verb
from rewardrate.cli.terminal import Progress, duration, table
from rewardrate.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from rewardrate.theory.check import CheckConfig, StatementResult

CHECK_DETAILS = """\
Draws bandits of twelve families (ties, equal times, one action, wild times, ...) and evaluates both sides of every
lemma, theorem, proposition and corollary, and the policy gradient of small semi-Markov processes. One row each:
  tried        problems on which the statement's conditions held
  violations   must be 0; otherwise the exit code is 1 and theory.json holds the problems to replay
  slack        smallest distance to a violation seen (relative; rounding may take it a little below 0)
  tight        the slack of a hand-made example: near 0, the bound is met and cannot be improved

Writes theory.json, config.toml and the figure into --out (default runs/theory-check).

examples:
  rewardrate theory check                        the published check: 2,000 problems
  rewardrate theory check --instances 200 --seed 7
  rewardrate theory check --set contexts=8 --set actions=3 --out runs/mine
"""

DEADLINE_DETAILS = """\
Draws random problems in which only the score at a deadline counts, solves each exactly by dynamic programming, and
judges prices of a second: the score that an agent loses which takes the action of the largest reward - price * seconds.
Four families: a choice for the whole budget (commit), a policy that moves step by step (inertia), a choice for each
attempt with the latest score (free) or the best (search) counting. Numbers are means over problems with a 95 %
bootstrap interval; docs/theory.md says what each price is.

Writes deadline.json and config.toml into --out (default runs/theory-deadline).

examples:
  rewardrate theory deadline                      250 problems of each family, about two minutes
  rewardrate theory deadline --problems 20 --seed 7 --json
"""

STREAMS_DETAILS = """\
Simulates chains that do not wait for each other, under a fixed policy that takes a slow attempt (3, 10 or 100 seconds)
half of the time and a quick one (1 second) otherwise. For each way of forming batches and of counting time: the share
of slow attempts in a batch (0.5 is right), and the estimated reward rate over the true one, in updates 1-3 and 31-60;
means over runs with a 95 % interval. And what a bound on age costs, for attempts of lognormal seconds: speed over a
loop that waits, busy slots, ages. docs/theory.md, "Chains that do not wait", says why.

Writes bias.csv, cost.csv and config.toml into --out (default runs/theory-streams).

examples:
  rewardrate theory streams                       200 runs of each setting, about ten minutes
  rewardrate theory streams --runs 10 --set chains=[16] --set cost_runs=1
"""

SOLVE_DETAILS = """\
FILE is TOML: mean reward and mean seconds per context (row) and action (column), and the contexts' probabilities.

  reward  = [[1.0, 0.8], [0.3, 0.9]]
  seconds = [[3.0, 1.0], [1.0, 2.0]]
  p       = [0.5, 0.5]                # optional: uniform

examples:
  rewardrate theory solve problem.toml
  rewardrate theory solve problem.toml --set 'p=[0.9, 0.1]' --json
"""


@dataclass(frozen=True)
class Problem:
    """A bandit whose actions take time."""

    reward: tuple[tuple[float, ...], ...]
    "Mean reward, contexts x actions."
    seconds: tuple[tuple[float, ...], ...]
    "Mean seconds, contexts x actions."
    p: tuple[float, ...] | None = None
    "Probability of each context."


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    return run_verb("theory", "the exact mathematics, tested numerically", commands(), arguments)


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "check": Command(
            "try every statement of the paper on random problems", CHECK_DETAILS, _check_arguments, _check
        ),
        "deadline": Command(
            "judge prices of a second before a deadline against the exact optimum",
            DEADLINE_DETAILS,
            _deadline_arguments,
            _deadline,
        ),
        "streams": Command(
            "errors and costs of learning from chains that do not wait", STREAMS_DETAILS, _streams_arguments, _streams
        ),
        "solve": Command(
            "optimal rate, policy and constants of your own problem", SOLVE_DETAILS, _solve_arguments, _solve
        ),
    }


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("recipe", nargs="?", help="name or TOML file of a recipe (default: the published settings)")
    parser.add_argument("--instances", type=int, metavar="N", help="problems to draw (default 2000)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the draws (default 0)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/theory-check"),
        metavar="DIR",
        help="folder for theory.json and the figure",
    )
    parser.add_argument("--open", action="store_true", help="open the figure when it is ready (if there is a screen)")
    parser.flag_set("contexts=8")
    parser.flag_dry_run()
    parser.flag_json()


def _check(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.theory.check import CheckConfig, check_theory

    overrides = overrides_of(args, instances=args.instances, seed=args.seed)
    named = args.recipe is not None
    config = load_recipe(CheckConfig, args.recipe, overrides) if named else configs.load(CheckConfig, None, overrides)
    if args.dry_run:
        print(json.dumps(dataclasses.asdict(config)) if args.json else configs.dumps(config, explain=True).rstrip())
        return 0
    _write(args.out, "config.toml", configs.dumps(config))
    start = time.monotonic()
    with Progress("problems", config.instances) as bar:
        results = check_theory(config, bar)
    seconds = time.monotonic() - start
    figures = _draw_figure(args.out / "theory")
    result = _report(config, results, seconds, figures)
    _write(args.out, "theory.json", json.dumps(result, indent=1) + "\n")
    violations = sum(result.violations for result in results)
    if args.json:
        print(json.dumps(result))
    else:
        print(_results_table(results))
        print(f"\n{config.instances:,} problems in {duration(seconds)}: {violations} violations.")
        for figure in figures:
            print(f"figure: {figure}")
        print(f"again: {_command(args, config)}")
    if args.open and figures:
        _open(figures[-1])
    return 1 if violations else 0


def _command(args: argparse.Namespace, config: CheckConfig) -> str:
    words = ["rewardrate", "theory", "check", *([args.recipe] if args.recipe else [])]
    words += ["--instances", str(config.instances), "--seed", str(config.seed)]
    words += [word for override in args.overrides for word in ("--set", override)]
    return shlex.join([*words, "--out", str(args.out)])


def _report(config: CheckConfig, results: list[StatementResult], seconds: float, figures: list[Path]) -> dict[str, Any]:
    return {
        "instances": config.instances,
        "seed": config.seed,
        "wall_seconds": round(seconds, 2),
        "violations": sum(result.violations for result in results),
        "statements": [result.to_json() for result in results],
        "figures": [str(figure) for figure in figures],
    }


def _results_table(results: list[StatementResult]) -> str:
    rows = [
        [
            result.statement.name,
            result.statement.claim,
            f"{result.tried:,}",
            f"{result.violations}",
            "-" if not result.tried else f"{result.smallest_slack:.1e}",
            "-" if result.tight is None else f"{result.tight:.1e}",
        ]
        for result in results
    ]
    return table(["statement", "claim", "tried", "violations", "slack", "tight"], rows, right=(2, 3, 4, 5))


def _draw_figure(stem: Path) -> list[Path]:
    try:
        from rewardrate.reports.theory import draw

        return draw(stem)
    except (MissingExtra, OSError) as error:
        print(f"no figure: {error}", file=sys.stderr)
        return []


def _open(path: Path) -> None:
    screen = (
        sys.platform == "darwin"
        or os.name == "nt"
        or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    )
    if not (screen and webbrowser.open(path.resolve().as_uri())):
        print(f"no screen here: look at {path}", file=sys.stderr)


def _write(folder: Path, name: str, text: str) -> None:
    """Write a file whole or not at all; a folder that cannot be written to is a mistake in --out."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{name}.part"
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, folder / name)
    except OSError as error:
        raise InputError("--out", str(folder), f"{name} cannot be written there ({error.strerror})") from None


def _deadline_arguments(parser: Parser) -> None:
    parser.add_argument("--problems", type=int, metavar="N", help="problems of each family (default 250)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the problems (default 2026)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/theory-deadline"), metavar="DIR", help="folder for deadline.json"
    )
    parser.flag_set("plays=8")
    parser.flag_dry_run()
    parser.flag_json()


def _deadline(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.theory.deadline_lab import RULES, DeadlineConfig, judge
    from rewardrate.theory.deadline_problems import FAMILIES

    config = configs.load(DeadlineConfig, None, overrides_of(args, problems=args.problems, seed=args.seed))
    if args.dry_run:
        print(json.dumps(dataclasses.asdict(config)) if args.json else configs.dumps(config, explain=True).rstrip())
        return 0
    _write(args.out, "config.toml", configs.dumps(config))
    with Progress("problems", config.problems * len(FAMILIES)) as bar:
        families = judge(config, bar)
    result = dataclasses.asdict(config) | {"families": [one.to_json() for one in families]}
    _write(args.out, "deadline.json", json.dumps(result, indent=1) + "\n")
    if args.json:
        print(json.dumps(result))
        return 0
    cells = [
        [f"{one.loss[name].mean:.4f} ({one.loss[name].low:.4f}, {one.loss[name].high:.4f})" if name in one.loss else "-"
         for one in families]
        for name in RULES
    ]  # fmt: skip
    rows = [[name, *row] for name, row in zip(RULES, cells, strict=True)]
    print("score lost against the optimum, mean over problems (95 % interval)")
    print(table(["price", *(f"{one.family}, optimum {one.optimum:.3f}" for one in families)], rows))
    print(f"\n{config.problems:,} problems of each family, seed {config.seed}: {args.out / 'deadline.json'}")
    words = ["--problems", str(config.problems), "--seed", str(config.seed)]
    words += [word for override in args.overrides for word in ("--set", override)]
    print(f"again: {shlex.join(['rewardrate', 'theory', 'deadline', *words, '--out', str(args.out)])}")
    return 0


def _streams_arguments(parser: Parser) -> None:
    parser.add_argument("--runs", type=int, metavar="N", help="simulated runs of each setting (default 200)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the runs (default 2026)")
    parser.add_argument(
        "--out", type=Path, default=Path("runs/theory-streams"), metavar="DIR", help="folder for bias.csv and cost.csv"
    )
    parser.flag_set("'chains=[16, 64]'")
    parser.flag_dry_run()
    parser.flag_json()


def _streams(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.theory.stream_lab import AGES, SLOW, SPREADS, StreamConfig, judge_costs, judge_streams

    config = configs.load(StreamConfig, None, overrides_of(args, runs=args.runs, seed=args.seed))
    if args.dry_run:
        print(json.dumps(dataclasses.asdict(config)) if args.json else configs.dumps(config, explain=True).rstrip())
        return 0
    _write(args.out, "config.toml", configs.dumps(config))
    with Progress("runs", config.runs * len(config.chains) * len(SLOW)) as bar:
        bias = judge_streams(config, bar)
    with Progress("runs", config.cost_runs * len(config.chains) * len(SPREADS) * 2 * len(AGES)) as bar:
        cost = judge_costs(config, bar)
    tables = {"bias": [row.to_json() for row in bias], "cost": [row._asdict() for row in cost]}
    for name, rows in tables.items():
        _write(args.out, f"{name}.csv", _csv(rows))
    if args.json:
        print(json.dumps(dataclasses.asdict(config) | tables))
        return 0
    head = ["slow", "chains", "way", "share, 1-3", "share, 31-60", "rate / true, 1-3", "rate / true, 31-60"]
    cells = [[f"{value:.3f} ({low:.3f}, {high:.3f})" for value, low, high in row[3:]] for row in bias]
    lines = [[f"{row.slow:g}", str(row.chains), row.way, *cell] for row, cell in zip(bias, cells, strict=True)]
    print("share of slow attempts in a batch, and estimated over true rate: mean over runs (95 % interval)")
    print(table(head, lines))
    print("\nwhat a bound on age costs")
    print(table(list(cost[0]._fields), [[_rounded(value) for value in row] for row in cost]))
    print(f"\n{config.runs:,} runs of each setting, seed {config.seed}: {args.out / 'bias.csv'}")
    words = ["--runs", str(config.runs), "--seed", str(config.seed)]
    words += [word for override in args.overrides for word in ("--set", override)]
    print(f"again: {shlex.join(['rewardrate', 'theory', 'streams', *words, '--out', str(args.out)])}")
    return 0


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _rounded(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _rounded(value: Any) -> str:
    return "any" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


MEANINGS = {
    "optimal_rate": "rho*: the best reward per second of any policy",
    "policy": "which action to take in each context, counted from 0",
    "margin": "lead of that action over the next best, smallest over contexts",
    "dinkelbach": "rates on the way to rho* when each is priced at the last (theorem 1)",
    "rho_max": "the largest rate that an action can have",
    "chi": "how much closer each of those steps comes: 1 - shortest / longest seconds",
    "R": "the largest mean reward",
    "delta_spr": "largest difference of mean seconds within one context",
    "Delta_star": "the margin at the optimal rate",
    "epsilon_bar": "an error of the rate below this still gives the best policy",
    "k0": "the step from which theorem 2 promises the best policy",
}


def _solve_arguments(parser: Parser) -> None:
    parser.add_argument("file", type=Path, help="TOML file with reward, seconds and p")
    parser.flag_set("'p=[0.9, 0.1]'")
    parser.flag_json()


def _solve(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.theory import dinkelbach, greedy_policy, margin, optimal_rate

    problem = configs.load(Problem, args.file, args.overrides)
    tables = (problem.reward, problem.seconds, problem.p)
    rate = optimal_rate(*tables)
    result: dict[str, Any] = {
        "optimal_rate": rate,
        "policy": greedy_policy(problem.reward, problem.seconds, rate).tolist(),
        "margin": margin(problem.reward, problem.seconds, rate),
    }
    if min(map(min, problem.reward)) >= 0:
        result["dinkelbach"] = list(dinkelbach(*tables))
        result |= _constants(problem)
    if args.json:
        print(json.dumps({key: None if value == float("inf") else value for key, value in result.items()}))
        return 0
    rows = [[key.replace("_", " "), _show(value), MEANINGS[key]] for key, value in result.items()]
    print(table(["quantity", "value", "meaning"], rows))
    return 0


def _constants(problem: Problem) -> dict[str, float]:
    from rewardrate.theory import bounds

    b = bounds(problem.reward, problem.seconds, problem.p)
    return {
        "rho_max": b.rho_max,
        "chi": b.chi,
        "R": b.R,
        "delta_spr": b.delta_spr,
        "Delta_star": b.Delta_star,
        "epsilon_bar": b.epsilon_bar,
        "k0": b.k0(),
    }


def _show(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_show, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)
