"""rewardrate environment: list the kinds of environments that are installed, or check one of your own."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from rewardrate.cli.parser import Command, Parser, run_verb
from rewardrate.cli.terminal import Progress, table
from rewardrate.errors import InputError

LIST_DETAILS = """\
A kind of environment is an entry point of the group rewardrate.environments in an installed package: its name is what
a recipe says in environment.kind, and it stands for the class of the table [environment].
docs/add-an-environment.md shows a kind of your own from start to end.

examples:
  rewardrate environment list
  rewardrate environment list --json
"""

CHECK_DETAILS = """\
Runs the contract suite that every kind of ours passes: each reply gives one outcome, in any order; empty, enormous and
unreadable replies are outcomes too; seconds between 0.1 and the limit; failures earn 0 and say why; finite numbers;
prompts are chats whatever the parent holds; the same reply twice is two attempts; stopping early leaves
nothing running.

NAME is an installed kind (with --task), or package.module:name of your own. That object may be an Environment, a
RunSetup, an EnvironmentSettings (or its class), or a function without arguments that returns one of these, or a pair of
one and a list of replies that are valid attempts. Replies are executed: it takes as long as about 15 attempts.

examples:
  rewardrate environment check my_package.my_module:MySettings --task small
  rewardrate environment check tests.made:environment_and_replies
  rewardrate environment check sql-tuning --task flights
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    return run_verb("environment", "what can be attempted: the kinds that are installed", commands(), arguments)


def commands() -> dict[str, Command]:
    """The verb's commands by name."""
    return {
        "list": Command("the kinds of environments that are installed", LIST_DETAILS, Parser.flag_json, _list),
        "check": Command("run the contract suite on a kind of environment", CHECK_DETAILS, _check_arguments, _check),
    }


def _list(args: argparse.Namespace) -> int:
    from rewardrate import registry
    from rewardrate.environments.environment import GROUP

    kinds = registry.load(GROUP)
    found = []
    for name in kinds:
        try:
            cls = kinds[name]
            about = {"class": f"{cls.__module__}:{cls.__qualname__}", "about": (cls.__doc__ or "").split("\n")[0]}
        except InputError as error:  # a package that is broken hides no other
            about = {"class": "", "about": str(error)}
        found.append({"kind": name, **about})
    if args.json:
        print(json.dumps(found))
        return 0
    print(table(["kind", "class", ""], [list(row.values()) for row in found]))
    print("\nin a recipe: [environment] kind = NAME; check one: rewardrate environment check NAME --task TASK")
    return 0


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", help="an installed kind, or package.module:name")
    parser.add_argument("--task", default="", help="what the kind is to attempt, as in a recipe")
    parser.flag_json()


def _check(args: argparse.Namespace) -> int:
    from rewardrate.environments.contract import CHECKS, subject
    from rewardrate.rates.contract import ContractBroken
    from rewardrate.sandbox import Pool

    found = _find(args.name)
    results: list[dict[str, Any]] = []
    with Pool(repeats=0) as executor, Progress("checks", len(CHECKS)) as bar:
        try:
            made = subject(found, executor, args.task)
        except TypeError as error:
            raise InputError("environment", args.name, str(error), "see rewardrate environment check --help") from None
        except InputError as error:
            if args.task or error.field != "task":
                raise
            rule = f"{args.name} needs one ({error.allowed})"
            raise InputError("--task", "", rule, error.remedy or "as in a recipe: --task NAME") from None
        for check in CHECKS:
            try:
                kept, measured = True, check(made)
            except Exception as error:  # a broken environment may raise anything; that is a finding too
                kept = False
                measured = str(error) if isinstance(error, ContractBroken) else f"{type(error).__name__}: {error}"
            measured = " ".join(measured.split())[:200]
            results.append({"check": check.__name__, "passed": kept, "measured": measured})
            bar(len(results))
    failures = sum(not result["passed"] for result in results)
    if args.json:
        print(json.dumps({"environment": args.name, "failures": failures, "results": results}))
        return 1 if failures else 0
    rows = [[r["check"].replace("_", " "), "kept" if r["passed"] else "BROKEN", r["measured"]] for r in results]
    print(table(["promise", "", "measured"], rows))
    print(f"\n{len(results)} checks, {failures} broken.")
    return 1 if failures else 0


def _find(name: str) -> Any:
    """The object to check: an installed kind's class, or what a module holds."""
    if ":" not in name:
        from rewardrate import registry
        from rewardrate.environments.environment import GROUP

        return registry.load(GROUP, "environment")[name]
    module_name, _, attribute = name.partition(":")
    sys.path.insert(0, "")  # a module in the current folder is found, as with python -m
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # somebody else's module: whatever it does, it is not ours to crash
        raise InputError("environment", name, f"it cannot be imported ({type(error).__name__}: {error})") from None
    finally:
        sys.path.remove("")
