"""Gauss's hypergeometric function of a large negative argument, as a mean over a beta law.

    2F1(C, A; A + b; -s) = E (1 + s p)^(-C),    p ~ Beta(A, b),    s >= 0

On the logit scale, u = log(p / (1 - p)), the integrand is a constant times

    g(u) = e^(A u) (1 + e^u)^(C - A - b) (1 + (1 + s) e^u)^(-C).

Its logarithm has the slope zero where S b x^2 - ((A - b) + s (A - C)) x - A = 0, S = 1 + s,
x = e^u: one root is positive, so g has one mode whatever the parameters are, and falls off
exponentially on both sides. It is analytic for |Im u| < pi, so the trapezium rule converges
geometrically. All terms are positive: nothing cancels, as series in s, in 1 / s or in s / (1 + s)
do. Terms are taken relative to the mode, where the factors are densities in the form of Loader
(2000), so that large parameters cost no digits either.

C may be negative. A > 0, b > 0.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel

_HALF_LOG_2PI = 0.9189385332046727
_REACH = 42.0
"""Beyond so much outside its bends g is exponential to the last digit."""
_LEAST = 1e-21
"""Terms below this, relative to the sum, are left out."""
_SAME = 1e-8
"""The error is squared when the step is halved, so such a change leaves none."""


@device
def stirling_error(x):
    """Error of Stirling's formula, log Gamma(x + 1) - (x + 1/2) log x + x - log(2 pi) / 2."""
    if x < 16.0:
        return math.lgamma(x + 1.0) - (x + 0.5) * math.log(x) + x - _HALF_LOG_2PI
    y = 1.0 / (x * x)
    series = 1.0 / 1680.0 - y * (1.0 / 1188.0 - y * 691.0 / 360360.0)
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * series))) / x


@device
def deviance(x, mean):
    """X log(x / mean) + mean - x, without cancellation where they are close."""
    gap = x - mean
    if abs(gap) > 0.1 * (x + mean):
        return x * math.log(x / mean) - gap
    v = gap / (x + mean)
    total = gap * v
    term = 2.0 * x * v
    # |v| is below 0.1, so that these are more terms than it takes.
    for j in range(1, 40):
        term *= v * v
        after = total + term / (2.0 * j + 1.0)
        if after == total:
            break
        total = after
    return total


@device
def log_binomial_term(x, y, p, q):
    """Log of Gamma(x + y + 1) / (Gamma(x + 1) Gamma(y + 1)) p^x q^y, x, y > 0, q = 1 - p."""
    n = x + y
    value = stirling_error(n) - stirling_error(x) - stirling_error(y)
    value -= deviance(x, n * p) + deviance(y, n * q)
    return value + 0.5 * (math.log(n / x) - math.log(y)) - _HALF_LOG_2PI


@device
def log_beta_density(p, q, a, b):
    """Log of p^a q^b / B(a, b), the density of logit p, p ~ Beta(a, b), q = 1 - p."""
    return log_binomial_term(a, b, p, q) + math.log(a) + math.log(b / (a + b))


@device
def log_gamma_ratio(x, y):
    """Return log Gamma(x) - log Gamma(y), without cancellation where both are large."""
    if min(x, y) < 16.0:
        return math.lgamma(x) - math.lgamma(y)
    ratio = (x - 0.5) * math.log1p((x - y) / y) + (x - y) * (math.log(y) - 1.0)
    return ratio + stirling_error(x) - stirling_error(y)


@device
def mode_of(a, b, less, s):
    """Odds e^u at the mode of g; A = a, C = a - less."""
    slope = (a - b) + s * less
    top = 4.0 * (1.0 + s) * b * a
    root = math.sqrt(slope * slope + top)
    if slope > 0.0:
        return (slope + root) / (2.0 * (1.0 + s) * b)
    return 2.0 * a / (root - slope)


@device
def fall(d, line, power, c, x, y):
    """Log of g at distance d from the mode, less that at the mode; x, y = (1 + s) x: odds there.

    The first factor has become (1 + x e^d) / (1 + x), or e^d times (1 + e^-d / x) / (1 + 1 / x),
    the second likewise with y. That which changes less is taken, and e^d goes into `line`, so that
    what large exponents share does not cancel far from the mode.
    """
    grown = math.expm1(d)
    shrunk = math.expm1(-d)
    value = line * d
    value += power * math.log1p(shrunk / (1.0 + x) if x > 1.0 else grown * x / (1.0 + x))
    return value - c * math.log1p(shrunk / (1.0 + y) if y > 1.0 else grown * y / (1.0 + y))


@device
def line_of(a, b, less, x, y):
    """Factor of d in `fall`."""
    if x > 1.0:
        return -b
    return less if y > 1.0 else a


@device
def one_side(step, side, line, a, b, power, c, x, y, end, distance, weights, at):
    """Sum of the terms at side * step * k, k = 1, 2, ..., to infinity, and how many they are.

    end: distance from which g falls exponentially, at rate a on the left and b on the right.
    Distances and terms go into `distance` and `weights` from `at` on, unless these are empty.
    """
    total = 0.0
    n = 0
    k = 1.0
    while True:
        d = side * step * k
        term = math.exp(fall(d, line, power, c, x, y))
        last = abs(d) >= end
        if last:
            # And all that follow.
            term /= -math.expm1(-(b if side > 0.0 else a) * step)
        total += term
        if distance.shape[0]:
            distance[at + n] = d
            weights[at + n] = term
        n += 1
        if last or term < _LEAST * (1.0 + total):
            return total, n
        k += 1.0


