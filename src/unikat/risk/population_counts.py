"""Posterior distribution of a record's population count F: its median and mode.

Given a draw, F - f is binomial: M unobserved units, x of which are expected in the cell. The
posterior of F is the mixture over the draws. Draws are kept as a histogram of log(1 + x), so the
mixture is one over bins, x being spread evenly within each:

    P(F - f <= k | data) = sum_b w_b mean over x in bin b of P(Binomial(M, x / M) <= k)

The right factor is the same for all cells: a table over bins and k. k is every whole number up to
`_EXACT`, then numbers 5% apart, between which the distribution is interpolated.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64

_EXACT = 128
_STEP = 1.05
_WITHIN = 8
"""Values of x that stand for a bin."""
_CHUNK = 1 << 14


class CountSummary(NamedTuple):
    """What the posterior of F is summed up by, (n_cells,) each."""

    median: Float64
    mode: Float64


def add_to_histogram(histogram: Int32, means: Float64, unobserved: float) -> None:
    """Add one draw in place: histogram (n_cells, n_bins), means (n_cells,) being x."""
    n_bins = histogram.shape[1]
    scale = n_bins / max(math.log1p(unobserved), 1e-9)
    bins = np.minimum((np.log1p(means) * scale).astype(np.int64), n_bins - 1)
    histogram[np.arange(len(bins)), bins] += 1


def bin_means(n_bins: int, unobserved: float) -> Float64:
    """Expected unobserved units that a bin of the histogram stands for, (n_bins,)."""
    middles = (np.arange(n_bins) + 0.5) / n_bins
    return np.expm1(middles * math.log1p(unobserved))


def summarise_counts(histogram: Int32, counts: Float64, unobserved: float) -> CountSummary:
    """Return median and mode of F of cells with these records, NaN where there was no draw.

    Parameters
    ----------
    histogram
        (n_cells, n_bins): of the draws.
    counts
        (n_cells,): f.
    unobserved
        M.
    """
    n_cells = len(histogram)
    if unobserved <= 0.0:
        return CountSummary(counts.astype(np.float64), counts.astype(np.float64))
    places, table = _cumulative(float(unobserved), histogram.shape[1])
    more = np.diff(places, prepend=-1.0)
    found = np.full((2, n_cells), np.nan)
    for first in range(0, n_cells, _CHUNK):
        part = histogram[first : first + _CHUNK].astype(np.float64)
        total = part.sum(axis=1)
        known = total > 0.0
        below = part[known] @ table / total[known, None]
        at = np.argmax(below >= 0.5 - 1e-12, axis=1)
        rows = np.arange(len(below))
        before = np.where(at > 0, below[rows, at - 1], 0.0)
        share = (0.5 - before) / np.maximum(below[rows, at] - before, 1e-300)
        # Among the numbers after the last place; a step of one has one.
        ahead = np.ceil(np.clip(share, 0.0, 1.0) * more[at])
        middle = places[at] - more[at] + np.maximum(ahead, 1.0)
        top = np.argmax(np.diff(below, axis=1, prepend=0.0) / more, axis=1)
        f = counts[first : first + _CHUNK][known]
        found[0, first : first + len(part)][known] = f + middle
        most_probable = f + np.floor(places[top] - 0.5 * (more[top] - 1.0))
        found[1, first : first + len(part)][known] = most_probable
    return CountSummary(*found)


@lru_cache(maxsize=32)
def _cumulative(unobserved: float, n_bins: int) -> tuple[Float64, Float64]:
    """Places k, (n_places,), and P(F - f <= k) of every bin, (n_bins, n_places)."""
    # Loaded here: it takes as long as all else of an estimate.
    from scipy import special

    places = np.arange(min(_EXACT, int(unobserved)) + 1.0)
    if unobserved > _EXACT:
        n = math.ceil(math.log(unobserved / _EXACT) / math.log(_STEP))
        further: Int64 = np.unique(np.ceil(np.geomspace(_EXACT, unobserved, n + 1)[1:])).astype(int)
        places = np.append(places, further[further > _EXACT].astype(np.float64))
    within = (np.arange(n_bins * _WITHIN) + 0.5) / (n_bins * _WITHIN)
    p = np.expm1(within * math.log1p(unobserved)) / unobserved
    whole = math.ceil(unobserved)
    below = special.bdtr(np.minimum(places, whole)[None, :], whole, np.minimum(p, 1.0)[:, None])
    table = below.reshape(n_bins, _WITHIN, -1).mean(axis=1)
    table[:, -1] = 1.0
    return places, table
