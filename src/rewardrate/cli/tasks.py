"""rewardrate tasks: machine-learning tasks, their data, their grading, and scripts run on them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardrate.cli.parser import Command, Parser, overrides_of, run_verb
from rewardrate.cli.terminal import Progress, bold, harmless, table
from rewardrate.errors import InputError, MissingExtra

LIST_DETAILS = """\
A task is a folder in MLE-Bench's layout. Those that come with the package are named; one of your own is given by its
folder (docs/add-a-task.md).

examples:
  rewardrate tasks list
  rewardrate tasks list --json
"""

SHOW_DETAILS = """\
What a task asks, how it is judged, what its reference scripts reached and in how many seconds.

examples:
  rewardrate tasks show diamonds
  rewardrate tasks show diamonds --prompt          the prompt a model gets
  rewardrate tasks show diamonds --prompt compact  the same for small models
  rewardrate tasks show mlebench:leaf-classification --leaderboards mledojo/competitions
"""

PREPARE_DETAILS = """\
Makes the data of one, several or all tasks from the packages they come from: nothing is downloaded. Answers are kept
apart from what scripts see. Data that are already there are left alone, unless the task's prepare.py has changed.

examples:
  rewardrate tasks prepare
  rewardrate tasks prepare diamonds ./my-task
"""

VALIDATE_DETAILS = """\
Checks a task from end to end: files, grader (empty, broken and hostile submissions must be refused, the true answers
must win), leaks (a column, the order of rows or equal rows that give answers away), and every reference script run
again in the sandbox, whose score must be the one on the leaderboard. The exit code is 1 if a check fails. --measure
writes leaderboard.csv from this machine's run instead of comparing, if every check passes.

examples:
  rewardrate tasks validate diamonds
  rewardrate tasks validate --quick               all tasks, no scripts
  rewardrate tasks validate ./my-task --measure   fill a new task's leaderboard
"""

RUN_DETAILS = """\
Runs one script on a task as the agent's scripts are run: sandboxed, timed, graded on the `reward` split, priced by the
task's own reward. --split report grades on the rows that are kept for the end: look at them once.

examples:
  rewardrate tasks run diamonds script.py
  rewardrate tasks run ./my-task script.py --clock cpu --set cores=1 --json
  rewardrate tasks run mlebench:leaf-classification script.py --leaderboards mledojo/competitions
"""

DOCTOR_DETAILS = """\
Says, for each of the 22 tasks of MLE-Bench Lite, what is missing on this machine and the command that adds it.

examples:
  rewardrate tasks doctor
  rewardrate tasks doctor --leaderboards DIR --json
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    return run_verb(
        "tasks", "machine-learning tasks: their data, their grading, scripts run on them", commands(), arguments
    )


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "list": Command("the tasks that come with the package", LIST_DETAILS, _list_arguments, _list),
        "show": Command(
            "what a task asks, and what its reference scripts reached", SHOW_DETAILS, _show_arguments, _show
        ),
        "prepare": Command("make the data of tasks", PREPARE_DETAILS, _prepare_arguments, _prepare),
        "validate": Command("check tasks from end to end", VALIDATE_DETAILS, _validate_arguments, _validate),
        "run": Command("run a script on a task", RUN_DETAILS, _run_arguments, _run),
        "doctor": Command("what MLE-Bench Lite lacks on this machine", DOCTOR_DETAILS, _doctor_arguments, _doctor),
    }


def _flag_data(parser: Parser) -> None:
    parser.add_argument("--data", type=Path, metavar="DIR", help="where prepared data are kept (default: your cache)")


def _list_arguments(parser: Parser) -> None:
    _flag_data(parser)
    parser.flag_json()


def _list(args: argparse.Namespace) -> int:
    from rewardrate.environments.mle.folder import load, shipped
    from rewardrate.environments.mle.preparation import current

    tasks = [load(name, data=args.data) for name in shipped()]
    rows = [_summary(task) | {"prepared": current(task)} for task in tasks]
    if args.json:
        print(json.dumps(rows))
        return 0
    header = ["task", "kind", "metric", "limit", "scripts", "prepared", "source"]
    shown = [
        [
            row["id"],
            row["modality"],
            row["metric"],
            f"{row['limit_seconds']:g} s",
            str(row["references"]),
            "yes" if row["prepared"] else "no",
            row["source"],
        ]
        for row in rows
    ]
    print(table(header, shown, right=(3, 4)))
    return 0


def _summary(task: Any) -> dict[str, Any]:
    names = ("id", "name", "modality", "goal", "metric", "direction", "reward", "limit_seconds")
    return {name: getattr(task, name) for name in names} | {
        "references": len(task.references),
        "source": task.source.package,
        "licence": task.source.licence,
    }


