"""Estimates against the truth: of the counts τ1 and τ2, and of the risks of single records.

What is kept of one fit is small and adds up, so that a study of many samples needs no more memory
than one of few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from unikat._typing import Bool, Float64, Int64
from unikat.classics.formulas import PointEstimate
from unikat.risk.estimate import RecordRisk, RiskEstimate, Summary
from unikat.studies.designs import Sample
from unikat.studies.synthesizers import Synthesised, SyntheticScore

N_CUTOFFS = 200
"""Cut-offs on r1 above 0: 1/200, 2/200, ..., 1."""
SUMMARIES = ("mean", "median", "mode")
"""Of 1/F, and of F: risks by which records are classified."""
UNSAFE_CUTOFFS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Risks above which records are called unsafe."""
N_GROUPS = 10
"""Groups of equal width in which predicted risk is compared with the truth."""
SMALL = 10
"""Largest population count of a record that counts as at high risk."""
LEAST_PROBABILITY = 1e-4
"""Of smaller ones the log score takes the logarithm of this: so much costs a wrong risk of 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordScores:
    """Sums over the sample uniques, or cells, of one or more fits; all of them add.

    The arrays hold counts and sums over many records, never the values of one.
    """

    unique: Int64
    """(N_CUTOFFS + 1,): population uniques by r1; bin 0 is r1 = 0, bin i is ((i-1)/200, i/200]."""
    other: Int64
    """(N_CUTOFFS + 1,): sample uniques that are not population unique, likewise."""
    r1: Float64
    """(N_GROUPS, 3): sample uniques, sum of r1, population uniques; by r1 in tenths."""
    r2: Float64
    """(N_GROUPS, 3): sample uniques, sum of r2, sum of 1/F; by r2 in tenths."""
    unsafe: Int64
    """(n_summaries, n_cutoffs, 2, 2): sample uniques by whether the risk of a summary of F
    (`SUMMARIES`) and 1/F are above a cut-off (`UNSAFE_CUTOFFS`); rows estimated safe and unsafe,
    columns truly so."""
    unsafe_cells: Int64
    """The same of all cells with records of the sample, each once."""
    r2_errors: Float64
    """(2, 4): sample uniques, and sums of the error of r2 against 1/F: signed, absolute, squared;
    row 0 where F <= 10, row 1 where F > 10."""
    r1_sums: Float64
    """(6,): sample uniques; with y whether one is population unique, sums of (r1 - y)^2, of -log of
    the probability of y, and of r1 (1 - r1); pairs of one that is and one that is not, and those in
    which it has the larger r1, ties counted half."""

    def __add__(self, other: RecordScores) -> RecordScores:
        return RecordScores(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )

    @classmethod
    def none(cls) -> RecordScores:
        """Scores of no record."""
        return cls(
            unique=np.zeros(N_CUTOFFS + 1, np.int64),
            other=np.zeros(N_CUTOFFS + 1, np.int64),
            r1=np.zeros((N_GROUPS, 3)),
            r2=np.zeros((N_GROUPS, 3)),
            unsafe=np.zeros((len(SUMMARIES), len(UNSAFE_CUTOFFS), 2, 2), np.int64),
            unsafe_cells=np.zeros((len(SUMMARIES), len(UNSAFE_CUTOFFS), 2, 2), np.int64),
            r2_errors=np.zeros((2, 4)),
            r1_sums=np.zeros(6),
        )

    @classmethod
    def of(
        cls,
        r1: Float64 | None,
        r2: Float64 | None,
        population_counts: Int64,
        median: Float64 | None = None,
        mode: Float64 | None = None,
        unique: Bool | None = None,
    ) -> RecordScores:
        """Score the predicted risks of all cells with records.

        Parameters
        ----------
        r1, r2
            Predicted risks, (n_cells,); None: not predicted.
        population_counts
            F of each, (n_cells,).
        median, mode
            Of the posterior of F, (n_cells,); None where it is not known.
        unique
            Whether a cell has one record, (n_cells,); None: all have.
        """
        found = cls.none()
        if r2 is not None:
            tables = _unsafe_tables(r2, population_counts, median, mode)
            found = replace(found, unsafe_cells=tables)
        if unique is not None:
            population_counts = population_counts[unique]
            r1, r2, median, mode = (
                None if one is None else one[unique] for one in (r1, r2, median, mode)
            )
        alone, truth = population_counts == 1, 1.0 / population_counts
        if r1 is not None:
            # 'left': a risk that lies on an edge belongs below it, as "above the cut-off" wants.
            bins = np.searchsorted(np.arange(N_CUTOFFS + 1) / N_CUTOFFS, r1, side="left")
            bins = np.minimum(bins, N_CUTOFFS)
            found = replace(
                found,
                unique=np.bincount(bins[alone], minlength=N_CUTOFFS + 1),
                other=np.bincount(bins[~alone], minlength=N_CUTOFFS + 1),
                r1=_by_group(r1, alone.astype(np.float64)),
                r1_sums=_sums(r1, alone),
            )
        if r2 is not None:
            error = r2 - truth
            rows = (population_counts > SMALL).astype(np.int64)
            parts = (np.ones(len(r2)), error, np.abs(error), error**2)
            errors: Float64 = np.stack(
                [np.bincount(rows, part, minlength=2) for part in parts], axis=1
            )
            found = replace(
                found,
                r2=_by_group(r2, truth),
                unsafe=_unsafe_tables(r2, population_counts, median, mode),
                r2_errors=errors,
            )
        return found


def _sums(r1: Float64, alone: Bool) -> Float64:
    """Sums that score r1 as the probability of being population unique, (6,)."""
    # Loaded here: scipy.stats takes as long as all else that an evaluation loads.
    from scipy.stats import rankdata

    right = np.where(alone, r1, 1.0 - r1)
    n_alone, n_other = np.count_nonzero(alone), np.count_nonzero(~alone)
    larger = rankdata(r1)[alone].sum() - n_alone * (n_alone + 1) / 2.0
    surprise = -np.log(np.maximum(right, LEAST_PROBABILITY)).sum()
    sums = (((1.0 - right) ** 2).sum(), surprise, (r1 * (1.0 - r1)).sum())
    return np.array([len(r1), *sums, n_alone * n_other, larger], np.float64)


@dataclass(frozen=True, kw_only=True)
class Point:
    """What a formula or another program estimates."""

    mean: float
    """The estimate; of a posterior its mean."""
    lower: float | None = None
    """Ends of its interval; None, as the next, without one."""
    upper: float | None = None

    @classmethod
    def of(cls, value: float | None) -> Point | None:
        """Return an estimate without an interval, or None if there is none."""
        return None if value is None else cls(mean=value)


@dataclass(frozen=True, kw_only=True)
class FitScore:
    """One model, formula or other program on one sample, beside the truth."""

    model: str
    n: int
    repeat: int
    n_drawn: int
    """Records in the sample; differs from n under Bernoulli sampling."""
    n_uniques: int
    tau1_true: float
    tau2_true: float
    tau1: Summary | None = None
    """Predictive, as are the other summaries of this name; None where the fit failed."""
    tau2: Summary | None = None
    tau1_expected: Summary | None = None
    tau2_expected: Summary | None = None
    tau1_point: Point | None = None
    """Of a formula or another program, as is the next; None of models, and where there is none."""
    tau2_point: Point | None = None
    converged: bool = False
    stop_reason: str | None = None
    n_sweeps: int | None = None
    seconds: float | None = None
    """Spent sampling."""
    records: RecordScores | None = None
    synthetic: SyntheticScore | None = None
    """Of a generator of synthetic files; None of all others."""
    error: str | None = None
    """Why there is no estimate; None where there is one."""

    def estimated(self, measure: str) -> Point | None:
        """Return the estimate of ``"tau1"`` or ``"tau2"`` of whatever gave one."""
        found: Summary | None = getattr(self, measure)
        if found is not None:
            return Point(mean=found.mean, lower=found.lower, upper=found.upper)
        point: Point | None = getattr(self, f"{measure}_point")
        return point

    @property
    def rhat(self) -> float | None:
        """Largest R-hat of τ1 and τ2; None where nothing was sampled or it is not known."""
        known = self._known("rhat")
        return max(known) if known else None

    @property
    def ess(self) -> float | None:
        """Smallest effective sample size of τ1 and τ2, bulk or tail."""
        known = self._known("ess_bulk", "ess_tail")
        return min(known) if known else None

    def _known(self, *names: str) -> list[float]:
        """Diagnostics of τ1 and τ2; none if one of them is not known."""
        values = [
            getattr(summary, name)
            for summary in (self.tau1, self.tau2)
            if summary is not None
            for name in names
        ]
        known = [value for value in values if value is not None and math.isfinite(value)]
        return known if len(known) == len(values) else []


def score_fit(
    sample: Sample, estimate: RiskEstimate, *, model: str, n: int, repeat: int
) -> FitScore:
    """Compare an estimate with the truth about its sample.

    Parameters
    ----------
    sample, estimate
        The sample, and what was estimated from it.
    model, n, repeat
        Label of the model, size asked for, and number of the repetition.
    """
    draws, risk = estimate.draws, estimate.records
    return _score(
        sample,
        model=model,
        n=n,
        repeat=repeat,
        tau1=estimate.tau1,
        tau2=estimate.tau2,
        tau1_expected=estimate.tau1_expected,
        tau2_expected=estimate.tau2_expected,
        converged=estimate.converged,
        stop_reason="known exactly" if draws is None else draws.stop_reason,
        n_sweeps=0 if draws is None else draws.n_sweeps,
        seconds=0.0 if draws is None else draws.seconds,
        records=_records_scored(sample, risk),
    )


def _records_scored(sample: Sample, risk: RecordRisk) -> RecordScores:
    """Score the risks of a model; where values were set missing, those of complete records."""
    table = sample.table
    # All cells, unless some have a missing key: then those that have none.
    known = slice(None) if sample.whole is None else ~table.incomplete
    found = RecordScores.of(
        risk.r1[known],
        risk.r2[known],
        sample.population_counts[known],
        risk.F_median[known],
        risk.F_mode[known],
        table.unique[known],
    )
    if sample.whole is None:
        return found
    # What is left by chance is in incomplete records too.
    r1 = np.nan_to_num(risk.r1[table.incomplete])
    by_chance = np.zeros_like(found.r1_sums)
    by_chance[3] = table.counts[table.incomplete] @ (r1 * (1.0 - r1))
    return replace(found, r1_sums=found.r1_sums + by_chance)


def score_point(
    sample: Sample, found: PointEstimate, *, model: str, n: int, repeat: int, seconds: float
) -> FitScore:
    """Compare what a formula says with the truth about its sample; see `score_fit`."""
    return _score(
        sample,
        model=model,
        n=n,
        repeat=repeat,
        tau1_point=Point.of(found.tau1),
        tau2_point=Point.of(found.tau2),
        converged=True,
        stop_reason="formula",
        seconds=seconds,
        records=RecordScores.of(
            found.r1, found.r2, sample.population_counts, unique=sample.table.unique
        ),
    )


def score_synthetic(
    sample: Sample, made: Synthesised, *, model: str, n: int, repeat: int, seconds: float | None
) -> FitScore:
    """Make the score of a synthetic file that of a fit; see `score_point`."""
    return _score(
        sample,
        model=model,
        n=n,
        repeat=repeat,
        converged=made.converged,
        stop_reason="synthesised",
        seconds=seconds,
        synthetic=made.score,
    )


def _score(sample: Sample, **found: Any) -> FitScore:
    """A score with the truth about its sample."""
    return FitScore(
        n_drawn=sample.table.n_records,
        n_uniques=sample.table.n_uniques,
        tau1_true=sample.tau1,
        tau2_true=sample.tau2,
        **found,
    )


def _unsafe_tables(
    r2: Float64, population_counts: Int64, median: Float64 | None, mode: Float64 | None
) -> Int64:
    """Classifications by each summary and cut-off, (n_summaries, n_cutoffs, 2, 2)."""
    risks = [r2, *(None if one is None else 1.0 / one for one in (median, mode))]
    return np.stack([_unsafe(one, 1.0 / population_counts) for one in risks])


def _unsafe(risk: Float64 | None, truth: Float64) -> Int64:
    """Classifications at the cut-offs, (n_cutoffs, 2, 2); records of unknown risk left out."""
    known = np.zeros(len(truth), bool) if risk is None else ~np.isnan(risk)
    risk = truth if risk is None else risk
    return np.stack([classification(risk[known], truth[known], one) for one in UNSAFE_CUTOFFS])


def _by_group(predicted: Float64, truth: Float64) -> Float64:
    """Counts and sums by tenths of the predicted risk, the last including 1, (N_GROUPS, 3)."""
    group = np.minimum((predicted * N_GROUPS).astype(np.int64), N_GROUPS - 1)
    parts = (np.ones(len(predicted)), predicted, truth)
    return np.stack([np.bincount(group, part, minlength=N_GROUPS) for part in parts], axis=1)


def classification(estimated: Float64, true: Float64, threshold: float) -> Int64:
    """Count items by whether estimated and true risk are above a threshold.

    Parameters
    ----------
    estimated, true
        (n,): risks of records or cells, such as r2 and 1/F.
    threshold
        Above which an item counts as unsafe; the paper has 0.05.

    Returns
    -------
    Int64
        (2, 2): rows estimated safe and unsafe, columns truly safe and unsafe, as in tables 1 and 2
        of Polettini and Stander.

    Examples
    --------
    >>> classification(np.array([0.01, 0.2, 0.3]), np.array([0.1, 0.5, 0.02]), 0.05).tolist()
    [[0, 1], [1, 1]]
    """
    place = 2 * (estimated > threshold) + (true > threshold)
    return np.bincount(place, minlength=4).astype(np.int64).reshape(2, 2)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Address of one fit of a study."""

    model: str
    """Label of the model."""
    n: int
    repeat: int
    """From 1."""
