"""Estimates against the truth: of the counts τ1 and τ2, and of the risks of single records.

What is kept of one fit is small and adds up, so that a study of many samples needs no more memory
than one of few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from unikat._typing import Float64, Int64
from unikat.risk.estimate import RiskEstimate, Summary
from unikat.studies.designs import Sample

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


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordScores:
    """Sums over the sample uniques of one or more fits; all of them add.

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
    r2_errors: Float64
    """(2, 4): sample uniques, and sums of the error of r2 against 1/F: signed, absolute, squared;
    row 0 where F <= 10, row 1 where F > 10."""

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
            r2_errors=np.zeros((2, 4)),
        )

    @classmethod
    def of(
        cls,
        r1: Float64,
        r2: Float64,
        population_counts: Int64,
        median: Float64 | None = None,
        mode: Float64 | None = None,
    ) -> RecordScores:
        """Score the predicted risks of sample uniques.

        Parameters
        ----------
        r1, r2
            Predicted risks, (n_uniques,).
        population_counts
            F of each, (n_uniques,).
        median, mode
            Of the posterior of F, (n_uniques,); None where it is not known.
        """
        alone = population_counts == 1
        # 'left': a risk that lies on an edge belongs below it, as "above the cut-off" wants.
        bins = np.searchsorted(np.arange(N_CUTOFFS + 1) / N_CUTOFFS, r1, side="left")
        bins = np.minimum(bins, N_CUTOFFS)
        truth = 1.0 / population_counts
        error = r2 - truth
        risks = [r2, *(None if one is None else 1.0 / one for one in (median, mode))]
        rows = (population_counts > SMALL).astype(np.int64)
        parts = (np.ones(len(r1)), error, np.abs(error), error**2)
        return cls(
            unique=np.bincount(bins[alone], minlength=N_CUTOFFS + 1),
            other=np.bincount(bins[~alone], minlength=N_CUTOFFS + 1),
            r1=_by_group(r1, alone.astype(np.float64)),
            r2=_by_group(r2, truth),
            unsafe=np.stack([_unsafe(one, truth) for one in risks]),
            r2_errors=np.stack([np.bincount(rows, part, minlength=2) for part in parts], axis=1),
        )


@dataclass(frozen=True, kw_only=True)
class FitScore:
    """One model fitted to one sample, beside the truth."""

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
    converged: bool = False
    stop_reason: str | None = None
    n_sweeps: int | None = None
    seconds: float | None = None
    """Spent sampling."""
    records: RecordScores | None = None
    error: str | None = None
    """Why there is no estimate; None where there is one."""

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
    table, draws, risk = sample.table, estimate.draws, estimate.records
    at_risk = np.flatnonzero(table.unique)
    return FitScore(
        model=model,
        n=n,
        repeat=repeat,
        n_drawn=table.n_records,
        n_uniques=table.n_uniques,
        tau1_true=sample.tau1,
        tau2_true=sample.tau2,
        tau1=estimate.tau1,
        tau2=estimate.tau2,
        tau1_expected=estimate.tau1_expected,
        tau2_expected=estimate.tau2_expected,
        converged=estimate.converged,
        stop_reason="known exactly" if draws is None else draws.stop_reason,
        n_sweeps=0 if draws is None else draws.n_sweeps,
        seconds=0.0 if draws is None else draws.seconds,
        records=RecordScores.of(
            risk.r1[at_risk],
            risk.r2[at_risk],
            sample.population_counts[at_risk],
            risk.F_median[at_risk],
            risk.F_mode[at_risk],
        ),
    )


@dataclass(frozen=True, kw_only=True)
class MeasureScore:
    """How τ1 or τ2 was estimated over the samples of one size."""

    truth: float
    """Mean of the true values."""
    estimate: float
    """Mean of the posterior means."""
    bias: float
    """Mean of estimate minus truth."""
    bias_error: float | None
    """Standard error of the bias over repetitions; None with one sample."""
    relative_bias: float | None
    """Bias over the mean truth; None where that is 0."""
    rmse: float
    """Root of the mean squared error."""
    relative_rmse: float | None
    n_covered: int
    """Samples whose interval contained the true value."""
    n_above: int | None = None
    """Samples whose true value lay above the interval, so that the risk was understated; None, as
    the next, in older results."""
    n_below: int | None = None
    coverage: float
    """Their share..."""
    coverage_lower: float
    """...and its 95% Wilson interval."""
    coverage_upper: float
    width: float
    """Mean width of the interval."""


