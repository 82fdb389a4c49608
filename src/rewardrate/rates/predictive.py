"""Batch rates of the NIW predictive: M draws of sum(x) / sum(exp(y)) over n bivariate Student-t pairs.

Done literally this takes M * n pairs, 128,000 at the paper's setting. But only the M ratios are wanted, and each is
one number with one distribution, the same for all. So we work out that distribution's quantile function Q and draw
each ratio by inverse transform: rate = Q(Phi(z)) with a single normal z. No bank of draws is kept, so refits are
independent of each other, as literal ones are.

Q comes from a standard identity for ratios with a positive denominator,

    P(sum x / sum exp(y) <= q)  =  P(sum_j W_j <= 0),      W = x - q exp(y),

and from the Cornish-Fisher expansion of a sum of n independent terms to order n^(-3/2). The cumulants of W are
polynomials in q whose coefficients, the central co-moments of (x, exp y) up to order five, are one-dimensional
integrals over the predictive's own density, cut at twelve scale units (exp of a Student-t has no finite mean; with the
degrees of freedom we accept, no sample ever gets there). Three things must be small against the Monte-Carlo error that
M draws have anyway, or we draw literally: the expansion's last term, a measure of the terms after it, and the distance
of the polynomial we evaluate from the equation it stands for.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ORDER = 5  # co-moments up to this order enter the n^(-3/2) term
FEWEST = 16  # slots; below, an expansion in 1 / sqrt(n) means little
MOST_PAIRS = 4_000_000  # drawn at once, 200 MB
SHARE = 0.03  # the expansion's last term may be this share of the Monte-Carlo error of the charged quantile
# Trapezoid nodes for the standardised log time: spectral accuracy on a smooth density.
NODES = np.arange(-48, 49) * 0.25
POWERS = NODES ** np.arange(ORDER + 1)[:, None]

# Q is solved at Chebyshev points in z and interpolated; a normal leaves [-4.5, 4.5] once in 147,000 draws.
POINTS = 4.5 * np.cos(np.pi * (np.arange(7) + 0.5) / 7)
TO_POLYNOMIAL = np.linalg.inv(POINTS[:, None] ** np.arange(POINTS.size))
EXPONENTS = np.arange(ORDER + 1)[:, None]

# Row k - 2, column j: the coefficient of E[x^(k-j) e^j] t^j in E[(x - t e)^k], and where that moment stands.
SIGNED = np.array([[math.comb(k, j) * (-1.0) ** j for j in range(ORDER + 1)] for k in range(2, ORDER + 1)])
PLACES = np.array([[max(k - j, 0) * (ORDER + 1) + j for j in range(ORDER + 1)] for k in range(2, ORDER + 1)])


def _hermite(z: Array) -> Array:
    """Cornish-Fisher polynomials in z for skew; kurtosis, skew^2; fifth, skew * kurtosis, skew^3 (one row each)."""
    zz = z * z
    return np.array(
        [
            (zz - 1) / 6,
            (zz - 3) * z / 24,
            -(2 * zz - 5) * z / 36,
            (zz * zz - 6 * zz + 3) / 120,
            -(zz * zz - 5 * zz + 2) / 24,
            (12 * zz * zz - 53 * zz + 17) / 324,
        ]
    )


class Predictive(NamedTuple):
    """Student-t predictive of one pair (x, y) = (accumulated reward, log accumulated seconds), and the batch size."""

    mean: Array
    scale: Array
    dof: float
    size: int


def draw_literal(rng: np.random.Generator, predictive: Predictive, batches: int) -> Array:
    """Rates of `batches` batches, every pair drawn: all normals first, then all chi-squares (this fixes the stream).

    More than MOST_PAIRS are drawn in several such rounds, so that memory stays bounded.
    """
    most = max(1, MOST_PAIRS // predictive.size)
    if batches > most:
        return np.concatenate([draw_literal(rng, predictive, min(most, batches - k)) for k in range(0, batches, most)])
    shape = (batches, predictive.size)
    normal = rng.multivariate_normal(np.zeros(2), predictive.scale, size=shape)
    chi_square = rng.chisquare(predictive.dof, size=shape)
    pairs = predictive.mean + normal / np.sqrt(chi_square / predictive.dof)[..., None]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.asarray(pairs[..., 0].mean(axis=1) / np.exp(pairs[..., 1]).mean(axis=1))


def draw_transformed(rng: np.random.Generator, predictive: Predictive, batches: int, quantile: float) -> Array | None:
    """Rates of `batches` batches by inverse transform, or None (and `rng` untouched) where that is not accurate."""
    moments = co_moments(predictive) if predictive.size >= FEWEST else None
    if moments is None:
        return None
    plan = _plan(batches, quantile)
    scaled, error = _solve(moments, predictive, plan)
    solved, checks = scaled[: POINTS.size], scaled[POINTS.size :]
    coefficients = TO_POLYNOMIAL @ solved
    slope = (checks[-2] - checks[1]) / 2  # per standard deviation, from z = -1 to 1
    with np.errstate(all="ignore"):
        misfit = np.abs(plan.vandermonde @ coefficients - checks) / slope if slope > 0 else np.abs(checks - checks[0])
    worst = float(np.maximum(misfit, error[POINTS.size :]).max())
    if not (worst <= SHARE * plan.yardstick and np.isfinite(solved).all()):  # also when it is NaN
        return None
    polynomial = (coefficients * math.exp(-predictive.mean[1])).tolist()
    z = rng.standard_normal(batches)
    rates = np.full(batches, polynomial[-1])
    for coefficient in polynomial[-2::-1]:
        rates *= z
        rates += coefficient
    return rates


class CoMoments(NamedTuple):
    """E[exp(s u)], and row k - 2 of `central`: the central moment of order k of x - t exp(s u) as a polynomial in t."""

    time: float
    central: Array


def co_moments(predictive: Predictive) -> CoMoments | None:
    """Moments of x and exp(y - E y) up to order five; None where the far tail of exp(y) decides them.

    With u = (y - E y) / s and v the orthogonal direction, x - E x = b u + c v; given u, v is a scaled Student-t with
    one more degree of freedom, so its moments are polynomials in u and all that is left is one integral over u.
    """
    dof, ((xx, xy), (_, yy)) = predictive.dof, predictive.scale.tolist()
    if dof <= ORDER + 1 or not (xx >= 0 and yy >= 0):
        return None
    s = math.sqrt(yy)
    if s * NODES[-1] * ORDER > 500:
        return None
    b = xy / s if s > 0 else 0.0
    # Trapezoid rule over u: it converges exponentially on a smooth density that decays, so few equidistant nodes do.
    weight = np.exp(-(dof + 1) / 2 * np.log1p(NODES * NODES / dof))
    weight /= weight.sum()
    time = np.exp(s * NODES)
    mean_time = float(weight @ time)
    time -= mean_time
    powers = np.empty_like(POWERS)
    powers[0] = weight
    for j in range(1, ORDER + 1):
        np.multiply(powers[j - 1], time, out=powers[j])
    # Where the outermost node is over a thousandth of the highest moment, the tail beyond it decides and not the nodes.
    if powers[ORDER, -1] > 1e-3 * float(np.abs(powers[ORDER]).sum()):
        return None
    mixed = _given_time(b, max(xx - b * b, 0.0), dof) @ (POWERS @ powers.T)
    return CoMoments(mean_time, SIGNED * mixed.ravel()[PLACES])


def _given_time(b: float, cc: float, dof: float) -> Array:
    """Row i: E[(b u + c v)^i | u] as a polynomial in u. Odd powers of v vanish; E[(c v)^2 | u] = second * (dof + u^2)
    and E[(c v)^4 | u] = fourth * (dof + u^2)^2.
    """
    second = cc / (dof - 1)
    fourth = 3 * cc * cc / ((dof - 1) * (dof - 3))
    bb = b * b
    rows = np.zeros((ORDER + 1, ORDER + 1))
    rows[0, 0], rows[1, 1] = 1.0, b
    rows[2, 0], rows[2, 2] = second * dof, bb + second
    rows[3, 1], rows[3, 3] = 3 * b * second * dof, b * (bb + 3 * second)
    rows[4, 0], rows[4, 2], rows[4, 4] = (
        fourth * dof * dof,
        2 * dof * (3 * bb * second + fourth),
        bb * bb + 6 * bb * second + fourth,
    )
    rows[5, 1], rows[5, 3] = 5 * b * fourth * dof * dof, 10 * b * dof * (bb * second + fourth)
    rows[5, 5] = b * (bb * bb + 10 * bb * second + 5 * fourth)
    return rows


def _solve(moments: CoMoments, predictive: Predictive, plan: Plan) -> tuple[Array, Array]:
    """exp(E y) * Q at the plan's z, and its truncation error there, in standard deviations (NaN: no solution).

    t solves E x - t E exp(s u) + w sd(t) / sqrt(n) = 0, where w(z, t) is the Cornish-Fisher quantile of sum W. With
    w = z that is a quadratic in t; its root is close enough to evaluate w, and w's root is the answer.
    """
    n, root = predictive.size, math.sqrt(predictive.size)
    center, (c0, c1, c2) = float(predictive.mean[0]), moments.central[0, :3].tolist()
    with np.errstate(all="ignore"):
        # The central limit theorem alone, w = z: it gives the t at which the higher moments are taken.
        t = _root(w=plan.z / root, center=center, time=moments.time, c0=c0, c1=c1, c2=c2)
        m2, m3, m4, m5 = moments.central @ t**EXPONENTS
        if (m2 == 0).all():  # x and exp(y) are constants: so is every rate
            return t, np.zeros(plan.z.size)
        # Standardised cumulants of sum W of n terms: of order n^(-1/2), n^(-1) and n^(-3/2). `terms` are their
        # Cornish-Fisher corrections of the normal score, of orders (n^(-1/2), n^(-1), n^(-1), then three n^(-3/2)).
        unit = m2 * np.sqrt(m2) * root
        skew = m3 / unit
        kurtosis = (m4 / (m2 * m2) - 3) / n
        fifth = (m5 / m2 - 10 * m3) / (unit * n)
        square = skew * skew
        terms = np.array([skew, kurtosis, square, fifth, skew * kurtosis, square * skew])
        terms *= plan.hermite
        # What is left out begins at n^(-2): its size is taken from the last order kept and one term of the next.
        last = terms[3:].sum(axis=0)
        w = plan.z + terms.sum(axis=0)
        error = np.maximum(np.abs(last), kurtosis * kurtosis * plan.next_term)
        return _root(w=w / root, center=center, time=moments.time, c0=c0, c1=c1, c2=c2), error


def _root(w: Array, center: float, time: float, c0: float, c1: float, c2: float) -> Array:
    """T with t * time - center = w * sqrt(c0 + c1 t + c2 t^2), sign included; NaN where there is none."""
    # Squared, this is a t^2 - 2 b t + c = 0 with a = time^2 - w^2 c2 and b = center time + w^2 c1 / 2. `inner` is
    # (b^2 - a c) / w^2 written out: the difference would lose all digits where w is small, and the factor w outside
    # the root carries the sign that squaring lost. a <= 0: the spread grows faster than the mean, and no t solves it.
    ww = w * w
    a = time * time - ww * c2
    inner = center * (center * c2 + time * c1) + time * time * c0 + ww * (c1 * c1 / 4 - c0 * c2)
    t = (center * time + ww * (c1 / 2) + w * np.sqrt(inner)) / a
    t[a <= 0] = np.nan
    return np.asarray(t)


class Plan(NamedTuple):
    """What depends on M and the charged quantile alone."""

    yardstick: float
    "Standard error of the charged quantile of M normals."
    z: Array
    "POINTS, then where the answer is checked: -edge, -1, 0, the charged quantile, 1, edge."
    hermite: Array
    next_term: Array
    "Twice the polynomial of kurtosis^2 in the n^(-2) term: a measure of what is left out."
    vandermonde: Array


@lru_cache(maxsize=64)
def _plan(batches: int, quantile: float) -> Plan:
    charged = NormalDist().inv_cdf(quantile)
    density = math.exp(-charged * charged / 2) / math.sqrt(2 * math.pi)
    yardstick = math.sqrt(quantile * (1 - quantile) / batches) / density
    edge = max(2.0, abs(charged))
    checks = np.array([-edge, -1.0, 0.0, charged, 1.0, edge])
    z = np.concatenate([POINTS, checks])
    next_term = np.abs(3 * z**5 - 24 * z**3 + 29 * z) / 192
    return Plan(yardstick, z, _hermite(z), next_term, checks[:, None] ** np.arange(POINTS.size))
