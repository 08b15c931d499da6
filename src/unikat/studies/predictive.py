"""Posterior predictive checks: is the sample one that the fitted model would produce.

Every kept state of the model draws a new sample of n records. How many of its cells are seen
once, twice, ... is compared with the observed sample (Gelman, Meng and Stern, 1996, Statistica
Sinica 6, 733-760). The counts of counts are what disclosure risk is made of: a model that would
produce many more sample uniques than there are spreads the population over too many cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int64
from unikat.data.households import HouseholdLayout
from unikat.data.keys import MISSING, Key
from unikat.data.table import CellTable, Missing
from unikat.inference.draws import Observer
from unikat.kernels.zeros import Diagram
from unikat.models.base import AnyModel, AnySimulator, Stream
from unikat.risk.measures import RiskMeasures, RiskTotals
from unikat.studies.rare_cells import NO_RARE_CELLS, RareCells, RareCellTotals

SIZES = (1, 2, 3, 4, 5)
"""How often a cell is seen; the last stands for so often or more."""
NAMES = tuple(f"cells_seen_{size}" for size in SIZES)
"""Scalars of the observer, in the order of `SIZES`."""
MOST_SKIPPED = 16
"""A sample is simulated at least in every so many kept draws."""


@dataclass(frozen=True, kw_only=True)
class PredictiveCheck:
    """How many cells are seen so many times: in the sample, and in samples of the model."""

    size: int
    """Times a cell is seen; the largest of `SIZES` stands for so many or more."""
    observed: int
    """Such cells in the sample."""
    mean: float
    """Mean over the simulated samples; NaN if there are none."""
    lower: float
    """Lower end of the equal-tailed predictive interval."""
    upper: float
    p_value: float
    """Two-sided posterior predictive p-value (see :func:`predictive_p_value`)."""


class CheckedTotals(NamedTuple):
    """Sums over draws."""

    risk: RiskTotals
    rare_cells: RareCellTotals


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckedMeasures(Observer):
    """Observer that computes the risk measures and simulates samples beside them.

    Built from a table by :meth:`of`. Scalars per draw: those of
    :class:`unikat.risk.measures.RiskMeasures`, and the counts of counts ``cells_seen_1`` to
    ``cells_seen_5`` of a simulated sample (NaN in the draws that simulate none). A simulated
    sample has the missing keys of the observed one.

    The draws are those of `RiskMeasures` alone, to the last digit: simulated samples have random
    numbers of their own and are left out of the cost that chooses the thinning. They cost at most
    about as much as the measures do, since they are made in every second, third, ... draw if they
    are dearer.
    """

    measures: RiskMeasures
    keys: tuple[Key, ...]
    missing: Missing
    n_records: int
    masks: Bool
    """(n_incomplete_cells, n_keys): keys that are missing in the incomplete patterns."""
    n_masked: Int64
    """(n_incomplete_cells,): records of these patterns."""
    zeros: Diagram | None = None
    """The possible cells; None if all are."""
    layout: HouseholdLayout | None = None
    rare_cells: RareCells | None = None
    """Evidence of the model's error; None if it is not asked for."""
    simulates: bool = True
    """Not of households for the evidence of their model's error, which does not need it; nor where
    keys of some are missing: a simulated household has another size than one that lacks them."""

    @property
    def monitored(self) -> tuple[str, ...]:
        """Scalars on which convergence is judged: those of the measures."""
        return self.measures.monitored

    @property
    def parts(self) -> Mapping[str, str]:
        """Those of the measures."""
        return self.measures.parts

    @classmethod
    def of(cls, table: CellTable, rare_cells: RareCells | None = None) -> CheckedMeasures:
        """Prepare the measures and the checks of a table, and perhaps evidence of the error."""
        return cls(
            measures=RiskMeasures.of(table),
            keys=table.keys,
            missing=table.missing,
            n_records=table.n_records,
            masks=table.cells[table.incomplete] == MISSING,
            n_masked=table.counts[table.incomplete],
            zeros=table.zeros,
            rare_cells=rare_cells,
            layout=table.layout,
            simulates=table.layout is None or (rare_cells is None and not table.incomplete.any()),
        )

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        self.measures.compile()
        if self.rare_cells is not None:
            self.rare_cells.compile()

    def judged_without_error(self) -> CheckedMeasures:
        """Judge convergence without the model's error too, as the measures do."""
        return replace(self, measures=self.measures.judged_without_error())

    def start(self) -> CheckedTotals:
        """Empty totals."""
        rare = NO_RARE_CELLS if self.rare_cells is None else self.rare_cells.start()
        return CheckedTotals(self.measures.start(), rare)

    def risk_totals(self, totals: CheckedTotals) -> RiskTotals:
        """Totals of the measures."""
        found: RiskTotals = self.measures.risk_totals(totals.risk)
        return found

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of the measures alone."""
        return self.measures.cost(model, data)

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: CheckedTotals
    ) -> Mapping[str, float]:
        """Add one state to the totals; return its tau's and what a simulated sample looks like."""
        scalars = dict(self.measures.observe(stream, model, state, data, totals.risk))
        if self.rare_cells is not None:
            self.rare_cells.observe(stream, model, state, data, totals.rare_cells)
        # Counted from the start of an epoch: the totals know, and nothing but the draws decides.
        if not self.simulates or (int(totals.risk.n_draws[0]) - 1) % self.skipped(model, data):
            return scalars | dict.fromkeys(NAMES, math.nan)
        sizes = counts_of_counts(self.simulated(stream, model, state, data))
        return scalars | dict(zip(NAMES, sizes.astype(np.float64).tolist(), strict=True))

    def skipped(self, model: AnyModel, data: Any) -> int:
        """Return in how many kept draws one sample is simulated."""
        simulating = model.simulation_cost(data, self.n_records, len(self.keys))
        ratio = simulating / max(self.measures.cost(model, data), 1.0)
        return min(max(math.ceil(ratio), 1), MOST_SKIPPED)

    def simulated(self, stream: Stream, model: AnySimulator, state: Any, data: Any) -> CellTable:
        """Draw a sample of as many records, with as many missing keys, as the observed one."""
        # A sampling class, which may come last, is no key.
        simulated = model.simulate(stream, state, data, self.n_records)[:, : len(self.keys)]
        codes = np.array(simulated, np.int32)
        # Simulated records are exchangeable, so it does not matter which of them are masked.
        codes[: int(self.n_masked.sum())][np.repeat(self.masks, self.n_masked, axis=0)] = MISSING
        return CellTable.from_codes(
            codes,
            self.keys,
            self.n_records,
            self.missing,
            zeros=self.zeros,
            layout=self.layout,
        )


