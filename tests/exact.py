"""Slow, obvious and exact: the bandit in rational numbers, by enumeration. The reference the fast code is held to."""

import itertools
from fractions import Fraction as Q

from hypothesis import strategies as st

REWARDS, SECONDS = st.integers(0, 6), st.integers(1, 6)


@st.composite
def problems(draw, contexts=3, actions=3, reward=REWARDS):
    """Small whole-number tables (many ties) and rational probabilities."""
    x, a = draw(st.integers(1, contexts)), draw(st.integers(1, actions))
    table = lambda entry: [[Q(draw(entry)) for _ in range(a)] for _ in range(x)]
    weight = [Q(draw(st.integers(1, 4))) for _ in range(x)]
    return table(reward), table(SECONDS), [w / sum(weight) for w in weight]


def rate(problem, policy):
    reward, seconds, p = problem
    earned = sum(w * row[a] for w, row, a in zip(p, reward, policy, strict=True))
    return earned / sum(w * row[a] for w, row, a in zip(p, seconds, policy, strict=True))


def policies(problem):
    return itertools.product(range(len(problem[0][0])), repeat=len(problem[0]))


def best(problem):
    return max(rate(problem, policy) for policy in policies(problem))


def q(problem, rho):
    return [[r - rho * s for r, s in zip(rs, ss, strict=True)] for rs, ss in zip(problem[0], problem[1], strict=True)]


def greedy(problem, rho):
    """All greedy policies: every way of breaking the ties."""
    choices = [[a for a, value in enumerate(row) if value == max(row)] for row in q(problem, rho)]
    return list(itertools.product(*choices))


def F(problem, rho):
    return sum(w * max(row) for w, row in zip(problem[2], q(problem, rho), strict=True))


def margin(problem, rho):
    """None where there is a single action."""
    rows = [sorted(row) for row in q(problem, rho)]
    return None if len(rows[0]) == 1 else min(row[-1] - row[-2] for row in rows)


def spread(problem):
    return max(max(row) - min(row) for row in problem[1])


def limits(problem):
    """(delta_min, delta_max, r_max)."""
    seconds = [s for row in problem[1] for s in row]
    return min(seconds), max(seconds), max(r for row in problem[0] for r in row)


def floats(problem):
    reward, seconds, p = problem
    as_float = lambda table: [[float(v) for v in row] for row in table]
    return as_float(reward), as_float(seconds), [float(w) for w in p]
