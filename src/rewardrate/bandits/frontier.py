"""The best policy of C-UCB, exactly, without enumerating policies.

C-UCB (Gyorgy et al., 2007) prices a second at the largest index of all deterministic policies u: contexts -> arms,

    index(u) = R(u) / D(u) - sqrt(kappa / T(u)),    kappa = 2 c1 (log t + log(|U| + 1) / 2),

a lower confidence bound on the rate of u. R, D and T are the reward, the seconds and the number of the past steps that
agree with u. A step in context x agrees when the arm it played was u(x), so each is a sum over contexts of the totals
of cell (x, u(x)): sums, not means. An arm that was never played adds nothing to any of them; a policy that no step
agrees with has index -inf. Paper, equations (bandit:rate), (eq:omega) and (eq:b-width).

This is a branch and bound. It keeps a value f that some policy has and looks for a policy that beats it (`bounds` has
the mathematics). All policies together are one part (a node of the search tree); a part is bounded by scans of its
cells, each of which also proposes a policy and drops arms that no better policy can have. What is left is split, in
s = D / sqrt(T) or by the arms of one context, whichever makes the bound looser. When no part is left, f is the maximum.
Parts are dropped only when their bound is below zero by more than rounding can account for, and every candidate is
evaluated by adding over contexts in order, so f has the bits that a brute force has.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardrate.bandits.bounds import other_group, policy_index, prune_arms, ranges, relax, split_arms
from rewardrate.bandits.compiled import exact
from rewardrate.bandits.fronts import COUNT, DEPTH, NO_ARM

TIES = 5_000  # parts after which policies that differ by rounding alone are no longer told apart
ROUNDS = 24  # scans of a part before it is split
ROUNDING = 2e-15  # of a sum's size and per term: several times what two ways of adding can differ by
# Numbers of a part: its interval of s, the slope d of its tangent plane, the s of the policy that has the bound, how
# much looser the chord is than the tangent plane there, and the largest R, D and T (for rounding).
LOW, HIGH, SLOPE, AT, LOOSE, REWARD_SIZE, SECONDS_SIZE, COUNT_SIZE = range(8)


@exact
def rate_kappa(c1: float, t: float, log_policies: float) -> float:
    """Width of the index at step t, kappa = 2 c1 (log max(t, 2) + log_policies / 2). `log_policies` is log(|U| + 1)."""
    return 2.0 * c1 * (math.log(max(t, 2.0)) + 0.5 * log_policies)


@exact
def log_policies(contexts: float, actions: float) -> float:
    """log(|U| + 1) with |U| = actions ** contexts, which may be too large for a float itself."""
    log_count = contexts * math.log(actions)
    return log_count + math.log1p(math.exp(-log_count))


@exact
def shrink_interval(point: Any, live: Any, part: Any, root: float) -> bool:
    """Shrink the interval of s = D / sqrt(T) to what the live arms allow. False if nothing is left."""
    reward, least_seconds, seconds, least_count, count = ranges(point, live)
    part[REWARD_SIZE], part[SECONDS_SIZE], part[COUNT_SIZE] = reward, seconds, count
    if count == 0.0:
        return False
    if root > 0.0:
        part[LOW] = max(part[LOW], least_seconds / math.sqrt(count))
        if least_count > 0.0:
            part[HIGH] = min(part[HIGH], seconds / math.sqrt(least_count))
        if part[LOW] > part[HIGH] * (1.0 + 1e-12):
            return False
        part[HIGH] = max(part[LOW], part[HIGH])
    return True


@exact
def bound_part(frontier: Any, now: int, kappa: float, f: float, ties: bool) -> tuple[float, bool]:
    """Scan one part until it has no arms to spare, its bound is below zero, or scans no longer help.

    Returns f, raised where a scan met a better policy, and whether anything is left. The part then holds the s of the
    policy that has the bound (AT), and which inequality makes it look better than it is: the chord where LOOSE > 0.
    """
    # Each round is one scan of the cells: the bound of `bounds` for the present interval [low, high] of s and slope d,
    # and the policy (R, D, T) that attains it. The policy is a candidate for f, and tells what to tighten next.
    point, arm, live, part = frontier.point, frontier.arm, frontier.live[now], frontier.part[now]
    root, least, most, dropped = math.sqrt(kappa), 0.0, np.inf, 1
    part[LOOSE] = -1.0
    for _ in range(ROUNDS):
        if dropped > 0 and not shrink_interval(point, live, part, root):
            return f, False
        low, high, d, before = part[LOW], part[HIGH], part[SLOPE], f
        # One of the first two parts is unbounded above: its chord degenerates to s >= low (tilt = 0), and R - f D is
        # bounded.
        tilt = root / (low + high)
        shift = tilt * low * high if high < np.inf else root * low
        alpha, beta = f + 2.0 * tilt * d, tilt * d * d
        bound, R, D, T = relax(point, arm, live, alpha, beta)
        # Rounding of the sums is proportional to the size of what is summed. A part is dropped only if its bound is
        # below zero by more than that, or, after TIES parts, if nothing but rounding is left to find in it.
        terms = part[REWARD_SIZE] + (abs(f) + 2.0 * tilt * d) * part[SECONDS_SIZE] + beta * part[COUNT_SIZE] + shift
        rounding = ROUNDING * (live.size + 8) * terms
        limit = bound - shift + rounding
        if T > 0.0 and R / D - math.sqrt(kappa / T) > f:
            f = R / D - math.sqrt(kappa / T)
            for x in range(live.size):
                frontier.best[x] = arm[x, 0]  # `relax` has moved the policy's arms to the first places
        if limit < 0.0 or (limit < 2.0 * rounding and not ties):
            return f, False
        dropped, spare = prune_arms(point, arm, live, alpha=alpha, beta=beta, limit=limit)
        if spare == 0:
            return f, False
        if high == np.inf:
            # gain <= limit + shift - sqrt(kappa) s: beyond this s nothing is to be gained.
            part[HIGH] = (limit + shift) / root
        elif root == 0.0 or T == 0.0:
            if dropped == 0 and f == before:
                break
        else:
            # How far each inequality is from equality at this policy, in s^2: the chord by (s - low) (high - s), the
            # tangent plane by (D - d T)^2 / T.
            off = D - d * T
            part[AT] = D / math.sqrt(T)
            part[LOOSE] = (part[AT] - low) * (high - part[AT]) - off * off / T
            if part[LOOSE] < 0.0:
                # The tangent plane is the looser one: move d towards this policy's D / T. The best slope lies between
                # `least` and `most`; bisect where D / T is not inside.
                least, most = (d, most) if off > 0.0 else (least, d)
                if most - least < 1e-6 * d:
                    break
                part[SLOPE] = D / T if least < D / T < most else 0.5 * (least + most)
            elif dropped < spare:  # another scan would cost more than a split
                break
    return f, True


@exact
def split_part(frontier: Any, now: int, new: int) -> None:
    """Branch: split a part in two, one in its place, the other as part `new`; in s where the chord is loose."""
    live, part, split = frontier.live, frontier.part, frontier.split
    for x in range(live.shape[1]):
        live[new, x] = live[now, x]
    for i in range(part.shape[1]):
        part[new, i] = part[now, i]
    split[new, 0] = NO_ARM
    if part[now, LOOSE] > 0.0:
        part[now, LOW] = part[new, HIGH] = part[now, AT]
    else:
        split_arms(frontier.point, frontier.arm, live[now], part[now, SLOPE], split[now])
        live[new, split[now, 0]] = split[now, 1]


@exact
def search(frontier: Any, kappa: float, f: float, goal: float, seconds: float, count: float, parts: int) -> Any:
    """Look for indices above f among all policies of the front's arms, until one reaches `goal` or none is left.

    `seconds` and `count` are D and T of a good policy, about which the bounds are built. Returns the best index
    (f if nothing beats it; the policy is in `best`) and whether that is proven: False after so many `parts`.
    """
    live, part, split = frontier.live, frontier.part, frontier.split
    at = seconds / math.sqrt(count)
    # Two parts to begin with: below and above the s of the policy that is known to be good, where most searches end.
    # The stack holds parts depth first, the deepest last.
    for now in range(2):
        for x in range(frontier.size.size):
            live[now, x] = frontier.size[x]
        part[now, LOW], part[now, HIGH], part[now, SLOPE] = (0.0, at, seconds / count)
        split[now, 0] = NO_ARM
    waiting = 1
    if kappa > 0.0:
        part[0, LOW], part[0, HIGH] = at, np.inf
        waiting = 2
    seen = 0
    while waiting > 0:
        seen += 1
        now = waiting - 1
        x = split[now, 0]
        if x != NO_ARM:  # the first group of this context is done: the part comes back with the second
            live[now, x] = other_group(frontier.point, frontier.arm, x, split[now, 1], live[now, x])
            split[now, 0] = NO_ARM
        f, left = bound_part(frontier, now, kappa, f, seen <= TIES)
        if f >= goal:
            break
        if not left:
            waiting -= 1
        elif seen >= parts or waiting == DEPTH:
            break
        else:
            split_part(frontier, now, waiting)
            waiting += 1
    frontier.parts[0] = seen
    return f, waiting == 0 or f >= goal


@exact
def maximise(frontier: Any, kappa: float, floor: float, parts: int) -> Any:
    """(the largest index of all policies, or `floor` if that is larger; whether this is proven).

    The policy is left in `best`, from which the next search starts: from one step to the next little changes. What it
    starts from changes the time a search takes and nothing else. At `floor` the search stops looking for policies that
    C-UCB would not use (it charges at least 1e-9); then `best` may be any policy.
    """
    index, seconds, count = policy_index(frontier.total, frontier.best, kappa)
    if count == 0.0:
        for x in range(frontier.best.size):
            for a in range(frontier.total.shape[2]):
                if frontier.total[x, COUNT, a] > frontier.total[x, COUNT, frontier.best[x]]:
                    frontier.best[x] = a
        index, seconds, count = policy_index(frontier.total, frontier.best, kappa)
    if count == 0.0:
        return floor, True
    return search(frontier, kappa, f=max(index, floor), goal=np.inf, seconds=seconds, count=count, parts=int(parts))
