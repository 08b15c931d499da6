"""The result of an assessment: summaries of τ1 and τ2, and the risk of every record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import betaincinv

from unikat._typing import Bool, Float64, Int32
from unikat.data.checks import table_warnings
from unikat.data.patterns import distinct
from unikat.data.table import CellTable
from unikat.errors import Leading, SpecError
from unikat.inference.diagnostics import diagnose
from unikat.inference.draws import Diagnostics, Draws
from unikat.inference.progress import AnswerSoFar
from unikat.models.base import CHAINS
from unikat.risk.measures import DETAILED, RiskTotals
from unikat.risk.pairs import MatchBound, match_bound
from unikat.risk.population_counts import summarise_counts
from unikat.risk.shown import SHOWN, ShownTotals

EXPECTED_RHAT = 1.05
"""Above this R-hat of an expected measure the chains disagree, and a converged run says so."""


@dataclass(frozen=True, kw_only=True)
class Summary(Leading):
    """Posterior of one number: mean, median, equal-tailed interval, and its convergence."""

    mean: float
    median: float
    lower: float
    upper: float
    level: float
    rhat: float | None
    ess_bulk: float | None
    ess_tail: float | None

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the equal-tailed interval."""
        return self.lower, self.upper


@dataclass(frozen=True, kw_only=True)
class VarianceParts:
    """Where the posterior variance of τ comes from; it is `population` plus `parameters`.

    `parameters` is the variance of the expected measure τ*, `records` plus `covariances` (Carota et
    al. 2015, eq. 15-18: A, and B + C. B, the spread of the records' means, cancels in C).
    """

    population: float
    """E Var(τ | parameters): of the counts in the population."""
    parameters: float
    """Var E(τ | parameters): of τ*, with the model's own error if it has one."""
    records: float
    """Of `parameters`: the sum of the variances of the records' risks."""
    covariances: float
    """Of `parameters`: the sum of the covariances of different records' risks."""


@dataclass(frozen=True, kw_only=True)
class RecordRisk:
    """Risk of every pattern of the table, (n_cells,) unless said; a record has its pattern's."""

    unique: Bool
    """Sample unique (for incomplete patterns under 'integrate': count 1 and maybe unique)."""
    r1: Float64
    """P(population unique and sample unique | data); NaN where the pattern cannot be unique."""
    r1_lower: Float64
    r1_upper: Float64
    r2: Float64
    """E[1/F | data]: probability that a match to a record of this pattern is correct."""
    r2_lower: Float64
    r2_upper: Float64
    F_median: Float64
    """Median of the posterior of F, the pattern's count in the population; NaN, as the next, where
    records are imputed."""
    F_mode: Float64
    """Its most probable value."""
    rank: Float64
    """Mean place among the sample uniques, 1 being the rarest cell's; NaN for others. Beyond
    `measures.DETAILED` patterns the place by r1, and what follows is NaN."""
    rank_lower: Float64
    rank_upper: Float64
    key_drop: Float64
    """(n_cells, n_keys): fall in r1 when the key is left out, from 0 to r1; NaN where not a sample
    unique."""
    r1_shown: Float64 | None = None
    """r1 by what the file shows of the record, its known keys (`risk.shown`); at most r1, and r1 of
    a complete pattern. None, as the next, unless records are imputed."""
    r1_shown_lower: Float64 | None = None
    r1_shown_upper: Float64 | None = None
    r2_shown: Float64 | None = None
    """r2 likewise."""
    r2_shown_lower: Float64 | None = None
    r2_shown_upper: Float64 | None = None

    @property
    def r1_published(self) -> Float64:
        """Risk of the record in the published file: `r1_shown`, or r1 if no record is imputed."""
        return self.r1 if self.r1_shown is None else self.r1_shown


