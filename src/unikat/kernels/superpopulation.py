"""Kernels of the Poisson-gamma-beta models: many cells at once.

    pi ~ Gamma(alpha, K alpha),  F | pi ~ Poisson(N pi),  p ~ Beta(a, b),  f | F, p ~ Binomial(F, p)

With s = N / (K alpha), pi is gamma given p and f, of shape alpha + f, so all that is left is
integrals over p of the function g of `kernels.hypergeometric`,

    log g(u) = (a + f) u + (alpha - a - b) log(1 + e^u) - (alpha + f) log(1 + (1 + s) e^u).

The cells differ in f and a, and share alpha, s and a + b: both logarithms are tabulated once, and a
term costs one exponential. Nodes are multiples of a step that is fine enough for the narrowest
integrand; wider ones take every second, fourth, ... node. Relative errors are about 1e-9, and 2e-8
at most in what was tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.hypergeometric import log_gamma_ratio, mode_of
from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_RATE,
    exponential,
    log_gamma_variate,
    seek,
    uniform,
)
from unikat.kernels.random_rates import hashed

_WIDEST = 0.35
"""Step for integrands that are wide; the error of the rule is about e^(-pi^2 / step)."""
_NARROW = 0.62
"""Step in standard deviations for narrow ones."""
_REACH = 24.0
"""Beyond so much outside its bends g is exponential."""
_LEAST = 1e-12
"""Terms below this, relative to the largest, are left out."""
_ABOVE = 1.2
"""Linear interpolation between nodes, times this, lies above g."""


@device
def mode_and_bend(alpha, size, s, count, shape):
    """Place u of the mode of g, and minus the second derivative of log g there."""
    x = mode_of(shape + count, size - shape, shape - alpha, s)
    y = (1.0 + s) * x
    bend = (size - alpha) * x / ((1.0 + x) * (1.0 + x))
    bend += (alpha + count) * y / ((1.0 + y) * (1.0 + y))
    return math.log(x), bend


class Grid(NamedTuple):
    """Nodes u = (first + i) step of logit p."""

    step: float
    first: int
    tables: npt.NDArray[np.float64]
    """(2, n_nodes): both logarithms at the nodes."""


class Window(NamedTuple):
    """Nodes of a cell."""

    low: int
    high: int
    """First and last of them."""
    stride: int
    top: float
    """Log of the term at the mode."""


@device
def lay_grid(alpha, size, s, counts, shapes):
    """Grid that is fine enough for every cell."""
    sharpest = 0.0
    largest = 0.0
    for k in range(counts.shape[0]):
        _u, bend = mode_and_bend(alpha, size, s, counts[k], shapes[k])
        sharpest = max(sharpest, bend)
        largest = max(largest, counts[k])
    step = _WIDEST
    while step * step * sharpest > _NARROW * _NARROW:
        step *= 0.5
    more = math.log(1.0 + 2.0 * alpha + size + largest)
    first = math.floor(-(math.log1p(s) + _REACH + more) / step)
    last = math.ceil((_REACH + more) / step)
    tables = np.empty((2, last - first + 1))
    for i in range(tables.shape[1]):
        x = math.exp((first + i) * step)
        tables[0, i] = (alpha - size) * math.log1p(x)
        tables[1, i] = math.log1p((1.0 + s) * x)
    return Grid(step, first, tables)


@device
def log_g(i, grid, count, shape, alpha):
    """Log of g at a node."""
    step, first, tables = grid
    return (shape + count) * ((first + i) * step) + tables[0, i] - (alpha + count) * tables[1, i]


@device
def find_window(alpha, size, s, count, shape, grid):
    """Nodes of a cell.

    The window ends where terms are small, or at the end of the grid, where g is exponential.
    """
    step, first, tables = grid
    u, bend = mode_and_bend(alpha, size, s, count, shape)
    stride = 1
    while (2 * stride * step <= _WIDEST) and (
        4.0 * stride * stride * step * step * bend <= _NARROW * _NARROW
    ):
        stride *= 2
    n = tables.shape[1]
    middle = min(max(round(u / step) - first, 0), n - 1)
    top = log_g(middle, grid, count, shape, alpha)
    least = top + math.log(_LEAST)
    low = middle
    while low - stride >= 0 and log_g(low, grid, count, shape, alpha) > least:
        low -= stride
    high = middle
    while high + stride < n and log_g(high, grid, count, shape, alpha) > least:
        high += stride
    return Window(low, high, stride, top)


@device
def beyond(i, window, grid, count, shape, size, alpha):
    """Sum of the terms outside a window on the side of its end i, relative to the top."""
    low, high, stride, top = window
    step = grid.step
    term = math.exp(log_g(i, grid, count, shape, alpha) - top)
    if i == low and i < stride:
        return term / math.expm1((shape + count) * stride * step)
    if i == high and i + stride >= grid.tables.shape[1]:
        return term / math.expm1((size - shape) * stride * step)
    return 0.0


@kernel
def integrate(alpha, size, s, counts, shapes, out):
    """For each cell log P(f), and the means given f of N pi p and of N pi (1 - p), into out (n, 3).

    counts, shapes (n,): f and a; size: a + b.
    """
    grid = lay_grid(alpha, size, s, counts, shapes)
    step, first, tables = grid
    n = tables.shape[1]
    sampled, others = np.empty(n), np.empty(n)
    for i in range(n):
        x = math.exp((first + i) * step)
        sampled[i] = s * x / (1.0 + (1.0 + s) * x)
        others[i] = s / (1.0 + (1.0 + s) * x)
    log_size = math.lgamma(size) - math.lgamma(alpha)
    for k in range(counts.shape[0]):
        count, shape = counts[k], shapes[k]
        window = find_window(alpha, size, s, count, shape, grid)
        low, high, stride, top = window
        total, first_mean, second_mean = 0.0, 0.0, 0.0
        for i in range(low, high + 1, stride):
            term = math.exp(log_g(i, grid, count, shape, alpha) - top)
            if i == low or i == high:
                term += beyond(i, window, grid, count, shape, size, alpha)
            total += term
            first_mean += term * sampled[i]
            second_mean += term * others[i]
        out[k, 0] = top + math.log(total * stride * step) + log_size - math.lgamma(shape)
        out[k, 0] += log_gamma_ratio(alpha + count, count + 1.0) - math.lgamma(size - shape)
        if count > 0.0:
            out[k, 0] += count * math.log(s)
        out[k, 1] = (alpha + count) * first_mean / total
        out[k, 2] = (alpha + count) * second_mean / total


@device
def lay_inverse(alpha, s, largest):
    """Nodes v of y on the logit scale for E 1/F: step, log y and log(1 - y) at them."""
    low = -(math.log1p(s) + _REACH + 3.0)
    n = math.ceil((_REACH + 3.0 + math.log(largest + alpha + 1.0) - low) / _WIDEST)
    log_y, log_rest = np.empty(n), np.empty(n)
    for j in range(n):
        v = low + j * _WIDEST
        log_y[j] = -math.log1p(math.exp(-v))
        log_rest[j] = -math.log1p(math.exp(v))
    return log_y, log_rest


@kernel
def risks(alpha, size, s, counts, shapes, r1, r2):
    """P(F = f | f) into r1, E(1/F | f) into r2; cells in the order of f, which is at least 1.

    Given p, F - f is negative binomial, and E 1/F an integral over y (`mean_inverse_at`), the sum
    of the terms y^f (1 - y) (1 - q) (1 - q + q y)^(alpha - 1) on the logit scale. Of these the
    first two depend on f alone and the others on the node of p alone.
    """
    grid = lay_grid(alpha, size, s, counts, shapes)
    step, first, tables = grid
    n, m = tables.shape[1], counts.shape[0]
    if m == 0:
        return
    log_y, log_rest = lay_inverse(alpha, s, counts[m - 1])
    windows = np.empty((m, 3), np.int64)
    tops = np.empty(m)
    used = np.zeros(n, np.int64)
    for k in range(m):
        low, high, stride, top = find_window(alpha, size, s, counts[k], shapes[k], grid)
        windows[k, 0], windows[k, 1], windows[k, 2], tops[k] = low, high, stride, top
        for i in range(low, high + 1, stride):
            used[i] = 1
    # Rows of the factors that do not depend on f, for the nodes of p that are used.
    row = np.cumsum(used) - 1
    factor = np.empty((row[n - 1] + 1, log_y.shape[0]))
    for i in range(n):
        if used[i] == 0:
            continue
        x = math.exp((first + i) * step)
        # q = s (1 - p) / (1 + s) and 1 - q, p = x / (1 + x).
        q = s / ((1.0 + s) * (1.0 + x))
        rest = (1.0 + (1.0 + s) * x) / ((1.0 + s) * (1.0 + x))
        for j in range(log_y.shape[0]):
            value = rest + q * math.exp(log_y[j])
            factor[row[i], j] = rest * math.exp((alpha - 1.0) * math.log(value))
    weight = np.empty(log_y.shape[0])
    inverse = np.full(row[n - 1] + 1, -1.0)
    start, stop = 0, 0
    for k in range(m):
        count, shape = counts[k], shapes[k]
        if k == 0 or count != counts[k - 1]:
            inverse[:] = -1.0
            start, stop = log_y.shape[0], 0
            for j in range(log_y.shape[0]):
                log_weight = count * log_y[j] + log_rest[j]
                weight[j] = _WIDEST * math.exp(log_weight)
                # The factor is at most y^(alpha - 1), or 1, and makes the peak no lower than 1 / f
                # of what the weight alone would have it.
                log_weight += min(alpha - 1.0, 0.0) * log_y[j]
                if log_weight > -_REACH - math.log(count + alpha):
                    start, stop = min(start, j), j + 1
        low, high, stride, top = windows[k, 0], windows[k, 1], windows[k, 2], tops[k]
        window = Window(low, high, stride, top)
        total, mean = 0.0, 0.0
        for i in range(low, high + 1, stride):
            term = math.exp(log_g(i, grid, count, shape, alpha) - top)
            if i == low or i == high:
                term += beyond(i, window, grid, count, shape, size, alpha)
            at = row[i]
            if inverse[at] < 0.0:
                value = 0.0
                for j in range(start, stop):
                    value += weight[j] * factor[at, j]
                inverse[at] = value
            total += term
            mean += term * inverse[at]
        r2[k] = mean / total
        log_none = math.lgamma(shape + count) - log_gamma_ratio(size + count, size - shape)
        log_none -= (alpha + count) * math.log1p(s) + top + math.log(total * stride * step)
        r1[k] = min(math.exp(log_none), r2[k] * count)


@device
def draw_logit(generator, alpha, size, s, count, shape, grid):
    """Draw logit p given f, exactly: from linear interpolation between the nodes, with rejection.

    Outside the grid, where g is exponential, from an exponential.
    """
    step, first, tables = grid
    low, high, stride, top = find_window(alpha, size, s, count, shape, grid)
    total = 0.0
    for i in range(low, high + 1, stride):
        total += math.exp(log_g(i, grid, count, shape, alpha) - top)
    wide = stride * step
    left, right = 0.0, 0.0
    # An exponential from the last node on has the area term / rate, in units of the nodes.
    if low < stride:
        left = math.exp(log_g(low, grid, count, shape, alpha) - top)
        left /= (shape + count) * wide
    if high + stride >= tables.shape[1]:
        right = math.exp(log_g(high, grid, count, shape, alpha) - top)
        right /= (size - shape) * wide
    for _ in range(10_000):
        # The tails are exact, the rest is proposed more often than it should be.
        at = uniform(generator) * (_ABOVE * total + left + right) - _ABOVE * total
        if at > 0.0:
            if at < left:
                return (first + low) * step - exponential(generator) / (shape + count)
            return (first + high) * step + exponential(generator) / (size - shape)
        at = (at + _ABOVE * total) / _ABOVE
        i = low
        while True:
            at -= math.exp(log_g(i, grid, count, shape, alpha) - top)
            if at <= 0.0 or i + stride > high:
                break
            i += stride
        # A tent over the node: the sum of the tents is the interpolation.
        shift = uniform(generator) + uniform(generator) - 1.0
        u = (first + i) * step + shift * wide
        j = i + stride if shift > 0.0 else i - stride
        if j < low or j > high:
            continue
        here = math.exp(log_g(i, grid, count, shape, alpha) - top)
        there = math.exp(log_g(j, grid, count, shape, alpha) - top)
        line = here + (there - here) * abs(shift)
        x = math.exp(u)
        exact = (shape + count) * u + (alpha - size) * math.log1p(x)
        exact -= (alpha + count) * math.log1p((1.0 + s) * x)
        if uniform(generator) * _ABOVE * line < math.exp(exact - top):
            return u
    return math.nan


@kernel
def empty_chances(alpha, size, s, shapes, out):
    """P(f > 0) into out (n,), with all its digits where it is tiny; shapes (n,): a.

    It is s a / (a + b) times the mean of (1 - (1 + s p)^-alpha) / (s p) over p ~ Beta(a + 1, b).
    """
    step, first, tables = lay_grid(alpha, size + 1.0, s, np.zeros(shapes.shape[0]), shapes + 1.0)
    n = tables.shape[1]
    falling = np.empty(n)
    for i in range(n):
        x = math.exp((first + i) * step)
        odds = s * x / (1.0 + x)
        falling[i] = -math.expm1(-alpha * math.log1p(odds)) * (1.0 + x) / x
        tables[0, i] = -(size + 1.0) * math.log1p(x)
    for k in range(shapes.shape[0]):
        shape, rest = shapes[k] + 1.0, size - shapes[k]
        bend = (size + 1.0) / ((1.0 + shape / rest) * (1.0 + rest / shape))
        stride = 1
        while (2 * stride * step <= _WIDEST) and (
            4.0 * stride * stride * step * step * bend <= _NARROW * _NARROW
        ):
            stride *= 2
        top = log_gamma_ratio(size + 1.0, rest) - math.lgamma(shape)
        total = 0.0
        last = 0
        for i in range(0, n, stride):
            total += math.exp(top + shape * ((first + i) * step) + tables[0, i]) * falling[i]
            last = i
        end = math.exp(top + shape * ((first + last) * step) + tables[0, last]) * falling[last]
        total += end / math.expm1(rest * stride * step)
        # s / (s p) is left of the two factors.
        out[k] = min(total * stride * step * (shape - 1.0) / size, 1.0)


@kernel
def draw_rates(
    key, sweep, cells, alpha, size, s, counts, shapes, empty_shapes, empty_chances, rates
):
    """Draw N pi (1 - p) of each cell given f: p from its density, then pi, which is gamma.

    A cell has the same rate in all calls of a sweep. One without records (f = 0) takes its a from
    empty_shapes with cumulative empty_chances, or p = 0 beyond them.

    cells (n, n_keys); counts, shapes, rates (n,).
    """
    every_count = np.concatenate((counts, np.zeros(empty_shapes.shape[0])))
    every_shape = np.concatenate((shapes, empty_shapes))
    grid = lay_grid(alpha, size, s, every_count, every_shape)
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for k in range(counts.shape[0]):
        seek(generator, key, hashed(cells[k]), sweep, PURPOSE_RATE)
        count, shape = counts[k], shapes[k]
        x = 0.0
        sampled = True
        if count == 0.0:
            j = np.searchsorted(empty_chances, uniform(generator), side="right")
            sampled = j < empty_shapes.shape[0]
            if sampled:
                shape = empty_shapes[j]
        if sampled:
            u = draw_logit(generator, alpha, size, s, count, shape, grid)
            x = math.exp(u)
        rates[k] = math.exp(log_gamma_variate(generator, alpha + count)) * s
        rates[k] /= 1.0 + (1.0 + s) * x
