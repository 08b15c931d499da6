"""Kernels of the mixed-effects log-linear model: Poisson cells, fixed effects, random effects.

    f_i ~ Poisson(exp(offset_i + w_i' b + phi_i))          cell i of the listed cells

Symbols: `counts` f, (n_cells,) int64; `offset` what is added to the log mean of a cell and not
drawn, (n_cells,) float64; the design w in rows of columns with a one, `columns[starts[i] :
starts[i + 1]]`, ascending; every entry of w is 0 or 1. Under a Dirichlet process `cluster`
(n_cells,) int32 gives each cell's place in `values` (n_clusters,) float64, and phi_i =
values[cluster[i]]; elsewhere `cluster` is empty.

All that is drawn of one number comes down to one law, :func:`draw_tilted`. Matrices are factored
here and not by a library, whose sums may depend on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_BASE,
    PURPOSE_CLUSTERS,
    PURPOSE_COEFFICIENTS,
    PURPOSE_EFFECTS,
    PURPOSE_LANGEVIN,
    PURPOSE_RECENTRE,
    PURPOSE_RESCALE,
    PURPOSE_VALUES,
    log_beta_variate,
    log_gamma_variate,
    normal,
    seek,
    uniform,
)

_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
"""log 2 in two parts, of which multiples of the first are exact."""
N_SPARE = 8
"""Values held ready for new clusters."""
_RESCALE_STEP = 1.4
"""Step of the move of the effects' scale, in standard deviations of its conditional."""

# --- one number ------------------------------------------------------------------------------


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
def draw_tilted(generator, count, log_exposure, mean, variance):
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


# --- matrices --------------------------------------------------------------------------------


@device
def factor(matrix):
    """Overwrite the upper triangle of a positive definite matrix A with U, A = U'U.

    Returns the sum of log U_ii, or NaN if A is not positive definite. Row by row, from all rows
    above at once, four at a time: sums over columns side by side, which the compiler vectorises.
    """
    n = matrix.shape[0]
    total = 0.0
    for i in range(n):
        row = matrix[i]
        k = 0
        while k + 4 <= i:
            a, b, c, d = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
            ai, bi, ci, di = a[i], b[i], c[i], d[i]
            for j in range(i, n):
                row[j] -= ai * a[j] + bi * b[j] + ci * c[j] + di * d[j]
            k += 4
        while k < i:
            a = matrix[k]
            ai = a[i]
            for j in range(i, n):
                row[j] -= ai * a[j]
            k += 1
        if not row[i] > 0.0:
            return math.nan
        pivot = math.sqrt(row[i])
        total += math.log(pivot)
        for j in range(i, n):
            row[j] /= pivot
    return total


@device
def solve_lower(upper, vector):
    """Overwrite v with the solution of U'x = v."""
    n = upper.shape[0]
    for i in range(n):
        row = upper[i]
        x = vector[i] / row[i]
        vector[i] = x
        for j in range(i + 1, n):
            vector[j] -= x * row[j]


@device
def solve_upper(upper, vector):
    """Overwrite v with the solution of Ux = v."""
    n = upper.shape[0]
    for i in range(n - 1, -1, -1):
        row = upper[i]
        x = vector[i]
        for j in range(i + 1, n):
            x -= row[j] * vector[j]
        vector[i] = x / row[i]


# --- fixed effects ---------------------------------------------------------------------------


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
def joined(offset, starts, columns, cluster, coefficients, least, counts):
    """Design of those coefficients that have at least so many records; the rest is offset.

    The coefficients (n_columns + n_clusters,) are the fixed effects and the clusters' values, so
    that a cluster is a column too. Returns the offset, starts and columns of the smaller design,
    and the places of its coefficients among all.
    """
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
    return rest, new_starts, new_columns[:last].copy(), chosen[:n_chosen].copy()


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
def climb(counts, offset, starts, columns, coefficients, prior_mean, prior_precision, noise):
    """Move coefficients to their mode by damped Fisher scoring, then by U^-1 noise away from it."""
    n = coefficients.shape[0]
    log_mean, slope, tried = np.empty(counts.shape[0]), np.empty(n), np.empty(n)
    upper = np.empty((n, n))
    linear(offset, starts, columns, coefficients, log_mean)
    here = log_posterior(counts, log_mean, coefficients, prior_mean, prior_precision)
    for _ in range(200):
        local_geometry(
            counts, starts, columns, log_mean, coefficients, prior_mean, prior_precision, upper,
            slope,
        )  # fmt: skip
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
def langevin(
    key, sweep, step_size, counts, offset, starts, columns, coefficients, prior_mean,
    prior_precision,
):  # fmt: skip
    """Simplified manifold Langevin step (SMMALA) of all coefficients, in place.

    Proposal N(b + eps^2/2 M^-1 grad, eps^2 M^-1), M = M(b) = U'U; with xi standard normal it is
    b + U^-1 (eps^2/2 U'^-1 grad + eps xi). M depends on b, so both densities stand in the ratio,
    their determinants too. Returns the probability of acceptance.
    """
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
        coefficients[a] = draw_tilted(
            generator, count, math.log(exposure) - before, 0.0, variance
        )
        change = coefficients[a] - before
        ratio = math.exp(change)
        for x in range(column_starts[a], column_starts[a + 1]):
            mean[column_cells[x]] *= ratio
            log_mean[column_cells[x]] += change