@dataclass(frozen=True, kw_only=True)
class Measures:
    """The risk measures of a file by one fit."""

    tau1: Summary
    """Predictive: the number of sample uniques that are population unique."""
    tau2: Summary
    """Predictive: sum over sample uniques of 1/F."""
    tau1_expected: Summary
    """Expected given the parameters (the papers' τ*)."""
    tau2_expected: Summary
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RiskSummary(Measures):
    """What an assessment has found of a file as a whole."""

    converged: bool
    """False also of a preliminary answer: a candidate must not be taken for the answer."""
    tau1_variance: VarianceParts | None = None
    """None, as the next, where nothing is drawn, or the draws are those of a bootstrap."""
    tau2_variance: VarianceParts | None = None
    tau1_of_medians: float | None = None
    """Sum over the sample uniques of the posterior median of r1 (Manrique-Vallier and Reiter 2012,
    eq. 25): a point estimate of expected τ1. None where nothing is drawn."""
    tau1_shown: Summary | None = None
    """τ1 by what the file shows, its incomplete records by their known keys (`risk.shown`). None,
    as the next, unless records are imputed, and of a bootstrap."""
    tau2_shown: Summary | None = None
    tau2_bound: MatchBound | None = None
    """Lower bound of τ2 from pairs of records, without a model (`risk.pairs`)."""


@dataclass(frozen=True, kw_only=True)
class RiskEstimate(RiskSummary):
    """Everything an assessment has found: of the file, and of every record.

    Examples
    --------
    >>> import unikat
    >>> fit = unikat.fit("hdp", unikat.tabulate([[0, 2], [1, 1], [0, 2]], population_size=3))
    >>> found = unikat.estimate_risk(fit)
    >>> found.tau1.interval, found.records.r1[found.table.record_cell].tolist()
    ((1.0, 1.0), [nan, 1.0, nan])
    """

    table: CellTable = field(repr=False)
    draws: Draws | None = field(repr=False)
    """None when the risk is known exactly (N = n, or no sample uniques)."""
    records: RecordRisk = field(repr=False)
    tau1_bins: tuple[tuple[float, float, float], ...] = field(default=(), repr=False)
    """Bars of the law of τ1 by what the file shows, where no populations were drawn."""
    persons: Summary | None = field(default=None, repr=False)
    """In the population unique households, by the law of τ1; else None."""


def known_exactly(table: CellTable) -> bool:
    """Return whether the risk is known without a model.

    With N = n every sample unique is population unique and a record's risk is 1/f; without
    sample uniques tau1 = tau2 = 0 whatever the population. A record whose missing key is
    integrated over may be unique or not, so neither holds where there is one.
    """
    if table.missing == "integrate" and bool(table.incomplete.any()):
        return False
    return table.n_units == table.n_records or table.n_uniques == 0


