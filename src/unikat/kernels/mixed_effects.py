"""Random effects of a Poisson log-linear model whose cells are listed, and their laws.

    f_i ~ Poisson(exp(offset_i + w_i' b + phi_i))          cell i of the listed cells

Symbols as in :mod:`unikat.kernels.fixed_effects`; `log_base` (n_cells,) is the log mean without
phi. Under a Dirichlet process `cluster` (n_cells,) int32 gives each cell's place in `values`
(n_clusters,) float64, and phi_i = values[cluster[i]].
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.base_measure import draw_effect, draw_effect_given
from unikat.kernels.cholesky import factor, solve_lower, solve_upper
from unikat.kernels.jit import device, kernel
from unikat.kernels.poisson_normal import draw_log_rate
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_BASE,
    PURPOSE_CLUSTERS,
    PURPOSE_EFFECTS,
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

# --- normal random effects -------------------------------------------------------------------


@kernel
def draw_effects(key, sweep, counts, log_base, variance, effects):
    """Draw phi of every cell given the rest of its log mean, log_base (n_cells,)."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(counts.shape[0]):
        seek(generator, key, i, sweep, PURPOSE_EFFECTS)
        effects[i] = draw_log_rate(generator, counts[i], log_base[i], 0.0, variance)


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
    density, slope, curvature = scale_geometry(counts, log_base, effects, 1.0, here, shape, rate)
    xi = normal(generator)
    there = here + drift * slope / curvature + step * xi / math.sqrt(curvature)
    log_ratio = 0.5 * xi * xi - 0.5 * math.log(curvature) - density
    ratio = math.exp(there - here)
    density, slope, curvature = scale_geometry(counts, log_base, effects, ratio, there, shape, rate)
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
def allocate(key, sweep, counts, log_base, mass, base, cluster, values):
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
    spare, spare_rate = np.empty(N_SPARE), np.empty(N_SPARE)
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, n_cells, sweep, PURPOSE_CLUSTERS)
    for s in range(N_SPARE):
        spare[s] = draw_effect(generator, base)
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
            spare[s] = draw_effect(generator, base)
            spare_rate[s] = math.exp(spare[s])
        size[p] += 1.0
        cluster[i] = slot_at[p]
    for i in range(n_cells):
        cluster[i] = position_of[cluster[i]]
    return value[:n].copy()


@kernel
def draw_values(key, sweep, counts, log_base, cluster, base, values):
    """Draw the value of every cluster given its cells, exactly, in place."""
    n = values.shape[0]
    count, exposure = np.zeros(n), np.zeros(n)
    for i in range(counts.shape[0]):
        count[cluster[i]] += counts[i]
        exposure[cluster[i]] += math.exp(log_base[i])
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for j in range(n):
        seek(generator, key, j, sweep, PURPOSE_VALUES)
        values[j] = draw_effect_given(generator, count[j], math.log(exposure[j]), base)


@kernel
def exchange(key, sweep, variance, prior_variance, intercept, values):
    """Draw what is added to all values and taken from the intercept; returns the new intercept.

    The log means stay. Under the gamma law with shape a the density of the shift x is that of a log
    rate: n a x - e^x a sum e^value - (x - intercept)^2 / (2 v). Values are changed in place.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 3, sweep, PURPOSE_BASE)
    highest, total = values.max(), 0.0
    for j in range(values.shape[0]):
        total += math.exp(values[j] - highest)
    log_exposure = highest + math.log(total) - math.log(variance)
    count = values.shape[0] / variance
    x = draw_log_rate(generator, count, log_exposure, intercept, prior_variance)
    values += x
    return intercept - x


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


# --- records with missing keys, over the listed cells ------------------------------------------


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