@dataclass(frozen=True, kw_only=True)
class CutoffScore:
    """Errors when records with r1 above a cut-off are called population unique."""

    cutoff: float
    false_positive: float | None
    """Share of the sample uniques not population unique that are called so; None if none."""
    false_negative: float | None
    """Share of the population uniques in the sample that are not called so; None if none."""


@dataclass(frozen=True, kw_only=True)
class UnsafeScore:
    """Errors when records whose estimated risk is above a cut-off are called unsafe.

    A record is unsafe if 1/F is above the cut-off (tables 1 and 2 of Polettini and Stander).
    """

    summary: str
    """What the risk is made from: ``"mean"`` of 1/F (r2), or 1 over ``"median"`` or ``"mode"`` of
    the posterior of F."""
    cutoff: float
    false_positive: float | None
    """Share of the safe sample uniques that are called unsafe; None if there are none."""
    false_negative: float | None
    """Share of the unsafe ones that are called safe; None if there are none."""


@dataclass(frozen=True, kw_only=True)
class GroupScore:
    """Predicted risk against the truth, for records of about the same predicted risk."""

    lower: float
    upper: float
    records: int
    predicted: float | None
    """Mean predicted risk; None if there is no record."""
    truth: float | None
    """r1: share of population uniques; r2: mean of 1/F."""


@dataclass(frozen=True, kw_only=True)
class ErrorScore:
    """Error of r2 against 1/F, summed over the sample uniques of a sample: means over samples."""

    group: str
    """``"all"``, ``"F <= 10"`` or ``"F > 10"``."""
    records: float
    signed: float
    absolute: float
    squared: float


@dataclass(frozen=True, kw_only=True)
class ModelScore:
    """One model on all samples of one size; None or empty where no fit succeeded."""

    model: str
    n: int
    n_samples: int
    """Fits that gave an estimate, converged or not: what everything here is about."""
    n_failed: int
    n_unconverged: int
    seconds: float | None
    """Mean time spent sampling."""
    tau1: MeasureScore | None
    tau2: MeasureScore | None
    cutoffs: tuple[CutoffScore, ...]
    unsafe: tuple[UnsafeScore, ...] = ()
    """Empty in older results."""
    r1_groups: tuple[GroupScore, ...]
    r2_groups: tuple[GroupScore, ...]
    r2_errors: tuple[ErrorScore, ...]


def summarise_fits(scores: Sequence[FitScore]) -> tuple[ModelScore, ...]:
    """Pool the fits of each model and size, in the order of the sizes, then of the models.

    Parameters
    ----------
    scores
        Fits in any order; models come in the order in which they first occur.
    """
    models = list(dict.fromkeys(score.model for score in scores))
    sizes = sorted({score.n for score in scores})
    pooled = []
    for n in sizes:
        for model in models:
            fits = [score for score in scores if score.model == model and score.n == n]
            if fits:
                pooled.append(_pool(model, n, fits))
    return tuple(pooled)


def holds(lower: float, upper: float, truth: float) -> bool:
    """Return whether an interval contained the true value; sums of fractions may be rounded."""
    slack = 1e-9 * max(1.0, abs(truth))
    return lower - slack <= truth <= upper + slack


def _pool(model: str, n: int, fits: Sequence[FitScore]) -> ModelScore:
    done = [fit for fit in fits if fit.error is None]
    records = sum((fit.records for fit in done if fit.records is not None), RecordScores.none())
    seconds = [fit.seconds for fit in done if fit.seconds is not None]
    pairs1 = [(fit.tau1, fit.tau1_true) for fit in done if fit.tau1 is not None]
    pairs2 = [(fit.tau2, fit.tau2_true) for fit in done if fit.tau2 is not None]
    return ModelScore(
        model=model,
        n=n,
        n_samples=len(done),
        n_failed=len(fits) - len(done),
        n_unconverged=sum(not fit.converged for fit in done),
        seconds=float(np.mean(seconds)) if seconds else None,
        tau1=_measure(pairs1) if pairs1 else None,
        tau2=_measure(pairs2) if pairs2 else None,
        cutoffs=_cutoffs(records) if done else (),
        unsafe=_unsafe_scores(records.unsafe) if done else (),
        r1_groups=_groups(records.r1) if done else (),
        r2_groups=_groups(records.r2) if done else (),
        r2_errors=_errors(records.r2_errors, len(done)) if done else (),
    )


