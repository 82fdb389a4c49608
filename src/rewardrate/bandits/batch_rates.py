"""The charged quantile of NIW's batch rates, compiled: what `rates.predictive` does, for thousands of trials at once.

A refit charges a quantile of M batch rates, each sum(x) / sum(exp(y)) over n Student-t pairs. Only that quantile is
needed, so only it is drawn: it interpolates two neighbouring order statistics of M independent draws, and those of
uniforms have a known distribution (the k-th is Beta(k, M + 1 - k), its neighbour follows from one more uniform). The
rate at that probability comes from the Cornish-Fisher expansion that `rates.predictive` explains, with the moments of
W = x - t exp(y) taken at the one t that matters. Where times are spread too widely for it, a saddlepoint
approximation of the same probability takes over; with fewer than 8 slots every pair is drawn. Paper, section
"Bandit Baselines" and equations (method:niw), (method:rate).
"""

from __future__ import annotations

import math
from typing import Any

from rewardrate.bandits.compiled import jit
from rewardrate.bandits.counter import normal_pair, uniform
from rewardrate.bandits.lanes import LANES, lane, sum_lanes, sync_lanes

MIN_SLOTS = 8  # below, every pair is drawn
MIN_DOF = 10.0  # degrees of freedom; below, every pair is drawn too
HALF = 16  # nodes u = 0.75 k, k = -16 .. 16: enough for a Student-t density of 10 or more degrees of freedom
NODE = 0.75
# Layout of the array `weights`: those of k = 0 .. 16 (the density is even), the degrees of freedom they are for, then
# exp(s u) and exp(-s u) at the same nodes.
DOF, UP, DOWN = HALF + 1, HALF + 2, 2 * HALF + 3
WEIGHTS = 3 * HALF + 4
TRUNCATION_SHARE = 0.03  # the expansion's last term may be this share of the Monte-Carlo error of the charged quantile
ROOT_TWO_PI = math.sqrt(2 * math.pi)
NO_ANSWER = -1e300  # a number and not NaN, which the GPU's fast arithmetic may lose


@jit
def normal_isf(tail: float) -> float:
    """The z with P(Z > z) = tail for a standard normal: a rational start (Hastings), two steps of Halley."""
    p = min(tail, 1.0 - tail)
    root = math.sqrt(-2.0 * math.log(p))
    z = root - (2.30753 + 0.27061 * root) / (1.0 + root * (0.99229 + 0.04481 * root))
    for _ in range(2):
        step = (0.5 * math.erfc(z / math.sqrt(2.0)) - p) * ROOT_TWO_PI * math.exp(0.5 * z * z)
        z += step / (1.0 - 0.5 * z * step)
    return z if tail <= 0.5 else -z


