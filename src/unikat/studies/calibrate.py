"""The error of a model: what is known of it beforehand, and what the sample adds.

Latent classes with learned priors were fitted to samples of persons from many populations whose
truth is known (`benchmarks/calibration.py`). In each, the population counts of the sample uniques
tell the overdispersion k of the cells around the model and the error d of its level
(`models.calibrated`). Over populations

    log k ~ t5(a + b log(J / 8), v),    d ~ t5(m + h s g + z log(n / 1800), t exp(y s)),

J being the number of keys, n that of records, and s how much members of a household are alike
(`data.shared_keys.sharing`), 0 where persons were sampled one by one. With more keys, a model
leaves out more of their dependence. The members of other households make classes of their own,
which matters where cells are rare: g is the log-odds of the share of the sample uniques that are
unique in the population by the model alone, from 0. Student's t with five degrees of freedom leaves
room for surveys unlike those that were learned from. This is the prior of a new file. Samples of
whole households, whose companions are left out (`data.companions`), have an experience of their own
(`benchmarks/sampled_households.py`).

The rare cells of the file add to the prior (`studies.rare_cells`): what they tell of log k and d is
that of the population plus `lag_k` and `lag_d`, give or take `spread_k` and `spread_d`, and counts
with a power, since cells are not independent of each other as the likelihood takes them to be. All
parameters were learned together, by the log-likelihood of the truth given what a sample tells.

The model of households has an experience of its own (`benchmarks/household_calibration.py`): J is
the number of its key variables, n that of households, and s = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64
from unikat.data.companions import Members
from unikat.data.shared_keys import sharing
from unikat.data.table import CellTable
from unikat.models.base import AnyModel
from unikat.models.calibrated import (
    HOUSEHOLD_OVERDISPERSION,
    SHIFTS,
    OutsideFacts,
    OutsideOf,
    values_of_k,
)
from unikat.models.households.composition import role_of
from unikat.models.households.nested import NestedHouseholds

TAILS = 5.0
"""Degrees of freedom of the prior."""


@dataclass(frozen=True, kw_only=True)
class Experience:
    """Parameters of the prior of a model's error, and of what a sample adds."""

    centre: float
    """a: middle of log k with eight keys."""
    slope: float
    """b: of log k over the log of the number of keys."""
    deviation: float
    """v: scale of log k between populations."""
    shift: float
    """m: middle of d in samples of 1,800 persons."""
    size: float
    """z: change of d with the log of the number of records."""
    sharing: float
    """h: change of d with s g."""
    sharing_spread: float
    """y: change of the log of the scale of d with s."""
    shift_deviation: float
    """t: scale of d between populations whose households share nothing."""
    lag_k: float
    """Of the log k that rare cells tell over that of the population."""
    lag_d: float
    spread_k: float
    """Standard deviation of that difference."""
    spread_d: float
    power: float
    """Of the likelihood by rare cells."""
    keys: tuple[int, int]
    """Key variables of the samples that were learned from."""
    records: tuple[int, int]
    """Records; fewer or more count as so many, as with keys."""
    learned: tuple[int, int]
    """Records of the samples that were learned from."""
    fractions: tuple[float, float]
    """Sampling fractions of these."""
    uniques: tuple[float, float]
    """Shares of their records that are sample uniques."""
    alike: float
    """Largest s of these."""


