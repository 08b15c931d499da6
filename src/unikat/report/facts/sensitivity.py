"""τ1 under other assumptions, from the draws that are there: nothing is fitted again.

Every retained draw of `auto` has its own overdispersion k and level d of the model error, drawn
from their calibrated distribution. Draws from a part of that distribution, or reweighted to
another one, are draws of τ1 under another assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from unikat._typing import Float64, Int64
from unikat.data.table import CellTable
from unikat.inference.draws import Draws
from unikat.models.calibrated import HOUSEHOLD_OVERDISPERSION, SHIFTS, Calibrated
from unikat.risk.estimate import RiskEstimate
from unikat.risk.misreporting import correct_shares
from unikat.studies.calibrate import experience_of, prior

Assumption: TypeAlias = Literal["overdispersion", "level", "rare_cells", "misreported_keys"]
SHARE = 0.2
"""Part of the draws at an end of the distribution of k or d; its median is the quantile of 10% or
90% of all."""
EVIDENCE = 0.5
"""Power of what the rare cells of the file tell of k and d."""
MISREPORTED = (0.01, 0.02, 0.05)
LEAST_DRAWS = 100.0
"""Effective draws below which an assumption has no row."""


@dataclass(frozen=True, kw_only=True)
class SensitivityFacts:
    """τ1 under another assumption."""

    assumption: Assumption
    value: float
    """What is assumed: k (median of the draws); exp(d); weight of the file's rare cells; share of
    the key values that are replaced."""
    tau1_median: float
    tau1_lower: float
    tau1_upper: float
    draws: float | None
    """Effective number of draws; None where all draws are used alike."""


def sensitivity(estimate: RiskEstimate) -> tuple[SensitivityFacts, ...]:
    """Return τ1 under the assumptions that the draws tell about."""
    draws = estimate.draws
    if draws is None:
        return ()
    of_error = tuple(_of_model_error(estimate, draws))
    # A key of all members of a household is misreported in each of them; that is not derived.
    if estimate.table.layout is not None:
        return of_error
    return (*of_error, *_of_misreporting(estimate, draws))


def _of_model_error(estimate: RiskEstimate, draws: Draws) -> list[SensitivityFacts]:
    model = draws.model
    if not isinstance(model, Calibrated) or not model.weights:
        return []
    tau1, level = draws.retained("tau1").ravel(), estimate.tau1.level
    pairs = model.pairs(draws.seed, draws.n_chains, draws.retained_sweeps()).ravel()
    overdispersion, shift = np.divmod(pairs, len(SHIFTS))
    found: list[SensitivityFacts | None] = []
    parts: tuple[tuple[Assumption, Int64, Float64], ...] = (
        ("overdispersion", overdispersion, HOUSEHOLD_OVERDISPERSION),
        ("level", shift, np.exp(SHIFTS)),
    )
    for assumption, places, values in parts:
        for first in (0.0, 1.0 - SHARE):
            weights = _part(places, len(values), first)
            value = _quantiles(values[places], weights, (0.5,))[0]
            found.append(_weighted(assumption, value, tau1, weights, level))
    less = _less_evidence(estimate.table, model)[pairs]
    found.append(_weighted("rare_cells", EVIDENCE, tau1, less, level))
    return [one for one in found if one is not None]


def _less_evidence(table: CellTable, model: Calibrated) -> Float64:
    """Return the distribution of k and d by less evidence over the one drawn from, by pair.

    The latter is proportional to the prior times what the rare cells of the file tell.
    """
    drawn = np.array(model.weights)
    told = None if model.told is None else model.told.before
    alone = 0.0 if told is None else told.mean
    before = prior(table, experience_of(table, model.wrapped), alone).ravel()
    evidence = np.divide(drawn, before, out=np.zeros_like(drawn), where=before > 0.0)
    less = np.power(evidence, EVIDENCE - 1.0, out=np.zeros_like(drawn), where=evidence > 0.0)
    # Its size does not matter, and may be beyond all numbers.
    scaled: Float64 = less / max(float(less[drawn > 0.0].max(initial=0.0)), 1e-300)
    return scaled


def _of_misreporting(estimate: RiskEstimate, draws: Draws) -> list[SensitivityFacts]:
    """Scale the draws; which of the population uniques are matched correctly is up to chance."""
    totals = draws.observer.risk_totals(draws.totals)
    factors = correct_shares(estimate.table, totals, MISREPORTED).tolist()
    tau1 = draws.retained("tau1").ravel()
    # Of a normal distribution, at the middles of parts of equal probability.
    steps = np.array([-1.534, -0.887, -0.489, -0.157, 0.157, 0.489, 0.887, 1.534])
    found = []
    for share, factor in zip(MISREPORTED, factors, strict=False):
        deviation = np.sqrt(max(factor * (1.0 - factor), 0.0) * tau1)
        drawn = np.maximum(np.rint(factor * tau1[:, None] + deviation[:, None] * steps), 0.0)
        lower, median, upper = _quantiles(
            drawn.ravel(), np.ones(drawn.size), _levels(estimate.tau1.level)
        )
        found.append(
            SensitivityFacts(
                assumption="misreported_keys",
                value=share,
                tau1_median=median,
                tau1_lower=lower,
                tau1_upper=upper,
                draws=None,
            )
        )
    return found


def _weighted(
    assumption: Assumption, value: float, tau1: Float64, weights: Float64, level: float
) -> SensitivityFacts | None:
    """Summarise weighted draws; None if there are too few of them in effect."""
    effective = float(weights.sum() ** 2 / np.square(weights).sum())
    if effective < LEAST_DRAWS:
        return None
    lower, median, upper = _quantiles(tau1, weights, _levels(level))
    return SensitivityFacts(
        assumption=assumption,
        value=value,
        tau1_median=median,
        tau1_lower=lower,
        tau1_upper=upper,
        draws=effective,
    )


def _part(places: Int64, n_values: int, first: float) -> Float64:
    """Weight of each draw in the part of the draws that begins at `first`, by their order.

    Draws of the same value share the value's part of the distribution.
    """
    ends = np.cumsum(np.bincount(places, minlength=n_values)) / len(places)
    starts = np.concatenate(([0.0], ends[:-1]))
    inside = np.minimum(ends, first + SHARE) - np.maximum(starts, first)
    width = np.maximum(ends - starts, 1e-300)
    weights: Float64 = (np.maximum(inside, 0.0) / width)[places]
    return weights


def _levels(level: float) -> tuple[float, float, float]:
    tail = (1.0 - level) / 2.0
    return tail, 0.5, 1.0 - tail


def _quantiles(values: Float64, weights: Float64, levels: tuple[float, ...]) -> list[float]:
    """Quantiles of weighted values, each of which is one of the values."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    places = np.searchsorted(below, np.asarray(levels) * below[-1] * (1.0 - 1e-12))
    found: list[float] = values[order][np.minimum(places, len(values) - 1)].tolist()
    return found
