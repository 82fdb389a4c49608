"""The command `rewardrate` (alias `rpg`): find the verb, run it, turn mistakes into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from rewardrate import __version__
from rewardrate.errors import InputError, MissingExtra, did_you_mean

# Verb -> what it is for. Each lives in cli/<verb>.py and is imported only when asked for.
VERBS = {
    "doctor": "say what this machine can do, and the command that adds what is missing",
    "rate": "what is one second worth? fit an estimator to your own attempts, or check one against the contract",
    "theory": "check the paper's lemmas and theorems on random problems; solve a problem of your own",
}

HELP = """\
rewardrate {version}: reinforcement learning that maximises reward per second.

usage: rewardrate VERB [COMMAND] [options]

{verbs}

start here:
  rewardrate doctor                            what can this machine do?
  rewardrate theory check --instances 200      try the theory yourself, in seconds
  rewardrate rate fit attempts.csv             price a second from a table of reward and seconds

every command: --help explains and shows examples, --json prints for programs.
exit codes: 0 done, 1 a check failed, 2 something in the input is wrong (one line says what), 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except (InputError, MissingExtra) as error:
        print(f"rewardrate: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rewardrate: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away (| head): not a mistake
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help(), end="")
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"rewardrate {__version__}")
        return 0
    verb, *rest = arguments
    if verb not in VERBS:
        raise InputError(
            "verb", verb, "there is no such verb", f"{did_you_mean(verb, VERBS)} (rewardrate --help lists them)"
        )
    module = importlib.import_module(f"rewardrate.cli.{verb}")
    code: int = module.main(rest)
    return code


def _help() -> str:
    width = max(map(len, VERBS)) + 2
    verbs = "\n".join(f"  {verb:<{width}}{summary}" for verb, summary in VERBS.items())
    return HELP.format(version=__version__, verbs=verbs)


if __name__ == "__main__":
    sys.exit(main())