def _show_arguments(parser: Parser) -> None:
    parser.add_argument("task", help="name, folder, or mlebench:ID")
    text = "print the prompt a model gets: full or compact"
    parser.add_argument("--prompt", nargs="?", const="full", choices=("full", "compact"), help=text)
    _flag_data(parser)
    parser.flag_leaderboards()
    parser.flag_json()


def _show(args: argparse.Namespace) -> int:
    from rewardrate.environments.mle import load
    from rewardrate.environments.mle.prompts import build

    task = load(args.task, data=args.data, leaderboards=args.leaderboards)
    if args.prompt:
        messages = build(task, compact=args.prompt == "compact")
        if args.json:
            print(json.dumps(messages))
        else:
            print("\n\n".join(f"{bold(message['role'])}\n{message['content']}" for message in messages))
        return 0
    rows = [dataclasses.asdict(reference) for reference in task.references]
    if args.json:
        print(json.dumps(_summary(task) | {"folder": str(task.folder), "data": str(task.public), "leaderboard": rows}))
        return 0
    print(task.description.rstrip())
    print(f"\n{task.goal}\nmetric: {task.metric}; reward: {task.reward}; limit: {task.limit_seconds:g} s")
    print(f"source: {task.source.package} ({task.source.data}), licence: {task.source.licence}")
    print(f"folder: {task.folder}\ndata:   {task.public}{'' if task.prepared else ' (not prepared yet)'}\n")
    shown = [
        [
            row["script"],
            f"{row['score']:.5g}",
            *(f"{row[name]:.5g}" if row[name] is not None else "-" for name in ("report", "seconds")),
        ]
        for row in rows
    ]
    print(table(["reference script", "score", "report", "seconds"], shown, right=(1, 2, 3)))
    return 0


def _prepare_arguments(parser: Parser) -> None:
    parser.add_argument("tasks", nargs="*", help="names or folders (default: all that come with the package)")
    parser.add_argument("--again", action="store_true", help="remake data that are already there")
    _flag_data(parser)
    parser.flag_json()


def _prepare(args: argparse.Namespace) -> int:
    from rewardrate.environments.mle.preparation import prepare

    done: dict[str, dict[str, Any]] = {}
    names = _names(args)
    with Progress("tasks", len(names)) as bar:
        for number, name in enumerate(names, start=1):
            try:
                task = _task(name, args)
                done[task.id] = {"made": prepare(task, again=args.again), "public": str(task.public)}
            except (InputError, MissingExtra, OSError) as error:  # the others are made all the same
                done[name] = {"made": False, "error": str(error)}
            bar(number)
    errors = {name: row["error"] for name, row in done.items() if "error" in row}
    if args.json:
        print(json.dumps(done))
    else:
        for name in (name for name in done if name not in errors):
            print(f"{name}: {'made' if done[name]['made'] else 'already there'}, {done[name]['public']}")
    return _tell(errors)


def _tell(errors: Mapping[str, str]) -> int:
    """Say which tasks could not be worked on, and why; the exit code."""
    for name, error in errors.items():
        print(f"rewardrate: error: {name}: {error}", file=sys.stderr)
    return 2 if errors else 0


def _names(args: argparse.Namespace) -> list[str]:
    from rewardrate.environments.mle.folder import shipped

    return list(args.tasks or shipped())


def _task(name: str, args: argparse.Namespace) -> Any:
    from rewardrate.environments.mle.folder import BENCH, load

    if name.startswith(BENCH):
        rule = "MLE-Bench prepares and checks its own tasks"
        raise InputError("task", name, rule, f"mlebench prepare -c {name.removeprefix(BENCH)}; rewardrate tasks doctor")
    return load(name, data=args.data)


def _validate_arguments(parser: Parser) -> None:
    parser.add_argument("tasks", nargs="*", help="names or folders (default: all that come with the package)")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true", help="do not run the reference scripts")
    group.add_argument("--measure", action="store_true", help="write leaderboard.csv from this run")
    _flag_data(parser)
    parser.flag_set("cores=2")
    parser.flag_json()