EXPERIENCE = Experience(
    centre=-0.549,
    slope=1.888,
    deviation=0.573,
    shift=-0.029,
    size=0.027,
    sharing=0.0,
    sharing_spread=0.0,
    shift_deviation=0.05,
    lag_k=0.624,
    lag_d=0.088,
    spread_k=0.236,
    spread_d=0.084,
    power=0.952,
    keys=(3, 12),
    records=(200, 20_000),
    learned=(200, 15_000),
    fractions=(0.0005, 0.12),
    uniques=(0.004, 1.0),
    alike=0.0,
)
"""Of samples of persons: fitted by `benchmarks/calibration.py` to 458 samples."""
SAMPLED_HOUSEHOLDS = Experience(
    centre=-0.444,
    slope=1.757,
    deviation=0.744,
    shift=-0.036,
    size=0.048,
    sharing=-0.024,
    sharing_spread=0.218,
    shift_deviation=0.05,
    lag_k=0.587,
    lag_d=-0.001,
    spread_k=0.256,
    spread_d=0.063,
    power=0.706,
    keys=(3, 12),
    records=(200, 8_000),
    learned=(200, 8_000),
    fractions=(0.003, 0.12),
    uniques=(0.006, 1.0),
    alike=7.4,
)
"""Of samples of whole households: fitted by `benchmarks/sampled_households.py` to 236 samples."""
HOUSEHOLD_EXPERIENCE = Experience(
    centre=0.810,
    slope=0.0,
    deviation=0.945,
    shift=0.068,
    size=0.052,
    sharing=0.0,
    sharing_spread=0.0,
    shift_deviation=0.060,
    lag_k=-0.045,
    lag_d=0.069,
    spread_k=0.181,
    spread_d=0.094,
    power=1.006,
    keys=(2, 12),
    records=(200, 3_000),
    learned=(200, 3_000),
    fractions=(0.003, 0.12),
    uniques=(0.01, 0.9),
    alike=0.0,
)
"""Of the model of households: fitted by `benchmarks/household_calibration.py` to 182 samples of
seven surveys."""
COMPOSITION_EXPERIENCE = Experience(
    centre=2.684,
    slope=0.0,
    deviation=1.242,
    shift=0.016,
    size=0.061,
    sharing=0.0,
    sharing_spread=0.0,
    shift_deviation=0.060,
    lag_k=1.120,
    lag_d=0.007,
    spread_k=0.223,
    spread_d=0.250,
    power=0.420,
    keys=(2, 12),
    records=(200, 3_000),
    learned=(200, 3_000),
    fractions=(0.006, 0.16),
    uniques=(0.11, 0.9),
    alike=0.0,
)
"""Of that model with the composition by role: fitted by the same command with `--composition` to
182 samples of seven surveys."""


def experience_of(table: CellTable, model: AnyModel | None = None) -> Experience:
    """Return what is known of the error of a model of the units of a table; None: the default."""
    if table.layout is None:
        return EXPERIENCE if Members.of(table) is None else SAMPLED_HOUSEHOLDS
    of = model if isinstance(model, NestedHouseholds) else NestedHouseholds()
    by_role = role_of(table, of.composition) >= 0
    return COMPOSITION_EXPERIENCE if by_role else HOUSEHOLD_EXPERIENCE


def rarity(alone: float, n_uniques: float) -> float:
    """Return g, from 0 to 5.3: log-odds of the share of sample uniques that the model says are τ1.

    Examples
    --------
    >>> rarity(20.0, 100.0), round(rarity(90.0, 100.0), 3)
    (0.0, 2.197)
    """
    share = min(max(alone / max(n_uniques, 1.0), 0.5), 0.995)
    return math.log(share / (1.0 - share))


def prior(table: CellTable, experience: Experience | None = None, alone: float = 0.0) -> Float64:
    """Probability of each overdispersion and shift before the rare cells of the file are looked at.

    A number of keys or records beyond those that were learned from counts as the nearest of these.
    Each doubling from there, as of a sampling fraction and the other numbers of `outside`, adds as
    much variance as there is between populations: nobody knows where the error of the model goes.

    Parameters
    ----------
    table
        The sample: its numbers of keys and records, and how alike members of a household are.
    experience
        From populations of known truth; None: of the default model of the units of the table.
    alone
        τ1 by the model without its error; it matters where members of households are alike.

    Returns
    -------
    Float64
        (len(values_of_k(table)), len(SHIFTS)), of sum 1.
    """
    experience = experience_of(table) if experience is None else experience
    keys = min(max(len(table.variables), experience.keys[0]), experience.keys[1])
    records = min(max(table.n_records, experience.records[0]), experience.records[1])
    centre = experience.centre + experience.slope * math.log(keys / 8.0)
    alike = sharing(table)
    shift = experience.shift + experience.sharing * alike * rarity(alone, _n_uniques(table))
    shift += experience.size * math.log(records / 1800.0)
    scale = experience.shift_deviation * math.exp(experience.sharing_spread * alike)
    wider = math.sqrt(1.0 + sum(_doublings(one) for one in outside(table, experience)))
    e = (np.log(values_of_k(table)) - centre) / (wider * experience.deviation)
    f = (SHIFTS - shift) / (wider * scale)
    density = (1.0 + (e[:, None] ** 2 + f**2) / TAILS) ** (-0.5 * (TAILS + 2.0))
    # The shifts are not equally far apart.
    joint = density * np.gradient(SHIFTS)
    weights: Float64 = joint / joint.sum()
    return weights


