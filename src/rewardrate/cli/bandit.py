"""rewardrate bandit: the laboratory: one experiment, or the paper's whole study."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardrate.cli.parser import Command, Parser, load_recipe, overrides_of, run_verb
from rewardrate.cli.terminal import Progress, duration, table
from rewardrate.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from rewardrate.bandits.experiment import AgentResult, ExperimentConfig

DEMO_DETAILS = """\
Four agents on one world of the paper (10 arms and SKIP, 4 contexts, 30,000 steps, 40 trials each): natural and standard
policy gradient priced by NIW, and C-UCB with tuned and with theoretical constants. Prints a table, draws a figure.

examples:
  rewardrate bandit demo
  rewardrate bandit demo --set family=E4 --set arms=30
"""

RUN_DETAILS = """\
An agent in words is its name and its settings: npg, spg (learning_rate, age, estimator), cucb (c1, c2, policies; or the
word theory), or module:Class for one of your own. All agents see the same seeds: the same contexts, the same noise.

examples:
  rewardrate bandit run 'npg learning_rate=0.3 age=1000' 'cucb c1=0.1 c2=0.01' --seeds 100
  rewardrate bandit run 'npg learning_rate=1 age=500' 'npg learning_rate=1 age=500 estimator=totals as=totals'
  rewardrate bandit run 'cucb c1=0.1 c2=0.01 policies=2048' --set arms=70 --set contexts=8 --seeds 10
"""

STUDY_DETAILS = """\
Tunes every agent of the recipe on the tuning seeds (lowest median final regret), then runs the selected settings on
held-out seeds. Results go into one file, OUT/study.sqlite, cell by cell: kill it at any moment and give the same
command again, it resumes where it stopped and ends with the same table (a GPU rounds differently from a CPU, so stay
with one of them).

recipes: bandit-small (|X| = 4), bandit-large (|X| = 8 to 64; a GPU, or patience), bandit-exact (what sampling costs
C-UCB, |X| = 8 and 16), bandit-quick (a taste, a minute or two), or your own TOML file; --dry-run prints one with every
setting explained.

examples:
  rewardrate bandit study bandit-quick
  rewardrate bandit study bandit-small --out runs/small --engine cuda
  rewardrate bandit study bandit-small --set 'families=["E4"]' --out runs/e4
"""

FIGURES_DETAILS = """\
RESULTS is the file of a study, or its folder. Writes SVG and PNG: regret at the horizon against K, regret curves,
pseudo-regret, the price against the optimal rate, and the tuning grids; and tables.md: who is ahead in which cell,
regret of every cell, selected settings.

examples:
  rewardrate bandit figures runs/small
  rewardrate bandit figures runs/small/study.sqlite --out figures
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # an agent in the current folder is found, in child processes too
    return run_verb("bandit", "bandits whose actions take time", commands(), arguments)


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "demo": Command("four agents on one world, a table and a figure, in seconds", DEMO_DETAILS, _demo_flags, _demo),
        "run": Command("agents of your choice on one world", RUN_DETAILS, _run_flags, _run),
        "study": Command("tune and evaluate: the paper's study, resumable", STUDY_DETAILS, _study_flags, _study),
        "figures": Command("draw a study", FIGURES_DETAILS, _figures_flags, _figures),
    }


def _demo_flags(parser: Parser) -> None:
    _shared(parser, Path("runs/bandit-demo"), "family=E4")


def _run_flags(parser: Parser) -> None:
    parser.add_argument("agents", nargs="+", help="agents in words, each in quotes")
    _shared(parser, Path("runs/bandit-run"), "arms=30")
    parser.add_argument(
        "--engine", choices=("auto", "cpu", "cuda"), default="auto", help="what runs it (default: the CPU)"
    )


def _shared(parser: Parser, out: Path, example: str) -> None:
    parser.add_argument("--seeds", type=int, metavar="N", help="trials of each agent (default 40)")
    parser.add_argument("--seed", type=int, metavar="N", help="first seed (default 0)")
    parser.add_argument("--out", type=Path, default=out, metavar="DIR", help=f"folder to write into (default {out})")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one per core)")
    parser.flag_set(example)
    parser.flag_dry_run()
    parser.flag_json()


def _demo(args: argparse.Namespace) -> int:
    args.agents, args.engine = None, "auto"
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.bandits.experiment import ExperimentConfig, experiment

    agents = None if args.agents is None else json.dumps(args.agents)
    flags = overrides_of(args, agents=agents, seeds=args.seeds, first_seed=args.seed)
    config = configs.load(ExperimentConfig, None, flags)
    if args.dry_run:
        return _show_config(config, args.json)
    _writable(args.out)
    start = time.monotonic()
    with Progress("trials", config.seeds * len(config.agents)) as bar:
        results = experiment(config, engine=args.engine, workers=_workers(args), progress=bar)
    seconds = time.monotonic() - start
    figures = _draw(config, results, args.out / "experiment")
    result = {
        "config": dataclasses.asdict(config),
        "optimal_rate": config.world.optimal_rate,
        "wall_seconds": round(seconds, 2),
        "agents": [result.summary() for result in results],
        "figures": [str(path) for path in figures],
    }
    _write(args.out, "experiment.json", json.dumps(result, indent=1) + "\n")
    if args.json:
        print(json.dumps(result))
        return 0
    trials = config.seeds * len(config.agents)
    print(f"{_name(config)}: {trials:,} trials of {config.steps:,} steps in {duration(seconds)}\n")
    print(_table(results, config.world.optimal_rate))
    for path in figures:
        print(f"figure: {path}")
    print(f"again: {_again(args)}")
    return 0