# --- normal random effects -------------------------------------------------------------------


@kernel
def draw_effects(key, sweep, counts, log_base, variance, effects):
    """Draw phi of every cell given the rest of its log mean, log_base (n_cells,)."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(counts.shape[0]):
        seek(generator, key, i, sweep, PURPOSE_EFFECTS)
        effects[i] = draw_tilted(generator, counts[i], log_base[i], 0.0, variance)


@kernel
def recentre(key, sweep, starts, columns, gram, variance, prior_variance, effects, coefficients):
    """Draw the fixed effects given the log means, and phi = log mean - W b, both in place.

    Given eta = W b + phi the effects are those of a regression: precision W'W / sigma^2 +
    I / v, and W' eta / sigma^2 on the right-hand side. gram (n, n) is W'W, its upper triangle.
    """
    n, n_cells = coefficients.shape[0], effects.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_RECENTRE)
    upper = gram / variance
    right = np.zeros(n)
    for a in range(n):
        upper[a, a] += 1.0 / prior_variance
    for i in range(n_cells):
        total = effects[i]
        for x in range(starts[i], starts[i + 1]):
            total += coefficients[columns[x]]
        effects[i] = total
        for x in range(starts[i], starts[i + 1]):
            right[columns[x]] += total / variance
    factor(upper)
    solve_lower(upper, right)
    for a in range(n):
        right[a] += normal(generator)
    solve_upper(upper, right)
    coefficients[:] = right
    for i in range(n_cells):
        for x in range(starts[i], starts[i + 1]):
            effects[i] -= coefficients[columns[x]]


@device
def scale_geometry(counts, log_base, effects, ratio, log_scale, shape, rate):
    """Log density of log sigma given phi / sigma, its slope and its information.

    `ratio` times the effects are those at exp(log_scale); sigma^2 ~ inverse gamma(shape, rate).
    """
    prior = rate * math.exp(-2.0 * log_scale)
    density = -2.0 * shape * log_scale - prior
    slope = -2.0 * shape + 2.0 * prior
    curvature = 4.0 * prior
    for i in range(counts.shape[0]):
        effect = ratio * effects[i]
        mean = math.exp(log_base[i] + effect)
        density += counts[i] * effect - mean
        slope += (counts[i] - mean) * effect
        curvature += mean * effect * effect
    return density, slope, curvature


@kernel
def rescale(key, sweep, counts, log_base, variance, shape, rate, effects):
    """Langevin step of log sigma with phi / sigma held; returns sigma^2, effects in place.

    With thousands of cells phi pins sigma down to a percent, so that sigma^2 given phi hardly
    moves; phi / sigma does not. Metric and ratio as in :func:`langevin`.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_RESCALE)
    step, drift = _RESCALE_STEP, 0.5 * _RESCALE_STEP * _RESCALE_STEP
    here = 0.5 * math.log(variance)
    density, slope, curvature = scale_geometry(
        counts, log_base, effects, 1.0, here, shape, rate
    )
    xi = normal(generator)
    there = here + drift * slope / curvature + step * xi / math.sqrt(curvature)
    log_ratio = 0.5 * xi * xi - 0.5 * math.log(curvature) - density
    ratio = math.exp(there - here)
    density, slope, curvature = scale_geometry(
        counts, log_base, effects, ratio, there, shape, rate
    )
    back = here - there - drift * slope / curvature
    log_ratio += density + 0.5 * math.log(curvature) - 0.5 * curvature * back * back / step**2
    # False for NaN, of a proposal so far away that a mean is infinite.
    if math.log(uniform(generator)) < log_ratio:
        for i in range(effects.shape[0]):
            effects[i] *= ratio
        return math.exp(2.0 * there)
    return variance