def assess(draws: Draws | None, table: CellTable, *, level: float = 0.95) -> RiskEstimate:
    """Summarise draws of the risk measures.

    Parameters
    ----------
    draws
        From `sample` with :class:`unikat.risk.measures.RiskMeasures` as observer; None where the
        risk is :func:`known_exactly`.
    table
        The table that was sampled.
    level
        Probability of the equal-tailed intervals, between 0 and 1.

    Raises
    ------
    SpecError
        If the level is not between 0 and 1, there are no draws and the risk is not known, or the
        draws are no numbers.
    """
    if not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
        raise SpecError(f"level must be between 0 and 1, such as 0.95, not {level!r}.")
    if draws is None:
        return _exact(table, level)
    if any(np.isnan(draws.retained(name)).any() for name in ("tau1", "tau2")):
        raise SpecError(
            f"The model {draws.model.name} reached probabilities that are no numbers, so there is "
            "no result. Its options are too extreme for this file: leave options out, or take "
            "values nearer to their defaults."
        )
    summaries: dict[str, Any] = {
        name: summary_of(
            draws.retained(name),
            level,
            draws.diagnostics.get(name) or diagnose(draws.retained(name)),
        )
        for name in ("tau1", "tau2", "tau1_expected", "tau2_expected")
    }
    warnings = [*_masked(table), *draws.facts.warnings]
    chains = draws.model.uncertainty in CHAINS
    if not draws.converged:
        worst = max(
            (d.rhat for d in draws.diagnostics.values() if np.isfinite(d.rhat)), default=np.nan
        )
        how = (
            "was interrupted"
            if draws.stop_reason == "interrupted"
            else f"stopped at the {draws.stop_reason}"
        )
        found = "R-hat not known" if np.isnan(worst) else f"largest R-hat {worst:.3f}"
        lacking = f"it converged ({found})" if chains else "there were enough draws"
        warnings.append(
            f"Sampling {how} before {lacking}: the numbers are preliminary; do not decide on them."
        )
    rhat = max(summaries[name].rhat or 0.0 for name in ("tau1_expected", "tau2_expected"))
    if draws.converged and rhat > EXPECTED_RHAT and chains:
        warnings.append(
            "The chains agree on the counts in the population but less well on their expected "
            f"values (R-hat {rhat:.3f}): they may have found different descriptions of the file. "
            "Run longer, or with other seeds, if the decision is close."
        )
    if table.n_units - table.n_records > 2**53:
        warnings.append("The population is too large for exact counts; they are rounded.")
    warnings += table_warnings(table)
    if table.n_cells > DETAILED:
        warnings.append(
            f"The file has {table.n_cells:,} combinations, more than {DETAILED:,}: to save memory, "
            f"its {table.unit.many} have no counts F and no keys that raise their risk, and "
            + (
                "r1 and r2 have no intervals."
                if _imputed(table)
                else "the intervals of r1 and r2 are approximate and of sample uniques alone."
            )
        )
    bound = match_bound(table)
    if bound is not None and bound.contradicts(summaries["tau2"].upper):
        warnings.append(bound.warning)
    # Those of the survey, where a registry has totals of its own.
    totals = draws.observer.risk_totals(draws.totals)
    split = draws.model.uncertainty != "bootstrap"
    return RiskEstimate(
        table=table,
        draws=draws,
        **summaries,
        records=_record_risk(totals, table, level),
        converged=draws.converged,
        warnings=tuple(warnings),
        tau1_variance=_variance(draws, "tau1", totals) if split else None,
        tau2_variance=_variance(draws, "tau2", totals) if split else None,
        tau1_of_medians=_sum_of_medians(totals, table),
        tau1_shown=_shown(draws, SHOWN[0], level),
        tau2_shown=_shown(draws, SHOWN[1], level),
        tau2_bound=bound,
    )


def _shown(draws: Draws, name: str, level: float) -> Summary | None:
    """Summarise the draws that were looked at (`risk.shown`), the same in every chain."""
    if name not in draws.scalars:
        return None
    found = draws.retained(name)
    found = found[:, ~np.isnan(found).any(axis=0)]
    return summary_of(found, level, diagnose(found)) if found.size else None


def _variance(draws: Draws, name: str, totals: RiskTotals) -> VarianceParts:
    """Split the variance of a measure."""
    expected = draws.retained(f"{name}_expected")
    parameters = float(expected.var())
    sums, squares = totals.r1, totals.r1_squared
    if name == "tau2":
        sums, squares = totals.r2_unique, totals.r2_squared
    n = max(int(totals.n_draws[0]), 1)
    records = float(np.maximum(squares / n - (sums / n) ** 2, 0.0).sum())
    return VarianceParts(
        population=float(np.square(draws.retained(name) - expected).mean()),
        parameters=parameters,
        records=records,
        covariances=parameters - records,
    )


def _sum_of_medians(totals: RiskTotals, table: CellTable) -> float | None:
    if totals.histogram_r1.shape[1]:
        (medians,) = histogram_quantiles(totals.histogram_r1[table.unique], (0.5,))
        return float(medians.sum())
    if _imputed(table):
        return None
    unique, n = table.unique, max(int(totals.n_draws[0]), 1)
    (medians,) = beta_quantiles(totals.r1[unique] / n, totals.r1_squared[unique] / n, (0.5,))
    return float(medians.sum())


def _imputed(table: CellTable) -> bool:
    return table.missing == "integrate" and bool(table.incomplete.any())


