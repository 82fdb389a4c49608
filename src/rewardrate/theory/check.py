"""Test every statement of the paper on many random bandits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from rewardrate.config import AtLeast
from rewardrate.theory.instances import FAMILIES, draw_instance
from rewardrate.theory.statements import STATEMENTS, Case, Statement
from rewardrate.theory.tight import TIGHT


@dataclass(frozen=True)
class CheckConfig:
    """Settings of `rewardrate theory check`."""

    instances: Annotated[int, AtLeast(1)] = 2000
    "Random bandits, from the families in turn."
    seed: Annotated[int, AtLeast(0)] = 0
    "Seed of the random bandits."
    contexts: Annotated[int, AtLeast(1)] = 5
    "Most contexts of a bandit."
    actions: Annotated[int, AtLeast(1)] = 5
    "Most actions of a bandit."
    steps: Annotated[int, AtLeast(3)] = 60
    "Iterates followed in theorems 1 and 2."


@dataclass
class StatementResult:
    """One statement's test results."""

    statement: Statement
    tried: int = 0
    violations: int = 0
    smallest_slack: float = math.inf
    tight: float | None = None
    "Slack on the hand-made tight example; None where there is none."
    counterexamples: list[dict[str, Any]] = field(default_factory=list)
    "The first three violating instances, as JSON to replay."

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "statement": self.statement.name,
            "claim": self.statement.claim,
            "label": self.statement.label,
            "tried": self.tried,
            "violations": self.violations,
            "smallest_slack": None if math.isinf(self.smallest_slack) else self.smallest_slack,
            "tight_slack": self.tight,
            "counterexamples": self.counterexamples,
        }


def check_theory(config: CheckConfig, progress: Callable[[int], None] = lambda done: None) -> list[StatementResult]:
    """One StatementResult per statement. `progress` is called with the number of instances done."""
    results = [StatementResult(statement) for statement in STATEMENTS]
    for result in results:
        if result.statement.name in TIGHT:
            result.tight = TIGHT[result.statement.name]()
    for number, case in enumerate(cases(config), start=1):
        for result in results:
            _test(result, case, config, number)
        progress(number)
    return results


def cases(config: CheckConfig) -> Iterator[Case]:
    """The instances of a check, reproducible one by one: instance i depends on seed and i alone."""
    names = list(FAMILIES)
    for number in range(config.instances):
        rng = np.random.default_rng([config.seed, number])
        yield Case(draw_instance(rng, names[number % len(names)], config.contexts, config.actions), rng, config.steps)


def _test(result: StatementResult, case: Case, config: CheckConfig, number: int) -> None:
    slack = result.statement.check(case)
    if slack is None:
        return
    result.tried += 1
    result.smallest_slack = min(result.smallest_slack, slack)
    if not slack >= -result.statement.allowance:  # NaN is a violation too
        result.violations += 1
        if len(result.counterexamples) < 3:
            result.counterexamples.append(
                {"number": number, "seed": config.seed, "slack": slack, **case.instance.to_json()}
            )
