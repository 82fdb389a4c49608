"""The command `rewardrate` (alias `rpg`): find the verb, run it, turn mistakes into one line and an exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Sequence

from rewardrate import __version__
from rewardrate.cli.terminal import harmless
from rewardrate.errors import InfrastructureError, InputError, MissingExtra, did_you_mean, missing_extra

# Verb -> what it is for. Each lives in cli/<verb>.py and is imported only when asked for.
VERBS = {
    "bandit": "the laboratory: bandits whose actions take time, agents, the paper's study",
    "compare": "arms over tasks and seeds, by a plan stated first, in sittings: one page with the pooled difference",
    "doctor": "say what this machine can do, and the command that adds what is missing",
    "environment": "list the kinds of environments that are installed, or check one of your own",
    "plan": "which price of a second to choose for a budget, from a pilot run or a task's reference scripts",
    "pretrain": "make the small language model that comes with the package, or warm up an open one",
    "rate": "what is one second worth? fit an estimator to your own attempts, or check one of your own",
    "report": "one page for a run, both arms or several tasks: budget curves, rate, scripts and their descent",
    "sandbox": "run an untrusted script under limits and time it; attack this machine's isolation",
    "speedrun": "the NanoGPT race: make its token shards, judge a training script, time the seeds",
    "tasks": "machine-learning tasks: prepare their data, check them, run a script on one",
    "theory": "check the paper's lemmas and theorems on random problems; solve a problem of your own",
    "train": "train a language model on a task, by reward per second or by reward alone",
    "watch": "the page of a run, up to date while it runs",
}

HELP_WORDS = ("-h", "--help", "help")
HELP = """\
rewardrate {version}: reinforcement learning that maximises reward per second.

usage: rewardrate VERB [COMMAND] [options]

{verbs}

start here:
  rewardrate doctor                            what can this machine do?
  rewardrate theory check --instances 200      try the theory yourself, in seconds
  rewardrate rate fit attempts.csv             price a second from a table of reward and seconds

every command: --help explains and shows examples, --json prints for programs.
exit codes: 0 done, 1 a check failed, 2 something in the input or on this machine is wrong
(one line says what), 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name in (
        "stdin",
        "stdout",
        "stderr",
    ):  # a closed stream is None in Python; the null device is easier to live with
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except (InputError, MissingExtra) as error:
        return _fail(str(error))
    except ModuleNotFoundError as error:
        found = missing_extra(f"rewardrate {arguments[0]}", error)
        if found is None:
            raise
        return _fail(str(found))
    except KeyboardInterrupt:
        print("rewardrate: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away (| head): not a mistake
        _silence_output()
        return 0
    except InfrastructureError as error:
        return _fail(f"{error}; the same command resumes where it stopped")
    except MemoryError:
        return _fail("memory ran out: ask for less (fewer rows, batches or problems)")
    except (OSError, UnicodeEncodeError) as error:
        _silence_output()
        return _fail(f"output or file: {error}")


def _fail(words: str) -> int:
    print(harmless(f"rewardrate: error: {words}"), file=sys.stderr)
    return 2


def _silence_output() -> None:
    """What is still buffered has nowhere to go; let the interpreter's own flush at exit succeed."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in HELP_WORDS:
        if arguments[1:] and arguments[1] not in HELP_WORDS:  # rewardrate help train
            return _dispatch([*(word for word in arguments[1:] if word not in HELP_WORDS), "--help"])
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
