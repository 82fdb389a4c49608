"""rewardrate rate: fit an estimator to your own attempts, or hold one to the contract."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib
import json
import math
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rewardrate.cli.parser import Command, Parser, run_verb
from rewardrate.cli.terminal import Progress, table
from rewardrate.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from rewardrate.rates import Estimator, RateEstimate

FIT_DETAILS = """\
FILE is CSV with a header: reward, seconds, and optionally valid (1/0) and step. Rows of one step are one batch, row i
belonging to chain i; without a step column all rows are one batch. An invalid attempt counts as reward 0 with its real
seconds (--set invalid=exclude leaves it out). "-" reads standard input.

estimators: niw (the paper's; fitted on running totals per chain), robbins-monro, totals, neural, fixed

examples:
  rewardrate rate fit attempts.csv
  rewardrate rate fit attempts.csv --window 5 --set quantile=0.5
  rewardrate rate fit attempts.csv --estimator totals --json
"""

CHECK_DETAILS = """\
Runs the contract suite that every estimator of ours passes: finite and never negative, bad rows refused, resumes bit
for bit, units do not matter, converges on a renewal process, recovers after a change point.

examples:
  rewardrate rate check                              all of ours
  rewardrate rate check totals niw
  rewardrate rate check my_package.my_module:MyEstimator
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    commands = {
        "fit": Command("fit an estimator to a table of attempts", FIT_DETAILS, _fit_arguments, _fit),
        "check": Command("hold estimators to the contract", CHECK_DETAILS, _check_arguments, _check),
    }
    return run_verb("rate", "what one second is worth", commands, arguments)


def _fit_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="CSV file, or - for standard input")
    parser.add_argument("--estimator", default="niw", metavar="NAME", help="which estimator (default niw)")
    parser.add_argument(
        "--window", type=int, metavar="STEPS", help="totals over the last STEPS steps (default: from the first)"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed of an estimator that draws")
    parser.flag_set("forgetting=0.5")
    parser.flag_dry_run()
    parser.flag_json()


class Batch(NamedTuple):
    """The attempts of one step."""

    step: str
    reward: list[float]
    seconds: list[float]
    valid: list[bool]


def _fit(args: argparse.Namespace) -> int:
    from rewardrate.rates import Accumulators, make

    settings = _settings(args.overrides) | ({} if args.seed is None else {"seed": args.seed})
    estimator = make(args.estimator, **settings)
    if args.dry_run:
        print(
            "\n".join(
                f"{key} = {json.dumps(value)}" for key, value in estimator.settings().items() if value is not None
            )
        )
        return 0
    batches = read_attempts(args.file)
    chains = Accumulators(len(batches[0].reward), window=args.window, invalid=estimator.invalid)
    path: list[tuple[str, RateEstimate]] = []
    for batch in batches:
        path.append((batch.step, chains.update(batch.reward, batch.seconds, batch.valid).fit(estimator)))
    if args.json:
        steps = [{"step": step, **dataclasses.asdict(estimate)} for step, estimate in path]
        print(json.dumps({"estimator": args.estimator, "settings": estimator.settings(), "steps": steps}))
        return 0
    header = ["step", "rate", "mean", "95 % interval", "rows"]
    shown = path if len(path) <= 12 else [*path[:3], *path[-9:]]
    rows = [
        [step, f"{e.rate:.6g}", f"{e.mean:.6g}", f"{e.low:.6g} .. {e.high:.6g}", f"{e.count:,}"] for step, e in shown
    ]
    if len(path) > len(shown):
        rows.insert(3, ["...", "", "", "", ""])
    print(table(header, rows, right=(1, 2, 4)))
    last = path[-1][1]
    worth = f"one minute costs {60 * last.rate:.4g}" if last.rate else "time is free"
    print(f"\none second is worth {last.rate:.6g} reward ({estimator!r}); {worth}.")
    return 0


def read_attempts(name: str) -> list[Batch]:
    """Batches of attempts from a CSV file (or "-"). Every mistake names file, line, column and value."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError("file", name, "there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("file", name, f"it cannot be read as text ({error})") from None
    reader = csv.DictReader(text.splitlines())
    columns = [column.strip() for column in reader.fieldnames or []]
    known = ("reward", "seconds", "valid", "step")
    for column in columns:
        if column not in known and did_you_mean(column, known).startswith("did"):
            raise InputError("column", column, "there is no such column", did_you_mean(column, known))
    for required in known[:2]:
        if required not in columns:
            raise InputError(
                "column", required, f"{name} has no such column", f"it has: {', '.join(columns) or 'none'}"
            )
    reader.fieldnames = columns
    batches: list[Batch] = []
    for record in reader:
        step = (record.get("step") or "").strip() or "1"
        if not batches or batches[-1].step != step:
            batches.append(Batch(step, [], [], []))
        _add(batches[-1], record, f"{name} line {reader.line_num}")
    if not batches:
        raise InputError("file", name, "it has no rows")
    for batch in batches:
        if len(batch.reward) != len(batches[0].reward):
            first = f"step {batches[0].step} has {len(batches[0].reward)} rows"
            raise InputError(
                f"step {batch.step}", f"{len(batch.reward)} rows", f"{first}; each chain needs a row in every step"
            )
    return batches


def _add(batch: Batch, record: dict[str, Any], where: str) -> None:
    values = {}
    for column in ("reward", "seconds"):
        text = (record.get(column) or "").strip()
        try:
            values[column] = float(text)
        except ValueError:
            raise InputError(f"{where}, {column}", text, "it must be a number") from None
        if not math.isfinite(values[column]):
            raise InputError(f"{where}, {column}", values[column], "it must be finite", "drop or mend the row")
    if values["seconds"] <= 0:
        raise InputError(
            f"{where}, seconds",
            values["seconds"],
            "seconds must be positive",
            "floor them (the paper uses 0.1) or drop the row",
        )
    mark = (record.get("valid") or "1").strip().lower()
    if mark not in ("0", "1", "true", "false"):
        raise InputError(f"{where}, valid", mark, "it must be 1, 0, true or false")
    batch.reward.append(values["reward"])
    batch.seconds.append(values["seconds"])
    batch.valid.append(mark in ("1", "true"))


def _settings(overrides: Sequence[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for override in overrides:
        key, separator, text = override.partition("=")
        if not separator or not key.strip():
            raise InputError("--set", override, "it must read key=value", "for example --set forgetting=0.5")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = None if text.strip().lower() == "none" else text
        settings[key.strip()] = value
    return settings


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("estimators", nargs="*", metavar="NAME", help="names of ours, or package.module:Class")
    parser.flag_json()


def _check(args: argparse.Namespace) -> int:
    from rewardrate.rates import ESTIMATORS
    from rewardrate.rates.contract import CHECKS

    makers = {name: _find(name) for name in args.estimators or ESTIMATORS}
    results: list[dict[str, Any]] = []
    with Progress("checks", len(makers) * len(CHECKS)) as bar:
        for name, maker in makers.items():
            for check in CHECKS:
                try:
                    results.append(
                        {"estimator": name, "check": check.__name__, "passed": True, "measured": check(maker)}
                    )
                except AssertionError as error:
                    results.append(
                        {"estimator": name, "check": check.__name__, "passed": False, "measured": str(error)}
                    )
                bar(len(results))
    failures = sum(not result["passed"] for result in results)
    if args.json:
        print(json.dumps({"failures": failures, "results": results}))
        return 1 if failures else 0
    rows = [
        [r["estimator"], r["check"].replace("_", " "), "kept" if r["passed"] else "BROKEN", r["measured"]]
        for r in results
    ]
    print(table(["estimator", "promise", "", "measured"], rows))
    print(f"\n{len(results)} checks, {failures} broken.")
    return 1 if failures else 0


def _find(name: str) -> Callable[[], Estimator]:
    from rewardrate.rates import ESTIMATORS, Estimator

    if ":" not in name:
        if name not in ESTIMATORS:
            known = did_you_mean(name, ESTIMATORS)
            raise InputError(
                "estimator", name, "there is no such estimator", f"{known} (your own: package.module:Class)"
            )
        return ESTIMATORS[name]
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # a module in the current folder is found, as with python -m
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError("estimator", name, f"it cannot be imported ({error})") from None
    finally:
        sys.path.remove("")
    if not (isinstance(found, type) and issubclass(found, Estimator)):
        raise InputError("estimator", name, "it is not a subclass of rewardrate.rates.Estimator")
    return found
