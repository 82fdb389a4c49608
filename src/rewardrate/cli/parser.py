"""A parser whose errors are InputErrors with the nearest spelling, and the flags that every command shares."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar

from rewardrate.errors import InputError, did_you_mean

Settings = TypeVar("Settings")


@dataclass(frozen=True)
class Command:
    """One command of a verb: what it is for, examples, its arguments, and what it does."""

    summary: str
    details: str
    "What the help page teaches: examples first."
    arguments: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """argparse without its tracebacks and two-line errors: a mistake is one InputError."""

    def __init__(self, prog: str, command: Command) -> None:
        super().__init__(
            prog=prog,
            description=command.summary,
            epilog=command.details,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.arguments(self)

    def flag_set(self, example: str) -> None:
        """--set key=value."""
        text = f"change one setting; may be repeated (for example --set {example})"
        self.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], dest="overrides", help=text)

    def flag_leaderboards(self) -> None:
        """--leaderboards DIR."""
        text = "folder of leaderboards (rank,score) for MLE-Bench tasks whose own are Git-LFS pointers"
        self.add_argument("--leaderboards", type=Path, metavar="DIR", help=text)

    def flag_json(self) -> None:
        """--json."""
        self.add_argument("--json", action="store_true", help="print the result as JSON on standard output")

    def flag_dry_run(self) -> None:
        """--dry-run."""
        self.add_argument("--dry-run", action="store_true", help="print the resolved settings as TOML and stop")

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse all of it; an unknown flag is answered with the nearest one."""
        known, unknown = self.parse_known_args(list(arguments))
        if unknown:
            word = unknown[0].partition("=")[0]
            flags = [flag for action in self._actions for flag in action.option_strings]
            near = did_you_mean(word, flags) if word.startswith("-") else ""
            raise InputError("argument", unknown[0], f"{self.prog} does not take it", near or f"see {self.prog} --help")
        return known

    def error(self, message: str) -> NoReturn:
        """Called by argparse on a mistake."""
        wrong_type = re.fullmatch(r"argument (\S+): invalid (\w+) value: '(.*)'", message)
        if wrong_type:
            flag, kind, value = wrong_type.groups()
            words = {"int": "a whole number", "float": "a number"}
            raise InputError(flag, value, f"it must be {words.get(kind, kind)}")
        raise InputError("arguments", self.prog, message, f"see {self.prog} --help")


def run_verb(verb: str, summary: str, commands: dict[str, Command], arguments: Sequence[str]) -> int:
    """Run `rewardrate VERB COMMAND ...`; without a command, say which there are."""
    prog = f"rewardrate {verb}"
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        width = max(map(len, commands)) + 2
        print(f"{prog}: {summary}\n\nusage: {prog} COMMAND [options]\n")
        for name, command in commands.items():
            print(f"  {name:<{width}}{command.summary}")
        print(f"\n{prog} COMMAND --help explains a command and shows examples.")
        return 0
    name, *rest = arguments
    if name not in commands:
        raise InputError(f"{verb} command", name, "there is no such command", did_you_mean(name, commands))
    return commands[name].run(Parser(f"{prog} {name}", commands[name]).parse(rest))


RECIPE_COMMANDS = {
    "task": "train",
    "families": "bandit study",
    "instances": "theory check",
    "out": "pretrain",
    "hypothesis": "compare",
}
"A key that only one kind of recipe has -> the command that takes it."


def load_recipe(cls: type[Settings], name: str, overrides: Sequence[str]) -> Settings:
    """The recipe of that name or file, as `cls`; one of another command is refused with that command."""
    from rewardrate import config

    path = config.find_recipe(name)
    known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in config.read_toml(path):
        if key in RECIPE_COMMANDS and key not in known:
            rule = "it is a recipe of another command"
            raise InputError("recipe", name, rule, f"rewardrate {RECIPE_COMMANDS[key]} {name}")
    return config.load(cls, path, overrides)


def overrides_of(args: argparse.Namespace, **flags: object) -> list[str]:
    """--set values, with the command's own short-hand flags (where given) put last, so that they win."""
    return [*args.overrides, *(f"{name}={value}" for name, value in flags.items() if value is not None)]
