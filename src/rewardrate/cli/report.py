"""rewardrate report: the page of a run, or of both arms side by side."""

from __future__ import annotations

import argparse
import json
import webbrowser
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rewardrate.cli.parser import Command, Parser

DETAILS = """\
Reads a run folder (or a folder with one run for each arm) and writes report.html into it: budget curves of both arms at
the same T, the rate with its interval, seconds against reward of every script, valid share, the best script of each
arm. One file, no requests to anybody. Works while the run goes on.

examples:
  rewardrate report runs/demo
  rewardrate report runs/demo --open
  rewardrate report runs/demo --json
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("one page for a run, or for both arms", DETAILS, _arguments, _report)
    return _report(Parser("rewardrate report", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, help="run folder, or folder of runs")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.flag_json()


def _report(args: argparse.Namespace) -> int:
    from rewardrate.reports import page
    from rewardrate.reports.run import comparison, find, summary

    runs = find(args.run)
    path = page.write(args.run)
    both = comparison(runs)
    if args.json:
        found: dict[str, object] = {"page": str(path), "runs": {run.folder.name: summary(run.folder) for run in runs}}
        if both is not None:
            names = ("rpg", "vanilla", "difference", "improvement")
            found["comparison"] = {"T": both.final} | {name: asdict(getattr(both, name)) for name in names}
        print(json.dumps(found))
        return 0
    if both is not None:
        print(f"mean reward across chains at T = {both.final:.0f} s of script time per chain:")
        for name, value in (("rpg", both.rpg), ("vanilla", both.vanilla), ("difference", both.difference)):
            print(f"  {name:<11}{value.value:.3f}  ({value.low:.3f} to {value.high:.3f})")
    print(path)
    if args.open:
        webbrowser.open(path.resolve().as_uri())
    return 0