def outside(table: CellTable, experience: Experience) -> tuple[OutsideFacts, ...]:
    """Say in what a sample is unlike all that were learned from; empty if in nothing."""
    n_records = max(table.n_records, 1)
    ranges: tuple[tuple[OutsideOf, float, tuple[float, float]], ...] = (
        ("keys", len(table.variables), experience.keys),
        ("records", table.n_records, experience.learned),
        ("sampling_fraction", n_records / max(table.n_units, n_records), experience.fractions),
        ("share_of_uniques", _n_uniques(table) / n_records, experience.uniques),
        # Members who differ more than strangers (spouses' sex) are as far from sharing as can be.
        ("alike", max(sharing(table), 0.0), (0.0, experience.alike)),
    )
    return tuple(
        OutsideFacts(what=what, value=value, lowest=ends[0], highest=ends[1])
        for what, value, ends in ranges
        if not ends[0] <= value <= ends[1]
    )


def _n_uniques(table: CellTable) -> int:
    """Sample uniques. Incomplete records count: most are unique once they are imputed."""
    return int(table.unique.sum()) + int(table.counts[table.incomplete].sum())


def _doublings(one: OutsideFacts) -> float:
    """How often a number doubles, or halves, from the nearest that was learned from."""
    if one.value > one.highest:
        return math.log2(one.value / one.highest)
    # No sample uniques count as one in 10,000 records: without any, no risk is estimated.
    return math.log2(one.lowest / (one.value or 1e-4))


def posterior(
    prior_weights: Float64, evidence: Float64, experience: Experience = EXPERIENCE
) -> Float64:
    """Probability of each overdispersion and shift after the rare cells were looked at.

    Parameters
    ----------
    prior_weights
        From :func:`prior`.
    evidence
        Log-likelihood of each pair (`studies.rare_cells`), same shape.
    experience
        From populations of known truth.

    Returns
    -------
    Float64
        Same shape, of sum 1.
    """
    log_k = np.log(HOUSEHOLD_OVERDISPERSION[: len(prior_weights)])
    seen = np.exp(experience.power * (evidence - evidence.max()))
    # Rows: k and d of the population; columns: those that the sample tells.
    by_k = _normal(log_k[None, :], log_k[:, None] + experience.lag_k, experience.spread_k)
    by_d = _normal(SHIFTS[None, :], SHIFTS[:, None] + experience.lag_d, experience.spread_d)
    by_d *= np.gradient(SHIFTS)
    by_k /= by_k.sum(axis=1, keepdims=True)
    by_d /= by_d.sum(axis=1, keepdims=True)
    weights = prior_weights * (by_k @ seen @ by_d.T)
    normalised: Float64 = weights / weights.sum()
    return normalised


def quantiles(weights: Float64, values: Float64, level: float) -> tuple[float, float, float]:
    """Lower end, median and upper end of one of the two."""
    tail = (1.0 - level) / 2.0
    cumulative = np.cumsum(weights) / np.sum(weights)
    places = np.searchsorted(cumulative, (tail, 0.5, 1.0 - tail))
    lower, middle, upper = values[np.minimum(places, len(values) - 1)].tolist()
    return lower, middle, upper


def _normal(values: Float64, mean: Float64, deviation: float) -> Float64:
    density: Float64 = np.exp(-0.5 * ((values - mean) / deviation) ** 2)
    return density
