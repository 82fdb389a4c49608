"""rewardrate report: the page of a run, of both arms, or of several tasks."""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rewardrate.cli.parser import Command, Parser

if TYPE_CHECKING:
    from rewardrate.reports.files import Written
    from rewardrate.reports.run import Experiment

ARMS = ("rpg", "vanilla", "difference", "improvement")

DETAILS = """\
Reads run folders (a run, a folder with one run for each arm, or any folders above) and writes
  report.html    one file, no requests to anybody: budget curves of both arms at the same T, the rate, score against
                 seconds of every attempt, failures, the learner's health, and the tree of scripts with their changes
  figures/       the charts as SVG and PNG
  tables/        several tasks or repetitions: the paper's table as Markdown, LaTeX and CSV
into the folder itself, or into --out. Works while the run is going (rewardrate watch keeps the page up to date). The
folder of a theory check gives the page of that.

examples:
  rewardrate report runs/demo --open
  rewardrate report runs/digits-s0 runs/digits-s1 runs/diamonds-s0 --out runs/all
  rewardrate report runs/demo --json
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("one page for a run, for both arms, or for several tasks", DETAILS, _arguments, _report)
    return _report(Parser("rewardrate report", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, nargs="+", help="run folder, or folder of runs")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write into (default: the one that is named)")
    text = "what the table compares (default: score where it is known which way it points)"
    parser.add_argument("--metric", choices=("reward", "score"), help=text)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.flag_json()


def _report(args: argparse.Namespace) -> int:
    from rewardrate.reports.files import write

    written = write(args.run, args.out, args.metric)
    for problem in written.problems:
        print(f"left out: {problem}", file=sys.stderr)
    if args.json:
        print(json.dumps(_found(written)))
    else:
        _say(written)
    if args.open:
        webbrowser.open(written.page.resolve().as_uri())
    return 0


def _say(written: Written) -> None:
    """What came out, the paths last."""
    from rewardrate.reports import headline
    from rewardrate.reports.run import experiments
    from rewardrate.reports.tables import markdown

    found = experiments(written.runs)
    if len(found) == 1:
        print("\n".join(line for arm in found[0].contrasts for line in headline.one_task(found[0], arm)))
    elif written.table is not None:
        print("\n".join([*headline.many_tasks(found, written.table), "", markdown(written.table)]))
    if written.figures:
        print(f"{written.figures[0].parent} ({len(written.figures)} files)")
    if written.tables:
        print(f"{written.tables[0].parent} ({', '.join(path.name for path in written.tables)})")
    print(written.page)


def _found(written: Written) -> dict[str, object]:
    from rewardrate.reports.run import experiments, numbers

    found: dict[str, object] = {
        "page": str(written.page),
        "figures": [str(path) for path in written.figures],
        "tables": [str(path) for path in written.tables],
        "left_out": list(written.problems),
        "runs": {_name(run.folder, written): numbers(run) for run in written.runs},
    }
    known = experiments(written.runs)
    both = known[0].compare() if len(known) == 1 else None
    if both is not None:
        values = {name: asdict(getattr(both, name)) for name in ARMS}
        found["comparison"] = {"T": both.final, "T_stated": known[0].stated, "arm": known[0].first, **values}
        found["efficiency"] = {name: asdict(pair) for name, pair in known[0].efficiency().items()}
        found["contrasts"] = {arm: _contrast(known[0], arm) for arm in known[0].contrasts}
    if written.table is not None:
        found["table"] = {
            "tasks": {row.task: asdict(row.both.improvement) | {"verdict": row.verdict} for row in written.table.rows},
            "mean": asdict(written.table.mean),
            "trimmed": asdict(written.table.trimmed),
        }
    return found


def _contrast(experiment: Experiment, arm: str) -> dict[str, object]:
    """One arm and vanilla: reward at T by each way of reading a chain, and what the time brought."""
    from rewardrate.reports.result import CHOICES

    found = {value: experiment.compare(value=value, arm=arm) for value in CHOICES}
    at_end = {value: {name: asdict(getattr(both, name)) for name in ARMS} for value, both in found.items() if both}
    return {"at_T": at_end, "efficiency": {name: asdict(pair) for name, pair in experiment.efficiency(arm).items()}}


def _name(folder: Path, written: Written) -> str:
    """The folder's own name if no other run of this report has it, else its path."""
    alike = sum(run.folder.name == folder.name for run in written.runs)
    return folder.name if alike == 1 else str(folder)
