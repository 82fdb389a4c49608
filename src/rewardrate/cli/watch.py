"""rewardrate watch: the page of a run while it is running."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from rewardrate.cli.parser import Command, Parser

DETAILS = """\
Serves the page of `rewardrate report` on this machine's loopback address and keeps it up to date: the browser asks how
far the run is and takes a new page when a step is done. It reads the run folder and writes nothing; other machines and
other sites get no answer. Runs at low priority, because a script's seconds are being measured. Ctrl-C ends it, and not
the run.

examples:
  rewardrate watch runs/demo --open
  rewardrate watch runs/demo/rpg --port 8123
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("the page of a run while it is running", DETAILS, _arguments, _watch)
    return _watch(Parser("rewardrate watch", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("run", type=Path, nargs="+", help="run folder, or folder of runs")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port on loopback (default: a free one)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.flag_json()


def _watch(args: argparse.Namespace) -> int:
    from rewardrate.reports.server import LivePage, Server

    with Server(LivePage(args.run), args.port) as server:
        if hasattr(os, "nice"):
            with contextlib.suppress(OSError):
                os.nice(15)
        print(json.dumps({"url": server.url}) if args.json else server.url, flush=True)
        print("watching; Ctrl-C ends the watching, not the run", file=sys.stderr)
        if args.open:
            webbrowser.open(server.url)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
