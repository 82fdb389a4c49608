"""rewardrate sandbox: run a script in a box, or attack the box."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardrate.cli.parser import Command, Parser, run_verb
from rewardrate.cli.terminal import Progress, harmless, table
from rewardrate.errors import InputError

RUN_DETAILS = """\
The script sees an empty working directory, its own two cores, the Python it runs with and nothing else: no network, no
home, no environment, no other process. What it prints is printed; the last line on standard error says how it ended.
The exit code is 0 if the script's is.

examples:
  rewardrate sandbox run script.py
  rewardrate sandbox run script.py --seconds 60 --data train=data/train.csv --collect submission.csv
  rewardrate sandbox run script.py --clock warm --hide .venv/lib/python3.11/site-packages/sklearn/datasets/data
  rewardrate sandbox run script.py --set memory_bytes=2000000000 --set cores=1 --json
"""

CHECK_DETAILS = """\
Runs the attack suite (more than a hundred scripts that steal, kill, reach, change, stay, eat, forge and pass messages,
and a few honest ones) against the strongest isolation this machine allows, or the level named. The exit code is 1 if
anything gets through that the level is not known to let through, or if an entry of that list is stale. A script that
was late and nothing else is tried once more. About a minute.

examples:
  rewardrate sandbox check
  rewardrate sandbox check --level namespaces --json
  rewardrate sandbox check --clock warm
"""

CALIBRATE_DETAILS = """\
Runs a fixed piece of work (interpreter, matrix product, sort; about a second) in the box on one core and scores the
machine by the best run: score 2 means that a script takes about half the seconds of the reference machine. Store it
beside seconds that are to be compared with those of another machine; nothing is rescaled by it silently.

examples:
  rewardrate sandbox calibrate
  rewardrate sandbox calibrate --runs 10 --json
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    return run_verb("sandbox", "run untrusted scripts under limits and time them", commands(), arguments)


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "run": Command("run one untrusted script under limits", RUN_DETAILS, _run_arguments, _run),
        "check": Command("attack this machine's isolation", CHECK_DETAILS, _check_arguments, _check),
        "calibrate": Command("score this machine's speed", CALIBRATE_DETAILS, _calibrate_arguments, _calibrate),
    }


def _run_arguments(parser: Parser) -> None:
    parser.add_argument("script", type=Path, help="Python file to run")
    parser.add_argument("--seconds", type=float, metavar="S", help="hard wall-clock limit (default 600)")
    parser.add_argument(
        "--data", action="append", default=[], metavar="NAME=PATH", help="read-only data, seen as data/NAME"
    )
    parser.add_argument(
        "--collect", action="append", default=[], metavar="FILE", help="bring this file back, next to here"
    )
    parser.add_argument(
        "--hide", action="append", default=[], metavar="PATH", help="what must not be read, inside what is shown"
    )
    parser.add_argument("--level", metavar="NAME", help="isolation level (default: the strongest that works)")
    parser.add_argument("--clock", metavar="NAME", default="wall", help="wall (default), cpu, or warm: without imports")
    parser.flag_set("memory_bytes=2000000000")
    parser.flag_json()