def _measure(pairs: Sequence[tuple[Summary, float]]) -> MeasureScore:
    truth = np.array([true for _, true in pairs])
    estimate = np.array([summary.mean for summary, _ in pairs])
    error = estimate - truth
    covered = sum(holds(one.lower, one.upper, true) for one, true in pairs)
    # Loaded here: it takes as long as all else that an evaluation loads.
    from scipy.stats import binomtest

    lower, upper = binomtest(covered, len(pairs)).proportion_ci(method="wilson")
    level = float(truth.mean())
    bias, rmse = float(error.mean()), float(np.sqrt((error**2).mean()))
    return MeasureScore(
        truth=level,
        estimate=float(estimate.mean()),
        bias=bias,
        bias_error=float(error.std(ddof=1) / math.sqrt(len(pairs))) if len(pairs) > 1 else None,
        relative_bias=bias / level if level > 0 else None,
        rmse=rmse,
        relative_rmse=rmse / level if level > 0 else None,
        n_covered=covered,
        n_above=sum(not holds(-math.inf, one.upper, true) for one, true in pairs),
        n_below=sum(not holds(one.lower, math.inf, true) for one, true in pairs),
        coverage=covered / len(pairs),
        coverage_lower=lower,
        coverage_upper=upper,
        width=float(np.mean([summary.upper - summary.lower for summary, _ in pairs])),
    )


def _cutoffs(records: RecordScores) -> tuple[CutoffScore, ...]:
    n_unique, n_other = int(records.unique.sum()), int(records.other.sum())
    below_unique, below_other = np.cumsum(records.unique), np.cumsum(records.other)
    return tuple(
        CutoffScore(
            cutoff=i / N_CUTOFFS,
            false_positive=float(n_other - below_other[i]) / n_other if n_other else None,
            false_negative=float(below_unique[i]) / n_unique if n_unique else None,
        )
        for i in range(N_CUTOFFS + 1)
    )


def _unsafe(risk: Float64 | None, truth: Float64) -> Int64:
    """Classifications at the cut-offs, (n_cutoffs, 2, 2); records of unknown risk left out."""
    known = np.zeros(len(truth), bool) if risk is None else ~np.isnan(risk)
    risk = truth if risk is None else risk
    return np.stack([classification(risk[known], truth[known], one) for one in UNSAFE_CUTOFFS])


def _unsafe_scores(counts: Int64) -> tuple[UnsafeScore, ...]:
    """Errors of the summaries that are known."""
    found = []
    for summary, tables in zip(SUMMARIES, counts, strict=True):
        if not tables.any():
            continue
        for cutoff, ((right, missed), (alarm, caught)) in zip(
            UNSAFE_CUTOFFS, tables.tolist(), strict=True
        ):
            safe, unsafe = right + alarm, missed + caught
            found.append(
                UnsafeScore(
                    summary=summary,
                    cutoff=cutoff,
                    false_positive=alarm / safe if safe else None,
                    false_negative=missed / unsafe if unsafe else None,
                )
            )
    return tuple(found)


def _groups(sums: Float64) -> tuple[GroupScore, ...]:
    return tuple(
        GroupScore(
            lower=i / N_GROUPS,
            upper=(i + 1) / N_GROUPS,
            records=int(count),
            predicted=float(predicted / count) if count else None,
            truth=float(truth / count) if count else None,
        )
        for i, (count, predicted, truth) in enumerate(sums)
    )


def _errors(sums: Float64, n_samples: int) -> tuple[ErrorScore, ...]:
    rows = (("all", sums.sum(axis=0)), (f"F <= {SMALL}", sums[0]), (f"F > {SMALL}", sums[1]))
    return tuple(
        ErrorScore(
            group=group,
            records=float(row[0] / n_samples),
            signed=float(row[1] / n_samples),
            absolute=float(row[2] / n_samples),
            squared=float(row[3] / n_samples),
        )
        for group, row in rows
    )


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
