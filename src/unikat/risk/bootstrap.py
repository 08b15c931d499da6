"""Parametric bootstrap of plug-in estimates: draws of tau that know how wrong the fit may be.

A plug-in model takes its estimate of the cells' probabilities for the truth. How wrong that makes
tau is seen where the truth is known: a sample is simulated from the fit, the population's other
individuals too, the model is fitted to that sample, and the error

    e = tau (of the simulated population) - estimate (from the simulated sample)

is added to the real estimate. The draws have the estimator's bias and variance, and the
population's own randomness, all as they are under the fitted model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unikat._typing import Bool, Int64
from unikat.data.keys import MISSING, Key
from unikat.data.table import CellTable, Missing
from unikat.inference.draws import Observer
from unikat.kernels import cells as kernels
from unikat.kernels.zeros import Diagram
from unikat.models.base import AnyModel, Stream
from unikat.risk.measures import TAUS, RiskMeasures
from unikat.rng import chain_key

_TAUS = ("tau1", "tau2", "tau1_expected", "tau2_expected")
_REFIT_COST = 1e8
"""Nanoseconds, at least. So much that every draw is a round of its own at first, in which a run can
be watched and stopped."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bootstrapped:
    """Observer that adds bootstrap errors to the tau's of another one.

    The model has a method `refit(table, data)` that fits it to another table of the same keys.
    """

    measures: Observer
    """Computes everything else."""
    keys: tuple[Key, ...]
    missing: Missing
    n_records: int
    population_size: int
    most: int
    """Records that can be sample unique: the uniques, and those that are imputed."""
    masks: Bool
    """(n_incomplete_cells, n_keys): keys that are missing in the incomplete patterns."""
    n_masked: Int64
    """(n_incomplete_cells,): records of these patterns."""
    zeros: Diagram | None

    monitored: ClassVar[tuple[str, ...]] = TAUS

    @classmethod
    def of(cls, measures: Observer, table: CellTable) -> Bootstrapped:
        """Prepare for a table."""
        return cls(
            measures=measures,
            keys=table.keys,
            missing=table.missing,
            n_records=table.n_records,
            population_size=table.population_size,
            most=table.n_uniques + _n_imputed(table),
            masks=table.cells[table.incomplete] == MISSING,
            n_masked=table.counts[table.incomplete],
            zeros=table.zeros,
        )

    def compile(self) -> None:
        """Compile the kernels of the measures."""
        hook = getattr(self.measures, "compile", None)
        if hook is not None:
            hook()

    def start(self) -> Any:
        """Empty totals."""
        return self.measures.start()

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation."""
        return self.measures.cost(model, data) + _REFIT_COST

    def observe(
        self, stream: Stream, model: Any, state: Any, data: Any, totals: Any
    ) -> Mapping[str, float]:
        """Observe the state; replace its tau's by bootstrap draws."""
        scalars = dict(self.measures.observe(stream, model, state, data, totals))
        truth, estimate = self._error(stream, model, state, data)
        for name in _TAUS:
            expected = name if name.endswith("expected") else f"{name}_expected"
            drawn = scalars[expected] + truth[name] - estimate[expected]
            scalars[name] = float(np.clip(drawn, 0.0, self.most))
        # A count.
        scalars["tau1"] = float(round(scalars["tau1"]))
        return scalars

    def _error(
        self, stream: Stream, model: Any, state: Any, data: Any
    ) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return tau in a simulated sample, and its estimate by a fit to that sample."""
        # Chain numbers beyond any run's: no random number is used twice.
        elsewhere = stream._replace(chain=stream.chain + 2**31)
        codes = np.array(model.simulate(elsewhere, state, data, self.n_records), np.int32)
        complete = CellTable.from_codes(codes, self.keys, self.population_size, zeros=self.zeros)
        # Simulated records are exchangeable, so it does not matter which of them are masked.
        codes[: int(self.n_masked.sum())][np.repeat(self.masks, self.n_masked, axis=0)] = MISSING
        sample = CellTable.from_codes(
            codes, self.keys, self.population_size, self.missing, zeros=self.zeros
        )
        # Where a missing key matches any level, so it does in the population: what is unique is a
        # pattern. Else the uniques are those of the complete records.
        uniques = sample if self.missing == "wildcard" else complete
        unique = uniques.cells[uniques.unique]
        p = model.cell_probabilities(stream, state, data, unique)
        unobserved = float(self.population_size - self.n_records)
        poisson = model.population == "poisson"
        r1, r2 = np.empty(len(p)), np.empty(len(p))
        kernels.cell_risk(unobserved, p, np.ones(len(p)), poisson, r1, r2)
        key = chain_key(elsewhere.seed, elsewhere.chain)
        tau1, tau2 = kernels.draw_population(key, stream.sweep, unobserved, p, poisson)
        truth = {
            "tau1": tau1, "tau2": tau2,
            "tau1_expected": float(r1.sum()), "tau2_expected": float(r2.sum()),
        }  # fmt: skip
        fresh = model.refit(sample, data)
        measures = RiskMeasures.of(sample)
        begin = model.init(elsewhere, fresh)
        estimate = measures.observe(elsewhere, model, begin, fresh, measures.start())
        return truth, estimate


def _n_imputed(table: CellTable) -> int:
    """Records with missing keys that every draw completes."""
    return 0 if table.missing == "wildcard" else int(table.counts[table.incomplete].sum())


def observer_for(model: Any, measures: Observer, table: CellTable) -> Observer:
    """Return the observer of a model: with bootstrap errors if it asks for them.

    Where the model puts its own error on the probabilities, convergence is judged without it too.
    """
    if getattr(model, "interval", None) == "bootstrap":
        return Bootstrapped.of(measures, table)
    if getattr(model, "uncertainty", None) == "calibrated":
        if isinstance(measures, RiskMeasures):
            return replace(measures, with_model=True)
        # Those that hold the risk measures among others.
        holder: Any = measures
        if isinstance(inner := getattr(holder, "measures", None), RiskMeasures):
            found: Observer = replace(holder, measures=replace(inner, with_model=True))
            return found
    return measures
