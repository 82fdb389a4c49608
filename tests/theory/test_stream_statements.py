"""Streams on every course of a small run: exact where the order is that of starting, and not where it is another."""

import pytest

from rewardrate.theory.check import CheckConfig, cases
from rewardrate.theory.stream_statements import (
    SmallLearner,
    courses,
    draw_learner,
    finish_order,
    never_later,
    no_ratio,
    start_order,
)

CASES = list(cases(CheckConfig(instances=24, seed=5)))
LEARNER = SmallLearner(seconds=(1.0, 10.0), value=(0.0, 1.0), logit=0.0, pull=(-1.0, 1.5))


@pytest.mark.parametrize("statement", [start_order, no_ratio, finish_order, never_later])
def test_it_holds_on_random_learners(statement):
    assert min(statement(case) for case in CASES) >= -1e-12


@pytest.mark.parametrize("order", ["start", "finish"])
def test_the_courses_are_all_of_them(order):
    assert sum(one.chance for one in courses(LEARNER, order)) == pytest.approx(1, abs=1e-12)
    assert all(sum(one.chance for one in courses(draw_learner(case), order)) == pytest.approx(1) for case in CASES)


def test_in_finish_order_importance_ratios_do_not_repair_the_selection():
    away = LEARNER._replace(pull=(-1.0, -1.0))
    off = {order: sum(one.chance * one.weighted for one in courses(away, order)) for order in ("start", "finish")}
    assert abs(off["start"]) < 1e-12
    assert off["finish"] < -0.3  # of three attempts: the slow kind is worth 1 and comes late


def test_in_finish_order_what_ended_lacks_what_the_running_attempt_has_too_much():
    fixed = LEARNER._replace(pull=(0.0, 0.0))
    found = courses(fixed, "finish")
    assert sum(one.chance * one.plain for one in found) == pytest.approx(-_missed(), abs=1e-12)


def _missed():
    """Chance that the attempt is slow that still runs when three have ended, less 1/2: enumerated anew."""
    total = 0.0
    for code in range(16):
        kinds = [code >> place & 1 for place in range(4)]
        running, now, started, ended = [], 0.0, 0, 0
        while started < 2:
            running.append((now + (10.0 if kinds[started] else 1.0), started))
            started += 1
        while True:
            running.sort()
            now, _ = running.pop(0)
            ended += 1
            if ended == 3:
                break
            running.append((now + (10.0 if kinds[started] else 1.0), started))
            started += 1
        total += sum(kinds[number] - 0.5 for _, number in running) / 16
    return total
