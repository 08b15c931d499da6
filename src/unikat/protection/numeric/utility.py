"""What changed columns keep: moments, quantiles and correlations, by their standard errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64

SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Of the quantiles."""


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistic of the original and of the released column."""

    before: float
    after: float
    change: float
    """In standard errors that it has by the sampling of the original; 0 where it has none."""

    @classmethod
    def of(cls, before: float, after: float, error: float) -> Statistic:
        """Compare two values; `error` is the standard error of the first."""
        moved = after - before
        return cls(
            before=float(before), after=float(after), change=float(moved / error) if error else 0.0
        )


@dataclass(frozen=True, kw_only=True)
class Moments:
    """What a released column keeps."""

    mean: Statistic
    variance: Statistic
    quantiles: tuple[Statistic, ...]
    """At 10%, 25%, 50%, 75% and 90% of the records."""
    lost: float
    """Mean squared change of a value as a share of the variance; of microaggregation SSE / SST, the
    share within groups."""

    @property
    def worst_quantile(self) -> Statistic:
        """The quantile that moves most."""
        return max(self.quantiles, key=lambda one: abs(one.change))


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """The correlation of two changed columns, by records that have both."""

    columns: tuple[str, str]
    value: Statistic
    """Its change in standard errors on Fisher's scale."""


@dataclass(frozen=True, kw_only=True)
class NumericUtility:
    """What the changed columns keep together."""

    correlations: tuple[Correlation, ...]
    il1s: float
    """Sum over values of |x - x'| / (sqrt(2) s), s the standard deviation of the column: IL1s of
    sdcMicro."""
    eigenvalues: float
    """Sum over the eigenvalues of the correlation matrices of |l - l'| / l, by records that have
    all columns: the eigenvalue measure of sdcMicro."""


def moments(true: Float64, released: Float64) -> Moments:
    """Compare a column with its released version; (n,) each, finite.

    Standard errors are those of a simple random sample: of the variance by the fourth moment, of a
    quantile by the order statistics around it.
    """
    n, variance = len(true), true.var()
    fourth = ((true - true.mean()) ** 4).mean()
    quantiles = []
    for share in SHARES:
        around = np.sqrt(share * (1.0 - share) / n)
        before, low, high = np.quantile(
            true, np.clip([share, share - around, share + around], 0.0, 1.0)
        )
        quantiles.append(
            Statistic.of(before, float(np.quantile(released, share)), (high - low) / 2.0)
        )
    return Moments(
        mean=Statistic.of(true.mean(), released.mean(), np.sqrt(variance / n)),
        variance=Statistic.of(
            variance, released.var(), np.sqrt(max(fourth - variance**2, 0.0) / n)
        ),
        quantiles=tuple(quantiles),
        lost=float(((true - released) ** 2).mean() / variance) if variance else 0.0,
    )


def utility_of(names: list[str], true: Float64, released: Float64) -> NumericUtility:
    """Compare columns, (n, n_columns), NaN where missing."""
    known = np.isfinite(true) & np.isfinite(released)
    correlations = []
    for i in range(len(names)):
        for j in range(i + 1, len(names)):
            both = known[:, i] & known[:, j]
            before, after = (
                _correlation(true[both][:, [i, j]]),
                _correlation(released[both][:, [i, j]]),
            )
            bounded = np.clip([before, after], -1.0 + 1e-12, 1.0 - 1e-12)
            fisher = np.arctanh(bounded)
            step = float(fisher[1] - fisher[0]) * np.sqrt(max(both.sum() - 3, 0))
            value = Statistic(before=before, after=after, change=float(step))
            correlations.append(Correlation(columns=(names[i], names[j]), value=value))
    complete = known.all(axis=1)
    spread = [
        column[has].std(ddof=1) if has.sum() > 1 else 0.0
        for column, has in zip(true.T, known.T, strict=True)
    ]
    moved = np.nansum(np.where(known, np.abs(true - released), 0.0), axis=0)
    return NumericUtility(
        correlations=tuple(correlations),
        il1s=float(sum(m / (np.sqrt(2.0) * s) for m, s in zip(moved, spread, strict=True) if s)),
        eigenvalues=_eigenvalues(true[complete], released[complete]),
    )


def _correlation(values: Float64) -> float:
    """Correlation of two columns; 0 where one does not vary."""
    if len(values) < 2 or not np.ptp(values, axis=0).all():
        return 0.0
    return float(np.asarray(np.corrcoef(values.T))[0, 1])


def _eigenvalues(true: Float64, released: Float64) -> float:
    """Compare the eigenvalues of correlations, (n, n_columns); 0 where a column does not vary."""
    if len(true) < 2 or not (np.ptp(true, axis=0).all() and np.ptp(released, axis=0).all()):
        return 0.0
    one, two = (
        np.linalg.eigvalsh(np.atleast_2d(np.corrcoef(values.T))) for values in (true, released)
    )
    return float((np.abs(one - two) / np.maximum(one, 1e-12)).sum())
