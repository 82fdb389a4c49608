"""rewardrate pretrain: make tiny from nothing, or give an open model a supervised warm start."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rewardrate.cli.parser import Command, Parser, load_recipe, overrides_of
from rewardrate.cli.terminal import Progress

DETAILS = """\
Trains on scripts and revisions that our own corpus program writes: no text, code or data of anyone else. Without
--model it makes a small model from nothing: the one that comes with the package (pretrain-tiny), or one for the race
(pretrain-speedrun). With it, it continues an open model for a few steps, so that a run starts with scripts that work.
The same recipe and seed give the same batches.

examples:
  rewardrate pretrain pretrain-tiny                                    three minutes on one H200
  rewardrate pretrain pretrain-tiny --set steps=20 --out runs/try      a look, on any machine
  rewardrate pretrain pretrain-warm --model ./my-model                 forty steps for an open model, on a GPU
"""


def main(arguments: Sequence[str]) -> int:
    """Run the verb."""
    command = Command("make the small model, or warm up an open one", DETAILS, _arguments, _pretrain)
    return _pretrain(Parser("rewardrate pretrain", command).parse(arguments))


def commands() -> dict[str, Command]:
    """None: the verb is the command."""
    return {}


def _arguments(parser: Parser) -> None:
    parser.add_argument("recipe", help="name of a recipe, or a TOML file")
    parser.add_argument("--model", metavar="NAME", help="continue this model (folder, .gguf file or hub id)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of corpus and weights")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the model (default: the recipe's)")
    parser.flag_set("steps=100")
    parser.flag_dry_run()
    parser.flag_json()


def _pretrain(args: argparse.Namespace) -> int:
    from rewardrate import config
    from rewardrate.pretraining.pretrain import Pretraining, PretrainingStep, pretrain

    words = {name: None if value is None else json.dumps(str(value)) for name, value in _named(args).items()}
    chosen = load_recipe(Pretraining, args.recipe, overrides_of(args, seed=args.seed, **words))
    if args.dry_run:
        print(config.dumps(chosen, explain=True), end="")
        return 0
    last: list[PretrainingStep] = []
    with Progress("steps", chosen.steps) as bar:

        def seen(step: PretrainingStep) -> None:
            last[:] = [step]
            bar(step.step)

        folder = pretrain(chosen, seen)
    if args.json:
        print(json.dumps({"folder": str(folder), "loss": last[0].loss, "tokens": last[0].tokens} if last else {}))
        return 0
    if last:
        print(f"{last[0].tokens:,} tokens, loss {last[0].loss:.3f}, {last[0].seconds:.0f} s")
    recipe = chosen.race.races[0] if chosen.race else "gpu" if chosen.model else "laptop"
    print(f"next: rewardrate train {recipe} --set policy.name={folder}")
    return 0


def _named(args: argparse.Namespace) -> dict[str, object]:
    return {"model": args.model, "out": args.out}
