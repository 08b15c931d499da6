"""What the two pages for a committee show beside other numbers: pictures of a key, and of τ1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64, Int32
from unikat.protection.recoding import Recoding

_MOST_BINS = 44


@dataclass(frozen=True, kw_only=True)
class KeyShares:
    """How the records spread over the levels of a key, before and after."""

    name: str
    before: tuple[float, ...]
    """Share of each level among the records in which it is known, in the order of the levels."""
    after: tuple[tuple[str, float], ...]
    """Label and share of each level that is released; none if the key is left out."""
    missing: tuple[float, float]
    """Share of the records in which it is missing, before and after."""


def key_shares(recoding: Recoding, codes: Int32, released: Int32) -> tuple[KeyShares, ...]:
    """Count the levels of each key.

    Parameters
    ----------
    recoding
        Of the keys.
    codes
        (n, n_keys): codes of the file as it was, -1 where missing.
    released
        (m, n_recoded_keys): codes of the released records.
    """
    place = {j: column for column, j in enumerate(recoding.kept)}
    found = []
    for j, one in enumerate(recoding.keys):
        before = _shares(codes[:, j], int(codes[:, j].max(initial=-1)) + 1)
        after, labels = np.empty(0), tuple[str, ...]()
        missing = 1.0
        if one.key is not None and j in place:
            column, labels = released[:, place[j]], one.key.labels
            after = _shares(column, len(labels))
            missing = float((column < 0).mean()) if len(column) else 0.0
        found.append(
            KeyShares(
                name=one.name,
                before=tuple(before.tolist()),
                after=tuple(zip(labels, after.tolist(), strict=False)),
                missing=(float((codes[:, j] < 0).mean()) if len(codes) else 0.0, missing),
            )
        )
    return tuple(found)


def _shares(codes: Int32, n_levels: int) -> Float64:
    counts = np.bincount(codes[codes >= 0], minlength=n_levels).astype(np.float64)
    found: Float64 = counts / max(counts.sum(), 1.0)
    # A single record is not told from none in a large file.
    return np.round(found, 4)


def bins(values: Float64) -> tuple[tuple[float, float, float], ...]:
    """Lower end, upper end and share of each bar of a histogram of draws; NaN were not drawn."""
    values = values[~np.isnan(values)]
    if not values.size:
        return ()
    ends = edges(values)
    counts, _ = np.histogram(values, ends)
    shares = counts / values.size
    return tuple(zip(ends[:-1].tolist(), ends[1:].tolist(), shares.tolist(), strict=True))


def edges(values: Float64) -> Float64:
    """Edges of a histogram; counts fall in the middle of whole-numbered bins."""
    low, high = (float(q) for q in np.quantile(values, [0.0005, 0.9995]))
    whole = bool(np.all(values == np.round(values)))
    if whole or high - low > _MOST_BINS:
        width = max(1, math.ceil((high - low + 1) / _MOST_BINS))
        first = math.floor(low) - 0.5
        n_bins = max(math.ceil((high + 0.5 - first) / width), 5)
        return first + width * np.arange(n_bins + 1, dtype=np.float64)
    return np.linspace(low, max(high, low + 1e-6), _MOST_BINS + 1)
