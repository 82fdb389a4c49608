"""What a model writes for a race before it has learnt anything: replies, implemented and judged, not run.

    python benchmarks/race_replies.py nanogpt-mini --replies 64 --out results/DATE-NAME/replies.csv

The recipe says which model, how replies are drawn and how they are implemented. Half of the prompts show the race's own
script, half a seed script after up to three changes of the catalogue, with a result made up. One line a kind of prompt:
  accepted, low, high   share that would be run, and its 95 % interval (Wilson)
  parts                 replies without CHANGE (format), edits that do not fit (edit), refusals of the judge (modified)
  distinct              different scripts among those accepted
  kinds                 what they change: mechanism, setting, mistake (entries of the catalogue), or new: none of these
"""

from __future__ import annotations

import argparse
import contextlib
import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from first_scripts import wilson

from rewardrate import config
from rewardrate.attempt import Outcome, Parent
from rewardrate.environments.environment import Outcomes
from rewardrate.environments.speedrun import catalogue, race
from rewardrate.environments.speedrun.edits import EditRefused
from rewardrate.environments.speedrun.environment import Speedrun
from rewardrate.policies import LanguageModelPolicy, load_model
from rewardrate.pretraining.race_corpus import RaceCorpus, example
from rewardrate.sandbox import Pool
from rewardrate.training.recipe import Recipe


class Unrun(Speedrun):
    """The race, but what may run is told as it is, instead of being run."""

    def run_each(self, codes: Sequence[str], numbers: Sequence[int] | None = None) -> Outcomes:
        """Every one would be run."""
        for place, code in enumerate(codes):
            yield place, Outcome(True, 0.0, None, 0.1, "not run", "ok", code)


def line(name: str, parents: Sequence[Parent], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One line of the table."""
    n, kept = len(outcomes), [one for one in outcomes if one.valid]
    low, high = wilson(len(kept), n)
    row: dict[str, Any] = {"prompt": name, "n": n, "accepted": len(kept) / n, "low": low, "high": high}
    row["parts"] = dict(Counter(one.status for one in outcomes if not one.valid).most_common())
    row["distinct"] = len({one.code for one in kept})
    kinds = Counter(kind(parent.code, one.code) for parent, one in zip(parents, outcomes, strict=True) if one.valid)
    row["kinds"] = "; ".join(f"{count} {word}" for word, count in kinds.most_common(12))
    return row


def kind(parent: str, code: str) -> str:
    """Of which kind the entry of the catalogue is that makes `code` of `parent`."""
    for entry in catalogue.CATALOGUE:
        for value in entry.values:
            found = entry.suggest(parent, value)
            with contextlib.suppress(EditRefused):
                if found is not None and found.code(parent) == code:
                    return entry.kind
    return "new"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--replies", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="as of rewardrate train")
    parser.add_argument("--out", type=Path, required=True, help="a CSV file")
    args = parser.parse_args()
    recipe = config.load(Recipe, config.find_recipe(args.recipe), args.set)
    choice: Any = recipe.policy
    settings: Any = recipe.environment
    policy = LanguageModelPolicy(load_model(choice.name, device=choice.device), choice.sampling, None)
    rules = race.load(recipe.task)
    corpus = RaceCorpus(races=(recipe.task,), changes=3, seeds=1.0)
    known = [example(corpus, args.seed + 10**6, number).parent for number in range(args.replies)]
    rows = []
    with Pool(slots=1) as pool:
        environment = Unrun(rules, pool, settings, policy.count)
        for name, parents in (("baseline", [None] * args.replies), ("seeds", known)):
            proposals = policy.propose([environment.prompt(parent) for parent in parents], args.seed)
            outcomes = environment.execute([proposal.text for proposal in proposals], parents)
            shown = [parent or Parent(rules.baseline, "") for parent in parents]
            rows.append(line(name, shown, outcomes))
            print(rows[-1], flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    with args.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{one:.4g}" if isinstance(one, float) else one for name, one in row.items()} for row in rows
        )


if __name__ == "__main__":
    main()
