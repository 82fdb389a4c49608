"""The check itself: reproducible, and able to find a violation."""

import dataclasses
import json
import math

from rewardrate.theory import check
from rewardrate.theory.check import CheckConfig, cases, check_theory
from rewardrate.theory.statements import STATEMENTS, Statement


def test_the_paper_survives_and_the_run_is_reproducible():
    seen = []
    config = CheckConfig(instances=36, steps=20)
    findings = check_theory(config, seen.append)
    assert seen == list(range(1, 37))
    assert [finding.violations for finding in findings] == [0] * len(STATEMENTS)
    assert [f.smallest_slack for f in findings] == [f.smallest_slack for f in check_theory(config)]
    assert json.loads(json.dumps(findings[0].to_json(), allow_nan=False))["tried"] == 36


def test_a_false_statement_is_caught_with_problems_to_replay(monkeypatch):
    false = Statement("false", "the optimal rate is at most 0.1", "-", lambda case: 0.1 - case.bounds.rho_star)
    nan = Statement("nan", "not a number", "-", lambda case: math.nan)
    never = Statement("never", "never tried", "-", lambda case: None)
    monkeypatch.setattr(check, "STATEMENTS", (false, nan, never))
    caught, not_a_number, untried = check_theory(CheckConfig(instances=24))
    assert caught.violations > 10
    assert not_a_number.violations == 24
    assert (untried.tried, untried.to_json()["smallest_slack"]) == (0, None)
    assert len(caught.counterexamples) == 3
    assert caught.counterexamples[0]["slack"] < 0


def test_problem_i_depends_on_seed_and_i_alone():
    few, many = list(cases(CheckConfig(instances=5))), list(cases(CheckConfig(instances=9)))
    for one, other in zip(few, many, strict=False):
        assert one.instance.to_json() == other.instance.to_json()
    other_seed = next(cases(dataclasses.replace(CheckConfig(), seed=1)))
    assert other_seed.instance.to_json() != few[0].instance.to_json()