def counts_of_counts(table: CellTable) -> Int64:
    """Count the cells that are seen once, twice, ..., and five times or more, (5,).

    As `CellTable.unique` counts: the complete patterns by their number of records; with missing
    keys as wildcards all patterns by the number of records that match them. The first number is
    that of the sample uniques.

    Examples
    --------
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2], [0, 0]], keys, population_size=9)
    >>> counts_of_counts(table).tolist()
    [2, 1, 0, 0, 0]
    """
    wildcard = table.missing == "wildcard"
    sizes = table.matches if wildcard else table.counts[~table.incomplete]
    return np.bincount(np.minimum(sizes, SIZES[-1]), minlength=SIZES[-1] + 1)[1:].astype(np.int64)


def predictive_p_value(observed: float, simulated: Float64) -> float:
    """Two-sided posterior predictive p-value, ties counted half (mid-p).

    With u = P(simulated > observed) + P(simulated = observed) / 2 it is 2 min(u, 1 - u). Since the
    model was fitted to the very sample, p-values are closer to the middle than uniform: a small
    one is evidence against the model, a large one no proof of it.
    NaN if nothing was simulated.

    Examples
    --------
    >>> predictive_p_value(2, np.array([1.0, 2.0, 3.0, 4.0]))
    0.75
    """
    if not simulated.size:
        return math.nan
    above = float(np.mean(simulated > observed) + 0.5 * np.mean(simulated == observed))
    return 2.0 * min(above, 1.0 - above)


def predictive_checks(
    observed: Int64, simulated: Mapping[str, Float64], *, level: float
) -> tuple[PredictiveCheck, ...]:
    """Compare the observed counts of counts with those of simulated samples.

    observed (5,), from :func:`counts_of_counts`; simulated: retained draws of the scalars
    `NAMES`, NaN where no sample was simulated.
    """
    tail = (1.0 - level) / 2.0
    checks = []
    for size, name, number in zip(SIZES, NAMES, observed.tolist(), strict=True):
        draws = simulated[name][~np.isnan(simulated[name])]
        mean = lower = upper = math.nan
        if draws.size:
            mean = float(draws.mean())
            lower, upper = np.quantile(draws, (tail, 1.0 - tail), method="inverted_cdf").tolist()
        checks.append(
            PredictiveCheck(
                size=size,
                observed=number,
                mean=mean,
                lower=lower,
                upper=upper,
                p_value=predictive_p_value(number, draws),
            )
        )
    return tuple(checks)