def _all_held_twins(table: CellTable) -> bool:
    """Whether each sample unique shares its cell with a record that is held back.

    Then none is a population unique, and 1/f bounds its risk: no model was fitted, since the whole
    sample has no uniques.
    """
    incomplete = table.missing == "integrate" and bool(table.incomplete.any())
    return (
        table.held is not None
        and not incomplete
        and bool((table.frequency > 1)[table.unique].all())
    )


def _exact(table: CellTable, level: float) -> RiskEstimate:
    """Return the risk where no model is needed; r2 is NaN where only tau is known."""
    if not known_exactly(table) and not _all_held_twins(table):
        raise SpecError(
            "There are no draws, and the risk is known without them only if the sample is the "
            "whole population or has no sample uniques (and no missing key is integrated over)."
        )
    census = table.n_units == table.n_records
    # A sample unique of whose cell a record is held back is no population unique.
    frequency = np.maximum(table.frequency, 1)
    certain = table.unique & (frequency == 1)
    sure = known(float(certain.sum()), level)
    matches = known(float((1.0 / frequency)[table.unique].sum()), level)
    r1 = np.where(table.unique, certain.astype(np.float64), np.nan)
    r2 = 1.0 / frequency if census else np.full(table.n_cells, np.nan)
    drop = np.full((table.n_cells, len(table.variables)), np.nan)
    if census:
        for j in range(len(table.variables)):
            _, where, _ = distinct(table.without(table.cells, j), table.n_levels)
            alone = np.bincount(where, table.counts)[where] == 1
            drop[table.unique, j] = (certain & ~alone)[table.unique]
    # All sample uniques have the same risk, and the same place.
    tied = np.where(table.unique, (table.n_uniques + 1.0) / 2.0, np.nan)
    warnings = _masked(table)
    if not census and not table.n_uniques:
        warnings.append(
            f"No {table.unit.one} is unique in the file, so only τ1 and τ2 were determined: the "
            f"risks of {table.unit.many} that share their combination with others (r2) were not "
            "estimated."
        )
    warnings += table_warnings(table)
    records = RecordRisk(
        unique=table.unique,
        r1=r1,
        r1_lower=r1,
        r1_upper=r1,
        r2=r2,
        r2_lower=r2,
        r2_upper=r2,
        F_median=1.0 / r2,
        F_mode=1.0 / r2,
        rank=tied,
        rank_lower=tied,
        rank_upper=tied,
        key_drop=drop,
    )
    return RiskEstimate(
        table=table,
        draws=None,
        tau1=sure,
        tau2=matches,
        tau1_expected=sure,
        tau2_expected=matches,
        records=records,
        converged=True,
        warnings=tuple(warnings),
    )


def known(count: float, level: float) -> Summary:
    """Summarise a number that is known."""
    return Summary(
        mean=count,
        median=count,
        lower=count,
        upper=count,
        level=level,
        rhat=None,
        ess_bulk=None,
        ess_tail=None,
    )


def _masked(table: CellTable) -> list[str]:
    """Warn of records that wildcards keep from being sample uniques."""
    n = table.n_masked_uniques
    if not n:
        return []
    return [
        f"{n:,} record(s) with a combination of their own are not counted as unique because "
        "records with missing keys may match them (wildcard); τ1 and τ2 leave them out."
    ]


def interval_of(draws: Float64, level: float) -> AnswerSoFar:
    """Median and equal-tailed interval of the retained draws of one number."""
    tail = (1.0 - level) / 2.0
    # Inverted cumulative distribution: the interval of a count is made of counts.
    lower, median, upper = np.quantile(draws, (tail, 0.5, 1.0 - tail), method="inverted_cdf")
    return AnswerSoFar(float(median), float(lower), float(upper), level)


def summary_of(draws: Float64, level: float, diagnostics: Diagnostics) -> Summary:
    """Summarise the retained draws of one number, (n_chains, n_draws)."""
    return Summary(
        mean=float(draws.mean()),
        **interval_of(draws, level)._asdict(),
        rhat=diagnostics.rhat,
        ess_bulk=diagnostics.ess_bulk,
        ess_tail=diagnostics.ess_tail,
    )