# --- random effects from a Dirichlet process -------------------------------------------------


@device
def exponentials(x, power, n):
    """Replace x[:n] by its exponentials divided by the largest; power (n,) int64 is room.

    e^x = 2^k e^r with |r| <= log(2) / 2, and e^r by its series to r^13 / 13!, within 2 in the last
    place; less than e^-700 of the largest counts as that. The library's exponential would take
    most of a sweep, and the compiler does not vectorise it; these loops it does.
    """
    highest = -np.inf
    for p in range(n):
        highest = max(highest, x[p])
    for p in range(n):
        x[p] = max(x[p] - highest, -700.0)
        power[p] = (np.int64(np.int32(x[p] * _LOG2_E - 0.5)) + 1023) << 52
    scale = power.view(np.float64)
    for p in range(n):
        k = float(np.int32(x[p] * _LOG2_E - 0.5))
        r = (x[p] - k * _LN2_HIGH) - k * _LN2_LOW
        series = 1.0 / 6227020800.0
        series = series * r + 1.0 / 479001600.0
        series = series * r + 1.0 / 39916800.0
        series = series * r + 1.0 / 3628800.0
        series = series * r + 1.0 / 362880.0
        series = series * r + 1.0 / 40320.0
        series = series * r + 1.0 / 5040.0
        series = series * r + 1.0 / 720.0
        series = series * r + 1.0 / 120.0
        series = series * r + 1.0 / 24.0
        series = series * r + 1.0 / 6.0
        series = series * r + 0.5
        series = series * r + 1.0
        x[p] = (series * r + 1.0) * scale[p]


@kernel
def allocate(key, sweep, counts, log_base, mass, mean, variance, cluster, values):
    """Draw every cell's cluster given the others' and their values; returns the new values.

    Algorithm 8 of Neal (2000), with values for new clusters that are held ready for all cells
    (Favaro & Teh 2013, section 4.2): of N_SPARE draws from the base measure the one that is used
    is drawn anew, and a cell that was alone puts its value in the place of one of them. A cell
    with log_base o (n_cells,) weighs cluster j by size_j exp(f eta_j - e^o e^eta_j). cluster is
    changed in place.

    Clusters stand at positions without gaps; cells know them by slots, which never move.
    """
    n_cells = counts.shape[0]
    room = n_cells + 1
    size, value, rate = np.zeros(room), np.empty(room), np.empty(room)
    slot_at, position_of = np.arange(room), np.arange(room)
    n = values.shape[0]
    for p in range(n):
        value[p] = values[p]
        rate[p] = math.exp(values[p])
    for i in range(n_cells):
        size[cluster[i]] += 1.0
    deviation = math.sqrt(variance)
    spare, spare_rate = np.empty(N_SPARE), np.empty(N_SPARE)
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, n_cells, sweep, PURPOSE_CLUSTERS)
    for s in range(N_SPARE):
        spare[s] = mean + deviation * normal(generator)
        spare_rate[s] = math.exp(spare[s])
    weight, power = np.empty(room + N_SPARE), np.empty(room + N_SPARE, np.int64)
    for i in range(n_cells):
        seek(generator, key, i, sweep, PURPOSE_CLUSTERS)
        slot = cluster[i]
        p = position_of[slot]
        size[p] -= 1.0
        if size[p] == 0.0:
            s = int(uniform(generator) * N_SPARE)
            spare[s], spare_rate[s] = value[p], rate[p]
            n -= 1
            moved = slot_at[n]
            size[p], value[p], rate[p] = size[n], value[n], rate[n]
            slot_at[p], position_of[moved] = moved, p
            slot_at[n], position_of[slot] = slot, n
        count, exposure = float(counts[i]), math.exp(log_base[i])
        for p in range(n):
            weight[p] = count * value[p] - exposure * rate[p]
        for l in range(N_SPARE):
            weight[n + l] = count * spare[l] - exposure * spare_rate[l]
        exponentials(weight, power, n + N_SPARE)
        total = 0.0
        for p in range(n):
            total += size[p] * weight[p]
            weight[p] = total
        for p in range(n, n + N_SPARE):
            total += mass / N_SPARE * weight[p]
            weight[p] = total
        u = uniform(generator) * total
        p = 0
        while weight[p] <= u and p < n + N_SPARE - 1:
            p += 1
        if p >= n:
            s = p - n
            p = n
            size[p], value[p], rate[p] = 0.0, spare[s], spare_rate[s]
            n += 1
            spare[s] = mean + deviation * normal(generator)
            spare_rate[s] = math.exp(spare[s])
        size[p] += 1.0
        cluster[i] = slot_at[p]
    for i in range(n_cells):
        cluster[i] = position_of[cluster[i]]
    return value[:n].copy()


