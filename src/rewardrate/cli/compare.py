"""rewardrate compare: arms over tasks and seeds by a plan that is stated first, in sittings."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardrate.cli.parser import Command, Parser, load_recipe
from rewardrate.cli.terminal import Live, duration, table

DETAILS = """\
Trains every arm of a plan on every task and seed, several runs side by side on cores of their own, and compares the
arms at the same budget of script seconds. A block is one task and seed: all arms, from one start. Before the first run
the plan is written into the folder and frozen. Stop it at any moment, or kill it: the same command resumes, and runs
that are complete are not repeated. Blocks that other machines made are merged by copying their folders (TASK-sSEED)
into --out. No difference between arms is shown before the plan is complete. docs/compare.md explains.

The page (report.html), tables/ and figures/ are written into --out: forest plot, pooled difference with its interval,
sign test, curves of every task, secondary quantities, deviations from the plan.

examples:
  rewardrate compare --dry-run > plan.toml                     a plan to begin with, every setting explained
  rewardrate compare plan.toml --dry-run                       the runs, how long they will take, the plan's SHA-256
  rewardrate compare plan.toml --jobs 2                        all of it
  rewardrate compare plan.toml diamonds:0 grants:1 --seconds 1400 --out runs/study    two blocks, within a time
  rewardrate compare plan.toml --only-report --out runs/study  the result of what is there
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("compare arms over tasks and seeds, by a plan stated first", DETAILS, _arguments, _compare)
    return _compare(Parser("rewardrate compare", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("plan", type=Path, nargs="?", help="the plan, a TOML file")
    parser.add_argument("blocks", nargs="*", metavar="TASK:SEED", help="blocks to run here (default: all of the plan)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the comparison (default runs/PLAN)")
    text = "runs side by side, sandbox.slots cores each (default: as many as the cores allow)"
    parser.add_argument("--jobs", type=int, metavar="N", help=text)
    text = "length of this sitting: no block begins that would not end in time, and what still runs is interrupted"
    parser.add_argument("--seconds", type=float, metavar="S", help=text)
    parser.add_argument("--only-report", action="store_true", help="train nothing, write the page of what is there")
    text = "show differences before the plan is complete; the page says so (trains nothing)"
    parser.add_argument("--peek", action="store_true", help=text)
    text = "continue with a plan that was changed after it was frozen; each change is listed as a deviation"
    parser.add_argument("--accept-changes", action="store_true", help=text)
    parser.flag_dry_run()
    parser.flag_json()


def _compare(args: argparse.Namespace) -> int:
    from rewardrate import config
    from rewardrate.errors import InputError
    from rewardrate.runlog.comparison import ComparisonFolder, ComparisonPlan
    from rewardrate.training.comparison import check, example, freeze, resolve

    for name, value in (("--jobs", args.jobs), ("--seconds", args.seconds)):
        if value is not None and not value > 0:
            raise InputError(name, value, "it must be above 0")
    if args.plan is None:
        if args.dry_run:
            print("# A plan to begin with. Then: rewardrate compare plan.toml --dry-run")
            print(config.dumps(example(), explain=True), end="")
            return 0
        raise InputError("plan", None, "name a plan file", "rewardrate compare --dry-run prints one to begin with")
    plan = load_recipe(ComparisonPlan, str(args.plan), [])
    recipe = resolve(plan)
    blocks = tuple(dict.fromkeys(plan.find(words) for words in args.blocks)) or plan.blocks
    if args.dry_run:
        _dry(args, plan, recipe, blocks)
        return 0
    folder = ComparisonFolder(args.out or Path("runs") / args.plan.stem)
    if (args.only_report or args.peek) and not folder.begun():
        raise InputError("--out", str(folder.path), "there is no run of a comparison in it", "name the folder of one")
    report = args.only_report or args.peek
    if not report:  # what cannot be run is said before the plan is frozen
        tasks = [block.task for block in blocks] if folder.frozen() else plan.tasks
        check(recipe, tasks, args.jobs, plan.start.name if plan.start.kind == "model" else None)
    freeze(folder, plan, accept_changes=args.accept_changes)
    failures = [] if report else _work(folder, recipe, blocks, args)
    _finish(folder.path, args)
    return 1 if failures else 0


def _dry(args: argparse.Namespace, plan: Any, recipe: Any, blocks: Sequence[Any]) -> None:
    """The resolved plan as TOML; the runs and what they take as comments."""
    from rewardrate import config
    from rewardrate.runlog.comparison import ComparisonFolder, digest
    from rewardrate.training.comparison import RunTimes, makespan, recipes, side_by_side

    width, slots = side_by_side(recipe, args.jobs, recipe.environment.cores)
    times = RunTimes(ComparisonFolder(args.out or Path("runs") / args.plan.stem), plan, slots)
    print(config.dumps(plan, explain=True))
    texts = map(config.dumps, (plan, *recipes(plan).values()))
    print(f"# SHA-256 of plan and resolved recipes: {digest(*texts)}")
    print(f"# T = {plan.script_seconds / recipe.batch:g} s of script time for each of {recipe.batch} chains")
    runs = [times.run(block, arm) for block in blocks for arm in plan.order(block)]
    whole = duration(makespan(runs, width))
    print(f"# {len(runs)} runs in {len(blocks)} blocks; {width} at once (slots of each: {slots}), about {whole}")
    for block in blocks:
        seconds = [times.run(block, arm) for arm in plan.order(block)]
        print(f"#   {block}: {', '.join(plan.order(block))}; about {duration(max(seconds))} a run")


def _work(folder: Any, recipe: Any, blocks: Sequence[Any], args: argparse.Namespace) -> list[str]:
    """Train what is missing, with a live table of it."""
    from rewardrate.training.sitting import Sitting

    with Live() as live:
        view = ProgressView(live)
        return Sitting(
            folder,
            recipe,
            blocks=blocks,
            jobs=args.jobs,
            seconds=args.seconds,
            on_progress=view.progress,
            say=live.say,
        ).work()


class ProgressView:
    """What the terminal shows while runs are under way; without a terminal a line a minute."""

    PAUSE_SECONDS = 60.0

    def __init__(self, live: Live) -> None:
        self.live, self.said = live, time.monotonic()

    def progress(self, found: Any) -> None:
        """How far it is."""
        head = f"{found.complete} of {found.total} blocks complete, {duration(max(0.0, found.seconds_left))} left"
        width = max((len(name) for name, _ in found.running), default=0)
        bars = [f"  {name:<{width}}  [{'#' * round(20 * share):<20}] {share:4.0%}" for name, share in found.running]
        if self.live.moves:
            self.live.show(*bars, head)
        elif time.monotonic() - self.said >= self.PAUSE_SECONDS:
            self.said = time.monotonic()
            self.live.say("; ".join([head, *(f"{name} {share:.0%}" for name, share in found.running)]))


def _finish(place: Path, args: argparse.Namespace) -> None:
    """Write page, tables and figures, and say what came out."""
    from rewardrate.reports.comparison_page import write
    from rewardrate.reports.comparison_tables import HEAD, pooled_rows, progress_rows

    written = write(place, peek=args.peek)
    found = written.survey
    paths = {"page": str(written.page), "figures": [*map(str, written.figures)], "tables": [*map(str, written.tables)]}
    if args.json:
        print(json.dumps(written.table | paths))
        return
    for deviation in found.deviations:
        print(f"deviation: {deviation}", file=sys.stderr)
    if written.result is None:
        head = ["block", *found.plan.arms, "state"]
        print(table(head, progress_rows(found), right=range(1, len(head) - 1)))
    else:
        print("\n\n".join("\n".join(one.headline) for one in written.result.contrasts), end="\n\n")
        print(table(HEAD, pooled_rows(written.result.contrasts), right=range(2, len(HEAD))))
        print(f"{written.figures[0].parent} ({len(written.figures)} files)")
        print(f"{written.tables[0].parent} ({len(written.tables)} files)")
    print(written.page)
    if not found.finished:
        print(f"{len(found.complete)} of {found.plan.needed} blocks are complete; the same command resumes")