def _record_risk(totals: RiskTotals, table: CellTable, level: float) -> RecordRisk:
    tail = (1.0 - level) / 2.0
    tails = (tail, 1.0 - tail)
    weight = np.maximum(totals.weight, 1.0)
    possible = table.unique | (table.incomplete if table.missing == "integrate" else False)
    r1, r2 = totals.r1 / weight, totals.r2 / weight
    detailed = totals.histogram_r1.shape[1] > 0
    if detailed:
        r1_lower, r1_upper = histogram_quantiles(totals.histogram_r1, tails)
        r2_lower, r2_upper = histogram_quantiles(totals.histogram_r2, tails)
    else:
        (r1_lower, r1_upper), (r2_lower, r2_upper) = _ends_of_uniques(totals, table, tails)
    # A mean may lie outside: a quantile of a histogram is exact to its bin.
    r1_lower, r1_upper = np.minimum(r1_lower, r1), np.maximum(r1_upper, r1)
    r2_lower, r2_upper = np.minimum(r2_lower, r2), np.maximum(r2_upper, r2)
    risks = {
        "r1": np.where(possible, r1, np.nan),
        "r1_lower": np.where(possible, r1_lower, np.nan),
        "r1_upper": np.where(possible, r1_upper, np.nan),
        "r2": r2,
        "r2_lower": r2_lower,
        "r2_upper": r2_upper,
    }
    if not detailed:
        unknown = np.broadcast_to(np.nan, table.n_cells)
        place, uniques = np.full(table.n_cells, np.nan), np.flatnonzero(table.unique)
        place[uniques[np.argsort(-r1[uniques], kind="stable")]] = np.arange(1.0, len(uniques) + 1)
        return RecordRisk(
            unique=table.unique,
            **risks,
            **_shown_risks(totals.shown, risks, table, tail),
            F_median=unknown,
            F_mode=unknown,
            rank=place,
            rank_lower=unknown,
            rank_upper=unknown,
            key_drop=np.broadcast_to(np.nan, (table.n_cells, len(table.variables))),
        )
    frequency = table.frequency
    of_f = summarise_counts(
        totals.histogram_others,
        frequency.astype(np.float64),
        float(table.n_units - table.n_records),
    )
    n_uniques = len(totals.key_whole)
    key_drop = np.full((table.n_cells, len(table.variables)), np.nan)
    key_drop[table.unique] = r1[table.unique][:, None] * (1.0 - _shares_that_remain(totals))
    place, place_lower, place_upper = (np.full(table.n_cells, np.nan) for _ in range(3))
    if n_uniques:
        place[table.unique] = totals.rank / max(int(totals.n_draws[0]), 1)
        ends_of_place = histogram_quantiles(totals.histogram_rank, tails)
        # From shares of the sample uniques to places.
        place_lower[table.unique], place_upper[table.unique] = (
            np.minimum(np.rint(end * n_uniques) + 1.0, n_uniques) for end in ends_of_place
        )
    return RecordRisk(
        unique=table.unique,
        **risks,
        **_shown_risks(totals.shown, risks, table, tail),
        F_median=of_f.median,
        F_mode=of_f.mode,
        rank=place,
        rank_lower=np.minimum(place_lower, place),
        rank_upper=np.maximum(place_upper, place),
        key_drop=key_drop,
    )


def _ends_of_uniques(
    totals: RiskTotals, table: CellTable, tails: tuple[float, float]
) -> list[tuple[Float64, Float64]]:
    """Ends of the intervals of r1 and r2 without histograms: of the sample uniques, else NaN.

    Of none where records are imputed: a record is then unique in some draws alone, and its risk is
    0 in the others, which no beta distribution is.
    """
    unique, n = table.unique, max(int(totals.n_draws[0]), 1)
    if _imputed(table):
        unknown = np.full(table.n_cells, np.nan)
        return [(unknown, unknown), (unknown, unknown)]
    found = []
    for sums, squares in ((totals.r1, totals.r1_squared), (totals.r2_unique, totals.r2_squared)):
        ends = tuple(np.full(table.n_cells, np.nan) for _ in tails)
        of_uniques = beta_quantiles(sums[unique] / n, squares[unique] / n, tails)
        for end, value in zip(ends, of_uniques, strict=True):
            end[unique] = value
        found.append((ends[0], ends[1]))
    return found


