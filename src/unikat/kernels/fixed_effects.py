"""Fixed effects of a Poisson log-linear model whose cells are listed.

    f_i ~ Poisson(exp(offset_i + w_i' b))          cell i of the listed cells

Symbols: `counts` f, (n_cells,) int64; `offset` what is added to the log mean of a cell and not
drawn here, (n_cells,) float64; the design w in rows of the columns with a one,
`columns[starts[i] : starts[i + 1]]`, ascending int32; every entry of w is 0 or 1. The prior of b
is normal and independent.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.cholesky import factor, solve_lower, solve_upper
from unikat.kernels.jit import device, kernel
from unikat.kernels.poisson_normal import draw_log_rate
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_COEFFICIENTS,
    PURPOSE_LANGEVIN,
    normal,
    seek,
    uniform,
)


class Cells(NamedTuple):
    """The listed cells and their design."""

    counts: npt.NDArray[np.int64]
    """(n_cells,): f."""
    offset: npt.NDArray[np.float64]
    """(n_cells,)"""
    starts: npt.NDArray[np.int64]
    """(n_cells + 1,)"""
    columns: npt.NDArray[np.int32]
    """Columns with a one, cell by cell."""


class Prior(NamedTuple):
    """Independent normal prior of the coefficients."""

    mean: npt.NDArray[np.float64]
    """(n_coefficients,)"""
    precision: npt.NDArray[np.float64]
    """(n_coefficients,)"""


@kernel
def linear(offset, starts, columns, coefficients, out):
    """Log mean of every cell, into out (n_cells,)."""
    for i in range(offset.shape[0]):
        total = offset[i]
        for x in range(starts[i], starts[i + 1]):
            total += coefficients[columns[x]]
        out[i] = total


@kernel
def information(starts, columns, weights, matrix):
    """Add W' diag(weights) W to the upper triangle of matrix."""
    for i in range(weights.shape[0]):
        weight = weights[i]
        last = starts[i + 1]
        for x in range(starts[i], last):
            row = matrix[columns[x]]
            for y in range(x, last):
                row[columns[y]] += weight


@kernel
def joined(cells, cluster, coefficients, least):
    """Design of those coefficients that have at least so many records; the rest is offset.

    The coefficients (n_columns + n_clusters,) are the fixed effects and the clusters' values, so
    that a cluster is a column too. Returns the cells with the smaller design, and the places of its
    coefficients among all.
    """
    counts, offset, starts, columns = cells
    n_cells, n = offset.shape[0], coefficients.shape[0]
    clustered = cluster.shape[0] > 0
    n_clusters = 0
    for i in range(cluster.shape[0]):
        n_clusters = max(n_clusters, cluster[i] + 1)
    n_fixed = n - n_clusters
    records = np.zeros(n)
    for i in range(n_cells):
        for x in range(starts[i], starts[i + 1]):
            records[columns[x]] += counts[i]
        if clustered:
            records[n_fixed + cluster[i]] += counts[i]
    place, chosen = np.full(n, -1, np.int32), np.empty(n, np.int64)
    n_chosen = 0
    for a in range(n):
        if records[a] >= least:
            place[a] = n_chosen
            chosen[n_chosen] = a
            n_chosen += 1
    rest = offset.copy()
    new_starts = np.zeros(n_cells + 1, np.int64)
    new_columns = np.empty(columns.shape[0] + cluster.shape[0], np.int32)
    last = 0
    for i in range(n_cells):
        for x in range(starts[i], starts[i + 1]):
            a = columns[x]
            if place[a] >= 0:
                new_columns[last] = place[a]
                last += 1
            else:
                rest[i] += coefficients[a]
        if clustered:
            a = n_fixed + cluster[i]
            if place[a] >= 0:
                new_columns[last] = place[a]
                last += 1
            else:
                rest[i] += coefficients[a]
        new_starts[i + 1] = last
    smaller = Cells(counts, rest, new_starts, new_columns[:last].copy())
    return smaller, chosen[:n_chosen].copy()


@device
def log_posterior(counts, log_mean, coefficients, prior_mean, prior_precision):
    """Log density of coefficients and counts up to a constant; log_mean is theirs."""
    total = 0.0
    for i in range(counts.shape[0]):
        total += counts[i] * log_mean[i] - math.exp(log_mean[i])
    for a in range(coefficients.shape[0]):
        gap = coefficients[a] - prior_mean[a]
        total -= 0.5 * prior_precision[a] * gap * gap
    return total


@device
def local_geometry(
    counts, starts, columns, log_mean, coefficients, prior_mean, prior_precision, upper, slope
):
    """Gradient of the log posterior, divided by U', into slope; U'U the metric, into upper.

    The metric is the Fisher information and the prior's precision. Returns sum log U_ii.
    """
    n, n_cells = coefficients.shape[0], counts.shape[0]
    mean = np.empty(n_cells)
    upper[:] = 0.0
    for a in range(n):
        upper[a, a] = prior_precision[a]
        slope[a] = -prior_precision[a] * (coefficients[a] - prior_mean[a])
    for i in range(n_cells):
        mean[i] = math.exp(log_mean[i])
        residual = counts[i] - mean[i]
        for x in range(starts[i], starts[i + 1]):
            slope[columns[x]] += residual
    information(starts, columns, mean, upper)
    log_determinant = factor(upper)
    solve_lower(upper, slope)
    return log_determinant