def _validate(args: argparse.Namespace) -> int:
    found: dict[str, list[Any]] = {}
    errors: dict[str, str] = {}
    for name in _names(args):
        try:
            task = _task(name, args)
            found[task.id] = _validate_one(task, args)
        except (InputError, MissingExtra, OSError) as error:  # the others are checked all the same
            errors[name] = str(error)
        else:
            if not args.json:
                _print_checks(task.id, found[task.id])
    failed = sum(not check.passed for checks in found.values() for check in checks)
    if args.json:
        rows = {name: [dataclasses.asdict(check) for check in checks] for name, checks in found.items()}
        print(json.dumps(rows | {name: {"error": words} for name, words in errors.items()}))
    elif found:
        print(f"{len(found)} tasks, {sum(map(len, found.values()))} checks, {failed} failed.")
    return _tell(errors) or bool(failed)


def _validate_one(task: Any, args: argparse.Namespace) -> list[Any]:
    from rewardrate import config as configs
    from rewardrate.environments.mle import validation
    from rewardrate.environments.mle.environment import Settings
    from rewardrate.environments.mle.preparation import prepare
    from rewardrate.sandbox import Pool

    settings = configs.load(Settings, None, args.overrides)
    prepare(task)
    measured: list[Any] = []
    if not args.quick:
        names = validation.scripts(task)
        with Pool() as pool, Progress(f"{task.id}: scripts", len(names)) as bar:
            measured = validation.measure(task, pool, settings, on_done=bar)
    if args.measure:
        return validation.check_and_write(task, measured)
    checks = list(validation.prepare_and_check(task))
    return checks + (list(validation.check_references(task, measured)) if measured else [])


def _print_checks(name: str, checks: Sequence[Any]) -> None:
    bad = [check for check in checks if not check.passed]
    print(f"{bold(name)}: {len(checks) - len(bad)} of {len(checks)} checks hold")
    for check in bad:
        print(f"  FAILED {check.name}: {check.found}")
    for check in checks:
        if check.passed and check.name.startswith(("reproduced", "copying", "the sample", "the true", "true answers")):
            print(f"  {check.name}: {check.found}")


def _run_arguments(parser: Parser) -> None:
    parser.add_argument("task", help="name, folder, or mlebench:ID")
    parser.add_argument("script", type=Path, help="Python file to run")
    parser.add_argument("--split", choices=("reward", "report"), default="reward", help="rows to grade on")
    parser.add_argument("--clock", choices=("wall", "cpu", "warm"), default="wall", help="which seconds are priced")
    _flag_data(parser)
    parser.flag_leaderboards()
    parser.flag_set("reward=percentile")
    parser.flag_json()


def _run(args: argparse.Namespace) -> int:
    from rewardrate import config as configs
    from rewardrate.environments.mle import MachineLearning, load
    from rewardrate.environments.mle.environment import Settings
    from rewardrate.sandbox import Pool

    settings = configs.load(Settings, None, overrides_of(args, leaderboards=args.leaderboards))
    try:
        code = args.script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("script", str(args.script), f"it cannot be read as text ({error})") from None
    with Pool(clock=args.clock) as pool:
        task = load(args.task, data=args.data, leaderboards=settings.leaderboards)
        environment = MachineLearning(task, pool, settings)
        (outcome,) = environment.run([code], split=args.split)
    if args.json:
        print(json.dumps({key: value for key, value in dataclasses.asdict(outcome).items() if key != "code"}))
        return 0 if outcome.valid else 1
    if outcome.output and not outcome.valid:
        sys.stderr.write(harmless(outcome.output.rstrip()) + "\n")
    earned = (
        f"reward {outcome.reward:.4f}, {outcome.reward / outcome.seconds:.4f} per second"
        if outcome.valid
        else "invalid"
    )
    print(harmless(f"{outcome.status}: {outcome.message}"))
    print(f"{earned}; {outcome.seconds:.2f} s ({outcome.clock}), isolated by {outcome.level}")
    return 0 if outcome.valid else 1


def _doctor_arguments(parser: Parser) -> None:
    parser.flag_leaderboards()
    parser.add_argument("--data", type=Path, metavar="DIR", help="where MLE-Bench keeps its data (default: its own)")
    parser.flag_json()


def _doctor(args: argparse.Namespace) -> int:
    from rewardrate.environments.mle import mlebench

    rows = mlebench.doctor(data_dir=args.data, leaderboards=args.leaderboards)
    if args.json:
        print(json.dumps([dataclasses.asdict(row) | {"ok": row.ok} for row in rows], default=str))
        return 0
    shown = [[row.id, "ready" if row.ok else ", ".join(row.missing), row.note] for row in rows]
    print(table(["task", "missing", "note"], shown))
    for warning in dict.fromkeys(f"{row.id}: {words}" for row in rows for words in row.warnings):
        print(f"! {warning}")
    for remedy in dict.fromkeys(row.remedy for row in rows if row.remedy):
        print(f"- {remedy}")
    return 0