def beta_quantiles(
    mean: Float64, square: Float64, levels: tuple[float, ...]
) -> tuple[Float64, ...]:
    """Quantiles of the beta distributions with these means and mean squares, (n,) each.

    The mean where there is no variance; 0 or 1 where there is as much as between these alone.
    """
    variance = square - mean**2
    # alpha + beta; rounding may make a variance that no risk has.
    with np.errstate(divide="ignore", invalid="ignore"):
        size = mean * (1.0 - mean) / variance - 1.0
    proper = (variance > 1e-12 * mean**2) & (size > 0.0)
    found = []
    for level in levels:
        quantile = np.where(variance > 1e-12 * mean**2, float(level) > 1.0 - mean, mean)
        alpha, beta = (mean * size)[proper], ((1.0 - mean) * size)[proper]
        quantile[proper] = betaincinv(alpha, beta, level)
        # The inverse ends at the smallest number there is.
        quantile[quantile < 1e-300] = 0.0
        found.append(quantile)
    return tuple(found)


def _shown_risks(
    totals: ShownTotals, risks: Mapping[str, Float64], table: CellTable, tail: float
) -> dict[str, Float64]:
    """Replace the risks of incomplete patterns by those of what is shown, and name them so."""
    if not len(totals.r1):
        return {}
    found = {f"{name[:2]}_shown{name[2:]}": values.copy() for name, values in risks.items()}
    n = max(int(totals.n_draws[0]), 1)
    for name, sums, histogram in (
        ("r1", totals.r1, totals.histogram_r1),
        ("r2", totals.r2, totals.histogram_r2),
    ):
        # The whole risk is a mean over all draws, this one perhaps over some of them.
        mean = np.minimum(sums / n, risks[name][table.incomplete])
        lower = upper = np.full(len(mean), np.nan)
        if histogram.shape[1]:
            lower, upper = histogram_quantiles(histogram, (tail, 1.0 - tail))
        found[f"{name}_shown"][table.incomplete] = mean
        found[f"{name}_shown_lower"][table.incomplete] = np.minimum(lower, mean)
        found[f"{name}_shown_upper"][table.incomplete] = np.maximum(upper, mean)
    return found


def _shares_that_remain(totals: RiskTotals) -> Float64:
    """Share of r1 that is left without each key, (n_uniques, n_keys), 0 to 1; NaN: not looked at.

    A ratio of sums over the same draws (`measures`), so that what falls is never more than there
    is. Of no risk nothing remains.
    """
    n_uniques, n_parts = len(totals.key_whole), len(totals.key_draws)
    shares = np.zeros(totals.key_rest.shape)
    whole = totals.key_whole[:, None]
    np.divide(totals.key_rest, whole, out=shares, where=whole > 0.0)
    for part in np.flatnonzero(totals.key_draws == 0).tolist():
        shares[n_uniques * part // n_parts : n_uniques * (part + 1) // n_parts] = np.nan
    return shares


def histogram_quantiles(
    histogram: Int32 | Float64, levels: tuple[float, ...]
) -> tuple[Float64, ...]:
    """Quantiles of risks from histograms over their square root, linear within a bin."""
    n_bins = histogram.shape[1]
    cumulative: Float64 = np.cumsum(histogram, axis=1, dtype=np.float64)
    total = cumulative[:, -1]
    quantiles = []
    for level in levels:
        mark = level * total
        bin_ = np.minimum((cumulative < mark[:, None]).sum(axis=1), n_bins - 1)
        rows = np.arange(len(histogram))
        found = histogram[rows, bin_]
        inside = np.where(found > 0, found, 1.0)
        before = cumulative[rows, bin_] - found
        position = (bin_ + np.clip((mark - before) / inside, 0.0, 1.0)) / n_bins
        quantiles.append(position**2)
    return tuple(quantiles)
