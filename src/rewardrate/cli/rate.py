"""rewardrate rate: fit an estimator to your own attempts, or check one of your own."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib
import io
import json
import math
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rewardrate.cli.parser import Command, Parser, run_verb
from rewardrate.cli.terminal import Progress, table
from rewardrate.config import parse_override
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
    return run_verb("rate", "what one second is worth", commands(), arguments)


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "fit": Command("fit an estimator to a table of attempts", FIT_DETAILS, _fit_arguments, _fit),
        "check": Command("check estimators: state, bad rows, scale, resuming", CHECK_DETAILS, _check_arguments, _check),
    }


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


def _command(args: argparse.Namespace) -> str:
    words = ["rewardrate", "rate", "fit", args.file, "--estimator", args.estimator]
    words += [] if args.window is None else ["--window", str(args.window)]
    words += [] if args.seed is None else ["--seed", str(args.seed)]
    return shlex.join([*words, *(word for override in args.overrides for word in ("--set", override))])


class CsvBatch(NamedTuple):
    """The attempts of one step."""

    step: str
    reward: list[float]
    seconds: list[float]
    valid: list[bool]


def _fit(args: argparse.Namespace) -> int:
    from rewardrate.rates import Accumulators, make

    settings = _settings(args.overrides) | ({} if args.seed is None else {"seed": args.seed})
    estimator = make(args.estimator, **settings)
    if args.window is not None and estimator.feeds != "totals":
        rule = f"{args.estimator} is fitted on single attempts, not on totals over a window"
        raise InputError("--window", args.window, rule, "leave it out, or use --estimator niw")
    resolved = {"estimator": args.estimator, "window": args.window, "settings": estimator.settings()}
    if args.dry_run:
        print(json.dumps(resolved) if args.json else _toml(resolved))
        return 0
    batches = read_attempts(args.file)
    if len(batches[0].reward) < estimator.least_rows:
        raise _too_few(args, len(batches[0].reward))
    chains = Accumulators(len(batches[0].reward), window=args.window, invalid=estimator.invalid)
    path: list[tuple[str, RateEstimate]] = []
    for batch in batches:
        path.append((batch.step, chains.update(batch.reward, batch.seconds, batch.valid).fit(estimator)))
    last = path[-1][1]
    if not last.count:
        raise _too_few(args, int((chains.seconds > 0).sum()))
    if args.json:
        steps = [{"step": step, **dataclasses.asdict(estimate)} for step, estimate in path]
        print(json.dumps(resolved | {"steps": steps}))
        return 0
    header = ["step", "rate", "mean", "95 % interval", "rows"]
    shown = path if len(path) <= 12 else [*path[:3], *path[-9:]]
    rows = [
        [step, f"{e.rate:.6g}", f"{e.mean:.6g}", f"{e.low:.6g} .. {e.high:.6g}", f"{e.count:,}"] for step, e in shown
    ]
    if len(path) > len(shown):
        rows.insert(3, ["...", "", "", "", ""])
    print(table(header, rows, right=(1, 2, 4)))
    worth = f"one minute costs {60 * last.rate:.4g}" if last.rate else "time is free"
    print(f"\none second is worth {last.mean:.6g} reward; charged for it: {last.rate:.6g} ({estimator!r}); {worth}.")
    print(f"again: {_command(args)}")
    return 0


def _too_few(args: argparse.Namespace, rows: int) -> InputError:
    noun = "row" if rows == 1 else "rows"
    rule = f"{rows} usable {noun} a step: too few for {args.estimator}, which compares chains"
    return InputError("file", args.file, rule, "use --estimator totals")


def read_attempts(name: str) -> list[CsvBatch]:
    """Batches of attempts from a CSV file (or "-"). Every mistake names file, line, column and value."""
    text = _read(name)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        records = [(reader.line_num, record) for record in reader]
    except csv.Error as error:
        raise InputError("file", name, f"it is not valid CSV: {error}") from None
    if not any(record for _, record in records):
        raise InputError("file", name, "it is empty", "begin it with a header: reward,seconds")
    columns = [column.strip() for column in records[0][1]]
    places = _columns(name, columns)
    batches: dict[str, CsvBatch] = {}
    for line, record in records[1:]:
        if record:
            if len(record) != len(columns):
                rule = f"the header has {len(columns)} columns ({', '.join(columns)})"
                raise InputError(
                    f"{name} line {line}", f"{len(record)} fields", rule, "use . for decimals, or quote the field"
                )
            cells = {column: record[place].strip() for column, place in places.items()}
            step = cells.get("step", "1")
            if not step:
                raise InputError(f"{name} line {line}, step", step, "it must not be blank")
            _add(batches.setdefault(step, CsvBatch(step, [], [], [])), cells, f"{name} line {line}")
    if not batches:
        raise InputError("file", name, "it has a header and no rows")
    first, *rest = batches.values()
    for batch in rest:
        if len(batch.reward) != len(first.reward):
            rule = f"step {first.step} has {len(first.reward)} rows; each chain needs a row in every step"
            raise InputError(f"step {batch.step}", f"{len(batch.reward)} rows", rule)
    return [first, *rest]


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError("file", name, "there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("file", name, f"it cannot be read as text ({error})") from None


def _columns(name: str, columns: list[str]) -> dict[str, int]:
    """Where the columns we know stand; others are left alone."""
    known = ("reward", "seconds", "valid", "step")
    for required in known[:2]:
        if required not in columns:
            near = [column for column in columns if did_you_mean(column, [required]).startswith("did")]
            remedy = f"is it {near[0]!r}?" if near else f"it has: {', '.join(columns)}"
            raise InputError("column", required, f"{name} has no such column", remedy)
    for column in known:
        if columns.count(column) > 1:
            raise InputError("column", column, f"{name} has it {columns.count(column)} times")
    return {column: columns.index(column) for column in known if column in columns}


def _add(batch: CsvBatch, cells: dict[str, str], where: str) -> None:
    mark = cells.get("valid", "1").lower()
    if mark not in ("0", "1", "true", "false"):
        raise InputError(f"{where}, valid", mark, "it must be 1, 0, true or false")
    valid = mark in ("1", "true")
    reward = _number(cells["reward"], f"{where}, reward") if valid or cells["reward"] else 0.0  # a failure has no score
    seconds = _number(cells["seconds"], f"{where}, seconds")
    if seconds <= 0:
        remedy = "floor them (the paper uses 0.1) or drop the row"
        raise InputError(f"{where}, seconds", seconds, "seconds must be positive", remedy)
    batch.reward.append(reward)
    batch.seconds.append(seconds)
    batch.valid.append(valid)


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(where, text, "it must be a number") from None
    if not math.isfinite(value):
        raise InputError(where, value, "it must be finite", "drop or mend the row")
    return value


def _toml(resolved: dict[str, Any]) -> str:
    plain = {**{key: value for key, value in resolved.items() if key != "settings"}, **resolved["settings"]}
    return "\n".join(f"{key} = {json.dumps(value)}" for key, value in plain.items() if value is not None)


def _settings(overrides: Sequence[str]) -> dict[str, Any]:
    parsed = dict(parse_override(override) for override in overrides)
    return {key: None if value == "none" else value for key, value in parsed.items()}


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("estimators", nargs="*", metavar="NAME", help="installed ones by name, or package.module:Class")
    parser.flag_json()


def _check(args: argparse.Namespace) -> int:
    from rewardrate.rates import ESTIMATORS
    from rewardrate.rates.contract import CHECKS, ContractBroken

    makers = {name: _find(name) for name in args.estimators or ESTIMATORS}
    results: list[dict[str, Any]] = []
    with Progress("checks", len(makers) * len(CHECKS)) as bar:
        for name, maker in makers.items():
            for check in CHECKS:
                try:
                    results.append(_outcome(name, check.__name__, True, check(maker)))
                except Exception as error:  # a broken estimator may raise anything; that is a finding too
                    words = str(error) if isinstance(error, ContractBroken) else f"{type(error).__name__}: {error}"
                    results.append(_outcome(name, check.__name__, False, " ".join(words.split())[:200]))
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


def _outcome(estimator: str, check: str, passed: bool, measured: str) -> dict[str, Any]:
    return {"estimator": estimator, "check": check, "passed": passed, "measured": measured}


def _find(name: str) -> Callable[[], Estimator]:
    from rewardrate.rates import Estimator, make

    if ":" not in name:
        try:
            make(name)
        except InputError as error:
            raise InputError(
                error.field, error.value, error.allowed, f"{error.remedy} (your own: package.module:Class)"
            ) from None
        return lambda: make(name)
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # a module in the current folder is found, as with python -m
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # somebody else's module: whatever it does, it is not ours to crash
        raise InputError("estimator", name, f"it cannot be imported ({type(error).__name__}: {error})") from None
    finally:
        sys.path.remove("")
    if not (isinstance(found, type) and issubclass(found, Estimator)):
        raise InputError("estimator", name, "it is not a subclass of rewardrate.rates.Estimator")
    return found