def _run(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.sandbox import Limits, run

    overrides = [*args.overrides, *([] if args.seconds is None else [f"seconds={args.seconds}"])]
    limits = configs.load(Limits, None, overrides)
    try:
        script = args.script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("script", str(args.script), f"it cannot be read as text ({error})") from None
    data = {}
    for word in args.data:
        name, separator, path = word.partition("=")
        if not separator:
            raise InputError("--data", word, "it must read NAME=PATH")
        data[name] = Path(path)
    minimum = {} if args.level is None else {"minimum": args.level}
    asked = {"collect": args.collect, "hide": args.hide, "clock": args.clock}
    result = run(script, limits, data=data, level=args.level, **asked, **minimum)
    for name, content in result.files.items():
        Path(Path(name).name).write_bytes(content)
    if args.json:
        shown = {key: value for key, value in dataclasses.asdict(result).items() if key != "files"}
        print(json.dumps(shown | {"files": sorted(result.files)} | _derived(result)))
    else:
        for stream, text in ((sys.stdout, result.stdout), (sys.stderr, result.stderr)):
            stream.write(harmless(text) if stream.isatty() else text)  # a file gets what the script wrote
        print(harmless(_last_line(result)), file=sys.stderr)
    return 0 if result.status == "ok" else 1


def _derived(result: Any) -> dict[str, Any]:
    return {"contaminated": result.contaminated, "priced_seconds": result.priced_seconds}


def _last_line(result: Any) -> str:
    without = " without imports" if result.clock == "warm" else ""
    memory = f"{result.peak_memory_bytes / 2**20:.0f} MiB"
    used = f"{result.seconds:.2f} s{without}, {result.cpu_seconds:.2f} s of CPU, {memory}"
    why = f" ({result.message})" if result.message else ""
    disturbed = ""
    if result.contaminated:
        disturbed = f"; contaminated: others used its cores for {result.foreign_share:.0%} of the time"
    return f"{result.status}{why}: {used}, isolated by {result.level}{disturbed}"


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("--level", metavar="NAME", help="isolation level (default: the strongest that works)")
    parser.add_argument("--clock", metavar="NAME", default="wall", help="wall (default), cpu or warm")
    parser.flag_json()


def _check(args: argparse.Namespace) -> int:
    from rewardrate.sandbox.attacks import ATTACKS, KNOWN
    from rewardrate.sandbox.job import check_clock
    from rewardrate.sandbox.runner import choose
    from rewardrate.sandbox.stage import Stage

    chosen = choose(args.level, "limits")
    level, known = chosen.name, KNOWN.get(chosen.name)
    if known is None or (chosen.can.runs_as_supervisor and os.geteuid() == 0):
        rule = "this level does not stop a hostile script, so the attacks would be real"
        raise InputError("level", level, rule, "run it as an ordinary user, or at a stronger level")
    judged = []
    check_clock(args.clock)
    with Stage(clock=args.clock) as stage, Progress("attacks", len(ATTACKS)) as bar:
        for attack in ATTACKS:
            judged.append(stage.judge(attack, level))
            bar(len(judged))
    broken = {judgement.attack.name: judgement.why for judgement in judged if not judgement.held}
    surprises = {name: why for name, why in broken.items() if name not in known}
    stale = sorted(known - set(broken))
    if args.json:
        summary = {
            "level": level,
            "tried": len(judged),
            "broken": broken,
            "known": sorted(known),
            "stale": stale,
        }
        print(json.dumps(summary))
        return 1 if surprises or stale else 0
    rows = [[name, "known" if name in known else "BROKEN", why] for name, why in broken.items()] + [
        [name, "STALE", "the list says it gets through; it did not"] for name in stale
    ]
    if rows:
        print(table(["attack", "", "what happened"], rows))
    print(f"{level}: {len(judged) - len(broken)} of {len(judged)} held, {len(surprises)} surprises.")
    return 1 if surprises or stale else 0


def _calibrate_arguments(parser: Parser) -> None:
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how many times (default 5); the best counts")
    parser.add_argument("--level", metavar="NAME", help="isolation level (default: the strongest that works)")
    parser.flag_json()


def _calibrate(args: argparse.Namespace) -> int:
    from rewardrate.sandbox.calibration import calibrate

    found = calibrate(args.runs, level=args.level)
    if args.json:
        print(json.dumps(dataclasses.asdict(found)))
        return 0
    print(f"score {found.score:.3f}: {found.seconds:.3f} s, best of {found.runs} at {found.level}")
    if found.contaminated or found.spread > 0.15:
        busy = f"{found.contaminated} of {found.runs} runs were disturbed and they differ by {found.spread:.0%}"
        print(f"{busy}: repeat it when the machine is quiet", file=sys.stderr)
    return 0
