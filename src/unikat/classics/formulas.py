"""What published formulas of others say of a sample, to stand beside models in an evaluation.

None of them has an interval, and some estimate only one of τ1 and τ2. They are computed as their
authors or programs publish them, also where that is not what the sample asks for: weights, strata
and missing keys count only where a formula knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from unikat._typing import Float64
from unikat.classics.individual import individual_risk
from unikat.classics.population_uniques import population_uniques
from unikat.classics.scaling_law import N_SIZES, expected_correctness, nearest_law
from unikat.data.table import CellTable


@dataclass(frozen=True, kw_only=True, eq=False)
class PointEstimate:
    """Estimates of a formula, each None where it has none."""

    tau1: float | None = None
    """Sample uniques that are population unique, 0 or more."""
    tau2: float | None = None
    """Correct matches, the sum of 1/F over the sample uniques; 0 or more."""
    r1: Float64 | None = None
    """(n_cells,) probability of being population unique; read of sample uniques alone."""
    r2: Float64 | None = None
    """(n_cells,) E[1/F], likewise."""

    @classmethod
    def of_records(
        cls, table: CellTable, r1: Float64 | None = None, r2: Float64 | None = None
    ) -> PointEstimate:
        """Sum risks of records, (n_cells,), over the sample uniques."""
        tau1, tau2 = (None if r is None else float(r[table.unique].sum()) for r in (r1, r2))
        return cls(tau1=tau1, tau2=tau2, r1=r1, r2=r2)


def sample_uniques(table: CellTable) -> PointEstimate:
    """Take every sample unique for a population unique, as rules on the sample alone do."""
    ones = np.ones(table.n_cells)
    return PointEstimate.of_records(table, ones, ones)


def from_class_sizes(table: CellTable, method: str) -> PointEstimate:
    """Scale the estimated number of population uniques to the sample: f S_1.

    Parameters
    ----------
    method
        Of `unikat.classics.population_uniques`.
    """
    (found,) = (one for one in population_uniques(table) if one.method == method)
    return PointEstimate(tau1=None if np.isnan(found.in_sample) else found.in_sample)


def dis(table: CellTable) -> PointEstimate:
    """Data intrusion simulation: the share of matches with a sample unique that are correct.

    θ = π n1 / (π n1 + 2 (1 − π) n2) of n1 sample uniques and n2 pairs, with the sampling fraction π
    (Skinner and Elliot 2002). It is no mean of 1/F, but a bound of it (`unikat.risk.pairs`).
    """
    share = table.n_records / table.n_units
    alone, pairs = share * table.n_uniques, (1.0 - share) * 2.0 * np.sum(table.counts == 2)
    if not alone:
        return PointEstimate()
    return PointEstimate.of_records(table, r2=np.full(table.n_cells, alone / (alone + pairs)))


def benedetti_franconi(table: CellTable) -> PointEstimate:
    """Individual risk E[1/F | f] of Benedetti and Franconi (1998), as in µ-Argus and sdcMicro."""
    return PointEstimate.of_records(table, r2=individual_risk(table, "exact"))


def sdcmicro_modrisk(table: CellTable) -> PointEstimate:
    """Risk of a log-linear model of main effects as `modRisk` of sdcMicro 5.8 has it.

    With π the sampling fraction and λ the mean of a cell *of the sample*, r1 = exp(−(1 − π) λ) and
    r2 = (1 − r1) / ((1 − π) λ). Skinner and Shlomo (2008) have λ/π in its place, the mean of the
    population, as the models `loglinear` and `skinner-holmes` do. sdcMicro prints the sums over
    the sample uniques divided by the number of occupied cells.
    """
    if table.layout is not None or table.incomplete.any():
        return PointEstimate()
    mean = np.full(table.n_cells, float(table.n_records))
    for codes in table.cells.T:
        mean *= np.bincount(codes, table.counts)[codes] / table.n_records
    x = (1.0 - table.n_records / table.n_units) * mean
    r1 = np.exp(-x)
    return PointEstimate.of_records(table, r1, -np.expm1(-x) / np.maximum(x, 1e-300))


def riskutility_zayatz(table: CellTable) -> PointEstimate:
    """What riskutility 0.2.0 calls Zayatz's: r1 = (1 − π)^(1/π − 1), whatever the data."""
    share = table.n_records / table.n_units
    return PointEstimate.of_records(
        table, np.full(table.n_cells, (1.0 - share) ** (1.0 / share - 1.0))
    )


def scaling_law(table: CellTable) -> PointEstimate:
    """Extrapolate the sample's correctness to N, after Rocher and others (2025).

    A sample of persons is alike to its population but for the size, so tau1 is n times the
    uniqueness among N.
    """
    counts, n = table.counts, table.n_records
    if n < 2 or (counts == 1).all() or len(counts) == 1:
        return PointEstimate()
    sizes = np.unique(np.geomspace(1, n, N_SIZES).round().astype(np.int64))
    law = nearest_law(sizes, expected_correctness(counts, sizes))
    return PointEstimate(tau1=n * law.uniqueness(table.n_units))


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A formula as an evaluation names it."""

    name: str
    compute: Callable[[CellTable], PointEstimate]

    def estimate(self, table: CellTable) -> PointEstimate:
        """Estimate τ1, τ2 and the risk of the records of a sample.

        Parameters
        ----------
        table
            The sample. Its households are not looked at. Of unknown keys formulas know nothing:
            they take the complete records, and what they say of these is scaled to all.
        """
        table = replace(table, households=None)
        if table.missing != "integrate" or not table.incomplete.any():
            return self.compute(table)
        known = ~table.incomplete
        if not known.any():
            return PointEstimate()
        found = self.compute(complete_records(table))
        scale = table.n_records / float(table.counts[known].sum())

        def spread(risk: Float64 | None) -> Float64 | None:
            if risk is None:
                return None
            of_all = np.zeros(table.n_cells)
            of_all[known] = risk
            return of_all

        return PointEstimate(
            tau1=None if found.tau1 is None else scale * found.tau1,
            tau2=None if found.tau2 is None else scale * found.tau2,
            r1=spread(found.r1),
            r2=spread(found.r2),
        )


def complete_records(table: CellTable) -> CellTable:
    """Return the table of the records that have all keys; there must be some."""
    known = ~table.incomplete
    records = np.flatnonzero(known[table.record_cell])
    sampling = None
    if table.sampling is not None:
        own = table.sampling.taken(records)
        kept, strata = np.unique(own.strata, return_inverse=True)
        sampling = replace(own, strata=strata.astype(np.int32), sizes=own.sizes[kept])
    place = np.cumsum(known) - 1
    return replace(
        table,
        cells=table.cells[known],
        counts=table.counts[known],
        record_cell=place[table.record_cell[records]].astype(np.int32),
        sampling=sampling,
    )


_BY_CLASS_SIZES: dict[str, Callable[[CellTable], PointEstimate]] = {
    method: partial(from_class_sizes, method=method)
    for method in ("pitman", "zayatz", "snb", "dankar", "bethlehem")
}
FORMULAS: Mapping[str, Formula] = {
    name: Formula(name=name, compute=compute)
    for name, compute in {
        "sample-uniques": sample_uniques,
        **_BY_CLASS_SIZES,
        "dis": dis,
        "benedetti-franconi": benedetti_franconi,
        "sdcmicro-modrisk": sdcmicro_modrisk,
        "riskutility-zayatz": riskutility_zayatz,
        "scaling-law": scaling_law,
    }.items()
}
"""By the names under which they stand in tables."""