@device
def reach_of(x, a, b, less, s):
    """Distances from the mode to where g is exponential, on the left and on the right."""
    more = math.log(1.0 + abs(less) + abs(b) + abs(a) + abs(a - less))
    u = math.log(x)
    left = max(u + math.log1p(s) + _REACH + more, 1.0)
    right = max(_REACH + more - u, 1.0)
    return left, right


@device
def spread_of(a, b, less, s, x):
    """Integral of g / max g, x the odds at its mode, and the step at which the rule has it."""
    c = a - less
    power = -less - b
    y = (1.0 + s) * x
    line = line_of(a, b, less, x, y)
    left, right = reach_of(x, a, b, less, s)
    bend = c * y / ((1.0 + y) * (1.0 + y)) - power * x / ((1.0 + x) * (1.0 + x))
    step = min(0.4, 0.8 / math.sqrt(max(bend, 1e-4)))
    nothing = np.empty(0)
    before = 0.0
    for _ in range(12):
        above, _n = one_side(step, 1.0, line, a, b, power, c, x, y, right, nothing, nothing, 0)
        below, _n = one_side(step, -1.0, line, a, b, power, c, x, y, left, nothing, nothing, 0)
        total = step * (1.0 + above + below)
        if abs(total - before) <= _SAME * total:
            break
        before = total
        step *= 0.5
    return total, step


@kernel
def log_count_probability(alpha, a, b, s, count):
    """Log of P(f): negative binomial of shape alpha and odds s p, averaged over p ~ Beta(a, b)."""
    x = mode_of(a + count, b, a - alpha, s)
    spread, _step = spread_of(a + count, b, a - alpha, s, x)
    p, q = x / (1.0 + x), 1.0 / (1.0 + x)
    return (
        log_negative_binomial(count, alpha, s * p) + log_beta_density(p, q, a, b) + math.log(spread)
    )


@device
def log_negative_binomial(count, shape, odds):
    """Log of Gamma(shape + x) / (Gamma(shape) x!) (1 + odds)^-shape (odds / (1 + odds))^x."""
    if count == 0.0:
        return -shape * math.log1p(odds)
    tail = odds / (1.0 + odds)
    return log_binomial_term(shape, count, 1.0 / (1.0 + odds), tail) - math.log1p(count / shape)


@kernel
def posterior_nodes(alpha, a, b, s, count):
    """Points of p, 1 - p and their weights, for means over p given f, to the last digits."""
    a, less = a + count, a - alpha
    c, power = alpha + count, alpha - (a - count) - b
    x = mode_of(a, b, less, s)
    _spread, step = spread_of(a, b, less, s, x)
    y = (1.0 + s) * x
    line = line_of(a, b, less, x, y)
    left, right = reach_of(x, a, b, less, s)
    nothing = np.empty(0)
    _sum, above = one_side(step, 1.0, line, a, b, power, c, x, y, right, nothing, nothing, 0)
    _sum, below = one_side(step, -1.0, line, a, b, power, c, x, y, left, nothing, nothing, 0)
    distance, weights = np.zeros(1 + above + below), np.ones(1 + above + below)
    one_side(step, 1.0, line, a, b, power, c, x, y, right, distance, weights, 1)
    one_side(step, -1.0, line, a, b, power, c, x, y, left, distance, weights, 1 + above)
    order = np.argsort(distance)
    odds = x * np.exp(distance[order])
    weights = weights[order] / weights.sum()
    return odds / (1.0 + odds), 1.0 / (1.0 + odds), weights


@device
def mean_inverse_at(count, alpha, odds):
    """E 1 / (f + X), X negative binomial of shape alpha + f and mean (alpha + f) odds.

    It is (1 - q) times the integral of y^(f - 1) (1 - q + q y)^(alpha - 1) over (0, 1),
    q = odds / (1 + odds), which is g once more: A = f, b = 1, C = 1 - alpha, s = odds.
    """
    if odds == 0.0:
        return 1.0 / count
    less = count + alpha - 1.0
    y = mode_of(count, 1.0, less, odds)
    spread, _step = spread_of(count, 1.0, less, odds, y)
    value = -count * math.log1p(1.0 / y) - math.log1p(y) - math.log1p(odds)
    # 1 - q + q y, with y / (1 + y) in the place of y.
    value += (alpha - 1.0) * math.log1p(-odds / ((1.0 + odds) * (1.0 + y)))
    return math.exp(value) * spread


@kernel
def mean_inverse(p, q, weights, alpha, s, count):
    """E 1 / F given f, over the points of `posterior_nodes`; nothing is summed over F."""
    total = 0.0
    for i in range(p.shape[0]):
        odds = s * q[i] / (1.0 + s * p[i])
        total += weights[i] * mean_inverse_at(count, alpha, odds)
    return total


@kernel
def log_population_probability(alpha, a, b, s, count, log_marginal, size, out):
    """Log of P(F | f) for F in size (n,) into out; log_marginal: `log_count_probability`."""
    for i in range(size.shape[0]):
        more = size[i] - count
        value = log_negative_binomial(size[i], alpha, s)
        value += log_gamma_ratio(a + count, count + 1.0) - math.lgamma(a)
        value += log_gamma_ratio(b + more, more + 1.0)
        value += log_gamma_ratio(size[i] + 1.0, a + b + size[i])
        value += log_gamma_ratio(a + b, b)
        out[i] = value - log_marginal
