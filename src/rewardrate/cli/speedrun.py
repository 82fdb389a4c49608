"""rewardrate speedrun: the NanoGPT race: its token shards, one script judged by the referee, seeds re-timed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewardrate.cli.parser import Command, Parser, run_verb
from rewardrate.cli.terminal import Live, harmless, table
from rewardrate.errors import InputError

DATA_DETAILS = """\
Makes the token shards of a race from text that an installed package carries: nothing is downloaded. The referee's
hidden validation tokens are kept apart from what scripts see. Shards that are there already are left alone.

examples:
  rewardrate speedrun data
  rewardrate speedrun data nanogpt-mini --data ./shards
"""

RACE_DETAILS = """\
Runs a training script as the referee does: launched by torchrun in the sandbox, timed from launch to exit, its log read
by the rules, its loss computed again from the model it saved (docs/speedrun.md). Exit code 0 when it is valid.

examples:
  rewardrate speedrun race nanogpt-mini                      the race's own baseline
  rewardrate speedrun race nanogpt-mini train_gpt.py
  rewardrate speedrun race nanogpt-mini train_gpt.py --runs 5     is the mean below the target at p < 0.01?
  rewardrate speedrun race nanogpt-mini train_gpt.py --set cap_seconds=300
"""

RESCORE_DETAILS = """\
Runs every seed of a folder of records (NAME/train_gpt.py, or NAME/edits.txt against the race's script) on this machine
and writes the folder anew, with a table of losses and seconds: the buffer must start from times of the clock that
attempts are judged by.

examples:
  rewardrate speedrun rescore nanogpt-mini --out runs/seeds
  rewardrate speedrun rescore nanogpt-mini --records ./my-records --runs 3 --out runs/seeds
"""


def main(arguments: Sequence[str]) -> int:
    """Entry of the verb."""
    return run_verb("speedrun", "the NanoGPT race: shards, referee, seeds", commands(), arguments)


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "data": Command("make the token shards of races", DATA_DETAILS, _data_arguments, _data),
        "race": Command("run one training script and judge it", RACE_DETAILS, _race_arguments, _race),
        "rescore": Command("time the seeds on this machine", RESCORE_DETAILS, _rescore_arguments, _rescore),
    }


def _flag_data(parser: Parser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help="where shards are kept (default: your cache)")


def _flags_run(parser: Parser) -> None:
    parser.add_argument("--minimum", default="namespaces", metavar="LEVEL", help="the weakest isolation to accept")
    _flag_data(parser)
    parser.flag_set("cap_seconds=300")
    parser.flag_json()


def _data_arguments(parser: Parser) -> None:
    parser.add_argument("races", nargs="*", help="names or folders (default: all whose shards we can make)")
    parser.add_argument("--again", action="store_true", help="remake shards that are already there")
    _flag_data(parser)
    parser.flag_json()


def _data(args: argparse.Namespace) -> int:
    from rewardrate.environments.speedrun import data
    from rewardrate.environments.speedrun.race import load, shipped

    races = [load(name, data=args.data) for name in args.races or shipped()]
    done = {race.name: (race, data.make(race, again=args.again)) for race in races if race.text or args.races}
    if args.json:
        print(json.dumps({name: {"made": made, "public": str(race.public)} for name, (race, made) in done.items()}))
        return 0
    for name, (race, made) in done.items():
        print(f"{name}: {'made' if made else 'already there'}, {race.public}")
    return 0


def _race_arguments(parser: Parser) -> None:
    parser.add_argument("race", help="name or folder")
    parser.add_argument("script", type=Path, nargs="?", help="training script (default: the race's baseline)")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="repeat it so many times (default: 1)")
    _flags_run(parser)


def _race(args: argparse.Namespace) -> int:
    from rewardrate.environments.speedrun.significance import repeated
    from rewardrate.sandbox import Pool

    race = _load(args)
    code = race.baseline if args.script is None else _text(args.script)
    with Pool(slots=1, repeats=0) as pool:
        claimed = repeated(_referee(race, pool, args), code, args.runs)
    good = bool(claimed.verdicts) and claimed.valid == len(claimed.verdicts)
    if args.json:
        print(json.dumps(dataclasses.asdict(claimed)))
        return 0 if good else 1
    for verdict in claimed.verdicts:
        if verdict.output and not verdict.valid:
            sys.stderr.write(harmless(verdict.output.rstrip()) + "\n")
        print(harmless(f"{verdict.status}: {verdict.message}"))
    if not claimed.verdicts:
        print("infrastructure failure: no run counts, and none is charged")
    if claimed.p_value is not None:
        where = "below" if claimed.crossed else "not shown to be below"
        print(
            f"mean loss {claimed.mean_loss:.4f} of {claimed.valid} runs, {where} the target (p = {claimed.p_value:.2g})"
        )
    print("crossed" if claimed.crossed else "not crossed")
    return 0 if good else 1


def _rescore_arguments(parser: Parser) -> None:
    parser.add_argument("race", help="name or folder")
    parser.add_argument("--records", type=Path, metavar="DIR", help="folder of seeds (default: the race's own)")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs of every seed (default: 1)")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where records and table are written")
    _flags_run(parser)


def _rescore(args: argparse.Namespace) -> int:
    from rewardrate.environments.speedrun import rescoring, seeds
    from rewardrate.sandbox import Pool

    if args.runs < 1:
        raise InputError("--runs", args.runs, "it must be at least 1")
    race = _load(args)
    if args.records is not None and not args.records.is_dir():
        raise InputError("--records", str(args.records), "there is no such folder")
    found = seeds.read(args.records or race.seeds, race)
    with Pool(slots=1, repeats=0) as pool, Live() as live:

        def say(row: Any) -> None:
            line = rescoring.cells(row)
            live.say(f"{line['seed']}: {line['status']}, loss {line['loss'] or '-'}, {line['seconds'] or '-'} s")

        rows = rescoring.rescore(_referee(race, pool, args), found, args.out, args.runs, say)
    lines = [rescoring.cells(row) for row in rows]
    if args.json:
        print(json.dumps(lines))
        return 0
    shown = ("seed", "runs", "loss", "seconds", "seconds_sd", "steps", "crossed", "status", "about")
    print(table(list(shown), [[line[name] for name in shown] for line in lines], right=(1, 2, 3, 4, 5)))
    print(f"records: {args.out / 'records'}\ntable:   {args.out / 'table.csv'}")
    return 0


def _load(args: argparse.Namespace) -> Any:
    from rewardrate.config import parse_override
    from rewardrate.environments.speedrun.race import load

    return load(args.race, data=args.data, changes=dict(map(parse_override, args.overrides)))


def _referee(race: Any, pool: Any, args: argparse.Namespace) -> Any:
    from rewardrate.environments.speedrun.referee import Referee

    return Referee(race, pool, minimum=args.minimum)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("script", str(path), f"it cannot be read as text ({error})") from None
