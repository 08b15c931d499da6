"""The posterior of the logarithm of a Poisson rate under a normal prior, drawn exactly.

The log-linear models with effects draw from it a cell's random effect, a cluster's value, and a
fixed effect given the others.
"""

from __future__ import annotations

import math

from unikat.kernels.jit import device
from unikat.kernels.random import uniform


@device
def product_logarithm(log_x):
    """Lambert's W(x), the y > 0 with y e^y = x, from log x.

    Newton's method on y + log y = log x, from below, where it is monotone.
    """
    if log_x < -30.0:
        return math.exp(log_x)
    if log_x < 1.0:
        x = math.exp(log_x)
        y = x / (1.0 + x)
    else:
        y = log_x - math.log(log_x)
    for _ in range(20):
        step = y * ((1.0 + log_x - math.log(y)) / (1.0 + y) - 1.0)
        y += step
        if step < 1e-9 * y:
            break
    return y


@device
def draw_log_rate(generator, count, log_exposure, mean, variance):
    """Draw x of log density count x - e^(x + log_exposure) - (x - mean)^2 / (2 variance), exactly.

    The logarithm of a Poisson rate given its count under a normal prior. The mode is mean +
    variance count - y, y = W(variance exposure exp(mean + variance count)), and at distance t
    from it the log density has fallen to (y (t + 1 - e^t) - t^2 / 2) / variance. It is concave,
    so a flat top and two tangents lie above it: rejection, which accepts 0.7 to 0.9.
    """
    centre = mean + variance * count
    y = product_logarithm(log_exposure + math.log(variance) + centre)
    precision = 1.0 / variance
    bend = y * precision
    # Where a normal density with the curvature of the mode has fallen by the factor e.
    width = math.sqrt(2.0 / (bend + precision))
    rise = math.expm1(-width)
    left_slope = -bend * rise + precision * width
    left = -width - (bend * (-width - rise) - 0.5 * precision * width * width) / left_slope
    rise = math.expm1(width)
    right_slope = bend * rise + precision * width
    right = width + (bend * (width - rise) - 0.5 * precision * width * width) / right_slope
    left_area = 1.0 / left_slope
    area = left_area + (right - left) + 1.0 / right_slope
    t = math.nan
    # Bounded, so that a number that is none comes out as one.
    for _ in range(10_000):
        u = uniform(generator) * area
        if u < left_area:
            above = math.log(u * left_slope)
            t = left + above / left_slope
        elif u < left_area + (right - left):
            above = 0.0
            t = left + (u - left_area)
        else:
            # Rounding may leave nothing of the last piece.
            above = math.log(max((area - u) * right_slope, 1e-300))
            t = right - above / right_slope
        height = bend * (t - math.expm1(t)) - 0.5 * precision * t * t
        if math.log(uniform(generator)) < height - above:
            break
    return centre - y + t


@device
def log_rate_integral(count, log_exposure, mean, variance):
    """Logarithm of the mean of e^(count x - e^(x + log_exposure)) over x ~ N(mean, variance).

    The trapezium rule outward from the mode, which for such a function converges exponentially:
    with these steps it is exact to rounding.
    """
    rise = variance * count
    y = product_logarithm(log_exposure + math.log(variance) + mean + rise)
    precision = 1.0 / variance
    bend = y * precision
    gap = min(0.25, 0.2 * math.sqrt(2.0 / (bend + precision)))
    total = 1.0
    for side in (-1.0, 1.0):
        k = 1.0
        # The logarithm at distance t from the mode; it is concave, so the sum may end.
        t = side * gap
        height = bend * (t - math.expm1(t)) - 0.5 * precision * t * t
        while height > -40.0:
            total += math.exp(height)
            k += 1.0
            t = side * gap * k
            height = bend * (t - math.expm1(t)) - 0.5 * precision * t * t
    away = rise - y
    top = count * (mean + away) - bend - 0.5 * precision * away * away
    return top + math.log(total * gap) - 0.5 * math.log(2.0 * math.pi * variance)