@kernel
def draw_values(key, sweep, counts, log_base, cluster, mean, variance, values):
    """Draw the value of every cluster given its cells, exactly, in place."""
    n = values.shape[0]
    count, exposure = np.zeros(n), np.zeros(n)
    for i in range(counts.shape[0]):
        count[cluster[i]] += counts[i]
        exposure[cluster[i]] += math.exp(log_base[i])
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for j in range(n):
        seek(generator, key, j, sweep, PURPOSE_VALUES)
        values[j] = draw_tilted(generator, count[j], math.log(exposure[j]), mean, variance)


# --- hyperparameters -------------------------------------------------------------------------


@kernel
def draw_variance(key, sweep, values, mean, shape, rate):
    """Draw sigma^2 given values ~ N(mean, sigma^2); inverse gamma(shape, rate) prior."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_BASE)
    squares = 0.0
    for j in range(values.shape[0]):
        squares += (values[j] - mean) * (values[j] - mean)
    log_gamma = log_gamma_variate(generator, shape + 0.5 * values.shape[0])
    return (rate + 0.5 * squares) / math.exp(log_gamma)


@kernel
def draw_mean(key, sweep, values, variance, prior_variance):
    """Draw alpha given values ~ N(alpha, variance); N(0, prior_variance) prior."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 1, sweep, PURPOSE_BASE)
    precision = values.shape[0] / variance + 1.0 / prior_variance
    return values.sum() / variance / precision + normal(generator) / math.sqrt(precision)


@kernel
def draw_mass(key, sweep, mass, n_clusters, n_cells, shape, rate):
    """Draw m given the number of clusters of n_cells cells; gamma(shape, rate) prior.

    Escobar & West (1995): with x ~ Beta(m + 1, n_cells), m is a mixture of two gammas.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 2, sweep, PURPOSE_BASE)
    rate -= log_beta_variate(generator, mass + 1.0, n_cells)
    odds = (shape + n_clusters - 1.0) / (n_cells * rate)
    more = 1.0 if uniform(generator) * (1.0 + odds) < odds else 0.0
    return math.exp(log_gamma_variate(generator, shape + n_clusters - 1.0 + more)) / rate


# --- records ---------------------------------------------------------------------------------


@kernel
def complete(key, sweep, purpose, patterns, times, levels, strides, grid, mean, rows):
    """Draw the cell of every record of the patterns, in their order, into rows (sum(times),).

    A pattern (n_keys,), -1 where missing, is completed with probability proportional to mean.
    grid (n_combinations,) has the cell of each combination or -1; strides (n_keys,) index it.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    n_keys = levels.shape[0]
    digit = np.empty(n_keys, np.int64)
    record = 0
    for q in range(patterns.shape[0]):
        n_completions, at = 1, 0
        for j in range(n_keys):
            digit[j] = 0
            if patterns[q, j] < 0:
                n_completions *= levels[j]
            else:
                at += patterns[q, j] * strides[j]
        cells, below = np.empty(n_completions, np.int64), np.empty(n_completions)
        n, total = 0, 0.0
        for _ in range(n_completions):
            if grid[at] >= 0:
                total += mean[grid[at]]
                cells[n], below[n] = grid[at], total
                n += 1
            # The next combination of the missing keys, the last one turning fastest.
            j = n_keys - 1
            while j >= 0:
                if patterns[q, j] < 0:
                    digit[j] += 1
                    at += strides[j]
                    if digit[j] < levels[j]:
                        break
                    at -= levels[j] * strides[j]
                    digit[j] = 0
                j -= 1
        for _ in range(times[q]):
            seek(generator, key, record, sweep, purpose)
            u = uniform(generator) * total
            low, high = 0, n - 1
            while low < high:
                middle = (low + high) // 2
                if below[middle] > u:
                    high = middle
                else:
                    low = middle + 1
            rows[record] = cells[low]
            record += 1