@kernel
def climb(cells, coefficients, prior, noise):
    """Move coefficients to their mode by damped Fisher scoring, then by U^-1 noise away from it."""
    counts, offset, starts, columns = cells
    prior_mean, prior_precision = prior
    n = coefficients.shape[0]
    log_mean, slope, tried = np.empty(counts.shape[0]), np.empty(n), np.empty(n)
    upper = np.empty((n, n))
    linear(offset, starts, columns, coefficients, log_mean)
    here = log_posterior(counts, log_mean, coefficients, prior_mean, prior_precision)
    for _ in range(200):
        local_geometry(
            counts,
            starts,
            columns,
            log_mean,
            coefficients,
            prior_mean,
            prior_precision,
            upper,
            slope,
        )
        gain = 0.0
        for a in range(n):
            gain += slope[a] * slope[a]
        if not gain > 1e-6:
            break
        solve_upper(upper, slope)
        share, there = 1.0, -np.inf
        while share > 1e-9 and not there >= here:
            for a in range(n):
                tried[a] = coefficients[a] + share * slope[a]
            linear(offset, starts, columns, tried, log_mean)
            there = log_posterior(counts, log_mean, tried, prior_mean, prior_precision)
            share *= 0.5
        if not there >= here:
            break
        here = there
        coefficients[:] = tried
    away = noise.copy()
    solve_upper(upper, away)
    coefficients += away


@kernel
def langevin(key, sweep, step_size, cells, coefficients, prior):
    """Simplified manifold Langevin step (SMMALA) of all coefficients, in place.

    Proposal N(b + eps^2/2 M^-1 grad, eps^2 M^-1), M = M(b) = U'U; with xi standard normal it is
    b + U^-1 (eps^2/2 U'^-1 grad + eps xi). M depends on b, so both densities stand in the ratio,
    their determinants too. Returns the probability of acceptance.
    """
    counts, offset, starts, columns = cells
    prior_mean, prior_precision = prior
    n = coefficients.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_LANGEVIN)
    drift = 0.5 * step_size * step_size
    log_mean, slope, upper = np.empty(counts.shape[0]), np.empty(n), np.empty((n, n))
    linear(offset, starts, columns, coefficients, log_mean)
    log_ratio = -log_posterior(counts, log_mean, coefficients, prior_mean, prior_precision)
    log_determinant = local_geometry(
        counts, starts, columns, log_mean, coefficients, prior_mean, prior_precision, upper, slope
    )
    proposal = np.empty(n)
    squares = 0.0
    for a in range(n):
        xi = normal(generator)
        squares += xi * xi
        proposal[a] = drift * slope[a] + step_size * xi
    log_ratio -= log_determinant - 0.5 * squares
    solve_upper(upper, proposal)
    for a in range(n):
        proposal[a] += coefficients[a]
    linear(offset, starts, columns, proposal, log_mean)
    there = log_posterior(counts, log_mean, proposal, prior_mean, prior_precision)
    if not there > -np.inf:
        return 0.0
    log_determinant = local_geometry(
        counts, starts, columns, log_mean, proposal, prior_mean, prior_precision, upper, slope
    )
    squares = 0.0
    for a in range(n):
        row = upper[a]
        back = -drift * slope[a]
        for b in range(a, n):
            back += row[b] * (coefficients[b] - proposal[b])
        squares += back * back
    log_ratio += there + log_determinant - 0.5 * squares / (step_size * step_size)
    # A matrix that could not be factored gives NaN, and the proposal is refused.
    if not log_ratio > -np.inf:
        return 0.0
    if math.log(uniform(generator)) < log_ratio:
        coefficients[:] = proposal
    return math.exp(min(log_ratio, 0.0))


@kernel
def draw_coefficients(
    key, sweep, counts, log_mean, column_starts, column_cells, variance, coefficients
):
    """Draw the fixed effects one after another, exactly; log_mean follows them.

    Entries of w are 0 or 1, so an effect given all else is the logarithm of a rate. Without it
    effects of margins that no record has, whose posterior is far from normal, would rest long.
    """
    mean = np.exp(log_mean)
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for a in range(coefficients.shape[0]):
        seek(generator, key, a, sweep, PURPOSE_COEFFICIENTS)
        count, exposure = 0.0, 0.0
        for x in range(column_starts[a], column_starts[a + 1]):
            count += counts[column_cells[x]]
            exposure += mean[column_cells[x]]
        before = coefficients[a]
        coefficients[a] = draw_log_rate(
            generator, count, math.log(exposure) - before, 0.0, variance
        )
        change = coefficients[a] - before
        ratio = math.exp(change)
        for x in range(column_starts[a], column_starts[a + 1]):
            mean[column_cells[x]] *= ratio
            log_mean[column_cells[x]] += change
