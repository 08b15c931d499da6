"""Scores of many samples: of each model and size, what is averaged and pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from unikat._typing import Float64, Int64
from unikat.studies.scores import (
    N_CUTOFFS,
    N_GROUPS,
    SMALL,
    SUMMARIES,
    UNSAFE_CUTOFFS,
    FitScore,
    Point,
    RecordScores,
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
    absolute: float | None = None
    """Mean absolute error; None in older results."""
    n_intervals: int | None = None
    """Samples with an interval: formulas have none. None in older results, where all have one."""
    n_covered: int
    """Samples whose interval contained the true value."""
    n_above: int | None = None
    """Samples whose true value lay above the interval, so that the risk was understated; None, as
    the next, in older results."""
    n_below: int | None = None
    coverage: float | None
    """Their share of the samples with an interval; None, as the next, if there are none..."""
    coverage_lower: float | None
    """...and its 95% Wilson interval."""
    coverage_upper: float | None
    width: float | None
    """Mean width of the intervals."""


@dataclass(frozen=True, kw_only=True)
class RecordsScore:
    """How r1 foretells which sample uniques are population unique; all samples pooled."""

    auc: float | None
    """Chance that one that is has a larger r1 than another of the same sample, ties counted half;
    None if no sample has both."""
    brier: float
    """Mean of (r1 - y)^2, y whether a record is population unique; 0 is best."""
    log_score: float
    """Mean of the log of the probability of y, of which the smallest counts as 1/10,000; 0 is
    best."""
    by_chance: float
    """Mean over the samples of the mean absolute error of tau1 that is left if these r1 are the
    true risks: sqrt(2/pi sum of r1 (1 - r1))."""
    width_by_chance: float
    """Mean width of the interval of who knows these risks: 2 z sqrt(sum of r1 (1 - r1))."""


@dataclass(frozen=True, kw_only=True)
class CutoffScore:
    """Errors when records with r1 above a cut-off are called population unique."""

    cutoff: float
    false_positive: float | None
    """Share of the sample uniques not population unique that are called so; None if none."""
    false_negative: float | None
    """Share of the population uniques in the sample that are not called so; None if none."""
    above: float | None = None
    """Share of the sample uniques that are called so; None if none, and in older results. With two
    cut-offs, records between them are left unclassified: the difference of two such shares."""


@dataclass(frozen=True, kw_only=True)
class UnsafeScore:
    """Errors when records, or cells, whose estimated risk is above a cut-off are called unsafe.

    They are unsafe if 1/F is above the cut-off (tables 1 and 2 of Polettini and Stander).
    """

    summary: str
    """What the risk is made from: ``"mean"`` of 1/F (r2), or 1 over ``"median"`` or ``"mode"`` of
    the posterior of F."""
    cutoff: float
    false_positive: float | None
    """Share of the safe ones that are called unsafe; None if there are none."""
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
    records: RecordsScore | None = None
    """None without r1, and in older results."""
    cutoffs: tuple[CutoffScore, ...]
    unsafe: tuple[UnsafeScore, ...] = ()
    """Of the sample uniques; empty, as the next, in older results."""
    unsafe_cells: tuple[UnsafeScore, ...] = ()
    """Of all cells with records of the sample."""
    r1_groups: tuple[GroupScore, ...]
    r2_groups: tuple[GroupScore, ...]
    r2_errors: tuple[ErrorScore, ...]


def summarise_fits(scores: Sequence[FitScore], level: float) -> tuple[ModelScore, ...]:
    """Pool the fits of each model and size, in the order of the sizes, then of the models.

    Parameters
    ----------
    scores
        Fits in any order; models come in the order in which they first occur.
    level
        Probability of the intervals.
    """
    models = list(dict.fromkeys(score.model for score in scores))
    sizes = sorted({score.n for score in scores})
    pooled = []
    for n in sizes:
        for model in models:
            fits = [score for score in scores if score.model == model and score.n == n]
            if fits:
                pooled.append(_pool(model, n, fits, level))
    return tuple(pooled)


def holds(lower: float, upper: float, truth: float) -> bool:
    """Return whether an interval contained the true value; sums of fractions may be rounded."""
    slack = 1e-9 * max(1.0, abs(truth))
    return lower - slack <= truth <= upper + slack


def _pool(model: str, n: int, fits: Sequence[FitScore], level: float) -> ModelScore:
    done = [fit for fit in fits if fit.error is None]
    records = sum((fit.records for fit in done if fit.records is not None), RecordScores.none())
    seconds = [fit.seconds for fit in done if fit.seconds is not None]
    # Formulas have no risks of records, or one of the two; models have both, if of no record.
    of_models = any(fit.tau1 is not None for fit in done)
    has_r1 = of_models or bool(records.r1.any())
    has_r2 = of_models or bool(records.r2.any())
    found = {
        measure: [
            (point, getattr(fit, f"{measure}_true"))
            for fit in done
            if (point := fit.estimated(measure)) is not None
        ]
        for measure in ("tau1", "tau2")
    }
    return ModelScore(
        model=model,
        n=n,
        n_samples=len(done),
        n_failed=len(fits) - len(done),
        n_unconverged=sum(not fit.converged for fit in done),
        seconds=float(np.mean(seconds)) if seconds else None,
        tau1=_measure(found["tau1"]) if found["tau1"] else None,
        tau2=_measure(found["tau2"]) if found["tau2"] else None,
        records=_records([fit.records for fit in done if fit.records is not None], level),
        cutoffs=_cutoffs(records) if has_r1 else (),
        unsafe=_unsafe_scores(records.unsafe) if has_r2 else (),
        unsafe_cells=_unsafe_scores(records.unsafe_cells) if has_r2 else (),
        r1_groups=_groups(records.r1) if has_r1 else (),
        r2_groups=_groups(records.r2) if has_r2 else (),
        r2_errors=_errors(records.r2_errors, len(done)) if has_r2 else (),
    )


def _records(fits: Sequence[RecordScores], level: float) -> RecordsScore | None:
    """Pool the sums of r1 over samples."""
    sums = np.array([fit.r1_sums for fit in fits if fit.r1_sums[0]])
    if not len(sums):
        return None
    n, brier, surprise, _, pairs, larger = sums.sum(axis=0).tolist()
    deviation = float(np.sqrt(sums[:, 3]).mean())
    return RecordsScore(
        auc=larger / pairs if pairs else None,
        brier=brier / n,
        log_score=-surprise / n,
        by_chance=math.sqrt(2.0 / math.pi) * deviation,
        width_by_chance=2.0 * NormalDist().inv_cdf(0.5 + level / 2.0) * deviation,
    )


def _measure(pairs: Sequence[tuple[Point, float]]) -> MeasureScore:
    truth = np.array([true for _, true in pairs])
    estimate = np.array([point.mean for point, _ in pairs])
    error = estimate - truth
    intervals = [
        (point.lower, point.upper, true)
        for point, true in pairs
        if point.lower is not None and point.upper is not None
    ]
    covered = sum(holds(*one) for one in intervals)
    coverage = width = None
    limits: Sequence[float | None] = (None, None)
    if intervals:
        # Loaded here: it takes as long as all else that an evaluation loads.
        from scipy.stats import binomtest

        limits = binomtest(covered, len(intervals)).proportion_ci(method="wilson")
        coverage = covered / len(intervals)
        width = float(np.mean([upper - lower for lower, upper, _ in intervals]))
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
        absolute=float(np.abs(error).mean()),
        n_intervals=len(intervals),
        n_covered=covered,
        n_above=sum(not holds(-math.inf, upper, true) for _, upper, true in intervals),
        n_below=sum(not holds(lower, math.inf, true) for lower, _, true in intervals),
        coverage=coverage,
        coverage_lower=limits[0],
        coverage_upper=limits[1],
        width=width,
    )


def _cutoffs(records: RecordScores) -> tuple[CutoffScore, ...]:
    n_unique, n_other = int(records.unique.sum()), int(records.other.sum())
    n = n_unique + n_other
    below_unique, below_other = np.cumsum(records.unique), np.cumsum(records.other)
    return tuple(
        CutoffScore(
            cutoff=i / N_CUTOFFS,
            false_positive=float(n_other - below_other[i]) / n_other if n_other else None,
            false_negative=float(below_unique[i]) / n_unique if n_unique else None,
            above=float(n - below_unique[i] - below_other[i]) / n if n else None,
        )
        for i in range(N_CUTOFFS + 1)
    )


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