def _name(config: ExperimentConfig) -> str:
    return f"world {config.family}, {config.arms} arms and SKIP, {config.contexts} contexts"


def _table(results: list[AgentResult], optimal_rate: float) -> str:
    rows = []
    for result in results:
        s = result.summary()
        band = f"{s['regret_low']:,.0f} to {s['regret_high']:,.0f}"
        share = f"{s['price'] / optimal_rate:.2f}"
        rows.append([s["agent"], f"{s['regret']:,.0f}", band, f"{s['regret_median']:,.0f}", share])
    return table(["agent", "mean regret", "95 % interval", "median", "price / optimal rate"], rows, right=(1, 2, 3, 4))


def _draw(config: ExperimentConfig, results: list[AgentResult], stem: Path) -> list[Path]:
    try:
        from rewardrate.reports.bandits import AgentCurve, draw_experiment

        curves = [
            AgentCurve(
                label=result.label,
                steps=result.traces.steps.tolist(),
                mean=result.regret.mean.tolist(),
                low=result.regret.low.tolist(),
                high=result.regret.high.tolist(),
                price=result.price.tolist(),
            )
            for result in results
        ]
        title = f"{config.family}: {config.arms} arms, {config.contexts} contexts, {config.seeds} trials"
        return draw_experiment(curves, config.world.optimal_rate, title, stem)
    except (MissingExtra, OSError) as error:
        print(f"no figure: {error}", file=sys.stderr)
        return []


def _again(args: argparse.Namespace) -> str:
    words = ["rewardrate", "bandit", *(["demo"] if args.agents is None else ["run", *args.agents])]
    engine = None if args.engine == "auto" else args.engine
    flags = {"--seeds": args.seeds, "--seed": args.seed, "--engine": engine}
    for flag, value in flags.items():
        words += [flag, str(value)] if value is not None else []
    words += [word for override in args.overrides for word in ("--set", override)]
    return shlex.join([*words, "--out", str(args.out)])


def _study_flags(parser: Parser) -> None:
    parser.add_argument("recipe", help="name of a recipe, or a TOML file")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the results (default runs/RECIPE)")
    engines = ("auto", "cpu", "cuda", "ray")
    parser.add_argument("--engine", choices=engines, default="auto", help="what runs it (default: the CPU)")
    parser.add_argument("--workers", type=int, metavar="N", help="threads on the CPU (default: one per core)")
    parser.add_argument("--seed", type=int, metavar="N", help="first evaluation seed; their number stays")
    parser.flag_set("steps=5000")
    parser.flag_dry_run()
    parser.flag_json()


def _study(args: argparse.Namespace) -> int:
    from rewardrate.bandits.studies import StudyConfig, study

    config = load_recipe(StudyConfig, args.recipe, args.overrides)
    if args.seed is not None:
        count = config.evaluation_seeds[1] - config.evaluation_seeds[0]
        config = dataclasses.replace(config, evaluation_seeds=(args.seed, args.seed + count))
    if args.dry_run:
        return _show_config(config, args.json)
    out = args.out or Path("runs") / Path(args.recipe).stem
    _writable(out)
    start = time.monotonic()
    with Progress("trials", config.trials()) as bar:
        path = study(config, out / "study.sqlite", engine=args.engine, workers=_workers(args), progress=bar)
    seconds = time.monotonic() - start
    if args.json:
        print(json.dumps({"results": str(path), "trials": config.trials(), "wall_seconds": round(seconds, 2)}))
        return 0
    from rewardrate.reports.bandit_tables import horizon_table

    print(horizon_table(path))
    print(f"\n{config.trials():,} trials of {config.steps:,} steps, {duration(seconds)} this time: {path}")
    print(f"next: {shlex.join(['rewardrate', 'bandit', 'figures', str(out)])}")
    return 0


def _figures_flags(parser: Parser) -> None:
    parser.add_argument("results", type=Path, help="study.sqlite, or the folder that holds it")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of figures and tables (default: figures beside the file)"
    )
    parser.flag_json()


def _figures(args: argparse.Namespace) -> int:
    from rewardrate.reports.bandit_tables import tables
    from rewardrate.reports.bandits import Study, drawings

    path = args.results / "study.sqlite" if args.results.is_dir() else args.results
    folder = args.out or path.parent / "figures"
    study = Study(path)
    if study.missing:
        print(study.missing, file=sys.stderr)
    waiting, paths = drawings(study, folder), []
    with Progress("figures", len(waiting)) as bar:
        for done, draw in enumerate(waiting, start=1):
            paths += [str(figure) for figure in draw()]
            bar(done)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.md").write_text(tables(path), encoding="utf-8")
    paths.append(str(folder / "tables.md"))
    if args.json:
        print(json.dumps(paths))
    else:
        print("\n".join(paths))
        print(f"again: {shlex.join(['rewardrate', 'bandit', 'figures', str(args.results)])}")
    return 0


def _show_config(config: Any, as_json: bool) -> int:
    from rewardrate import config as configs

    print(json.dumps(dataclasses.asdict(config)) if as_json else configs.dumps(config, explain=True).rstrip())
    return 0


def _workers(args: argparse.Namespace) -> int:
    if args.workers is not None and args.workers < 1:
        raise InputError("--workers", args.workers, "it must be at least 1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return args.workers or cores


def _writable(folder: Path) -> None:
    """Before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".part"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise InputError("--out", str(folder), f"nothing can be written there ({error.strerror})") from None


def _write(folder: Path, name: str, text: str) -> None:
    partial = folder / f"{name}.part"
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, folder / name)
