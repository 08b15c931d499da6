"""Split–merge moves of clusters of cells, their values integrated out.

Symbols as in :mod:`unikat.kernels.mixed_effects`. Moves of single cells hardly ever split a cluster
of hundreds of cells.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.base_measure import log_effect_integral
from unikat.kernels.jit import device, kernel
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_PARTITION, seek, uniform

_MANY_RECORDS = 8
"""Cells with so many records are assigned first, since they distinguish two clusters best."""


@device
def pick_pair(generator, counts):
    """Two different cells, from all, those with records or those with many, by chance.

    The choice does not look at the clusters, so it is as likely before a move as after it.
    """
    u = uniform(generator)
    least = 0 if u < 0.34 else (1 if u < 0.67 else _MANY_RECORDS)
    chosen = np.empty(counts.shape[0], np.int64)
    n = 0
    for i in range(counts.shape[0]):
        if counts[i] >= least:
            chosen[n] = i
            n += 1
    if n < 2:
        return 0, 0
    one = int(uniform(generator) * n)
    other = int(uniform(generator) * (n - 1))
    if other >= one:
        other += 1
    return chosen[one], chosen[other]


@device
def deal(generator, counts, log_base, base, members, side, split):
    """Deal the members out to the sides of the first two of them, one after another.

    Chances are in proportion to a side's size and the likelihood at an estimate of its value
    from its members so far (Dahl 2005). With `split` the sides are drawn, into side (0 or 1 per
    member); without, they are given. Returns the log probability of the sides, and records, log
    exposure and size of each side.
    """
    # As many records as the prior is worth, at its mean.
    extra = min(1.0, 1.0 / base.variance)
    records, exposure, size = np.zeros(2), np.zeros(2), np.ones(2)
    for s in range(2):
        records[s] = counts[members[s]]
        exposure[s] = math.exp(log_base[members[s]])
    prior_exposure = extra * math.exp(-base.mean)
    log_chance = 0.0
    for large in (True, False):
        for x in range(2, members.shape[0]):
            i = members[x]
            if (counts[i] >= _MANY_RECORDS) != large:
                continue
            own = math.exp(log_base[i])
            rate_0 = (records[0] + extra) / (exposure[0] + prior_exposure)
            rate_1 = (records[1] + extra) / (exposure[1] + prior_exposure)
            odds = counts[i] * math.log(rate_1 / rate_0) - own * (rate_1 - rate_0)
            odds += math.log(size[1] / size[0])
            # Probability of side 1, and the logarithms of both, without overflow.
            small = math.exp(-abs(odds))
            log_1 = min(odds, 0.0) - math.log1p(small)
            if split:
                side[x] = 1 if math.log(uniform(generator)) < log_1 else 0
            s = side[x]
            log_chance += log_1 if s == 1 else log_1 - odds
            records[s] += counts[i]
            exposure[s] += own
            size[s] += 1.0
    return log_chance, records, exposure, size


@kernel
def split_merge(key, sweep, n_tries, counts, log_base, mass, base, cluster, n_clusters):
    """Propose to split the cluster of two cells, or to merge their two; cluster in place.

    Metropolis-Hastings on the partition alone, with probability Gamma(m) / Gamma(m + n_cells)
    m^c prod Gamma(n_j) times each cluster's integrated likelihood; the values have to be drawn
    after it. Returns the number of clusters and how many moves were made.
    """
    n_cells = counts.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    moved = 0
    for attempt in range(n_tries):
        seek(generator, key, attempt, sweep, PURPOSE_PARTITION)
        one, other = pick_pair(generator, counts)
        if one == other:
            continue
        a, b = cluster[one], cluster[other]
        n = 2
        for i in range(n_cells):
            if (cluster[i] == a or cluster[i] == b) and i != one and i != other:
                n += 1
        members, side = np.empty(n, np.int64), np.zeros(n, np.int8)
        members[0], members[1] = one, other
        side[1] = 1
        n = 2
        for i in range(n_cells):
            if (cluster[i] == a or cluster[i] == b) and i != one and i != other:
                members[n] = i
                side[n] = 1 if cluster[i] == b else 0
                n += 1
        split = a == b
        log_chance, records, exposure, size = deal(
            generator, counts, log_base, base, members, side, split
        )
        log_ratio = math.log(mass) + math.lgamma(size[0]) + math.lgamma(size[1])
        log_ratio -= math.lgamma(size[0] + size[1])
        for s in range(2):
            log_ratio += log_effect_integral(records[s], math.log(exposure[s]), base)
        log_ratio -= log_effect_integral(
            records[0] + records[1], math.log(exposure[0] + exposure[1]), base
        )
        log_ratio -= log_chance
        if not split:
            log_ratio = -log_ratio
        if not math.log(uniform(generator)) < log_ratio:
            continue
        moved += 1
        if split:
            for x in range(n):
                if side[x] == 1:
                    cluster[members[x]] = n_clusters
            n_clusters += 1
        else:
            n_clusters -= 1
            for i in range(n_cells):
                if cluster[i] == b:
                    cluster[i] = a
            # The last cluster takes the free number.
            for i in range(n_cells):
                if cluster[i] == n_clusters:
                    cluster[i] = b
    return n_clusters, moved