@jit
def gamma(shape: float, key: Any, i: Any) -> tuple[float, Any]:
    """A Gamma(shape >= 1) from numbers i, i + 1, .. of a stream, and the next free number (Marsaglia and Tsang)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        z, _ = normal_pair(key, i)
        u = uniform(key, i + 2)
        i += 3
        v = 1.0 + c * z
        if v > 0.0:
            v = v * v * v
            if u < 1.0 - 0.0331 * z * z * z * z:  # most draws need no logarithm
                return d * v, i
            if math.log(u) < 0.5 * z * z + d - d * v + d * math.log(v):
                return d * v, i


@jit
def normal_quantile(batches: Any, quantile: float, key: Any) -> float:
    """Draw the `quantile` (numpy's interpolation) of `batches` standard normals, without drawing the normals."""
    # The (k+1)-th smallest of M uniforms is Beta(k + 1, M - k), made of two gammas; `tail` is its distance from 1.
    # Given it, the M - k - 1 larger uniforms are independent and uniform above it, so the smallest of them leaves the
    # tail tail * U^(1 / (M - k - 1)). Both are mapped to normals and interpolated as numpy.quantile does.
    place = quantile * (batches - 1)
    below = int(place)
    first, i = gamma(float(below + 1), key, 0)
    rest, i = gamma(float(batches - below), key, i)
    tail = rest / (first + rest)
    z = normal_isf(tail)
    if below + 1 < batches:
        above = tail * math.exp(math.log(uniform(key, i)) / (batches - below - 1))
        z += (place - below) * (normal_isf(above) - z)
    return z


@jit
def student_weights(dof: float, weights: Any) -> None:
    """Trapezoid weights of a standard Student-t density at the nodes; kept until the degrees of freedom change."""
    # The trapezoid rule converges exponentially on a smooth density that decays, so 33 equidistant nodes suffice.
    if weights[DOF] == dof:
        return
    total = 0.0
    for k in range(lane(), HALF + 1, LANES):
        u = NODE * k
        weights[k] = math.exp(-0.5 * (dof + 1.0) * math.log1p(u * u / dof))
        total += weights[k] if k == 0 else 2.0 * weights[k]
    total, _, _, _ = sum_lanes(total, 0.0, 0.0, 0.0)
    for k in range(lane(), HALF + 1, LANES):
        weights[k] /= total
    sync_lanes()
    if lane() == 0:
        weights[DOF] = dof


@jit
def exp_at_nodes(s: float, weights: Any) -> None:
    """Write exp(s u) and exp(-s u) at the nodes behind the weights."""
    # Equidistant nodes: one exponential and repeated products give them all.
    growth = math.exp(NODE * s)
    up, down = 1.0, 1.0
    for k in range(HALF + 1):
        if k % LANES == lane():
            weights[UP + k], weights[DOWN + k] = up, down
        up *= growth
        down /= growth
    sync_lanes()


@jit
def solve_rate(w: float, center: float, time: float, c0: float, c1: float, c2: float) -> float:
    """The t with t time - center = w sqrt(c0 + c1 t + c2 t^2), sign included; NO_ANSWER if there is none."""
    # Squared, this is the quadratic a t^2 - 2 b t + c = 0 with a = time^2 - w^2 c2 and b = center time + w^2 c1 / 2.
    # Its discriminant is written out as w^2 times `inner`: b^2 - a c would lose all digits where w is small, and the
    # factor w carries the sign that squaring lost.
    ww = w * w
    a = time * time - ww * c2
    inner = center * (center * c2 + time * c1) + time * time * c0 + ww * (c1 * c1 / 4.0 - c0 * c2)
    if a <= 0.0 or inner < 0.0:
        return NO_ANSWER
    return (center * time + ww * (c1 / 2.0) + w * math.sqrt(inner)) / a


@jit
def cornish_fisher(z: float, mean: Any, scale: Any, dof: float, n: float, weights: Any) -> tuple[float, float]:
    """(rate at the normal score z, truncation error in standard deviations); 1e300 for the latter without an answer.

    `mean` is (E x, E y), `scale` (xx, xy, yy). Cornish-Fisher to order n^(-3/2), as in `rates.predictive`.
    """
    # P(rate <= q) = P(sum_j W_j <= 0) with W = x - q exp(y): the ratio's distribution is that of a sum at one point.
    # With y = E y + s u and t = q exp(E y), W = x - t exp(s u), and x given u is b u plus a scaled Student-t with
    # variance proportional to dof + u^2. So every moment of W is a one-dimensional integral over the density of u.
    student_weights(dof, weights)
    xx, xy, yy = scale
    s = math.sqrt(yy)
    if s * NODE * HALF > 100.0:
        return NO_ANSWER, 1e300
    b = xy / s if s > 0.0 else 0.0
    cc = max(xx - b * b, 0.0)
    exp_at_nodes(s, weights)
    time = 0.0
    for k in range(lane(), HALF + 1, LANES):
        time += weights[k] * (weights[UP + k] + weights[DOWN + k] if k > 0 else 1.0)
    time, _, _, _ = sum_lanes(time, 0.0, 0.0, 0.0)
    # Second and fourth moment of the remaining Student-t (dof + 1 degrees of freedom), without the factor dof + u^2.
    second = cc / (dof - 1.0)
    fourth = 3.0 * cc * cc / ((dof - 1.0) * (dof - 3.0))
    c0, c1, c2 = spread_polynomial(b, second, dof, time, weights)
    # The central limit theorem alone: E W = -z sd(W) / sqrt(n). It gives the t at which the higher moments are taken.
    root = math.sqrt(n)
    t = solve_rate(z / root, mean[0], time, c0, c1, c2)
    if t == NO_ANSWER:
        return NO_ANSWER, 1e300
    m2, m3, m4, m5 = central_moments(t, b, second, fourth, dof, time, weights)
    if m2 <= 0.0:  # x and exp(y) are constants: so is every rate
        return t * math.exp(-mean[1]), 0.0
    # Standardised cumulants of the sum: of order n^(-1/2), n^(-1) and n^(-3/2). `w` has the Cornish-Fisher terms of the
    # first two orders, `last` those of the third; `beyond` is one of the fourth and stands for all that is left out.
    unit = m2 * math.sqrt(m2) * root
    skew = m3 / unit
    kurtosis = (m4 / (m2 * m2) - 3.0) / n
    fifth = (m5 / m2 - 10.0 * m3) / (unit * n)
    zz = z * z
    last = (zz * zz - 6.0 * zz + 3.0) / 120.0 * fifth - (zz * zz - 5.0 * zz + 2.0) / 24.0 * skew * kurtosis
    last += (12.0 * zz * zz - 53.0 * zz + 17.0) / 324.0 * skew * skew * skew
    w = z + (zz - 1.0) / 6.0 * skew + (zz - 3.0) * z / 24.0 * kurtosis - (2.0 * zz - 5.0) * z / 36.0 * skew * skew
    beyond = abs(3.0 * z * zz * zz - 24.0 * z * zz + 29.0 * z) / 192.0 * kurtosis * kurtosis
    better = solve_rate((w + last) / root, mean[0], time, c0, c1, c2)
    if better == NO_ANSWER:
        return NO_ANSWER, 1e300
    return better * math.exp(-mean[1]), max(abs(last), beyond)


@jit
def spread_polynomial(b: float, second: float, dof: float, time: float, weights: Any) -> Any:
    """(c0, c1, c2) with Var[x - t exp(s u)] = c0 + c1 t + c2 t^2."""
    uu, ut, tt = 0.0, 0.0, 0.0
    for k in range(lane(), HALF + 1, LANES):
        u, up, down = NODE * k, weights[UP + k], weights[DOWN + k]
        uu += 2.0 * weights[k] * u * u
        ut += weights[k] * u * (up - down)
        tt += weights[k] * ((up - time) ** 2 + ((down - time) ** 2 if k > 0 else 0.0))
    uu, ut, tt, _ = sum_lanes(uu, ut, tt, 0.0)
    return b * b * uu + second * (dof + uu), -2.0 * b * ut, tt


@jit
def central_moments(
    t: float, b: float, second: float, fourth: float, dof: float, time: float, weights: Any
) -> tuple[float, float, float, float]:
    """Central moments two to five of W = x - t exp(s u).

    Given u, W is g(u) = b u - t (exp(s u) - time) plus a scaled Student-t with one more degree of freedom.
    """
    m2, m3, m4, m5 = 0.0, 0.0, 0.0, 0.0
    for k in range(lane(), HALF + 1, LANES):
        u = NODE * k
        wide = dof + u * u
        v2, v4 = second * wide, fourth * wide * wide
        for side in range(2):  # u and -u; k = 0 once
            if k > 0 or side == 0:
                g = b * u - t * (weights[UP + k] - time) if side == 0 else -b * u - t * (weights[DOWN + k] - time)
                gg = g * g
                m2 += weights[k] * (gg + v2)
                m3 += weights[k] * g * (gg + 3.0 * v2)
                m4 += weights[k] * (gg * (gg + 6.0 * v2) + v4)
                m5 += weights[k] * g * (gg * (gg + 10.0 * v2) + 5.0 * v4)
    return sum_lanes(m2, m3, m4, m5)


@jit
def tilted(
    tau: float, t: float, x: float, b: float, second: float, fourth: float, dof: float, weights: Any
) -> tuple[float, float, float, float]:
    """K, K', K'' in tau and dK/dt of K = log E exp(tau (x - t exp(s u))), the cumulant function of one W.

    Given u, x is nearly normal: variance and fourth cumulant of its Student-t are kept.
    """
    total, first, square, time = 0.0, 0.0, 0.0, 0.0
    for k in range(lane(), HALF + 1, LANES):
        u = NODE * k
        wide = dof + u * u
        v2, c4 = second * wide, (fourth - 3.0 * second * second) * wide * wide
        even = tau * tau * (0.5 * v2 + tau * tau * c4 / 24.0)
        slope, bend = tau * (v2 + tau * tau * c4 / 6.0), v2 + 0.5 * tau * tau * c4
        for side in range(2):
            if k > 0 or side == 0:
                e = weights[UP + k] if side == 0 else weights[DOWN + k]
                center = x + (b * u if side == 0 else -b * u) - t * e
                p = weights[k] * math.exp(tau * center + even)
                h = center + slope
                total += p
                first += p * h
                square += p * (h * h + bend)
                time += p * e
    total, first, square, time = sum_lanes(total, first, square, time)
    mean = first / total
    return math.log(total), mean, square / total - mean * mean, -tau * time / total


@jit
def saddlepoint(z: float, start: float, mean: Any, scale: Any, dof: float, n: float, weights: Any) -> float:
    """The rate at the normal score z > 0 by the saddlepoint approximation; NO_ANSWER if it does not converge.

    P(sum W <= 0) = Phi(r + log(v / r) / r), r = sqrt(-2 n K), v = tau sqrt(n K''), at the tau with K' = 0 (Lugannani
    and Rice, in Barndorff-Nielsen's form). `start` is a first guess of t = rate * exp(E y). Needs the `weights` that
    `cornish_fisher` left.
    """
    # Two nested Newton iterations: the inner one finds the tilt tau at which W has mean zero (K' = 0) for the present
    # t, the outer one moves t until the approximation's normal score is z. The outer derivative is dr/dt = -n K_t / r:
    # by K' = 0 the tilt's own dependence on t drops out, and the small logarithm is taken as constant.
    xx, xy, yy = scale
    s = math.sqrt(yy)
    b = xy / s if s > 0.0 else 0.0
    cc = max(xx - b * b, 0.0)
    second = cc / (dof - 1.0)
    fourth = 3.0 * cc * cc / ((dof - 1.0) * (dof - 3.0))
    t, tau = start, 0.0
    for _ in range(40):
        for _ in range(60):
            k0, k1, k2, kt = tilted(tau, t, mean[0], b, second, fourth, dof, weights)
            if k2 <= 0.0:
                return NO_ANSWER
            step = -k1 / k2
            tau += step
            if abs(step) * math.sqrt(k2) < 1e-9 or abs(tau * (abs(mean[0]) + t)) > 200.0:
                break
        if not (k0 < 0.0 and tau > 0.0):  # t is below the mean of the rates: the root lies above
            t *= 1.05
            tau = 0.0
            continue
        r = math.sqrt(-2.0 * n * k0)
        miss = r + math.log(tau * math.sqrt(n * k2) / r) / r - z
        if abs(miss) < 1e-7:
            return t * math.exp(-mean[1])
        move = miss * r / (n * kt)
        t += min(max(move, -0.2 * t), 0.2 * t)
    return NO_ANSWER


@jit
def draw_every_pair(
    mean: Any, scale: Any, dof: float, n: Any, batches: Any, quantile: float, key: Any, top: Any
) -> Any:
    """The quantile of `batches` batch rates with every pair drawn. `top` is an array for the largest of them."""
    # Only the largest `keep` rates decide a high quantile, so they are kept sorted by insertion, the largest first, and
    # the others are dropped as they come.
    xx, xy, yy = scale
    sx = math.sqrt(xx)
    along = xy / sx if sx > 0.0 else 0.0
    across = math.sqrt(max(yy - along * along, 0.0))
    place = quantile * (batches - 1)
    below = int(place)
    keep = batches - below
    held = 0
    i = 0
    for _ in range(batches):
        total, spent = 0.0, 0.0
        for _ in range(n):
            z1, z2 = normal_pair(key, i)
            half_chi_square, i = gamma(0.5 * dof, key, i + 2)
            stretch = math.sqrt(0.5 * dof / half_chi_square)
            total += mean[0] + stretch * sx * z1
            spent += math.exp(mean[1] + stretch * (along * z1 + across * z2))
        rate = total / spent
        if held < keep:
            j = held
            held += 1
        elif rate > top[keep - 1]:
            j = keep - 1
        else:
            continue
        while j > 0 and top[j - 1] < rate:  # the largest first
            top[j] = top[j - 1]
            j -= 1
        top[j] = rate
    low = top[keep - 1]
    return low if keep < 2 else low + (place - below) * (top[keep - 2] - low)


@jit
def charged_rate(
    mean: Any, scale: Any, dof: float, n: Any, batches: Any, quantile: float, literal: float, key: Any, scratch: Any
) -> Any:
    """One refit's quantile of the batch rates. `scratch` holds the weights, then the largest draws."""
    if n >= MIN_SLOTS and dof >= MIN_DOF and literal == 0.0:
        z = normal_quantile(batches, quantile, key)
        rate, truncation = cornish_fisher(z, mean, scale, dof, float(n), scratch)
        # Accept an approximation only where its error is small against the Monte-Carlo error that a quantile of M rates
        # has anyway, sqrt(q (1 - q) / M) over the density at the quantile.
        density = math.exp(-0.5 * z * z) / ROOT_TWO_PI
        error = math.sqrt(quantile * (1.0 - quantile) / batches) / density
        if truncation <= TRUNCATION_SHARE * error:
            return rate
        if z > 0.5 and mean[0] > 0.0:
            rate = saddlepoint(z, 1.1 * mean[0] * math.exp(-0.5 * scale[2]), mean, scale, dof, float(n), scratch)
            if rate != NO_ANSWER:
                return rate
    rate = draw_every_pair(mean, scale, dof, n, batches, quantile, key, scratch[WEIGHTS:]) if lane() == 0 else 0.0
    rate, _, _, _ = sum_lanes(rate, 0.0, 0.0, 0.0)
    return rate
