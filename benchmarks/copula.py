"""Copulas of others, for comparisons alone: patent applications exist.

The Gaussian copula is that of Rocher, Hendrickx and de Montjoye (2019).

Each key keeps the shares that its levels have in the sample, and the keys are joined by a normal
law whose correlations give every pair of keys the mutual information that it has in the sample
(less its bias). A record with the probability p is unique among N with probability (1 - p)^(N - 1).
Levels are in the order of their codes, as in the authors' program.

The mean of two copulas is that of Jiang, Mosquera, Jiang, Kong and El Emam (2022): a population is
simulated from a Gaussian copula and one from a D-vine, and the risks of samples of them averaged.
The D-vine is fitted by pyvinecopulib, where it is installed.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import hypergeom, spearmanr

try:
    import pyvinecopulib as vines
except ImportError:
    vines: Any = None

POINTS = 1_000
"""Of the normal law, along which a table of two keys is integrated."""
DRAWS = 512
"""For the probability of a record."""
STRONGEST = 0.99
"""Correlation at most."""


def information(table: np.ndarray) -> float:
    """Mutual information of a table of two variables, (levels, levels), in nats."""
    joint = table / table.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    there = joint > 0.0
    return float((joint[there] * np.log(joint[there] / apart[there])).sum())


def normal_table(first: np.ndarray, second: np.ndarray, correlation: float) -> np.ndarray:
    """Probabilities of two cut normal variables; cumulative shares (levels,) of both."""
    quantiles = (np.arange(POINTS) + 0.5) / POINTS
    u, scale = ndtri(quantiles), np.sqrt(1.0 - correlation**2)
    ends = ndtri(np.concatenate(([0.0], second)))
    within = np.diff(ndtr((ends - correlation * u[:, None]) / scale), axis=1)
    found = np.zeros((len(first), len(second)))
    np.add.at(found, np.minimum(np.searchsorted(first, quantiles), len(first) - 1), within)
    return found / POINTS


def correlations(codes: np.ndarray, cumulative: list[np.ndarray]) -> np.ndarray:
    """Correlations that give the mutual information of each pair of keys, (n_keys, n_keys)."""
    n, n_keys = codes.shape
    found = np.eye(n_keys)
    for j, k in combinations(range(n_keys), 2):
        shape = (len(cumulative[j]), len(cumulative[k]))
        table = np.bincount(codes[:, j] * shape[1] + codes[:, k], minlength=shape[0] * shape[1])
        # The bias of Miller (1955), of the cells that occur.
        bias = ((table > 0).sum() - shape[0] - shape[1] + 1) / (2.0 * n)
        wanted = information(table.reshape(shape)) - bias

        def more(r: float, j: int = j, k: int = k, wanted: float = wanted) -> float:
            return information(normal_table(cumulative[j], cumulative[k], r)) - wanted

        if wanted > 1e-6:
            size = STRONGEST if more(STRONGEST) < 0.0 else brentq(more, 0.0, STRONGEST, xtol=1e-3)
            sign = -1.0 if spearmanr(codes[:, j], codes[:, k])[0] < 0.0 else 1.0
            found[j, k] = found[k, j] = sign * size
    values, vectors = np.linalg.eigh(found)
    near = (vectors * np.maximum(values, 1e-4)) @ vectors.T
    scale = np.sqrt(np.diag(near))
    return near / np.outer(scale, scale)


def ends_of_levels(codes: np.ndarray) -> list[np.ndarray]:
    """Cumulative shares of the levels of each key."""
    return [np.minimum(np.cumsum(np.bincount(c) / len(codes)), 1.0) for c in codes.T]


def probabilities(codes: np.ndarray, records: np.ndarray, seed: int = 1) -> np.ndarray:
    """Probability of some records under the copula fitted to a sample.

    codes (n, n_keys) from 0, every level with a record; records (m, n_keys). Returns (m,).
    """
    cumulative = ends_of_levels(codes)
    root = np.linalg.cholesky(correlations(codes, cumulative))
    ends = [ndtri(np.concatenate(([0.0], one[:-1], [1.0]))) for one in cumulative]
    rng = np.random.default_rng(seed)
    uniform = rng.random((DRAWS, codes.shape[1]))
    found = np.empty(len(records))
    # One key after the other, each given those before it (Geweke, Hajivassiliou and Keane).
    for i, record in enumerate(records):
        z = np.zeros((DRAWS, codes.shape[1]))
        weight = np.ones(DRAWS)
        for j, level in enumerate(record):
            mean = z[:, :j] @ root[j, :j]
            low, high = (ndtr((ends[j][level + e] - mean) / root[j, j]) for e in (0, 1))
            weight *= high - low
            z[:, j] = ndtri(np.clip(low + uniform[:, j] * (high - low), 1e-15, 1.0 - 1e-15))
        found[i] = weight.mean()
    return found


def gaussian_population(codes: np.ndarray, n: int, seed: int = 1) -> np.ndarray:
    """Records simulated from the Gaussian copula fitted to a sample, (n, n_keys)."""
    cumulative = ends_of_levels(codes)
    root = np.linalg.cholesky(correlations(codes, cumulative))
    z = np.random.default_rng(seed).standard_normal((n, codes.shape[1])) @ root.T
    return levels_at(ndtr(z), cumulative)


def vine_population(codes: np.ndarray, n: int, seed: int = 1) -> np.ndarray:
    """Records simulated from a D-vine copula fitted to a sample, (n, n_keys).

    The keys are in the order of their columns, pairs of one of six parametric families.
    """
    cumulative = ends_of_levels(codes)
    names = ("gaussian", "clayton", "gumbel", "frank", "joe", "indep")
    families = [getattr(vines.families, name) for name in names]
    # Distribution functions at the levels and below them, shrunk so that none is 0 or 1.
    inner = [np.concatenate(([0.0], one)) * len(codes) / (len(codes) + 1) for one in cumulative]
    above = np.stack([one[c + 1] for one, c in zip(inner, codes.T, strict=True)], axis=1)
    below = np.stack([one[c] for one, c in zip(inner, codes.T, strict=True)], axis=1)
    n_keys = codes.shape[1]
    vine = vines.Vinecop.from_data(
        np.hstack([above, np.maximum(below, 1e-10)]),
        structure=vines.DVineStructure(list(range(1, n_keys + 1))),
        var_types=["d"] * n_keys,
        controls=vines.FitControlsVinecop(family_set=families, num_threads=1),
    )
    return levels_at(vine.sample(n, seeds=[seed]), cumulative)


def levels_at(uniform: np.ndarray, cumulative: list[np.ndarray]) -> np.ndarray:
    """Levels of uniform variables, (n, n_keys)."""
    pairs = zip(cumulative, uniform.T, strict=True)
    return np.stack(
        [np.minimum(np.searchsorted(c, u, side="right"), len(c) - 1) for c, u in pairs], axis=1
    )


def totals(population: np.ndarray, n: int) -> tuple[float, float]:
    """Expected tau1 and tau2 of simple random samples of n records of a population."""
    size = np.unique(population, axis=0, return_counts=True)[1]
    alone = hypergeom.pmf(1, len(population), size, n)
    return float(alone[size == 1].sum()), float((alone / size).sum())


def mean_of_two(codes: np.ndarray, n_population: int) -> tuple[float, float]:
    """Tau1 and tau2 of a sample, means of those of the two copulas."""
    both = [
        totals(simulate(codes, n_population), len(codes))
        for simulate in (gaussian_population, vine_population)
    ]
    return (both[0][0] + both[1][0]) / 2.0, (both[0][1] + both[1][1]) / 2.0
